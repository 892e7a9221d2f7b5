"""What a report needs of a trace store: its records, session by session, without what no report says.

In that order a session is over before the next one begins, so that a report of a million requests takes the memory of
one session. Those of its conversations but the first have keys of their own, which an index has elsewhere: they are
looked up when the session comes. Reading what is not needed would take most of the time: markers and reasons are left
in their rows, and calls of tools that were simply run are told together, by what an index holds of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from heapq import merge
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

from agentaccel.records import Calls, SessionOver, ToolRecord, TurnRecord, parts_of
from agentaccel.store.codec import UNREADABLE, load_told, load_tool, text
from agentaccel.store.store import CHUNK, Store

_Row = tuple[Any, ...]
"""Session, start, whether it is a tool, id, end, `simply`, and the record; None for a call that the rest tells of."""

_ROW = "CAST(record AS BLOB)"
_OTHERS = "session >= '@/' AND session < '@0'"
"""Of keys of all but a session's first conversation (`key_of`): `0` comes behind `/`."""


def evidence(
    store: Store, since: float | None = None, until: float | None = None
) -> Iterator[TurnRecord | ToolRecord | Calls | SessionOver]:
    """The records of `store` that began from `since` on and before `until`, in seconds since the epoch.

    Rows that cannot be read are left out and counted in `store.skipped`. Raises TraceError for a damaged file.
    """
    with store.legible():
        key, name, calls = None, None, None
        for session, started, kind, number, finished, simply, data in _by_session(store, since, until):
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


def _by_session(store: Store, since: float | None, until: float | None) -> Iterator[_Row]:
    """All rows, those of a session together and in the order in which they began, with its name in place of a key."""
    others = _other_conversations(store)
    if not others:
        return _rows(store, since, until)
    return _joined(store, others, since, until)


def _other_conversations(store: Store) -> dict[str, list[str]]:
    """The keys of all but the first conversation of each session that has several."""
    with store.database.using() as connection:
        keys = connection.execute(f"SELECT DISTINCT session FROM turns WHERE {_OTHERS}").fetchall()
    found: dict[str, list[str]] = {}
    for (key,) in keys:
        found.setdefault(text(parts_of(key)[0]), []).append(key)
    return found


def _joined(store: Store, others: dict[str, list[str]], since: float | None, until: float | None) -> Iterator[_Row]:
    firsts = groupby(_rows(store, since, until, f"NOT ({_OTHERS})"), itemgetter(0))
    for session, rows in chain(firsts, ((name, ()) for name in list(others))):
        keys = others.pop(session, ())
        more = (_rows(store, since, until, "session = :key", key) for key in keys)
        yield from ((session, *row[1:]) for row in merge(rows, *more, key=_began)) if keys else rows


def _began(row: _Row) -> tuple[float, int, int]:
    return (row[1] if isinstance(row[1], float | int) else 0.0), row[2], row[3]


def _rows(
    store: Store, since: float | None, until: float | None, but: str = "", key: str | None = None
) -> Iterator[_Row]:
    """The rows `but` for those that a condition leaves out; it may compare with a `key`."""

    def some() -> list[_Row]:
        with store.database.using():
            return cursor.fetchmany(CHUNK)

    with store.database.using() as connection:
        query = _query(connection, since, until, but)
        cursor = connection.execute(query, {"since": since, "until": until, "key": key})
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


def _query(connection: sqlite3.Connection, since: float | None, until: float | None, but: str = "") -> str:
    """In order by an index. Where none leads there, keys first, and then the rows one by one: sorting rows would write
    them all to disk anew.

    A store of an older version lacks that index, and columns beside the records of tools. `but` is a condition.
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
        where = f"INDEXED BY {table}_by_time" if said and not but.startswith("session =") else ""
        where += f" WHERE {' AND '.join(filter(None, (said, but)))}" if said or but else ""
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
