"""Where a provider chooses a machine by the beginning of a prompt and a key: which key a conversation gets.

One machine stands so many requests a minute of one beginning; what comes beyond goes to others, which have not seen
it. So conversations that begin alike share a machine for as long as they fit, and are spread over more machines, each
conversation on one of its own choice, once they do not:

    shard = shard_of(name, traffic.loads(front, …), adds=…, most=…)     a new conversation's, which it keeps
    traffic.sent(front, shard, name, now)                               each of its requests

Every further machine has to compute once what all begin with, so there are no more of them than the traffic needs.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from agentaccel.locks import Lock

_MINUTE = 60.0
_MOST_FRONTS = 1024
"""Beginnings remembered."""
_MOST_TIMES = 256
"""Requests of one conversation that are counted in a minute."""


def shard_of(name: str, loads: Mapping[int, float], *, adds: float, most: float) -> int:
    """The shard for a new conversation called `name` that adds so much to `loads` (requests a minute, by shard).

    The first one that has room among as many as the traffic needs, in an order of the conversation's own, so that all
    processes agree; then any that is in use already, and at last a new one.

    >>> [shard_of(name, {}, adds=4.0, most=12.0) for name in "abcdef"]
    [0, 0, 0, 0, 0, 0]
    >>> shard_of("a", {0: 12.0}, adds=4.0, most=12.0), shard_of("a", {0: 12.0, 1: 12.0, 5: 4.0}, adds=4.0, most=12.0)
    (1, 2)
    """
    adds = min(adds, most)
    needed = max(1, math.ceil((sum(loads.values()) + adds) / most))
    preferred = sorted(range(needed), key=lambda shard: _weight(name, shard), reverse=True)
    for shard in (*preferred, *sorted(loads)):
        if loads.get(shard, 0.0) + adds <= most:
            return shard
    return next(shard for shard in range(len(loads) + 1) if shard not in loads)


def _weight(name: str, shard: int) -> bytes:
    """Rendezvous: which shards a conversation prefers does not depend on how many there are."""
    return blake2b(f"{shard} {name}".encode("utf-8", "replace"), digest_size=8).digest()


@dataclass(slots=True)
class _Talk:
    """A conversation that was heard of in the last minute."""

    shard: int
    since: float
    times: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_TIMES))


@dataclass(slots=True)
class Traffic:
    """What this process has sent in the last minute, by beginning. Thread-safe; reads no clock."""

    _fronts: OrderedDict[str, dict[str, _Talk]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def sent(self, front: str, shard: int, name: str, now: float) -> None:
        """A request of the conversation called `name` goes out."""
        with self._lock:
            talks = self._fronts.setdefault(front, {})
            talk = talks.get(name)
            if talk is None or talk.shard != shard or talk.times[-1] <= now - _MINUTE:
                talk = talks[name] = _Talk(shard, now)
            talk.times.append(now)
            self._fronts.move_to_end(front)
            while len(self._fronts) > _MOST_FRONTS:
                self._fronts.popitem(last=False)

    def loads(self, front: str, now: float, expected: float) -> dict[int, float]:
        """Requests a minute by shard; a conversation that is younger than that counts for `expected` at least."""
        loads: dict[int, float] = {}
        with self._lock:
            talks = self._fronts.get(front, {})
            for name in [name for name, talk in talks.items() if talk.times[-1] <= now - _MINUTE]:
                del talks[name]
            for talk in talks.values():
                while talk.times[0] <= now - _MINUTE:
                    talk.times.popleft()
                young = talk.since > now - _MINUTE
                count = float(len(talk.times))
                loads[talk.shard] = loads.get(talk.shard, 0.0) + (max(count, expected) if young else count)
        return loads
