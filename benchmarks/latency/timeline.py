"""Virtual time: what happens when, and who has a slot."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count


class Timeline:
    """Events in the order of their times; those of one time in the order in which they were announced.

    >>> timeline, seen = Timeline(), []
    >>> timeline.at(2.0, lambda: seen.append(timeline.now))
    >>> timeline.at(1.0, lambda: seen.append(timeline.now))
    >>> timeline.until(3.0)
    >>> seen, timeline.now
    ([1.0, 2.0], 3.0)
    """

    __slots__ = ("_events", "_order", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._order = count()

    def at(self, time: float, do: Callable[..., None], *given: object) -> None:
        """Do something at a time, not before now."""
        heappush(self._events, (time, next(self._order), do, given))

    def step(self) -> None:
        """Go on to the next event."""
        self.now, _, do, given = heappop(self._events)
        do(*given)

    def until(self, time: float) -> None:
        """Go on to a time, with all that happens on the way."""
        while self._events and self._events[0][0] <= time:
            self.step()
        self.now = time


class Slots:
    """Runs that are possible at once; who finds none free waits in order."""

    __slots__ = ("_queue", "free", "total")

    def __init__(self, total: int | None) -> None:
        self.total = total
        """None for no limit."""
        self.free: float = math.inf if total is None else total
        self._queue: deque[Callable[[], None]] = deque()

    def take(self, begin: Callable[[], None]) -> bool:
        """Begin once there is a slot; whether that is now."""
        if self.free > 0:
            self.free -= 1
            begin()
            return True
        self._queue.append(begin)
        return False

    def release(self) -> None:
        """A run has ended."""
        if self._queue:
            self._queue.popleft()()
        else:
            self.free += 1

    @property
    def waiting(self) -> int:
        """Runs that have no slot yet."""
        return len(self._queue)
