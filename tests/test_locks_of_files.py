"""Locks that this process has on a database stay while we look at its file: POSIX takes them away when any descriptor
of the file is closed."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from subprocess import run

import pytest
from click.testing import CliRunner

from agentaccel.cli import main as command
from agentaccel.effects.places import Surroundings
from agentaccel.effects.shell import judge_shell
from agentaccel.executors import Folder, Sql
from agentaccel.sources.logs import read_logs
from agentaccel.store.database import check_place, is_sqlite
from agentaccel.validators import head_of, keeps

pytestmark = pytest.mark.skipif(not hasattr(os, "pread"), reason="there are no locks of POSIX")

ASKS = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('begin immediate')"


def is_locked(database: Path) -> bool:
    """True if another process cannot write to it."""
    asked = run([sys.executable, "-I", "-c", ASKS, str(database)], capture_output=True, text=True, check=False)
    assert (asked.returncode == 0) != ("database is locked" in asked.stderr), asked.stderr
    return asked.returncode != 0


@pytest.fixture(params=["a table", "a log", "nothing yet"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A database in which this process is in the middle of a write."""
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        if request.param == "a log":
            connection.execute("pragma journal_mode=wal")
        if request.param != "nothing yet":
            connection.execute("create table t (x)")
        connection.execute("begin immediate")
        assert is_locked(path)
        yield path


def asked(*words: str) -> Callable[[Path], object]:
    """What a command says of the database, or of the folder that it is in, called within this process."""

    def look(path: Path) -> object:
        places = [word.format(file=path, folder=path.parent) for word in words]
        return CliRunner().invoke(command, places, env={"AGENTACCEL_STORE": str(path.parent / "store.db")})

    return look


def as_log(path: Path) -> object:
    """It is called like a log."""
    os.link(path, path.with_suffix(".jsonl"))
    return list(read_logs([path.parent]))


async def file_tools(path: Path) -> None:
    folder = Folder(path.parent)
    for _ in range(2):
        assert (await folder.read_file("app.db")).startswith("[app.db is no text; it has ")
        assert await folder.search_text("never", ".") == "[no match]"
        assert "app.db" in await folder.list_folder(".")


LOOKS: dict[str, Callable[[Path], object]] = {
    "a head": lambda path: head_of(path, 20),
    "what is beside it": lambda path: [head_of(one, 20) for one in path.parent.iterdir()],
    "a head, twice": lambda path: (head_of(path, 20), head_of(path, 20)),
    "which stores there are": is_sqlite,
    "where a store is to be": check_place,
    "the obstacle of a database tool": lambda path: Sql.sqlite(path).judge("select 1"),
    "a shell line": lambda path: judge_shell("sqlite3 app.db 'select 1'", Surroundings(cwd=path.parent)),
    "a file tool": lambda path: asyncio.run(file_tools(path)),
    "a report on it": asked("report", "{file}"),
    "a report on its folder": asked("report", "{folder}"),
    "learning from it": asked("learn", "{file}"),
    "a replay of it": asked("replay", "{file}"),
    "a replay of its folder": asked("replay", "{folder}"),
    "a log": as_log,
}


@pytest.mark.parametrize("look", LOOKS)
def test_a_write_goes_on_alone_while_the_file_is_looked_at(look: str, database: Path) -> None:
    """Mandated by POSIX: who closes a descriptor of the file gives up its locks. A known gap: a file without a byte may
    be a database as well, and a tool that reads files opens it."""
    if look == "a file tool" and not database.stat().st_size:
        pytest.skip("a known gap")
    LOOKS[look](database)
    assert is_locked(database)


def test_a_file_that_is_simply_opened_and_closed_gives_its_locks_up(database: Path) -> None:
    """The twin, and why all of this is."""
    for one in database.parent.iterdir():  # with a log, it is the log's index that is locked
        one.read_bytes()
    assert not is_locked(database)


@pytest.mark.parametrize(
    ("look", "database"),
    [("a head", "a table"), ("a file tool", "a table"), ("a log", "a table"), ("what is beside it", "a log")],
    indirect=["database"],
)
def test_without_keeping_the_descriptor_the_locks_are_gone(
    look: str, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin."""
    for module in ("validators", "executors.folder", "store.files"):
        monkeypatch.setattr(f"agentaccel.{module}.keeps", lambda descriptor: False)
    LOOKS[look](database)
    assert not is_locked(database)


def test_one_descriptor_is_kept_for_a_file_and_none_for_what_is_gone_or_no_database(tmp_path: Path) -> None:
    """Chosen by us: looks at a database cost one descriptor, and those at anything else none."""
    for name in ("a.db", "b.db"):
        with closing(sqlite3.connect(tmp_path / name)) as made:
            made.execute("create table t (x)")
    (tmp_path / "text").write_text("hello")
    before = open_now()
    for _ in range(3):
        assert head_of(tmp_path / "a.db", 6) == b"SQLite"
        assert head_of(tmp_path / "text", 6) == b"hello"
    (kept,) = open_now() - before
    (tmp_path / "a.db").unlink()
    head_of(tmp_path / "b.db", 6)
    assert len(open_now() - before) == 1
    with open(tmp_path / "text", "rb") as text:
        assert not keeps(text.fileno())
    del kept


def open_now() -> set[tuple[int, int, int]]:
    """The descriptors of this process, with what they are of."""
    found = set()
    for number in range(4096):
        try:
            seen = os.fstat(number)
        except OSError:
            continue
        found.add((number, seen.st_dev, seen.st_ino))
    return found
