"""How long tools and replies take: a bounded sketch of each one's times, and what of them a launch would hide.

Times are counted in buckets whose bounds grow geometrically, so a quantile is right within 5 % of itself whatever the
scale (DDSketch: Masson, Rim and Lee, 2019). The buckets reach from 0.1 ms to a day, so there are at most 206 of them.

>>> sketch = Sketch()
>>> for seconds in (1.0, 2.0, 2.0, 3.0):
...     sketch.add(seconds)
>>> round(sketch.quantile(0.5)), round(sketch.mean_min(10.0)), round(sketch.mean_min(1.0), 1)
(2, 2, 1.0)
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from agentaccel.predict.breaker import stated

_ACCURACY = 0.05
_GROWTH = (1 + _ACCURACY) / (1 - _ACCURACY)
_LOG_GROWTH = math.log(_GROWTH)
_LEAST, _MOST = 1e-4, 86400.0
MEMORY = 512.0
"""When so many times are counted all counts are halved: a tool may become faster."""
MOST_TOOLS = 512
"""Tools of which times are kept; the one that was not seen for longest goes."""

_MOST_KEPT = 4096
"""Overlaps that are kept until times change; working one out takes several times as long as finding it."""


class Sketch:
    """Times in seconds, counted. Not thread-safe."""

    __slots__ = ("_counts", "_sums", "_times", "_values", "count")

    def __init__(self, counts: Mapping[int, float] | None = None) -> None:
        self._counts = dict(counts or {})
        self.count = sum(self._counts.values())
        """How many times are counted; the old ones count less."""
        self._values: list[float] = []
        """The middles of the buckets, ascending; empty until they are asked for."""
        self._times: list[float] = []
        """The seconds in each bucket and those below it."""
        self._sums: list[float] = []
        """The times in each bucket and those below it."""

    def add(self, seconds: float, weight: float = 1.0) -> None:
        """Count a time; what is no number of seconds is left out."""
        if not 0.0 <= seconds < math.inf:
            return
        bucket = math.ceil(math.log(min(max(seconds, _LEAST), _MOST)) / _LOG_GROWTH)
        self._counts[bucket] = self._counts.get(bucket, 0.0) + weight
        self.count += weight
        if self.count > MEMORY:
            self._counts = {one: count / 2 for one, count in self._counts.items() if count > 1 / MEMORY}
            self.count = sum(self._counts.values())
        self._values = []

    def merge(self, other: Sketch) -> None:
        """Count what another one has counted."""
        for bucket, weight in other._counts.items():
            self.add(_middle(bucket), weight)

    def mean_min(self, limit: float) -> float:
        """The mean of the times, each cut at `limit`: what of a run fits in so many seconds. 0 where nothing is known.

        >>> Sketch().mean_min(1.0)
        0.0
        """
        if not self._ready():
            return 0.0
        below = bisect_right(self._values, limit)
        inside, counted = (self._times[below - 1], self._sums[below - 1]) if below else (0.0, 0.0)
        return (inside + (self.count - counted) * limit if counted < self.count else inside) / self.count

    def quantile(self, share: float, *, beyond: float = 0.0) -> float:
        """The time that `share` of those above `beyond` do not exceed; `beyond` where none is above it."""
        if not self._ready():
            return beyond
        below = bisect_right(self._values, beyond)
        counted = self._sums[below - 1] if below else 0.0
        if counted >= self._sums[-1]:
            return beyond
        wanted = counted + share * (self._sums[-1] - counted)
        return self._values[min(bisect_left(self._sums, wanted, lo=below), len(self._sums) - 1)]

    def _ready(self) -> bool:
        if not self._values and self._counts:
            buckets = sorted(self._counts)
            self._values = [_middle(bucket) for bucket in buckets]
            self._sums = list(accumulate(self._counts[bucket] for bucket in buckets))
            self._times = list(
                accumulate(self._counts[bucket] * value for bucket, value in zip(buckets, self._values, strict=True))
            )
        return bool(self._values)

    def dump(self) -> dict[str, float]:
        """The counts as JSON values."""
        return {str(bucket): count for bucket, count in sorted(self._counts.items())}

    @classmethod
    def load(cls, counts: Mapping[str, float]) -> Sketch:
        """What `dump` gave; what is no bucket or no count is left out."""
        sketch = cls()
        for bucket, count in counts.items():
            if bucket.lstrip("-").isdigit() and isinstance(count, int | float) and 0.0 < count < math.inf:
                sketch.add(_middle(max(min(int(bucket), 1000), -1000)), min(float(count), MEMORY))
        return sketch


def _middle(bucket: int) -> float:
    return 2 * math.exp(bucket * _LOG_GROWTH) / (_GROWTH + 1)


def sketch_of(seconds: Sequence[float]) -> Sketch:
    """Equally likely times, worth one occasion together."""
    sketch = Sketch()
    for one in seconds:
        sketch.add(one, 1 / len(seconds))
    return sketch


class Latencies:
    """How long each tool takes. A tool of which little is known is taken to be like the others. Not thread-safe."""

    __slots__ = ("_any", "_known", "_overlaps", "_prior")

    def __init__(self) -> None:
        self._known: dict[str, Sketch] = {}
        self._any = Sketch()
        self._prior = sketch_of(stated().tool_seconds)
        self._overlaps: dict[tuple[str, tuple[float, ...]], float] = {}

    def saw(self, tool: str, seconds: float) -> None:
        """A run of `tool` took so long; of failures only those count that a user would have waited for."""
        sketch = self._known.pop(tool, None) or Sketch()
        if len(self._known) >= MOST_TOOLS:
            del self._known[next(iter(self._known))]
        self._known[tool] = sketch
        sketch.add(seconds)
        self._any.add(seconds)
        self._overlaps.clear()

    def overlap(self, tool: str, room: tuple[float, ...]) -> float:
        """E[min(L, R)]: the seconds of a run that fit before its result is needed, in equally likely times R.

        >>> latencies = Latencies()
        >>> for _ in range(50):
        ...     latencies.saw("search", 2.0)
        >>> round(latencies.overlap("search", (1.0, 3.0)), 1)
        1.5
        """
        found = self._overlaps.get((tool, room))
        if found is None:
            if len(self._overlaps) >= _MOST_KEPT:
                self._overlaps.clear()
            found = self._overlaps[tool, room] = sum(self._mean_min(tool, one) for one in room) / len(room)
        return found

    def mean(self, tool: str) -> float:
        """The expected seconds of a run."""
        return self.overlap(tool, (_MOST,))

    def quantile(self, tool: str, share: float) -> float:
        """The time that `share` of the runs do not exceed, by the best that is known of the tool."""
        return next(
            sketch.quantile(share)
            for sketch in (self._known.get(tool), self._any, self._prior)
            if sketch is not None and sketch.count
        )

    def _mean_min(self, tool: str, limit: float) -> float:
        """Each level is worth one occasion to the one below it: what is stated, all tools, this tool."""
        expected = self._prior.mean_min(limit)
        for sketch in (self._any, self._known.get(tool)):
            if sketch is not None:
                expected = (expected + sketch.count * sketch.mean_min(limit)) / (1.0 + sketch.count)
        return expected

    def merge(self, other: Latencies) -> None:
        """Learn what another process has learned."""
        for tool, sketch in other._known.items():
            if tool in self._known or len(self._known) < MOST_TOOLS:
                self._known.setdefault(tool, Sketch()).merge(sketch)
        self._any.merge(other._any)
        self._overlaps.clear()

    def dump(self) -> dict[str, dict[str, float]]:
        """What was learned, as JSON values: by tool."""
        return {tool: sketch.dump() for tool, sketch in self._known.items()}

    @classmethod
    def load(cls, data: Mapping[str, Mapping[str, float]]) -> Latencies:
        """What `dump` gave."""
        latencies = cls()
        for tool, counts in list(data.items())[-MOST_TOOLS:]:
            latencies._known[tool] = Sketch.load(counts)
            latencies._any.merge(latencies._known[tool])
        return latencies


# --- How long it takes until the result of an early run is needed: the runway -----------------------------------------
# For a call of the very next reply that is what is left of this one; for a call of a later reply the steps in between
# come on top, since the result stays valid until something may write (AOSpec, 2608.00881: decode and tool times
# between the launch and the need).

_LEVELS = (0.125, 0.375, 0.625, 0.875)
"""Quantiles that stand for the whole distribution, equally likely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runway:
    """Seconds until results are needed."""

    next: tuple[float, ...]
    """Equally likely times until the next reply asks for its calls."""
    later: tuple[float, ...]
    """The same for a reply after that one."""


def runway(replies: Sketch, step: float, elapsed: float = 0.0) -> Runway:
    """What is left of a reply that was asked for `elapsed` seconds ago, by the times that replies have taken.

    `step` is what one more turn takes: its tools and its reply.

    >>> from agentaccel.predict.latency import sketch_of
    >>> replies = sketch_of([4.0] * 8)
    >>> [round(one) for one in runway(replies, 5.0).next], [round(one) for one in runway(replies, 5.0, 3.0).later]
    ([4, 4, 4, 4], [6, 6, 6, 6])
    """
    left = tuple(max(replies.quantile(level, beyond=elapsed) - elapsed, 0.0) for level in _LEVELS)
    return Runway(next=left, later=tuple(one + step for one in left))


def typical_step(replies: Sketch, latencies: Latencies) -> float:
    """The expected seconds of one turn: a reply and one run of any tool."""
    return replies.quantile(0.5) + latencies.mean("")
