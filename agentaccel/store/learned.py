"""What workloads have taught, kept in memory: what a store would hold of them, for a program without one and for a
replay."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agentaccel.cache.beliefs import Beliefs, Observation, remembered
from agentaccel.cache.waiting import MOST_WAITING, OpenEnd, with_waiting
from agentaccel.locks import Lock
from agentaccel.store.codec import TurnWrite, text

_MOST_WORKLOADS = 1_000
_MOST_BEGINNINGS = 20_000
"""What was not asked for since longest goes first."""


@dataclass(slots=True)
class Workloads:
    """Beliefs by workload, the sessions of each that nothing has followed yet, and when each beginning was last used.
    Thread-safe."""

    first: Beliefs = field(default_factory=Beliefs)
    """What is believed of a workload that nothing is known of."""
    _learned: OrderedDict[str, Beliefs] = field(default_factory=OrderedDict)
    _waiting: dict[str, OrderedDict[Hashable, OpenEnd]] = field(default_factory=dict)
    _last_used: OrderedDict[bytes, float] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    @property
    def learned(self) -> Mapping[str, Beliefs]:
        """What all sessions of each workload have shown."""
        with self._lock:
            return dict(self._learned)

    def believed(self, workload: str, now: float, *, tools: bool) -> Beliefs:
        """What a session that begins at `now` believes: what all have shown, and what is expected of those that may go
        on yet. Its prompts have `tools`, or none."""
        with self._lock:
            learned, silent = self._learned.get(workload, self.first), tuple(self._waiting.get(workload, {}).values())
        return with_waiting(learned, silent, now=now, tools=tools)

    def learn(self, workload: str, seen: Iterable[Observation]) -> None:
        """A session of `workload` has shown `seen`."""
        with self._lock:
            self._learned[workload] = self._learned.get(workload, self.first).learned(seen)
            self._learned.move_to_end(workload)
            while len(self._learned) > _MOST_WORKLOADS:
                gone, _ = self._learned.popitem(last=False)
                self._waiting.pop(gone, None)

    def answered(self, workload: str, session: Hashable, waiting: OpenEnd | None) -> None:
        """The last request of a session of `workload` was answered, and waits for the next one; None where it does
        not."""
        with self._lock:
            sessions = self._waiting.setdefault(workload, OrderedDict())
            sessions.pop(session, None)
            if waiting is not None:
                sessions[session] = waiting
            while len(sessions) > MOST_WAITING:
                sessions.popitem(last=False)

    def take(self, write: TurnWrite) -> None:
        """What a turn teaches."""
        row, record = write.session, write.record
        if row is not None:
            self.learn(row.workload, write.learned)
            self.answered(row.workload, row.id, write.waiting)
            self.used(write.beginnings, record.first_byte or record.finished or record.started)

    def used(self, beginnings: Iterable[bytes], at: float) -> None:
        """A session that begins so was answered at that time."""
        with self._lock:
            for one in beginnings:
                self._last_used[one] = at
                self._last_used.move_to_end(one)
            while len(self._last_used) > _MOST_BEGINNINGS:
                self._last_used.popitem(last=False)

    def last_used(self, beginning: bytes) -> float | None:
        """When a session that begins so was last answered."""
        return self._last_used.get(beginning)


# --- What the store holds of how workloads behave ---------------------------------------------------------------------


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


def _waiting(connection: sqlite3.Connection, workload: str) -> list[OpenEnd]:
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
    return [OpenEnd(turns - 1, turn, awaits or "", since) for turns, turn, awaits, since in rows if since is not None]
