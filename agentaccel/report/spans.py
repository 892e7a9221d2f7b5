"""Times that overlap, counted once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class Covered:
    """The length of a union of intervals that arrive in the order in which they begin."""

    seconds: float = 0.0
    until: float = 0.0

    def add(self, start: float, end: float) -> None:
        """An interval; what the ones before it covered counts once."""
        if end > self.until:
            self.seconds += end - max(start, self.until)
            self.until = end

    def add_all(self, spans: Iterable[tuple[float, float]]) -> None:
        """Several intervals."""
        seconds, until = self.seconds, self.until
        for start, end in spans:
            if end > until:
                seconds += end - (start if start > until else until)
                until = end
        self.seconds, self.until = seconds, until
