"""The learned patterns in the trace store: one part a workload, each added to in a transaction, so that none is lost.

A part of a newer version, or one that cannot be read, stays as it is. Functions raise what SQLite raises.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import orjson

from agentaccel.speculate.dumps import VERSION
from agentaccel.speculate.knowledge import MOST_WORKLOADS
from agentaccel.speculate.private import Part, Parts
from agentaccel.trace.record import text
from agentaccel.trace.store import Store

MOST_LESSONS = 100_000
"""Recorded runs that are remembered to have been learned from."""


class Shelf(NamedTuple):
    """What the store holds."""

    parts: Parts
    """By workload; `FLEET` for all of them."""
    barred: Mapping[str, str]
    """Parts that are left alone, and why."""


def read_shelf(store: Store) -> Shelf:
    """All parts."""
    with store._database.using() as connection:
        return _read(connection)


def change_shelf(
    store: Store, change: Callable[[Parts], Parts], *, now: float, lessons: Iterable[bytes] = ()
) -> tuple[Shelf, Parts]:
    """Put the parts that `change` makes of those that there are in their place; what there was, and what is there now.

    `now` is the wall time, `lessons` are hashes of the recorded runs that this was learned from.
    """
    with store._database.transaction() as connection:
        before = _read(connection)
        parts = {workload: part for workload, part in change(before.parts).items() if workload not in before.barred}
        connection.executemany(
            "INSERT OR REPLACE INTO patterns (workload, version, at, known) VALUES (?, ?, ?, ?)",
            [(text(workload), int(VERSION), now, orjson.dumps(part).decode()) for workload, part in parts.items()],
        )
        connection.execute(
            "DELETE FROM patterns WHERE workload NOT IN"
            " (SELECT workload FROM patterns ORDER BY workload = '' DESC, at DESC LIMIT ?)",
            (MOST_WORKLOADS + 1,),
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
    with store._database.transaction() as connection:
        if workload is not None:
            return connection.execute("DELETE FROM patterns WHERE workload = ?", (text(workload),)).rowcount
        connection.execute("DELETE FROM lessons")
        return connection.execute("DELETE FROM patterns").rowcount


def known_lessons(store: Store) -> set[bytes]:
    """The runs that were learned from."""
    with store._database.using() as connection:
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
