"""Two clocks, both injectable: wall time for lifetimes that other processes share, monotonic time for latencies.

Nothing that decides reads a clock by itself; time comes in as a parameter.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def wall(self) -> float:
        """Seconds since the epoch; comparable between processes, may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds since an arbitrary point; never goes back; only differences mean something."""
        ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The clocks of the machine."""

    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass(slots=True)
class ManualClock:
    """A clock that stands still until it is moved; both readings advance together."""

    now: float = 1_700_000_000.0
    """Seconds since the epoch."""

    def wall(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Move both clocks forward by `seconds` (≥ 0)."""
        if seconds < 0:
            raise ValueError("a clock cannot be moved back")
        self.now += seconds
