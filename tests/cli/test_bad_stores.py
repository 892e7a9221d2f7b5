"""Every command on every input that it cannot use: one sentence, exit code 2, and nothing left behind."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentaccel.__main__ import main
from agentaccel.store import database, files
from tests.cli.test_commands import run
from tests.cli.test_patterns import recordings
from tests.driver import Driver, body, loop, prose, user
from tests.predict.agent import cases

PAGE = 4096


def sql(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a whole store of six turns, recorded runs, exported patterns and a request."""
    folder = tmp_path_factory.mktemp("good")
    driver = Driver(folder)
    loop(driver, 6, system=prose(1200))
    driver.accel.close()
    sql(folder / "trace.db", "PRAGMA wal_checkpoint(TRUNCATE)")
    recordings(folder, cases(3))
    (folder / "request.json").write_text(json.dumps(body(user("hi"))))
    assert run("learn", "runs.jsonl", "--store", "learned.db", cwd=folder).exit_code == 0
    assert run("patterns", "--store", "learned.db", "--export", "patterns.json", cwd=folder).exit_code == 0
    return folder


def overwritten(begin: int, end: int | None = None, step: int | None = None) -> Callable[[Path, bytes], object]:
    """The store with other bytes from `begin` to `end`; with a `step`, the first hundred of every so many."""

    def make(path: Path, store: bytes) -> object:
        data = bytearray(store)
        for at in range(begin, end or len(data), step or 1):
            length = 100 if step else 1
            data[at : at + length] = b"\xa5" * length
        return path.write_bytes(data)

    return make


def unreadable_rows(path: Path, store: bytes) -> None:
    path.write_bytes(store)
    sql(path, "UPDATE turns SET record = 'garbage'", "UPDATE sessions SET turn = -1", "PRAGMA journal_mode = DELETE")


def emptied_page(path: Path, store: bytes) -> None:
    """What a file system may leave: the turns are gone, and SQLite reads none without a word."""
    path.write_bytes(store)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        roots = connection.execute("SELECT rootpage FROM sqlite_master WHERE tbl_name = 'turns'").fetchall()
        kinds = {root: store[(root - 1) * PAGE] for (root,) in roots}
    data = bytearray(store)
    for root, kind in kinds.items():  # an empty leaf: its kind, no free block, no cell, content from the end
        leaf = bytes([13 if kind in (5, 13) else 10, 0, 0, 0, 0, PAGE >> 8, 0, 0])
        data[(root - 1) * PAGE : (root - 1) * PAGE + len(leaf)] = leaf
    path.write_bytes(data)


def another_programs(path: Path, store: bytes) -> None:
    sql(path, "CREATE TABLE theirs (x)")


def without_tables(path: Path, store: bytes) -> None:
    sql(path, "VACUUM")


def newer(path: Path, store: bytes) -> None:
    path.write_bytes(store)
    sql(path, "PRAGMA user_version = 999")


BAD: dict[str, Callable[[Path, bytes], object]] = {
    "damaged": overwritten(PAGE),
    "damaged head": overwritten(16, PAGE),
    "damaged pages": overwritten(2 * PAGE, None, 2 * PAGE),
    "unreadable rows": unreadable_rows,
    "an emptied page": emptied_page,
    "a schema that is no text": lambda path, store: path.write_bytes(
        store.replace(b"CREATE INDEX", b"CREATE \xddNDEX", 1)
    ),
    "cut": lambda path, store: path.write_bytes(store[: len(store) // 2 + 100]),
    "cut in its head": lambda path, store: path.write_bytes(store[:50]),
    "a magic number": lambda path, store: path.write_bytes(store[:16]),
    "zero bytes": lambda path, store: path.touch(),
    "zeros": lambda path, store: path.write_bytes(bytes(len(store))),
    "a folder": lambda path, store: path.mkdir(),
    "a pipe": lambda path, store: os.mkfifo(path),
    "a device": lambda path, store: path.symlink_to("/dev/zero"),
    "another program's": another_programs,
    "without tables": without_tables,
    "newer": newer,
    "missing": lambda path, store: None,
    "garbage": lambda path, store: path.write_bytes(b"\x00\x01garbage\xff\n" * 50),
    "text": lambda path, store: path.write_text("hello\nworld\n"),
    "another log": lambda path, store: path.write_text('{"a": 1}\n{"b": 2}\n'),
}

COMMANDS: dict[str, tuple[str, ...]] = {
    "report": ("report", "BAD"),
    "report --advise": ("report", "BAD", "--advise"),
    "report of the store": ("report",),
    "check": ("check", "BAD", "--min-hit-rate", "0.5"),
    "check of the store": ("check", "--max-cost", "1"),
    "check against": ("check", "GOOD/trace.db", "--no-new-cause", "BAD"),
    "replay": ("replay", "BAD"),
    "learn from": ("learn", "BAD", "--store", "new.db"),
    "learn into": ("learn", "GOOD/runs.jsonl", "--store", "BAD"),
    "purge": ("purge", "BAD", "--older-than", "1d"),
    "patterns": ("patterns", "--store", "BAD"),
    "patterns --export": ("patterns", "--store", "BAD", "--export", "exported.json"),
    "patterns --clear": ("patterns", "--store", "BAD", "--clear", "--yes"),
    "patterns --import of": ("patterns", "--store", "new.db", "--import", "BAD"),
    "patterns --import into": ("patterns", "--store", "BAD", "--import", "GOOD/patterns.json"),
    "explain": ("explain", "BAD"),
    "explain after": ("explain", "GOOD/request.json", "BAD"),
    "demo": ("demo", "--store", "BAD"),
    "effects": ("effects", "BAD.json"),
    "prices": ("report", "GOOD/trace.db", "--prices", "BAD"),
}

MAKES_ONE = {"learn into", "patterns --import into", "demo"}
"""They begin a store where there is nothing yet."""
NOTHING_YET = {"missing", "zero bytes", "without tables"}
ONLY_TURNS = {"unreadable rows"}
"""Faults of the turns' content, which a command that does not read it cannot meet."""
NO_TURNS = {"learn into", "purge", "patterns", "patterns --export", "patterns --clear", "patterns --import into"}


def usable(command: str, bad: str) -> bool:
    """Whether the command has no fault to find."""
    return (command in MAKES_ONE and bad in NOTHING_YET) or (command in NO_TURNS and bad in ONLY_TURNS)


@pytest.fixture
def typed(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str, str], tuple[int, str]]:
    """A command on an input, as `python -m agentaccel` runs it: its exit code, and what it printed."""

    def type_(command: str, bad: str) -> tuple[int, str]:
        path = tmp_path / ("BAD.json" if command == "effects" else "BAD")
        BAD[bad](path, (good / "trace.db").read_bytes())
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("AGENTACCEL_STORE", str(path))
        monkeypatch.setattr(files, "PATIENCE", 0.01)
        words = [word.replace("GOOD", str(good)) for word in COMMANDS[command]]
        monkeypatch.setattr(sys, "argv", ["agentaccel", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out + printed.err

    return type_


def state(folder: Path) -> dict[str, bytes | None]:
    """Every name in a folder, and what is in it."""
    return {path.name: path.read_bytes() if path.is_file() else None for path in folder.iterdir()}


PAIRS = [(command, bad) for command in COMMANDS for bad in BAD if not usable(command, bad)]


@pytest.mark.parametrize(("command", "bad"), PAIRS)
def test_what_cannot_be_used_is_told_in_one_sentence_and_nothing_is_left_behind(
    command: str, bad: str, good: Path, tmp_path: Path, typed: Callable[[str, str], tuple[int, str]]
) -> None:
    """Exit code 2 and one line that names the file; the file is as it was, and alone."""
    (tmp_path / "before").mkdir()
    BAD[bad](tmp_path / "before" / "BAD", (good / "trace.db").read_bytes())
    before = state(tmp_path / "before").get("BAD", b"missing")
    shutil.rmtree(tmp_path / "before")
    code, printed = typed(command, bad)
    lines = printed.splitlines()
    if (command, bad) == ("report of the store", "missing"):
        del lines[1:]  # a newcomer is also told what to do
    assert code == 2, printed
    assert len(lines) == 1, printed
    assert lines[0].startswith(f"agentaccel {COMMANDS[command][0]}: ")
    assert "Traceback" not in printed
    assert "Errno" not in printed
    after = state(tmp_path)
    name = "BAD.json" if command == "effects" else "BAD"
    assert set(after) == (set() if bad == "missing" else {name})
    if bad != "missing":
        assert after[name] == before


def test_a_gate_does_not_pass_over_a_damaged_store_of_which_all_requests_can_be_read(
    good: Path, tmp_path: Path
) -> None:
    """The page of another table is damaged: a report tells of the requests, a gate does not believe it."""
    store = (good / "trace.db").read_bytes()
    demand = ("check", "BAD", "--min-hit-rate", "0.1")
    (tmp_path / "BAD").write_bytes(store)
    assert run(*demand, cwd=tmp_path).exit_code == 0
    with contextlib.closing(sqlite3.connect(good / "trace.db")) as connection:
        [(root,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'patterns'").fetchall()
    overwritten((root - 1) * PAGE, root * PAGE)(tmp_path / "BAD", store)
    assert run("report", "BAD", cwd=tmp_path).exit_code == 0
    done = run(*demand, cwd=tmp_path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "BAD is damaged: " in done.stderr


@pytest.mark.parametrize("bad", ["unreadable rows", "an emptied page"])
@pytest.mark.parametrize("command", ["report", "replay", "learn from", "check"])
def test_without_looking_why_nothing_was_found_a_damaged_store_is_an_empty_one(
    command: str, bad: str, typed: Callable[[str, str], tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: it is that look that tells the two apart."""
    for module in ("agentaccel.store.store", "agentaccel.replay.read", "agentaccel.replay.events"):
        monkeypatch.setattr(f"{module}.explain_nothing", lambda store: None)
    _, printed = typed(command, bad)
    assert "damaged" not in printed


def test_without_tidying_a_reader_leaves_a_log_behind(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: SQLite alone leaves two files beside a store that was only read."""
    for name, expected in (("tidy", {"trace.db"}), ("untidy", {"trace.db", "trace.db-wal", "trace.db-shm"})):
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(good / "trace.db", folder / "trace.db")
        if name == "untidy":
            monkeypatch.setattr(database, "_tidy", lambda path: None)
        assert run("report", "trace.db", cwd=folder).exit_code == 0
        assert {path.name for path in folder.iterdir()} == expected


def test_a_reader_leaves_the_log_of_a_store_that_somebody_writes_to(tmp_path: Path) -> None:
    """Theirs is in use: what is in it is not in the file yet."""
    driver = Driver(tmp_path)
    loop(driver, 2)
    log = tmp_path / "trace.db-wal"
    before = log.read_bytes()
    assert before
    assert run("report", "trace.db", cwd=tmp_path).exit_code == 0
    assert log.read_bytes() == before


def test_a_store_where_no_file_can_be_is_told_by_its_own_name(good: Path) -> None:
    """And not by that of a temporary file; a system's folder of processes takes none from anybody."""
    if not Path("/proc/self").exists():
        pytest.skip("no such folder here")
    learned = run("learn", "runs.jsonl", "--store", "/proc/t.db", cwd=good)
    assert str(learned.exception) == "there can be no trace store at /proc/t.db: No such file or directory"
    assert isinstance(demo := run("demo", "--store", "/proc/t.db").exception, OSError)
    assert demo.filename == "/proc/t.db.key"


@pytest.fixture
def nobody() -> Iterator[Path]:
    """A folder of a user who may read nothing that belongs to others, which is who runs the test meanwhile."""
    for name in ("check", "learn", "patterns", "report", "replay"):  # whoever may not read the code can import none
        importlib.import_module(f"agentaccel.cli.{name}")
    with tempfile.TemporaryDirectory() as folder:
        if os.geteuid():
            yield Path(folder)
            return
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
        try:
            yield Path(folder)
        finally:
            os.seteuid(0)


@pytest.mark.parametrize(
    "words",
    [
        ("report", "BAD"),
        ("check", "BAD", "--max-cost", "1"),
        ("replay", "BAD"),
        ("learn", "BAD", "--store", "new.db"),
        ("purge", "BAD", "--older-than", "1d"),
        ("patterns", "--store", "BAD"),
        ("explain", "BAD"),
        ("effects", "BAD.json"),
        ("demo", "--store", "BAD"),
    ],
    ids=lambda words: words[0],
)
@pytest.mark.parametrize("kind", ["a store", "a log"])
def test_what_may_not_be_read_is_told_in_one_sentence(
    words: tuple[str, ...],
    kind: str,
    good: Path,
    nobody: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A file without any permission."""
    for name in ("BAD", "BAD.json"):
        (nobody / name).write_bytes(b"SQLite format 3\0" + bytes(5000) if kind == "a store" else b'{"type": "user"}\n')
        (nobody / name).chmod(0)
    monkeypatch.chdir(nobody)
    monkeypatch.setattr(sys, "argv", ["agentaccel", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr()
    assert ended.value.code == 2
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert {path.name for path in nobody.iterdir()} == {"BAD", "BAD.json"}
