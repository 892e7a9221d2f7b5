"""What workloads have taught, kept in memory: what a store would hold of them, for a program without one and for a
replay."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field

from agentaccel.cache.beliefs import Beliefs, Observation
from agentaccel.cache.waiting import MOST_WAITING, Waiting, with_waiting
from agentaccel.locks import Lock
from agentaccel.trace.record import TurnWrite

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
    _waiting: dict[str, OrderedDict[Hashable, Waiting]] = field(default_factory=dict)
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

    def answered(self, workload: str, session: Hashable, waiting: Waiting | None) -> None:
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
