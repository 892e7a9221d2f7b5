"""The server's two ways with time: virtual, where no one waits, and real, where every byte leaves when it is due."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Protocol

from agentaccel.clock import ManualClock


class Pace(Protocol):
    """How the server brings about the moment at which bytes are due."""

    def reach(self, moment: float) -> None:
        """Return when the server's clock has reached `moment`, or at once where time is not kept."""
        ...


@dataclass(slots=True)
class RealClock:
    """The machine's time plus what it has been advanced by."""

    ahead: float = 0.0
    """Seconds ahead of the machine's clock."""

    def wall(self) -> float:
        return time.time() + self.ahead

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def advance(self, seconds: float) -> None:
        """Move both readings forward by `seconds` (≥ 0)."""
        if seconds < 0:
            raise ValueError("a clock cannot be moved back")
        self.ahead += seconds


@dataclass(slots=True)
class Sleeping:
    """Real time: wait until the moment has come."""

    clock: RealClock
    """The server's clock."""
    stopped: threading.Event = field(default_factory=threading.Event)
    """Set when the server stops, so that no one waits on."""

    def reach(self, moment: float) -> None:
        while (left := moment - self.clock.wall()) > 0 and not self.stopped.wait(min(left, 0.5)):
            pass


@dataclass(slots=True)
class Advancing:
    """Virtual time: move the clock to the moment, unless it is past it."""

    clock: ManualClock
    """The server's clock, which tests may share."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def reach(self, moment: float) -> None:
        with self._lock:
            # Assigned, not advanced by a difference: the very moment is when an entry becomes visible.
            self.clock.now = max(self.clock.now, moment)


@dataclass(frozen=True, slots=True)
class Still:
    """Virtual time that only the test moves."""

    def reach(self, moment: float) -> None:
        return None
