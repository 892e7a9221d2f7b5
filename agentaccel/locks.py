"""Locks of ours, and work that must not run inside one.

The garbage collector may run anywhere, also inside our own locked regions, and what it drops may be the last reference
to a stream whose turn then ends. Ending a turn takes the same locks, so it is put off until this thread holds none.

A process may be forked at any moment, and its child has none of the other threads: a lock that one of them held would
never be free. So every lock is a new one in the child, but for those that the forking thread holds itself. Code that is
not ours (SQLite's) and does not survive a fork is brought to rest before one.
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


_entered: list[Any] = []
"""The locks that threads are inside of, or about to be: a thread that owns none of them is inside of none. One list for
all, each change of which is one operation: what belongs to a thread alone costs several times as much to get at."""
_late: dict[int, deque[Callable[[], None]]] = {}
"""What a thread has put off, by its number."""
_catching_up: set[int] = set()
"""The numbers of threads that are doing what they have put off."""
_over_fork: dict[int, list[Any]] = {}
"""The locks that a thread holds while it forks, by its number."""
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
        self._lock: Any = threading.RLock()
        self._before_fork = WeakMethod(before_fork) if before_fork is not None else None
        _all.add(self)
        if before_fork is not None:
            _at_fork[next(_ages)] = self

    def __enter__(self) -> None:
        lock = self._lock
        _entered.append(lock)
        try:
            lock.acquire()
        except BaseException:  # interrupted while waiting
            _entered.remove(lock)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lock = self._lock
        lock.release()
        _entered.remove(lock)
        if _late:
            _catch_up()


def when_free(work: Callable[[], None]) -> None:
    """Do `work` now, or as soon as this thread holds no `Lock`."""
    if _is_inside():
        _late.setdefault(threading.get_ident(), deque()).append(work)
    else:
        work()


def _is_inside() -> bool:
    """Whether this thread holds a lock. An interruption at the wrong moment leaves an entry without one."""
    # A copy by `list`: `tuple`'s may run the garbage collector while it reads, and that may leave and enter locks.
    return any([lock._is_owned() for lock in list(_entered)])


def _catch_up() -> None:
    """Do what this thread has put off, unless it is just doing so: some of it may take locks itself."""
    me = threading.get_ident()
    if me in _catching_up:
        return
    _catching_up.add(me)
    try:
        while not _is_inside():
            late = _late.get(me)  # asked each time: a fork may have emptied it
            if not late:
                _late.pop(me, None)
                return
            late.popleft()()
    finally:
        _catching_up.discard(me)


def _before_fork() -> None:
    for reference in _at_fork.valuerefs():
        lock = reference()
        if lock is None or lock._before_fork is None:
            continue
        inner, come_to_rest = lock._lock, lock._before_fork()
        if inner.acquire(timeout=_FORK_WAITS):
            _over_fork.setdefault(threading.get_ident(), []).append(inner)
            if come_to_rest is not None:
                come_to_rest()


def _after_in_parent() -> None:
    for inner in reversed(_over_fork.pop(threading.get_ident(), ())):
        inner.release()


def _after_in_child() -> None:
    global _forks
    _forks += 1
    _after_in_parent()
    _over_fork.clear()
    _late.clear()  # the parent does it
    _catching_up.intersection_update({threading.get_ident()})
    _entered[:] = [lock for lock in _entered if lock._is_owned()]
    for lock in _all:
        if not lock._lock._is_owned():  # what the forking thread is inside of, it goes on to hold
            lock._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
