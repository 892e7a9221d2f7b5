"""What the store holds of how workloads behave."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from agentaccel.cache.beliefs import Beliefs, Observation, remembered
from agentaccel.cache.waiting import MOST_WAITING, Waiting, with_waiting
from agentaccel.trace.record import text


def believed(connection: sqlite3.Connection, workload: str, now: float, *, tools: bool) -> Beliefs:
    """What all sessions of `workload` have shown, and what is expected of those that may go on yet."""
    rows = connection.execute("SELECT topic, yes, n FROM beliefs WHERE workload = ?", (workload,))
    learned = Beliefs({topic: (yes, n) for topic, yes, n in rows})
    return with_waiting(learned, _waiting(connection, workload), now=now, tools=tools) if learned.counts else learned


def learn(connection: sqlite3.Connection, workload: str, seen: Sequence[Observation]) -> None:
    """Add what a session of `workload` has shown, as `Beliefs.learned` does: here in one statement, because a turn
    teaches about a few topics of what may be hundreds, and each turn does.
    """
    connection.executemany(
        "INSERT INTO beliefs (workload, topic, yes, n) VALUES (?1, ?2, ?3, ?4) ON CONFLICT (workload, topic) DO UPDATE"
        " SET yes = yes * min(1.0, ?5 / max(n, 1.0)) + excluded.yes, n = min(n, ?5) + excluded.n",
        [
            (workload, topic if topic.isascii() else text(topic), yes, n, remembered(topic) if n else _ALL)
            for topic, yes, n in seen
        ],
    )


_ALL = 1e308
"""More occasions than there are."""


def _waiting(connection: sqlite3.Connection, workload: str) -> list[Waiting]:
    """The last requests of the sessions of `workload` that the latest turns are of."""
    fields = ", ".join(
        f"json_extract(s.state, '$.{name}')" for name in ("turns", "last_turn", "awaits", "last_started")
    )
    rows = connection.execute(
        f"SELECT {fields} FROM"
        " (SELECT DISTINCT session FROM (SELECT session FROM turns WHERE id > 0 ORDER BY started DESC LIMIT ?)) t"
        " JOIN sessions s ON s.id = t.session WHERE s.workload = ? AND json_valid(s.state)",
        (MOST_WAITING, workload),
    )
    return [Waiting(turns - 1, turn, awaits or "", since) for turns, turn, awaits, since in rows if since is not None]
