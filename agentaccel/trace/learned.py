"""What the store holds of how workloads behave."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

from agentaccel.cache.beliefs import Beliefs
from agentaccel.cache.waiting import MOST_WAITING, Waiting, with_waiting


def believed(connection: sqlite3.Connection, workload: str, now: float, *, tools: bool) -> Beliefs:
    """What all sessions of `workload` have shown, and what is expected of those that may go on yet."""
    rows = connection.execute("SELECT topic, yes, n FROM beliefs WHERE workload = ?", (workload,))
    learned = Beliefs({topic: (yes, n) for topic, yes, n in rows})
    return with_waiting(learned, _waiting(connection, workload), now=now, tools=tools) if learned.counts else learned


def beliefs_about(connection: sqlite3.Connection, workload: str, topics: Collection[str]) -> Beliefs:
    """What they have shown of `topics` alone: a turn teaches about a few of what may be hundreds."""
    rows = connection.execute(
        f"SELECT topic, yes, n FROM beliefs WHERE workload = ? AND topic IN ({','.join('?' * len(topics))})",
        (workload, *topics),
    )
    return Beliefs({topic: (yes, n) for topic, yes, n in rows})


def _waiting(connection: sqlite3.Connection, workload: str) -> list[Waiting]:
    """The last requests of the sessions of `workload` that the latest turns are of."""
    fields = ", ".join(
        f"json_extract(s.state, '$.{name}')" for name in ("turns", "last_turn", "awaits", "last_started")
    )
    rows = connection.execute(
        f"SELECT {fields} FROM"
        " (SELECT DISTINCT session FROM (SELECT session FROM turns ORDER BY started DESC LIMIT ?)) t"
        " JOIN sessions s ON s.id = t.session WHERE s.workload = ? AND json_valid(s.state)",
        (MOST_WAITING, workload),
    )
    return [Waiting(turns - 1, turn, awaits or "", since) for turns, turn, awaits, since in rows if since is not None]
