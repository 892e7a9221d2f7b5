"""The learned patterns in the trace store: one part a workload, each added to in a transaction, so that none is lost.

A part of a newer version, or one that cannot be read, stays as it is. Functions raise what SQLite raises.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import orjson

from agentaccel.speculate.dumps import VERSION
from agentaccel.speculate.knowledge import MOST_WORKLOADS
from agentaccel.speculate.private import News, Part, Parts
from agentaccel.speculate.shelving import MOST_BYTES, shelved
from agentaccel.speculate.stats import Sensitive
from agentaccel.trace.record import text
from agentaccel.trace.store import Store

_SHARE = 4
"""All parts together take at most this part of what the store may take: records are removed to make room, they not."""
_MOST_PARTS = MOST_WORKLOADS + 1
"""One for each workload, and one for all of them."""
MOST_LESSONS = 100_000
"""Recorded runs that are remembered to have been learned from."""


class Shelf(NamedTuple):
    """What the store holds."""

    parts: Parts
    """By workload; `FLEET` for all of them."""
    barred: Mapping[str, str]
    """Parts that are left alone, and why."""


def read_shelf(store: Store) -> Shelf:
    """All parts; none in a store from before there were any, which a reader leaves as it is."""
    with store.database.using() as connection:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'patterns'").fetchone() is None:
            return Shelf({}, {})
        return _read(connection)


def add_to_shelf(
    store: Store, news: News, *, now: float, sensitive: Sensitive | None = None, lessons: Iterable[bytes] = ()
) -> tuple[Shelf, Parts]:
    """Add `news` to what there is; what there was, and what is there now.

    `now` is the wall time, `lessons` are hashes of the recorded runs that this was learned from.
    """
    with store.database.transaction() as connection:
        before = _read(connection)
        most = min(MOST_BYTES, store.max_bytes // _SHARE // _MOST_PARTS)
        parts = shelved(before.parts, news, sensitive, most)
        for workload in before.barred:
            parts.pop(workload, None)
        connection.executemany(
            "INSERT OR REPLACE INTO patterns (workload, version, at, known) VALUES (?, ?, ?, ?)",
            [(text(workload), int(VERSION), now, orjson.dumps(part).decode()) for workload, part in parts.items()],
        )
        connection.execute(
            "DELETE FROM patterns WHERE workload NOT IN"
            " (SELECT workload FROM patterns ORDER BY workload = '' DESC, at DESC LIMIT ?)",
            (_MOST_PARTS,),
        )
        connection.executemany(
            "INSERT OR REPLACE INTO lessons (run, at) VALUES (?, ?)", [(one, now) for one in lessons]
        )
        connection.execute(
            "DELETE FROM lessons WHERE run IN (SELECT run FROM lessons ORDER BY at DESC LIMIT -1 OFFSET ?)",
            (MOST_LESSONS,),
        )
        return before, {**before.parts, **parts}


def clear_shelf(store: Store, workload: str | None = None) -> int:
    """Remove the part of `workload`, of None everything that was learned; how many parts there were."""
    with store.database.transaction() as connection:
        if workload is not None:
            return connection.execute("DELETE FROM patterns WHERE workload = ?", (text(workload),)).rowcount
        connection.execute("DELETE FROM lessons")
        connection.execute("DELETE FROM experience")
        return connection.execute("DELETE FROM patterns").rowcount


def known_lessons(store: Store) -> set[bytes]:
    """The runs that were learned from."""
    with store.database.using() as connection:
        return {run for (run,) in connection.execute("SELECT run FROM lessons")}


def _read(connection: sqlite3.Connection) -> Shelf:
    parts: Parts = {}
    barred: dict[str, str] = {}
    for workload, version, known in connection.execute("SELECT workload, version, CAST(known AS BLOB) FROM patterns"):
        try:
            parts[workload] = part_of(version, known)
        except ValueError as error:
            barred[workload] = str(error)
    return Shelf(parts, barred)


def part_of(version: object, known: bytes) -> Part:
    """One part as it was written. Raises `ValueError`, which says why it is left alone."""
    if version != int(VERSION):
        raise ValueError(f"they have format {version}, and this agentaccel knows {VERSION}")
    part = orjson.loads(known)
    if not isinstance(part, dict):
        raise ValueError("they cannot be read")
    return part
