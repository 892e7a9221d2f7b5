"""Locks of ours, and work that must not run inside one.

The garbage collector may run anywhere, also inside our own locked regions, and what it drops may be the last reference
to a stream whose turn then ends. Ending a turn takes the same locks, so it is put off until this thread holds none.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType


class _Held(threading.local):
    """What this thread holds."""

    def __init__(self) -> None:
        self.depth = 0
        self.late: deque[Callable[[], None]] = deque()


_held = _Held()


class Lock:
    """A re-entrant lock; `when_free` knows whether this thread holds one. Use it as a context manager."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        _held.depth += 1
        try:
            self._lock.acquire()
        except BaseException:  # interrupted while waiting
            _held.depth -= 1
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()
        _held.depth -= 1
        while not _held.depth and _held.late:
            _held.late.popleft()()


def when_free(work: Callable[[], None]) -> None:
    """Do `work` now, or as soon as this thread holds no `Lock`."""
    if _held.depth:
        _held.late.append(work)
    else:
        work()
