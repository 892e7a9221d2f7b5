"""The segments of prompts in the trace store: chains that share what prompts begin with."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable

from agentaccel.records import key_of
from agentaccel.store.codec import TurnWrite, text
from agentaccel.types import Segment, agreeing, level_starts

_MOST_SESSIONS = 1024
"""Sessions of which it is remembered where the chains of the last turn end."""

Ends = tuple[int, int, int]
"""The last rows of a prompt's chains of tools, system and messages; 0 for an empty one."""
_NOTHING: Ends = (0, 0, 0)

Content = Callable[[Segment], bytes]
"""Gives a segment's wire bytes, where content is to be kept."""


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
        key = key_of(write.record.session, write.record.thread)
        before, ends = self._last.get(key, ((), _NOTHING))
        done = len(before)
        if done and before[-1].level == "messages" and agreeing(before, write.segments) == done:
            # It only grew, as most do: what is new goes on from its last message.
            tools, system, messages = ends
            messages = _write(connection, write.segments[done:], messages, write.content, new=True)
        else:
            tools, system, messages = self._by_level(connection, write, before, ends)
        self._last[key] = (write.segments, (tools, system, messages))
        self._last.move_to_end(key)
        if len(self._last) > _MOST_SESSIONS:
            self._last.popitem(last=False)
        return tools, system, messages

    def _by_level(
        self, connection: sqlite3.Connection, write: TurnWrite, before: tuple[Segment, ...], ends: Ends
    ) -> list[int]:
        """An edited level is gone over again; a clock in the system prompt leaves the messages as they are."""
        last: list[int] = []
        for old, new, end in zip(_levels(before), _levels(write.segments), ends, strict=True):
            done = agreeing(old, new)
            done, end = (done, end) if done == len(old) else (0, 0)
            last.append(_write(connection, new[done:], end, write.content))
        return last


def _levels(segments: tuple[Segment, ...]) -> tuple[tuple[Segment, ...], ...]:
    """The segments of each level."""
    _, system, messages = level_starts(segments)
    return segments[:system], segments[system:messages], segments[messages:]


def _write(
    connection: sqlite3.Connection,
    segments: tuple[Segment, ...],
    parent: int,
    content: Content | None,
    *,
    new: bool = False,
) -> int:
    """Write `segments` behind row `parent`; returns the row of the last one. `new` says that they most likely are."""
    for segment in segments:
        row = _new_row(connection, segment, parent, content) if new else _row(connection, segment, parent)
        if row is None:
            row = _row(connection, segment, parent) if new else _new_row(connection, segment, parent, content)
            new = not new  # nothing follows a row that has just been made
        assert row is not None
        parent = row
    return parent


def _row(connection: sqlite3.Connection, segment: Segment, parent: int) -> int | None:
    found = connection.execute(
        "SELECT id FROM segments WHERE parent = ? AND digest = ? AND level = ?", (parent, segment.digest, segment.level)
    ).fetchone()
    return None if found is None else int(found[0])


def _new_row(connection: sqlite3.Connection, segment: Segment, parent: int, content: Content | None) -> int | None:
    """The row made for `segment`; None where it stands there already."""
    cursor = connection.execute(
        "INSERT INTO segments (parent, digest, level, kind, role, name, size, content)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (parent, digest, level) DO NOTHING",
        (
            parent, segment.digest, segment.level, text(segment.kind), text(segment.role), text(segment.name),
            segment.size,
            content(segment) if content is not None else None,
        ),
    )  # fmt: skip
    return int(cursor.lastrowid or 0) if cursor.rowcount else None
