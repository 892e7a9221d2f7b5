"""What is read may be anything: a pipe, a device, a loop, a bomb; names may hold what a terminal obeys."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from session_lines import reply, turns, usage, write

from agentaccel.report.numbers import clean
from agentaccel.sources import lines
from agentaccel.sources.logs import ImportTally

ROUTES = ("pipe", "device", "loop")


def odd(folder: Path) -> None:
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "device.jsonl").symlink_to("/dev/zero")
    (folder / "loop.jsonl").symlink_to(folder / "loop.jsonl")


def test_what_is_no_file_is_noted_and_the_rest_is_read(tmp_path: Path) -> None:
    """Neither waited for nor read for ever."""
    odd(tmp_path)
    write(tmp_path / "good.jsonl", [reply(1, "1", usage(write=9))])
    tally = ImportTally()
    assert [turn.usage.input for turn in turns(tmp_path, tally=tally)] == [12]
    assert sorted(Path(one.partition(":")[0]).name for one in tally.unreadable) == [
        "device.jsonl",
        "loop.jsonl",
        "pipe.jsonl",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("command", ["report", "replay", "learn", "effects", "explain"])
@pytest.mark.parametrize("name", ["", "pipe.jsonl", "device.jsonl", "loop.jsonl"])
def test_no_command_waits_or_ends_in_a_traceback(tmp_path: Path, command: str, name: str) -> None:
    """The odd file itself is named, and the folder that holds it; the limit is what a hang would reach."""
    odd(tmp_path)
    named = str(tmp_path / name)
    if command == "effects":
        Path(tmp_path / "tools.json").symlink_to(named)
        named = str(tmp_path / "tools.json")
    store = ["--store", str(tmp_path / "s.db")] if command == "learn" else []
    done = subprocess.run(
        [sys.executable, "-m", "agentaccel", command, named, *store], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_unpacks_to_far_more_than_it_is_ends_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros come to a thousandth: 4 MB of them are over 200 times the file. Below the limit nothing is cut."""
    log = tmp_path / "a.jsonl.gz"
    line = json.dumps(reply(1, "1", usage(write=9))).encode() + b"\n"
    log.write_bytes(gzip.compress(line + b"\0" * (4 << 20)))
    for most, noted in ((1 << 20, 1), (1 << 30, 0)):
        monkeypatch.setattr(lines, "MOST_UNPACKED", most)
        tally = ImportTally()
        assert len(turns(log, tally=tally)) == 1
        assert len(tally.unreadable) == noted


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_names_from_outside_bring_no_command_to_a_terminal(tmp_path: Path, form: str) -> None:
    """In a session's name, a model's, and a file's: escapes, C1 controls and changes of direction."""
    bad = "a\x1b]0;x\x07\x9b31m\u202eb\u2066"
    write(tmp_path / "good.jsonl", [{**reply(1, "1", usage(write=9), model=bad), "sessionId": bad + n} for n in "12"])
    write(tmp_path / "b\x1b[31m.jsonl", [{"some": "thing"}])
    done = subprocess.run(
        [sys.executable, "-m", "agentaccel", "report", str(tmp_path), "--format", form], capture_output=True, text=True
    )
    nothing = subprocess.run(
        [sys.executable, "-m", "agentaccel", "report", str(tmp_path / "n\x1b[2J")], capture_output=True, text=True
    )
    printed = done.stdout + done.stderr + nothing.stdout + nothing.stderr
    assert (done.returncode, nothing.returncode) == (0, 2)
    assert clean(printed.replace("\n", "")) == printed.replace("\n", "")
