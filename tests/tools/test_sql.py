"""The database tool: proven queries run read-only, each on a connection of its own, whoever asks and whenever."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from agentaccel.effects.declare import NotProven, running_early, spec_of
from agentaccel.effects.launch import Allowance, permission
from agentaccel.errors import ConfigError
from agentaccel.tools import Sql
from agentaccel.tools.sql import Connection, _sqlite_read_only
from agentaccel.types import ToolCall


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "app?#.db"
    connection = sqlite3.connect(path)
    connection.executescript("create table t(id integer, name text); insert into t values (1, 'é'), (2, null);")
    connection.close()
    return path


class Counted:
    """How often each kind of connection was opened and closed."""

    def __init__(self, file: Path) -> None:
        self.file, self.opened, self.closed = file, list[str](), 0

    def connect(self) -> Connection:
        self.opened.append("ordinary")
        return self._watched(sqlite3.connect(self.file, factory=_Watched))

    def read_only(self) -> Connection:
        self.opened.append("read only")
        return self._watched(sqlite3.connect(f"{self.file.as_uri()}?mode=ro", uri=True, factory=_Watched))

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
    allowed = Allowance(egress=frozenset({"query"}), familiar=lambda call: True)
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
        "vacuum",
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


async def test_the_witness_tells_what_others_write(file: Path) -> None:
    witness = Sql.sqlite(file).specs["query"].witness
    assert witness is not None
    before = witness({})
    assert witness({}) == before
    writer = sqlite3.connect(file)
    writer.execute("insert into t values (9, 'z')")
    writer.commit()
    writer.close()
    assert witness({}) != before


async def test_a_failed_statement_changes_nothing_and_reaches_the_caller(file: Path) -> None:
    counted = Counted(file)
    tool = Sql(connect=counted.connect, dialect="sqlite", read_only=counted.read_only)
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await tool.query("select * from missing")
    with pytest.raises(sqlite3.OperationalError):
        await tool.query("insert into t select 1, abs(-9223372036854775808) from missing")
    assert counted.closed == 2
    assert (await rows(tool, "select count(*) from t"))["rows"] == [[2]]


async def test_a_result_is_bounded_and_says_so(file: Path) -> None:
    many = "with recursive n(i) as (select 1 union all select i + 1 from n limit 5000) select i from n"
    by_rows = Sql(connect=Sql.sqlite(file).connect, dialect="sqlite", most_rows=10)
    assert (await rows(by_rows, many))["more"] == "there are more than these 10 rows"
    by_length = Sql(connect=Sql.sqlite(file).connect, dialect="sqlite", output_cap=100)
    assert len(await by_length.query(many)) < 200
    assert "more" not in await rows(by_rows, many.replace("5000", "10"))


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
    for wrong in ({"timeout": 0}, {"most_rows": 0}, {"output_cap": 0}):
        with pytest.raises(ConfigError):
            Sql(connect=Sql.sqlite(file).connect, dialect="sqlite", **wrong)  # type: ignore[arg-type]
