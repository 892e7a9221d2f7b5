"""What the trace store has done beside its callers: what had to wait is written, and room is made."""

from __future__ import annotations

import logging
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE

import pytest

from agentaccel import StorePolicy
from agentaccel.concurrency import Background, Worker
from agentaccel.records import ToolRecord
from agentaccel.store.recorder import Recorder
from agentaccel.store.retention import used_bytes
from agentaccel.store.store import open_reader
from agentaccel.testing import ManualClock

TOOL = ToolRecord(session="s", name="t", key="k", started=1.0, finished=2.0, outcome="ok")
CAP = 1024 * 1024


@contextmanager
def locked(path: Path, how: str = "IMMEDIATE") -> Iterator[None]:
    """Another connection that writes, and does not come to an end."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(f"BEGIN {how}")
        yield


def recorder_of(path: Path, clock: ManualClock, *, strict: bool = False, max_bytes: int = 1 << 28) -> Recorder:
    return Recorder(StorePolicy(path=path, max_bytes=max_bytes), strict=strict, background=Background(clock))


def names(path: Path) -> list[str]:
    with open_reader(path) as reader:
        return [record.name for record in reader.tools()]


def statements_of(recorder: Recorder) -> list[str]:
    """All that is asked of SQLite from now on."""
    asked: list[str] = []
    assert recorder.store is not None
    with recorder.store.database.using() as connection:
        connection.set_trace_callback(asked.append)
    return asked


# --- a store that is locked -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True])
def test_what_waits_for_a_lock_is_written_without_another_record(strict: bool, tmp_path: Path) -> None:
    """A quarter of a second after the lock was met, by the clock of the `Accel`: a kill after that loses nothing."""
    path, clock = tmp_path / "trace.db", ManualClock()
    recorder = recorder_of(path, clock, strict=strict)
    with locked(path):
        for name in "abc":
            try:
                recorder.write(replace(TOOL, name=name))
            except sqlite3.OperationalError:
                assert strict
    clock.advance(0.24)
    assert names(path) == []
    clock.advance(0.02)
    assert names(path) == ["a", "b", "c"]
    recorder.close()
    assert names(path) == ["a", "b", "c"]


@pytest.mark.slow
def test_twin_without_another_try_it_waits_for_the_next_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, clock = tmp_path / "trace.db", ManualClock()
    monkeypatch.setattr(Recorder, "_tend_later", lambda self, **_: None)
    recorder = recorder_of(path, clock)
    with locked(path):
        recorder.write(TOOL)
    clock.advance(3600.0)
    assert names(path) == []
    recorder.close()


@pytest.mark.slow
def test_a_store_that_stays_locked_is_tried_ever_more_seldom(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By hand: after 1/4, 1/2, 1, 2, 4 and then every 5 seconds, so 5 times until 7.75 s, and 10 times more in a
    minute. There is one line, and once the lock is gone it takes 5 seconds at most.
    """
    path, clock = tmp_path / "trace.db", ManualClock()
    recorder = recorder_of(path, clock)
    asked = statements_of(recorder)
    with caplog.at_level(logging.WARNING, "agentaccel"), locked(path):
        recorder.write(TOOL)
        assert asked.count("BEGIN IMMEDIATE") == 1
        clock.advance(60.0)
        assert asked.count("BEGIN IMMEDIATE") == 1 + 5 + 10
    assert len(caplog.records) == 1
    clock.advance(5.0)
    assert names(path) == ["t"]
    with locked(path):  # and what is met after that is tried soon again
        recorder.write(TOOL)
    clock.advance(0.25)
    assert names(path) == ["t", "t"]
    recorder.close()


@pytest.mark.slow
def test_a_store_that_was_locked_when_it_was_opened_is_opened_later(tmp_path: Path) -> None:
    """Also where nothing has been written yet: what it holds is of use."""
    path, clock = tmp_path / "trace.db", ManualClock()
    recorder_of(path, clock).close()
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
    with locked(path, "EXCLUSIVE"):
        recorder = recorder_of(path, clock)
        assert recorder.store is None
    clock.advance(0.25)
    assert recorder.store is not None
    recorder.close()


@pytest.mark.slow
def test_nothing_is_tried_again_after_the_close(tmp_path: Path) -> None:
    """What was due then is taken back; closing has written what waited."""
    path, clock = tmp_path / "trace.db", ManualClock()
    recorder = recorder_of(path, clock)
    with locked(path):
        recorder.write(TOOL)
    recorder.close()
    before = path.stat().st_mtime_ns
    clock.advance(60.0)
    assert names(path) == ["t"]
    assert path.stat().st_mtime_ns == before


@pytest.mark.slow
def test_records_that_are_too_many_to_wait_are_missed_aloud(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Of 1,001 the first is lost, with a line of its own."""
    path, clock = tmp_path / "trace.db", ManualClock()
    recorder = recorder_of(path, clock)
    with caplog.at_level(logging.WARNING, "agentaccel"), locked(path):
        for number in range(1001):
            recorder.write(replace(TOOL, name=str(number)))
    recorder.close()
    assert names(path) == [str(number) for number in range(1, 1001)]
    assert [line.partition(": ")[2] for line in caplog.messages] == [
        "cannot write the trace store: database is locked; recording waits in memory",
        "over 1,000 records wait for the trace store: the oldest are lost",
    ]


KILLED = """
import sys
from pathlib import Path
from agentaccel import StorePolicy
from agentaccel.records import ToolRecord
from agentaccel.store.recorder import Recorder

recorder = Recorder(StorePolicy(path=Path(sys.argv[1])), strict=False)
recorder.write(ToolRecord(session="s", name="t", key="k", started=1.0, finished=2.0, outcome="ok"))
print("waiting", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_killed_process_has_written_what_waited(tmp_path: Path) -> None:
    """In real time: the lock is let go, nothing more is recorded, and then the process is killed."""
    path = tmp_path / "trace.db"
    recorder_of(path, ManualClock()).close()
    with locked(path):
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdin=PIPE, stdout=PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"waiting\n"
    end = time.monotonic() + 30.0
    while not names(path) and time.monotonic() < end:
        threading.Event().wait(0.02)
    process.kill()
    process.communicate()
    assert names(path) == ["t"]


LOCKED_TO_THE_END = """
import sys
from pathlib import Path
from agentaccel import StorePolicy
from agentaccel.records import ToolRecord
from agentaccel.store.recorder import Recorder

recorder = Recorder(StorePolicy(path=Path(sys.argv[1])), strict=sys.argv[2] == "strict")
try:
    recorder.write(ToolRecord(session="s", name="t", key="k", started=1.0, finished=2.0, outcome="ok"))
except Exception as error:
    print("raised")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "says"),
    [("lenient", "the records that waited for it are lost"), ("strict", "OperationalError: database is locked")],
)
def test_a_program_that_ends_while_the_store_is_locked_says_what_is_lost(mode: str, says: str, tmp_path: Path) -> None:
    """Strict mode, too, for which nobody is left to be told but who reads standard error."""
    path = tmp_path / "trace.db"
    recorder_of(path, ManualClock()).close()
    with locked(path):
        done = subprocess.run(
            [sys.executable, "-c", LOCKED_TO_THE_END, str(path), mode],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
    assert says in done.stderr
    assert (done.stdout == "raised\n") == (mode == "strict")


# --- a store that is too large ----------------------------------------------------------------------------------------


def filled(recorder: Recorder) -> None:
    """More than twice what it may hold."""
    for number in range(128):
        recorder.write(replace(TOOL, name=f"{number:03} " + "x" * 20_000, started=float(number)))


def used(recorder: Recorder) -> int:
    assert recorder.store is not None
    with recorder.store.database.using() as connection:
        return used_bytes(connection)


def test_a_write_makes_no_room_on_its_callers_path(tmp_path: Path) -> None:
    """All that was written is there until the clock is moved; then there is no more than may be, the newest of it."""
    path, clock = tmp_path / "trace.db", ManualClock()
    recorder = recorder_of(path, clock, strict=True, max_bytes=CAP)
    asked = statements_of(recorder)
    filled(recorder)
    assert not [one for one in asked if one.startswith("DELETE")]
    assert len(names(path)) == 128
    clock.advance(10.0)
    assert used(recorder) <= CAP
    kept = [int(name[:3]) for name in names(path)]
    assert kept
    assert kept == list(range(128 - len(kept), 128))
    recorder.close()


def test_twin_on_the_callers_path_room_is_made_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, clock = tmp_path / "trace.db", ManualClock()
    monkeypatch.setattr(Recorder, "_tend_later", lambda self, **_: self._make_room())
    recorder = recorder_of(path, clock, strict=True, max_bytes=CAP)
    asked = statements_of(recorder)
    filled(recorder)
    assert [one for one in asked if one.startswith("DELETE")]
    recorder.close()


def test_room_is_made_now_and_then_and_not_all_the_time(tmp_path: Path) -> None:
    """A step a fiftieth of a second at most, and none where there is room."""
    path, clock = tmp_path / "trace.db", ManualClock()
    recorder = recorder_of(path, clock, strict=True, max_bytes=CAP)
    filled(recorder)
    asked = statements_of(recorder)
    clock.advance(0.0199)
    assert asked.count("BEGIN IMMEDIATE") == 0
    clock.advance(0.0002)
    assert asked.count("BEGIN IMMEDIATE") == 1
    clock.advance(10.0)
    made = asked.count("BEGIN IMMEDIATE")
    clock.advance(3600.0)
    assert asked.count("BEGIN IMMEDIATE") == made
    recorder.close()


def test_a_store_that_is_too_large_when_it_is_opened_gets_smaller_without_a_record(tmp_path: Path) -> None:
    """As after its owner has asked for less."""
    path, clock = tmp_path / "trace.db", ManualClock()
    recorder = recorder_of(path, clock, strict=True)
    filled(recorder)
    recorder.close()
    recorder = recorder_of(path, clock, strict=True, max_bytes=CAP)
    assert len(names(path)) == 128
    clock.advance(10.0)
    assert used(recorder) <= CAP
    recorder.close()


def test_a_process_that_ends_soon_makes_room_as_it_closes(tmp_path: Path) -> None:
    """So that many short ones keep the size; in a few steps, each of some milliseconds."""
    path = tmp_path / "trace.db"
    recorder = recorder_of(path, ManualClock(), strict=True, max_bytes=CAP)
    filled(recorder)
    recorder.close()
    with open_reader(path) as reader, reader.database.using() as connection:
        assert used_bytes(connection) <= CAP


@pytest.mark.parametrize("strict", [False, True])
def test_a_failure_to_make_room_is_one_line(strict: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It reaches no caller; in strict mode with its traceback, and it is not tried again before the next record."""
    path, clock = tmp_path / "trace.db", ManualClock()
    recorder = recorder_of(path, clock, strict=strict, max_bytes=CAP)
    filled(recorder)
    with closing(sqlite3.connect(path)) as other:
        other.execute("DROP TABLE clearings")
    with caplog.at_level(logging.WARNING, "agentaccel"):
        clock.advance(60.0)
    (line,) = caplog.records
    assert "no such table: clearings" in (line.exc_text or line.getMessage())
    assert (recorder.store is None) == (not strict)


# --- beside the caller ------------------------------------------------------------------------------------------------

KILLED_AT_ONCE = """
import os, signal, sys
from pathlib import Path
from agentaccel import StorePolicy
from agentaccel.records import ToolRecord
from agentaccel.store.recorder import Recorder

recorder = Recorder(StorePolicy(path=Path(sys.argv[1])), strict=False)
for number in range(200):
    recorder.write(ToolRecord(session="s", name=str(number), key="k", started=1.0, finished=2.0, outcome="ok"))
if sys.argv[2] == "flush":
    recorder.flush()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="nothing kills here")
@pytest.mark.parametrize(("waits", "least"), [("flush", 200), ("not", 0)])
def test_what_was_flushed_outlives_a_kill_and_what_was_not_is_whole_or_missing(
    waits: str, least: int, tmp_path: Path
) -> None:
    """In the order in which it was left: a kill takes the end of it."""
    path = tmp_path / "trace.db"
    subprocess.run([sys.executable, "-c", KILLED_AT_ONCE, str(path), waits], check=False, timeout=60)
    assert names(path) == [str(number) for number in range(max(least, len(names(path))))]


@pytest.mark.slow
def test_a_reader_finds_what_was_left_before(tmp_path: Path) -> None:
    """Without waiting for the thread that writes."""
    recorder = Recorder(StorePolicy(path=tmp_path / "trace.db"), strict=False)
    for number in range(20):
        recorder.write(replace(TOOL, name=str(number)))
        assert recorder.read(lambda store: len(list(store.tools())), -1) == number + 1
    recorder.close()


@pytest.mark.slow
def test_twin_a_reader_that_does_not_flush_finds_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorder, "flush", lambda self: None)
    monkeypatch.setattr(Worker, "submit", lambda self, work: None)  # a thread that does not get to it
    recorder = Recorder(StorePolicy(path=tmp_path / "trace.db"), strict=False)
    recorder.write(TOOL)
    assert recorder.read(lambda store: len(list(store.tools())), -1) == 0
    recorder.close()


@pytest.mark.slow
def test_a_program_that_ends_without_closing_has_written_everything(tmp_path: Path) -> None:
    path = tmp_path / "trace.db"
    ends = KILLED_AT_ONCE.replace("os.kill(os.getpid(), signal.SIGKILL)", "")
    subprocess.run([sys.executable, "-c", ends, str(path), "not"], check=True, timeout=60)
    assert names(path) == [str(number) for number in range(200)]
