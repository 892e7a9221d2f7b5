"""How much of its rate limit each tool has left: the runs of the last minute, early ones too, against what is declared.

A sliding window of the times of the last runs, which is exact and holds no more times than the limit has runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

MINUTE = 60.0


class Rates:
    """Runs by tool. Thread-safe without a lock.

    >>> rates = Rates({"search": 10})
    >>> for second in range(8):
    ...     rates.ran("search", float(second))
    >>> round(rates.headroom("search", 30.0), 2), round(rates.headroom("search", 63.5), 2), rates.headroom("look", 30.0)
    (0.2, 0.6, 1.0)
    """

    __slots__ = ("_limits", "_runs")

    def __init__(self, limits: Mapping[str, int]) -> None:
        """`limits`: by name of a tool, the runs that it stands in a minute."""
        self._limits = dict(limits)
        self._runs = {name: deque[float](maxlen=limit) for name, limit in limits.items()}

    def limit(self, tool: str) -> int | None:
        """Its runs in a minute; None where that is not limited."""
        return self._limits.get(tool)

    def ran(self, tool: str, now: float) -> None:
        """A run of it begins, at that monotonic time."""
        runs = self._runs.get(tool)
        if runs is not None:
            runs.append(now)

    def headroom(self, tool: str, now: float) -> float:
        """The share of its limit that is left, from 0 to 1."""
        limit = self._limits.get(tool)
        if limit is None:
            return 1.0
        return 1.0 - sum(now - began < MINUTE for began in tuple(self._runs[tool])) / limit
