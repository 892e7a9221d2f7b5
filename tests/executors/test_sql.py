"""The database tool: proven queries run read-only, each on a connection of its own, whoever asks and whenever."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agentaccel.effects.launch import Allowance, permission
from agentaccel.effects.spec import NotProven, running_early, spec_of
from agentaccel.effects.sql import judge_sql
from agentaccel.errors import ConfigError
from agentaccel.executors import Sql
from agentaccel.executors.sql import Connection, _resident, _sqlite_read_only
from agentaccel.types import ToolCall


@pytest.fixture(autouse=True, scope="module")
def parser() -> None:
    """Loaded before any query: an early run does not wait long for a verdict, and loading it may take longer."""
    judge_sql("select 1", "sqlite")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "app?#.db"
    connection = sqlite3.connect(path)
    connection.executescript("create table t(id integer, name text); insert into t values (1, 'é'), (2, null);")
    connection.execute("create table o_node(id integer)")  # named as one of an R-Tree
    connection.close()
    return path


class Counted:
    """How often each kind of connection was opened and closed."""

    def __init__(self, file: Path) -> None:
        self.file, self.opened, self.closed = file, list[str](), 0

    def connect(self) -> Connection:
        self.opened.append("ordinary")
        return self._watched(sqlite3.connect(self.file, factory=_Watched))

    def read_only(self, timeout: float = 5.0) -> Connection:
        self.opened.append("read only")
        return self._watched(
            sqlite3.connect(f"{self.file.as_uri()}?mode=ro", uri=True, timeout=timeout, factory=_Watched)
        )

    def _watched(self, connection: _Watched) -> _Watched:
        connection.tell = self._close
        return connection

    def _close(self) -> None:
        self.closed += 1


class _Watched(sqlite3.Connection):
    tell: Any

    def close(self) -> None:
        self.tell()
        super().close()


async def rows(tool: Sql, sql: str) -> Any:
    return json.loads(await tool.query(sql))


async def test_rows_come_as_json_with_their_columns(file: Path) -> None:
    tool = Sql.sqlite(file)
    assert await rows(tool, "select id, name from t order by id") == {
        "columns": ["id", "name"],
        "rows": [[1, "é"], [2, None]],
    }
    assert await rows(tool, "insert into t values (3, 'c'), (4, 'd')") == {"changed": 2}
    assert await rows(tool, "select count(*) as n from t") == {"columns": ["n"], "rows": [[4]]}
    assert await rows(tool, "select x'6162', 9e999") == {"columns": ["x'6162'", "9e999"], "rows": [["2 bytes", "inf"]]}


async def test_a_proven_query_has_a_read_only_connection_early_and_on_time(file: Path) -> None:
    counted = Counted(file)
    tool = Sql(connect=counted.connect, dialect="sqlite", read_only=counted.read_only)
    with running_early():
        sooner = await tool.query("select id from t")
    assert await tool.query("select id from t") == sooner
    await tool.query("delete from t where id = 2")
    assert counted.opened == ["read only", "read only", "ordinary"], "one each, none shared"
    assert counted.closed == 3


@pytest.mark.parametrize(
    "sql",
    ["delete from t", "select 1; delete from t", "select load_extension('x')", "pragma query_only = off", "nonsense"],
)
async def test_what_is_not_proven_is_never_run_early(file: Path, sql: str) -> None:
    counted = Counted(file)
    tool = Sql(connect=counted.connect, dialect="sqlite", read_only=counted.read_only)
    with running_early(), pytest.raises(NotProven):
        await tool.query(sql)
    assert not counted.opened


async def test_what_another_program_has_locked_is_waited_for_once(file: Path) -> None:
    """As it is without us: the ordinary connection would wait as long again."""
    counted = Counted(file)
    tool = Sql(connect=counted.connect, dialect="sqlite", read_only=lambda: counted.read_only(timeout=0.0))
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("begin exclusive")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            await tool.query("select id from t")
    assert counted.opened == ["read only"]


async def test_without_a_read_only_connection_nothing_is_run_early(file: Path) -> None:
    counted = Counted(file)
    tool = Sql(connect=counted.connect, dialect="sqlite")
    assert tool.judge("select id from t").launchable == "never"
    with running_early(), pytest.raises(NotProven):
        await tool.query("select id from t")
    assert (await rows(tool, "select id from t"))["rows"] == [[1], [2]]
    assert counted.opened == ["ordinary"]


def test_the_tool_declares_itself_and_each_call_is_judged_by_its_statement(file: Path) -> None:
    def launch(tool: Sql, allowance: Allowance | None = None, **arguments: object) -> str:
        spec = spec_of(tool.query)
        assert spec is not None
        return permission(ToolCall(name="query", arguments=arguments), spec, allowance).launch

    local = Sql.sqlite(file)
    assert launch(local, sql="select id from t") == "predicted"
    assert launch(local, sql="delete from t") == "never"
    assert launch(local, sql="select id from t", database="other") == "never"
    assert launch(local) == "never"
    remote = Sql(connect=local.connect, dialect="postgres", read_only=local.read_only)
    assert launch(remote, sql="select id from t") == "asked"
    allowed = Allowance(remote_guesses=frozenset({"query"}), familiar=lambda call: True)
    assert launch(remote, allowed, sql="select id from t") == "predicted"


@pytest.mark.parametrize(
    "sql",
    [
        "delete from t",
        "create table u(x)",
        "create temp table u(x)",
        "attach 'other.db' as other",
        "pragma query_only = off",
        "pragma user_version = 5",
        "pragma writable_schema = on",
        "pragma temp_store = file",
        "vacuum",
        "delete from sqlite_master",
        "insert into o_node values (1)",
        "update sqlite_master set sql = 'x'",
    ],
)
def test_the_read_only_connection_itself_takes_nothing_that_writes(file: Path, sql: str) -> None:
    """A second wall: it stands where the analyser would have been wrong."""
    connection = _sqlite_read_only(file)
    before = file.read_bytes(), sorted(os.listdir(file.parent))
    with pytest.raises(sqlite3.DatabaseError):
        connection.cursor().execute(sql)
    assert [row[0] for row in connection.cursor().execute("select id from t")] == [1, 2], "and it still reads"
    connection.close()
    assert (file.read_bytes(), sorted(os.listdir(file.parent))) == before


async def test_a_query_leaves_no_file_behind_where_a_log_is_kept(file: Path) -> None:
    """SQLite makes the files of the log for a reader, who may not remove them: such a reader is not let in early."""
    writer = sqlite3.connect(file)
    writer.execute("pragma journal_mode = wal")
    writer.close()
    before = sorted(os.listdir(file.parent))
    tool = Sql.sqlite(file)
    with running_early(), pytest.raises(NotProven):
        await tool.query("select id from t")
    assert (await rows(tool, "select id from t"))["rows"] == [[1], [2]]
    assert sorted(os.listdir(file.parent)) == before
    held = sqlite3.connect(file)
    held.execute("select * from t").fetchall()
    with running_early():
        assert (await rows(tool, "select id from t"))["rows"] == [[1], [2]]
    held.close()


def _nothing(place: Path) -> None:
    place.touch()


def _dangling(place: Path) -> None:
    place.symlink_to("nowhere")


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
@pytest.mark.parametrize("made", [_nothing, _dangling, os.mkfifo])
def test_what_is_left_beside_a_database_keeps_a_query_from_being_early(
    file: Path, ending: str, made: Callable[[Path], None]
) -> None:
    """SQLite opens it whatever the database says of itself: it makes files beside a log, and waits at a pipe. A link is
    followed before SQLite looks beside it."""
    (file.parent / "far").mkdir()
    link = file.parent / "far/link.db"
    link.symlink_to(file)
    tools = [Sql.sqlite(file), Sql.sqlite(link)]
    assert [tool.judge("select id from t").launchable for tool in tools] == ["predicted", "predicted"]
    made(file.with_name(file.name + ending))
    assert [tool.judge("select id from t").launchable for tool in tools] == ["never", "never"]


def test_a_pipe_in_the_place_of_a_log_that_is_kept_refuses(file: Path) -> None:
    held = sqlite3.connect(file)
    held.execute("pragma journal_mode = wal")
    held.execute("select * from t").fetchall()
    assert Sql.sqlite(file).judge("select id from t").launchable == "predicted"
    held.close()
    for ending in ("-wal", "-shm"):
        os.mkfifo(f"{file}{ending}")
    assert Sql.sqlite(file).judge("select id from t").launchable == "never"


async def test_the_witness_tells_what_others_write(file: Path) -> None:
    validator = Sql.sqlite(file).specs["query"].validator
    assert validator is not None
    before = validator({})
    assert validator({}) == before
    writer = sqlite3.connect(file)
    writer.execute("insert into t values (9, 'z')")
    writer.commit()
    writer.close()
    assert validator({}) != before


async def test_a_failed_statement_changes_nothing_and_reaches_the_caller(file: Path) -> None:
    counted = Counted(file)
    tool = Sql(connect=counted.connect, dialect="sqlite", read_only=counted.read_only)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await tool.query("select * from missing")
    with pytest.raises(sqlite3.OperationalError):
        await tool.query("insert into t select 1, abs(-9223372036854775808) from missing")
    assert counted.opened == ["read only", "ordinary", "ordinary"], "the first may have failed by its guard"
    assert counted.closed == 3
    assert (await rows(tool, "select count(*) from t"))["rows"] == [[2]]


VIRTUAL = """
create virtual table words using fts5(body); insert into words values ('hello world');
create virtual table old using fts4(body); insert into old values ('hello');
create virtual table boxes using rtree(id, low, high); insert into boxes values (7, 0, 1);
"""


@pytest.mark.parametrize(
    "sql",
    [
        "select body from words where words match 'hello'",
        "select body from old where body match 'hello'",
        "select id from boxes where low < 1",
        "select value from json_each('[1, 2]')",
        "select key, value from json_tree('[1, 2]')",
    ],
)
async def test_virtual_tables_are_read_early_and_on_time(file: Path, sql: str) -> None:
    """To open one SQLite asks for changes that it does not make."""
    plain = sqlite3.connect(file)
    plain.executescript(VIRTUAL)
    expected = [list(row) for row in plain.execute(sql)]
    plain.close()
    tool = Sql.sqlite(file)
    with running_early():
        sooner = await tool.query(sql)
    assert await tool.query(sql) == sooner
    assert json.loads(sooner)["rows"] == expected
    assert expected


async def test_a_guard_that_fails_is_a_miss_early_and_nothing_on_time(file: Path) -> None:
    """Whatever the guarded connection cannot do, and where it cannot even be opened."""

    def guarded() -> Connection:
        connection = sqlite3.connect(file)
        connection.set_authorizer(lambda *asked: sqlite3.SQLITE_DENY)
        return connection

    def closed() -> Connection:
        raise sqlite3.OperationalError("no more connections")

    for read_only in (guarded, closed):
        tool = Sql(connect=Sql.sqlite(file).connect, dialect="sqlite", read_only=read_only)
        with running_early(), pytest.raises(sqlite3.DatabaseError):
            await tool.query("select id from t")
        assert (await rows(tool, "select id from t"))["rows"] == [[1], [2]]


def _setting(connection: Any, name: str) -> Any:
    connection.set_authorizer(None)
    return connection.execute(f"pragma {name}").fetchone()[0]


def test_an_early_run_keeps_all_it_sorts_in_memory(file: Path) -> None:
    """A file below /tmp would be a trace; 2 is memory, and a run on time goes by the system's own settings."""
    with running_early():
        early = _sqlite_read_only(file)
    late = _sqlite_read_only(file)
    assert (_setting(early, "temp_store"), _setting(late, "temp_store")) == (2, 0)
    early.close()
    late.close()


LONG = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000000) select count(*) from n"


def test_an_early_run_that_makes_the_process_grow_is_ended(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = iter([0, 10**8])
    monkeypatch.setattr("agentaccel.executors.sql._resident", lambda: next(held, 10**9))
    with running_early():
        connection = _sqlite_read_only(file)
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        connection.cursor().execute(LONG)
    assert next(held, None) is None, "it was let go on as long as it was small"
    connection.close()


def test_what_the_process_holds_is_known_where_the_system_tells() -> None:
    assert (_resident() > 1_000_000) == Path("/proc/self/statm").exists()


def test_an_early_run_that_is_stopped_before_its_statement_begins_is_ended(file: Path) -> None:
    """SQLite forgets an interruption that meets no statement: without the guard this counts on."""
    with running_early():
        connection: Any = _sqlite_read_only(file)
    connection.interrupt()
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        connection.cursor().execute(LONG)
    connection.close()


async def test_a_result_is_bounded_and_says_so(file: Path) -> None:
    many = "with recursive n(i) as (select 1 union all select i + 1 from n limit 5000) select i from n"
    by_rows = Sql(connect=Sql.sqlite(file).connect, dialect="sqlite", most_rows=10)
    assert (await rows(by_rows, many))["more"] == "there are more than these 10 rows"
    by_length = Sql(connect=Sql.sqlite(file).connect, dialect="sqlite", max_result_chars=100)
    assert len(await by_length.query(many)) < 200
    assert "more" not in await rows(by_rows, many.replace("5000", "10"))


@pytest.mark.slow
@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_statement_that_takes_too_long_is_ended_in_the_database(file: Path, cancelled: bool) -> None:
    """Counting on and on: only the driver's own interruption ends it, and the connection is closed then."""
    over, begun, given_up = threading.Event(), threading.Event(), threading.Event()

    def connect() -> Connection:
        connection = sqlite3.connect(file, factory=_Watched)
        connection.tell = over.set
        connection.set_progress_handler(count, 1_000)
        return connection

    def count() -> bool:
        begun.set()
        return given_up.is_set()

    forever = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n"
    tool = Sql(connect=connect, dialect="sqlite", timeout=20 if cancelled else 0.2)
    run = asyncio.ensure_future(tool.query(forever))
    if cancelled:
        await asyncio.to_thread(begun.wait, 20)
        run.cancel()
    with pytest.raises(asyncio.CancelledError if cancelled else TimeoutError):
        await run
    ended = await asyncio.to_thread(over.wait, 5)
    given_up.set()
    assert ended


def test_what_cannot_work_is_refused_when_the_tool_is_made(file: Path) -> None:
    with pytest.raises(ConfigError, match="must be a file"):
        Sql.sqlite(":memory:")
    with pytest.raises(ConfigError, match="there is no database"):
        Sql.sqlite("no-such-folder/shop.db")
    for wrong in ({"timeout": 0}, {"most_rows": 0}, {"max_result_chars": 0}):
        with pytest.raises(ConfigError):
            Sql(connect=Sql.sqlite(file).connect, dialect="sqlite", **wrong)  # type: ignore[arg-type]
