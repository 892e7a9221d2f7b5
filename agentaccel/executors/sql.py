"""A database tool: queries that are proven to read run on a read-only connection, all else on an ordinary one.

Every call opens its connection, has one transaction and closes it, early or not: so an early run shares nothing with
the agent's own, and what the model sees does not depend on when a query ran.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from agentaccel.effects.spec import Arguments, NotProven, ToolSpec, is_early
from agentaccel.effects.sql import judge_sql
from agentaccel.effects.unnamed import left_beside
from agentaccel.effects.verdict import Verdict, analysed, judged
from agentaccel.errors import ConfigError
from agentaccel.former import former_fields
from agentaccel.locks import Lock
from agentaccel.tools.permission import is_proven
from agentaccel.types import Effect
from agentaccel.validators import file_state, head_of

_AT_ONCE = 100
"""Rows that are fetched together."""
_WAL = b"\x02\x02"
"""Bytes 18 and 19 of a SQLite file that keeps a write-ahead log (SQLite, Database File Format, 1.3.4)."""


class Connection(Protocol):
    """The part of a DB-API 2.0 connection (PEP 249) that is used. Where it has `interrupt` or `cancel`, a query that
    takes too long is ended by it."""

    def cursor(self) -> Any: ...
    def commit(self) -> object: ...
    def rollback(self) -> object: ...
    def close(self) -> object: ...


@former_fields(output_cap="max_result_chars", witness="validator")
@dataclass(frozen=True, slots=True, kw_only=True)
class Sql:
    """A database tool over any DB-API driver: `accel.tools({"query": Sql(…).query})`; for SQLite `Sql.sqlite(path)`."""

    connect: Callable[[], Connection]
    """Opens an ordinary connection. Called in a thread, as is all that is done with it."""
    dialect: str
    """As the analyser names it: "postgres", "mysql", "sqlite", "duckdb", …"""
    read_only: Callable[[], Connection] | None = None
    """Opens a connection in a role that may only read; without one, no query is run early. A query that the model has
    asked for and that fails on it is run on an ordinary one."""
    timeout: float = 60.0
    """Seconds that a statement may take; then `TimeoutError`."""
    most_rows: int = 1_000
    """Rows of a result; that there are more is said."""
    max_result_chars: int = 60_000
    """Characters of a result."""
    validator: Callable[[Arguments], Hashable] | None = None
    """Tells the version of the database, where that is quick (`ToolSpec.validator`)."""
    obstacle: Callable[[], str | None] | None = None
    """Why opening a read-only connection now would leave a trace; None where it would not."""

    def __post_init__(self) -> None:
        if self.timeout <= 0 or self.most_rows <= 0 or self.max_result_chars <= 0:
            raise ConfigError("timeout, most_rows and max_result_chars must be above 0")

    @classmethod
    def sqlite(cls, path: str | os.PathLike[str]) -> Sql:
        """The tool for one SQLite file. Raises `ConfigError` where there is none, which a connection would make, and
        for a database in memory, which each connection has anew.

        Queries run with `mode=ro`, `query_only`, untrusted views and an authorizer that takes nothing but reading;
        one that fails so, and was asked for, is run again on an ordinary connection.
        """
        if str(path).startswith(":memory:") or not str(path):
            raise ConfigError("every call opens a connection of its own, so the database must be a file")
        file = Path(path).resolve()
        if not file.is_file():
            raise ConfigError(f"there is no database at {file}: make it first, or give the path of another")
        return cls(
            connect=partial(sqlite3.connect, file),
            dialect="sqlite",
            read_only=partial(_sqlite_read_only, file),
            validator=partial(_version, file),
            obstacle=partial(_leaves_a_trace, file),
        )

    @property
    def specs(self) -> Mapping[str, ToolSpec]:
        """Of `query`: each call by its statement; safe beside anything, for every run has its own connection."""
        spec = ToolSpec(kind="sql", concurrent=True, validator=self.validator, judge=self._judge_call, own=True)
        return {"query": spec}

    def _judge_call(self, arguments: Arguments) -> Verdict:
        if set(arguments) != {"sql"} or not isinstance(sql := arguments["sql"], str):
            return analysed(Effect.UNKNOWN, "sql: its arguments are not one statement")
        return self.judge(sql)

    @judged("sql")
    def judge(self, sql: str) -> Verdict:
        """What this statement would do. Without a read-only connection nothing is proven."""
        if self.read_only is None:
            return analysed(Effect.UNKNOWN, "sql: the tool names no read-only connection")
        verdict = judge_sql(sql, self.dialect)
        if verdict.launchable != "never" and self.obstacle is not None and (why := self.obstacle()) is not None:
            return analysed(Effect.UNKNOWN, f"sql: {why}")
        return verdict

    async def query(self, sql: str) -> str:
        """Run one SQL statement and return its rows as JSON: {"columns": [...], "rows": [[...], ...]}.

        A statement that returns no rows gives {"changed": N}. Where rows are left out, "more" says so.
        """
        proven = await is_proven(partial(self.judge, sql))
        if is_early() and not proven:
            raise NotProven("the statement is not proven to be a read")
        ways = [self.connect]
        if proven and self.read_only is not None:
            ways = [self.read_only] if is_early() else [self.read_only, self.connect]
        running = _Statement(ways)
        try:
            async with asyncio.timeout(self.timeout):
                return await asyncio.to_thread(running.run, sql, self.most_rows, self.max_result_chars)
        except (asyncio.CancelledError, TimeoutError):
            running.stop()
            raise


_TAKEN = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class _Statement:
    """One statement on a connection of its own, in a thread; another thread may stop it."""

    def __init__(self, ways: Sequence[Callable[[], Connection]]) -> None:
        self._ways = ways
        self._lock = Lock()
        self._connection: Connection | None = None
        self._stopped = False

    def run(self, sql: str, most_rows: int, cap: int) -> str:
        """By the first way that has a result. What fails behind a guard may be the guard's doing: only how it fails on
        the last, ordinary connection is what the caller would see without us."""
        *guarded, last = self._ways
        for way in guarded:
            try:
                return self._once(way, sql, most_rows, cap)
            except Exception as error:
                if getattr(error, "sqlite_errorcode", 0) & 0xFF in _TAKEN:
                    raise  # by another program, which the caller has waited for
        return self._once(last, sql, most_rows, cap)

    def _once(self, opened: Callable[[], Connection], sql: str, most_rows: int, cap: int) -> str:
        connection = opened()
        try:
            with self._lock:
                self._connection = connection
                if self._stopped:
                    raise TimeoutError
            cursor = connection.cursor()
            cursor.execute(sql)
            text = _shown(cursor, most_rows, cap)
            with self._lock:
                if self._stopped:
                    raise TimeoutError  # nobody waits any more: what nobody saw done is not done
            connection.commit()
            return text
        except BaseException:
            with suppress(Exception):
                connection.rollback()
            raise
        finally:
            with self._lock:
                self._connection = None
            connection.close()

    def stop(self) -> None:
        """End the statement where the driver can; what it did is rolled back, unless it is being committed."""
        with self._lock:
            self._stopped = True
            for name in ("interrupt", "cancel"):
                end = getattr(self._connection, name, None)
                if callable(end):
                    with suppress(Exception):
                        end()
                    return


def _shown(cursor: Any, most_rows: int, cap: int) -> str:
    if cursor.description is None:
        return json.dumps({"changed": max(cursor.rowcount, 0)})
    columns = [column[0] for column in cursor.description]
    rows, length, more = list[str](), 0, ""
    while not more and (some := cursor.fetchmany(_AT_ONCE)):
        for row in some:
            text = json.dumps([_plain(value) for value in row], ensure_ascii=False)
            length += len(text) + 2
            if len(rows) == most_rows or length > cap:
                more = f"there are more than these {len(rows)} rows"
                break
            rows.append(text)
    said = f', "more": {json.dumps(more)}' if more else ""
    return f'{{"columns": {json.dumps(columns, ensure_ascii=False)}, "rows": [{", ".join(rows)}]{said}}}'


def _plain(value: object) -> object:
    """A value as JSON has it; what JSON cannot hold as text.

    >>> [_plain(one) for one in (1, None, b"abc", float("inf"))]
    [1, None, '3 bytes', 'inf']
    """
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(bytes(value))} bytes"
    if isinstance(value, float) and value - value != 0:
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


# --- SQLite -----------------------------------------------------------------------------------------------------------

_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_CHANGING = {sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE}
_SHADOWS = ("_node", "_rowid", "_parent")
"""Tables behind an R-Tree, whose changes it prepares, and does not make, when it is opened (SQLite, R-Tree, 3.1)."""
_WALLS = {"query_only", "writable_schema", "trusted_schema", "temp_store"}
_MOST_MEMORY = 256_000_000
"""Bytes that the process may grow by in an early run."""
_STEPS = 10_000
"""Instructions of SQLite's machine between two looks at an early run: less than a millisecond."""


def _only_reads(action: int, first: str | None, second: str | None, database: str | None, by: str | None) -> int:
    """The authorizer: names of pragmas were looked at by the analyser, and `query_only` stands.

    To declare a virtual table (FTS5, `json_each`) SQLite asks for a change of the schema that it does not make.
    """
    name = (first or "").lower()
    declares = action == sqlite3.SQLITE_UPDATE and name == "sqlite_master"
    prepares = action in _CHANGING and name.endswith(_SHADOWS)
    if action in _READING or declares or prepares or (action == sqlite3.SQLITE_PRAGMA and name not in _WALLS):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


class _Guarded(sqlite3.Connection):
    """It ends an early run that makes the process grow, and one that was interrupted before its statement began."""

    _interrupted = False

    def bound(self) -> None:
        """Everything in memory, and that bounded: a file below /tmp would be a trace.

        SQLITE_LIMIT_LENGTH is left alone: beyond it printf() gives NULL, which no run on time would.
        """
        self.execute("PRAGMA temp_store = MEMORY")
        before = _resident()
        self.set_progress_handler(lambda: self._interrupted or _resident() - before > _MOST_MEMORY, _STEPS)

    def interrupt(self) -> None:
        self._interrupted = True
        super().interrupt()


def _resident() -> int:
    """Bytes that this process holds; 0 where the system does not tell, and time alone is the bound."""
    try:
        with open("/proc/self/statm", "rb") as told:
            return int(told.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _sqlite_read_only(file: Path) -> Connection:
    connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, factory=_Guarded)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA query_only = ON")
    if is_early():
        connection.bound()
    connection.set_authorizer(_only_reads)
    return connection


def _version(file: Path, arguments: Arguments) -> Hashable:
    return tuple(file_state(f"{file}{ending}") for ending in ("", "-wal", "-journal"))


def _leaves_a_trace(file: Path) -> str | None:
    """A read-only connection opens, or makes, what belongs beside the file: a log, a journal. It waits at a pipe."""
    try:
        keeps_log = head_of(file, 20)[18:20] == _WAL
    except OSError:
        return "the database cannot be opened"
    if left_beside(file) != ({"-wal", "-shm"} if keeps_log else set()):
        return "a log or a journal stands beside the database, or is missing there: reading would make or change files"
    return None
