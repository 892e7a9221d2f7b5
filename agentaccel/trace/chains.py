"""The segments of prompts in the trace store: chains that share what prompts begin with."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable

from agentaccel.facts import LEVELS, Level
from agentaccel.trace.record import TurnWrite, text
from agentaccel.types import Segment, agreeing

_MOST_SESSIONS = 1024
"""Sessions of which it is remembered where the chains of the last turn end."""

Ends = tuple[int, int, int]
"""The last rows of a prompt's chains of tools, system and messages; 0 for an empty one."""
_NOTHING: Ends = (0, 0, 0)


class Chains:
    """Writes the chains of one store; to be used inside its transactions."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, tuple[tuple[Segment, ...], Ends]] = OrderedDict()
        """Of each session, the segments last written and where their chains end, as long as nobody removes any."""
        self._holds = (0, 0)
        """When that was good: the database's generation, and how often rows had been removed."""

    def write(self, connection: sqlite3.Connection, write: TurnWrite, generation: int) -> Ends:
        """Write what is new of the prompt's chains; returns where they end."""
        holds = (generation, connection.execute("SELECT n FROM clearings").fetchone()[0])
        if holds != self._holds:
            self._last.clear()
            self._holds = holds
        before, ends = self._last.get(write.record.session, ((), _NOTHING))
        done = agreeing(before, write.segments)
        if done < len(before):  # the history was edited: go over all of it again
            done, ends = 0, _NOTHING
        by_level = dict(zip(LEVELS, ends, strict=True))
        fresh: set[Level] = set()
        for segment in write.segments[done:]:
            parent = by_level[segment.level]
            # Nothing can follow a row that has just been made.
            row = None if segment.level in fresh else _row(connection, segment, parent)
            if row is None:
                row = _new_row(connection, segment, parent, write.content)
                fresh.add(segment.level)
            by_level[segment.level] = row
        ends = by_level["tools"], by_level["system"], by_level["messages"]
        self._last[write.record.session] = (write.segments, ends)
        self._last.move_to_end(write.record.session)
        if len(self._last) > _MOST_SESSIONS:
            self._last.popitem(last=False)
        return ends


def _row(connection: sqlite3.Connection, segment: Segment, parent: int) -> int | None:
    found = connection.execute(
        "SELECT id FROM segments WHERE parent = ? AND digest = ? AND level = ?", (parent, segment.digest, segment.level)
    ).fetchone()
    return None if found is None else int(found[0])


def _new_row(
    connection: sqlite3.Connection, segment: Segment, parent: int, content: Callable[[Segment], bytes] | None
) -> int:
    cursor = connection.execute(
        "INSERT INTO segments (parent, digest, level, kind, role, name, size, content) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            parent, segment.digest, segment.level, text(segment.kind), text(segment.role), text(segment.name),
            segment.size,
            content(segment) if content is not None else None,
        ),
    )  # fmt: skip
    return int(cursor.lastrowid or 0)
