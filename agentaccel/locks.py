"""Locks of ours, and work that must not run inside one.

The garbage collector may run anywhere, also inside our own locked regions, and what it drops may be the last reference
to a stream whose turn then ends. Ending a turn takes the same locks, so it is put off until this thread holds none.

A process may be forked at any moment, and its child has none of the other threads: a lock that one of them held would
never be free. So every lock is a new one in the child. Code that is not ours (SQLite's) and does not survive a fork is
brought to rest before one.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from itertools import count
from types import TracebackType
from typing import Any
from weakref import WeakMethod, WeakSet, WeakValueDictionary

_FORK_WAITS = 2.0
"""Seconds that a fork waits for such a lock: several times what a busy store may take."""


class _Held(threading.local):
    """What this thread holds. Made when it is first asked for: the garbage collector may run while a thread's own are
    being made, and what it drops asks for them, too."""

    late: deque[Callable[[], None]]
    acquired: list[tuple[Lock, Any]]
    """The locks, innermost last, each with what is acquired for it: a fork inside replaces that."""
    over_fork: list[Any]

    def __getattr__(self, name: str) -> Any:
        if name not in _Held.__annotations__:
            raise AttributeError(name)
        return self.__dict__.setdefault(name, deque() if name == "late" else [])


_held = _Held()
_all: WeakSet[Lock] = WeakSet()
_at_fork: WeakValueDictionary[int, Lock] = WeakValueDictionary()
"""By age, which is the order in which a fork takes them."""
_ages = count()
_forks = 0


def forks() -> int:
    """How often this process was forked on its way here: what another thread was about to do then, nobody does now."""
    return _forks


class Lock:
    """A re-entrant lock; `when_free` knows whether this thread holds one. Use it as a context manager.

    `before_fork`: a method called, in this lock, before the process is forked. A fork waits for such a lock, so nothing
    else of ours may be locked inside one.
    """

    __slots__ = ("__weakref__", "_before_fork", "_lock")

    def __init__(self, *, before_fork: Callable[[], None] | None = None) -> None:
        self._lock = threading.RLock()
        self._before_fork = WeakMethod(before_fork) if before_fork is not None else None
        _all.add(self)
        if before_fork is not None:
            _at_fork[next(_ages)] = self

    def __enter__(self) -> None:
        lock = self._lock
        _held.acquired.append((self, lock))
        try:
            lock.acquire()
        except BaseException:  # interrupted while waiting
            _held.acquired.pop()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        acquired = _held.acquired
        at = len(acquired) - 1
        while acquired[at][0] is not self:  # a generator that holds one may end out of order
            at -= 1
        acquired.pop(at)[1].release()
        while not acquired and _held.late:
            _held.late.popleft()()


def when_free(work: Callable[[], None]) -> None:
    """Do `work` now, or as soon as this thread holds no `Lock`."""
    if _held.acquired and _really_held():
        _held.late.append(work)
    else:
        work()


def _really_held() -> bool:
    """Whether this thread holds a lock indeed: an interruption at the wrong moment leaves an entry without one."""
    _held.acquired[:] = [one for one in _held.acquired if one[1]._is_owned()]
    return bool(_held.acquired)


def _before_fork() -> None:
    for reference in _at_fork.valuerefs():
        lock = reference()
        if lock is None or lock._before_fork is None:
            continue
        inner, come_to_rest = lock._lock, lock._before_fork()
        if inner.acquire(timeout=_FORK_WAITS):
            _held.over_fork.append(inner)
            if come_to_rest is not None:
                come_to_rest()


def _after_in_parent() -> None:
    while _held.over_fork:
        _held.over_fork.pop().release()


def _after_in_child() -> None:
    global _forks
    _forks += 1
    _after_in_parent()  # where the forking thread itself held one, it releases it later
    _held.late.clear()  # the parent does it
    for lock in _all:
        lock._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
