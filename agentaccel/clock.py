"""Two clocks, both injectable: wall time for lifetimes that other processes share, monotonic time for latencies.

Nothing that decides reads a clock by itself; time comes in as a parameter.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


class Clock(Protocol):
    """Where the time comes from."""

    def wall(self) -> float:
        """Seconds since the epoch; comparable between processes, may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary point; never goes back; only differences mean something."""
        ...


@runtime_checkable
class Alarm(Protocol):
    """A clock that calls back by itself, as one that stands still until it is moved does."""

    def call_later(self, seconds: float, work: Callable[[], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The clocks of the machine."""

    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass(slots=True)
class ManualClock:
    """A clock that stands still until it is moved; both readings advance together.

    What was to be called on the way is called at its time, by whoever moves the clock.
    """

    now: float = 1_700_000_000.0
    """Seconds since the epoch."""
    _calls: list[tuple[float, int, Callable[[], object]]] = field(default_factory=list, repr=False)
    _count: int = field(default=0, repr=False)

    def wall(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Move both clocks forward by `seconds` (≥ 0)."""
        if seconds < 0:
            raise ValueError("a clock cannot be moved back")
        self.advance_to(self.now + seconds)

    def advance_to(self, until: float) -> None:
        """Move both clocks forward to that time; one that is past changes nothing."""
        while self._calls and self._calls[0][0] <= until:
            at, _, work = heapq.heappop(self._calls)
            self.now = max(self.now, at)
            work()
        self.now = max(self.now, until)

    def until_next(self) -> float | None:
        """Seconds until something is to be called; None where nothing is."""
        return max(self._calls[0][0] - self.now, 0.0) if self._calls else None

    def call_later(self, seconds: float, work: Callable[[], None]) -> None:
        """Call `work` once the clock has moved by `seconds`."""
        self.call_at(self.now + seconds, work)

    def call_at(self, at: float, work: Callable[[], object]) -> None:
        """Call `work` once the clock has moved to that time."""
        self._count += 1
        heapq.heappush(self._calls, (at, self._count, work))
