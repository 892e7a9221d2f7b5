"""Conversations of a trace store that keeps content: the last prompt of each session tells all but its last reply."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from agentaccel.trace.store import Store

_LAST = (
    "SELECT t.session, s.workload, t.messages FROM turns t JOIN sessions s ON s.id = t.session"
    " WHERE t.id = s.turn ORDER BY t.started, t.id"
)
_CHAIN = (
    "WITH RECURSIVE up(id, parent, role, kind, content, depth) AS ("
    " SELECT id, parent, role, kind, content, 0 FROM segments WHERE id = ?"
    " UNION ALL SELECT s.id, s.parent, s.role, s.kind, s.content, depth + 1"
    " FROM segments s JOIN up ON s.id = up.parent)"
    " SELECT role, kind, CAST(content AS BLOB) FROM up ORDER BY depth DESC"
)


class Kept(NamedTuple):
    """One session."""

    id: str
    workload: str
    messages: list[dict[str, Any]] | None
    """None where the store does not have its content."""


def kept_talks(store: Store) -> Iterator[Kept]:
    """The sessions of `store`, in the order of their last requests. Raises TraceError where it cannot be read."""
    with store.legible():
        with store.database.using() as connection:
            sessions = connection.execute(_LAST).fetchall()
        for id_, workload, end in sessions:
            with store.database.using() as connection:
                rows = connection.execute(_CHAIN, (end,)).fetchall()
            yield Kept(id_, workload, _messages(rows))


def _messages(rows: list[tuple[str, str, bytes | None]]) -> list[dict[str, Any]] | None:
    """Blocks as messages: one ends where the role changes, and every result of a tool is its own."""
    messages: list[dict[str, Any]] = []
    for role, kind, content in rows:
        if content is None:
            return None
        try:
            block = orjson.loads(content)
        except ValueError:
            continue
        if role == "tool" or not messages or messages[-1]["role"] != role:
            messages.append({"role": role, "content": [], "tool_calls": []})
        if kind == "tool_call":
            messages[-1]["tool_calls"].append(block)
        else:
            messages[-1]["content"].append({"type": "text", "text": block} if isinstance(block, str) else block)
    return messages
