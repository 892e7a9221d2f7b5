"""What a report needs of a trace store: its records, session by session, without what no report says.

In that order a session is over before the next one begins, so that a report of a million requests takes the memory of
one session. Reading what is not needed would take most of the time: markers and reasons are left in their rows, and
calls of tools that were simply run are told together, by what an index holds of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import chain
from typing import Any

from agentaccel.records import Calls, SessionOver, ToolRecord, TurnRecord
from agentaccel.trace.record import UNREADABLE, load_told, load_tool
from agentaccel.trace.store import CHUNK, Store

_Row = tuple[Any, ...]
"""Session, start, whether it is a tool, id, end, `simply`, and the record; None for a call that the rest tells of."""

_ROW = "CAST(record AS BLOB)"


def evidence(
    store: Store, since: float | None = None, until: float | None = None
) -> Iterator[TurnRecord | ToolRecord | Calls | SessionOver]:
    """The records of `store` that began from `since` on and before `until`, in seconds since the epoch.

    Rows that cannot be read are left out and counted in `store.skipped`. Raises TraceError for a damaged file.
    """
    with store.legible():
        with store.database.using() as connection:
            cursor = connection.execute(_query(connection, since, until), {"since": since, "until": until})
        key, name, calls = None, None, None
        for session, started, kind, number, finished, simply, data in _rows(store, cursor):
            if session != key:
                yield from _over(name, calls)
                key, name, calls = session, None, None
            if calls is not None and simply is not None:
                calls.count += 1
                calls.failed += simply
                if finished is None:
                    calls.unfinished += 1
                elif started:
                    calls.spans.append((started, finished))
                continue
            record = _record(store, kind, number, data)
            if record is None:
                store.skipped += 1
                continue
            if calls is not None and calls.count:
                yield calls
            yield record
            name = record.session
            if not kind or calls is not None:  # before a request nothing tells which group a call belongs to but itself
                calls = Calls(name, record.started, record.agent, record.tenant)
        yield from _over(name, calls)


def _rows(store: Store, cursor: sqlite3.Cursor) -> Iterator[_Row]:
    def some() -> list[_Row]:
        with store.database.using():
            return cursor.fetchmany(CHUNK)

    return chain.from_iterable(iter(some, []))


def _over(name: str | None, calls: Calls | None) -> Iterator[Calls | SessionOver]:
    """The last calls of a session, and that it is over."""
    if calls is not None and calls.count:
        yield calls
    if name is not None:
        yield SessionOver(name)


def _record(store: Store, kind: int, number: int, data: Any) -> TurnRecord | ToolRecord | None:
    """The record of a row; None where it cannot be read."""
    try:
        if kind:
            return load_tool(data if data is not None else _tool_record(store, number))
        return load_told(data)
    except UNREADABLE:
        return None


def _tool_record(store: Store, number: int) -> bytes:
    with store.database.using() as connection:
        row = connection.execute("SELECT CAST(record AS BLOB) FROM tools WHERE id = ?", (number,)).fetchone()
    return bytes(row[0])


def _query(connection: sqlite3.Connection, since: float | None, until: float | None) -> str:
    """In order by an index. Where none leads there, keys first, and then the rows one by one: sorting rows would write
    them all to disk anew.

    A store of an older version lacks that index, and columns beside the records of tools.
    """
    bounds = (("started >= :since", since), ("started < :until", until))
    said = " AND ".join(condition for condition, bound in bounds if bound is not None)
    known = connection.execute("SELECT 1 FROM pragma_table_xinfo('tools') WHERE name = 'simply'").fetchone()
    in_order = known and not said
    arms = []
    for kind, table, beside, row in (
        (0, "turns", "NULL, NULL", _ROW),
        (1, "tools", "finished, simply" if known else "NULL, NULL", f"CASE WHEN simply IS NULL THEN {_ROW} END"),
    ):
        where = f"INDEXED BY {table}_by_time WHERE {said}" if said else ""
        whole = f", {row}" if in_order else ""
        arms.append(f"SELECT session, started, {kind}, id, {beside}{whole} FROM {table} {where}")
    keys = f"{' UNION ALL '.join(arms)} ORDER BY 1, 2"
    if in_order:
        return keys
    return (
        f"WITH k (session, started, kind, id, finished, simply) AS ({keys})"
        " SELECT session, started, kind, id, finished, simply, CASE WHEN simply IS NOT NULL THEN NULL"
        f" WHEN kind THEN (SELECT {_ROW} FROM tools t WHERE t.id = k.id)"
        f" ELSE (SELECT {_ROW} FROM turns t WHERE t.id = k.id) END FROM k"
    )
