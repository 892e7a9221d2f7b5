"""What the trace store knows of the conversations that share a session's name."""

from __future__ import annotations

from agentaccel.records import threads_of
from agentaccel.trace.record import text
from agentaccel.trace.store import Store

MOST_THREADS = 64
"""Conversations under one name that a request is compared with: those used last."""
_MOST_PLACES = 24
"""Places that a conversation is known by: some ten turns back."""


def threads_in(store: Store, session: str) -> dict[str, int]:
    """The keys of all but the first of the conversations under a session's name, each with how many turns of it are
    known; the one used last comes last."""
    start = text(threads_of(session))
    with store.database.using() as connection:
        rows = connection.execute(
            "SELECT id, turns FROM sessions WHERE id >= ? AND id < ? ORDER BY turn DESC LIMIT ?",
            (start, f"{start[:-1]}0", MOST_THREADS),  # "0" comes after "/"
        ).fetchall()
    return {str(key): int(turns) for key, turns in reversed(rows)}


def places_of(store: Store, key: str) -> list[tuple[tuple[bytes, ...], int]]:
    """The last places that the conversation came to, oldest first: lineage hashes, and the messages of the request."""
    with store.database.using() as connection:
        rows = connection.execute(
            "SELECT hash, turn, messages FROM places WHERE session = ? ORDER BY turn DESC LIMIT ?",
            (text(key), _MOST_PLACES),
        ).fetchall()
    turns: dict[int, tuple[tuple[bytes, ...], int]] = {}
    for hash_, turn, messages in rows:
        turns[turn] = ((*turns.get(turn, ((), 0))[0], bytes(hash_)), messages)
    return [turns[turn] for turn in sorted(turns)]
