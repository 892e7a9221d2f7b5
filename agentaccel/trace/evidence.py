"""What a report needs of a trace store: its records, session by session, without what no report says.

In that order a session is over before the next one begins, so that a report of a million requests takes the memory of
one session. Reading what is not needed would take most of the time: markers and reasons are left in their rows, and
calls of tools that were simply run are told together, by what an index holds of them.
"""

from __future__ import annotations

import itertools
import operator
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from agentaccel.records import Calls, SessionOver, ToolRecord, TurnRecord
from agentaccel.trace.record import UNREADABLE, load_told, load_tool
from agentaccel.trace.store import CHUNK, Store

_Row = tuple[Any, ...]
"""Session, start, whether it is a tool, id, end, `simply`, and the record; None for a call that the rest tells of."""


def evidence(
    store: Store, since: float | None = None, until: float | None = None
) -> Iterator[TurnRecord | ToolRecord | Calls | SessionOver]:
    """The records of `store` that began from `since` on and before `until`, in seconds since the epoch.

    Rows that cannot be read are left out and counted in `store.skipped`. Raises TraceError for a damaged file.
    """
    with store.legible():
        with store.database.using() as connection:
            cursor = connection.execute(_query(connection, since, until), {"since": since, "until": until})
        for _, rows in itertools.groupby(_rows(store, cursor), operator.itemgetter(0)):
            yield from _session(store, rows)


def _rows(store: Store, cursor: sqlite3.Cursor) -> Iterator[_Row]:
    while True:
        with store.database.using():
            rows = cursor.fetchmany(CHUNK)
        if not rows:
            return
        yield from rows


def _session(store: Store, rows: Iterable[_Row]) -> Iterator[TurnRecord | ToolRecord | Calls | SessionOver]:
    """The records of one session, and that it is over."""
    name, calls = None, None
    for _, started, kind, number, finished, simply, data in rows:
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
        if not kind or calls is not None:  # before a request nothing tells which group a call belongs to, but itself
            calls = Calls(name, record.started, record.agent, record.tenant)
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
    """Keys first, in order by an index, and then the rows one by one: sorting rows would write them all to disk anew.

    A store of an older version lacks that index, and columns beside the records of tools.
    """
    bounds = (("started >= :since", since), ("started < :until", until))
    said = " AND ".join(condition for condition, bound in bounds if bound is not None)
    known = connection.execute("SELECT 1 FROM pragma_table_xinfo('tools') WHERE name = 'simply'").fetchone()
    arms = []
    for kind, table, beside in (
        (0, "turns", "NULL, NULL"),
        (1, "tools", "finished, simply" if known else "NULL, NULL"),
    ):
        where = f"INDEXED BY {table}_by_time WHERE {said}" if said else ""
        arms.append(f"SELECT session, started, {kind}, id, {beside} FROM {table} {where}")
    return (
        "WITH k (session, started, kind, id, finished, simply) AS"
        f" ({' UNION ALL '.join(arms)} ORDER BY 1, 2)"
        " SELECT session, started, kind, id, finished, simply, CASE WHEN simply IS NOT NULL THEN NULL"
        " WHEN kind THEN (SELECT CAST(record AS BLOB) FROM tools t WHERE t.id = k.id)"
        " ELSE (SELECT CAST(record AS BLOB) FROM turns t WHERE t.id = k.id) END FROM k"
    )
