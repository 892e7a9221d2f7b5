"""The only creator of threads and tasks: work that a session owns, done beside the agent's own, and gone with it.

A session that is left takes what it owns with it: what is due later is never begun, and what is under way is cancelled
where that can be (a task) or waited for (a thread, whose request ends by the client's own timeout). Nothing is created
before somebody asks for it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import heapq
import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Protocol, TypeVar, runtime_checkable

from agentaccel.clock import Clock
from agentaccel.locks import Lock, forks

log = logging.getLogger("agentaccel")

T = TypeVar("T")

_MOST_SECONDS = 10.0
"""How long leaving a session waits for a thread of its own that is in the middle of a request."""


@runtime_checkable
class Alarm(Protocol):
    """A clock that calls back by itself, as one that stands still until it is moved does."""

    def call_later(self, seconds: float, work: Callable[[], None]) -> None: ...


class Background:
    """Work owned by sessions. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._sooner = threading.Event()
        """Set when something has become due sooner than the thread knows."""
        self._order = count()
        self._due: list[tuple[float, int, _Later]] = []
        self._running: dict[str, list[_Running]] = {}
        self._thread: threading.Thread | None = None
        self._forks = forks()

    def later(self, owner: str, seconds: float, work: Callable[[], None]) -> Later:
        """Do `work` in `seconds`, unless `owner` is gone by then or what is returned was cancelled."""
        self._after_fork()
        later = _Later(owner, work)
        if isinstance(self._clock, Alarm):
            self._clock.call_later(max(seconds, 0.0), later.run)
            return later
        with self._lock:
            heapq.heappush(self._due, (self._clock.monotonic() + max(seconds, 0.0), next(self._order), later))
            if self._thread is None:
                self._thread = threading.Thread(target=self._keep_time, name="agentaccel", daemon=True)
                self._thread.start()
        self._sooner.set()
        return later

    def submit(self, owner: str, work: Callable[[], T]) -> Future[T]:
        """Do `work` in a thread of its own."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - it is whoever waits for the result that is told
                future.set_exception(error)

        self._own(owner, _Running(future, future.cancel))
        threading.Thread(target=run, name="agentaccel", daemon=True).start()
        return future

    def on_loop(
        self, owner: str, loop: asyncio.AbstractEventLoop, work: Callable[[], Awaitable[T]]
    ) -> Future[T | None]:
        """Await `work` in a task on `loop`, from whichever thread; what is returned is done when the task has ended.

        Its result is None where the task was cancelled.
        """
        over: Future[T | None] = Future()
        over.set_running_or_notify_cancel()
        tasks: list[asyncio.Task[T]] = []

        async def run() -> T:
            return await work()

        def start() -> None:
            if not over.done():
                tasks.append(loop.create_task(run()))
                tasks[0].add_done_callback(partial(_hand_over, over))

        def cancel() -> None:
            def now() -> None:
                if tasks:
                    tasks[0].cancel()
                elif not over.done():
                    over.set_result(None)

            _call(loop, now, over)

        self._own(owner, _Running(over, cancel))
        _call(loop, start, over)
        return over

    def left(self, owner: str) -> list[Future[Any]]:
        """Take back all that is due or under way for `owner`; returns what has not ended yet."""
        self._after_fork()
        with self._lock:
            for _, _, later in self._due:
                if later.owner == owner:
                    later.cancel()
            running = list(self._running.get(owner, ()))
        for one in running:
            one.cancel()
        return [one.over for one in running if not one.over.done()]

    def leave(self, owner: str) -> None:
        """The same, and wait for what blocks a thread; tasks end by themselves as soon as their loop goes on."""
        waiting = self.left(owner)
        if waiting and not _in_a_loop():
            concurrent.futures.wait(waiting, timeout=_MOST_SECONDS)

    async def leave_async(self, owner: str) -> None:
        """The same on an event loop; tasks have ended when this returns."""
        waiting = self.left(owner)
        if waiting:
            await asyncio.wait([asyncio.wrap_future(future) for future in waiting], timeout=_MOST_SECONDS)

    def close(self) -> None:
        """Take back everything."""
        with self._lock:
            owners = {later.owner for _, _, later in self._due} | set(self._running)
        for owner in owners:
            self.leave(owner)

    def _own(self, owner: str, running: _Running) -> None:
        self._after_fork()
        with self._lock:
            self._running.setdefault(owner, []).append(running)
        running.over.add_done_callback(lambda done: self._disown(owner, running))

    def _disown(self, owner: str, running: _Running) -> None:
        with self._lock:
            owned = self._running.get(owner, [])
            if running in owned:
                owned.remove(running)
            if not owned:
                self._running.pop(owner, None)

    def _keep_time(self) -> None:
        while True:
            self._sooner.clear()
            with self._lock:
                now = self._clock.monotonic()
                later = heapq.heappop(self._due)[2] if self._due and self._due[0][0] <= now else None
                until = self._due[0][0] - now if self._due else None
            if later is not None:
                later.run()
            else:
                self._sooner.wait(until)

    def _after_fork(self) -> None:
        """The parent's thread is not here, and what it was about to do, the parent does."""
        if self._forks != forks():
            self._forks = forks()
            self._lock, self._sooner = Lock(), threading.Event()
            self._due, self._running, self._thread = [], {}, None


@dataclass(frozen=True, slots=True, eq=False)
class _Running:
    """Work under way."""

    over: Future[Any]
    cancel: Callable[[], object]


def _call(loop: asyncio.AbstractEventLoop, work: Callable[[], None], over: Future[Any]) -> None:
    try:
        loop.call_soon_threadsafe(work)
    except RuntimeError as error:  # the loop is closed, and its tasks with it
        if not over.done():
            over.set_exception(error)


def _hand_over(over: Future[T | None], task: asyncio.Task[T]) -> None:
    if task.cancelled():
        over.set_result(None)
    elif (error := task.exception()) is not None:
        over.set_exception(error)
    else:
        over.set_result(task.result())


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class Later(Protocol):
    """Work that is due later."""

    def cancel(self) -> None: ...


@dataclass(slots=True)
class _Later:
    owner: str
    work: Callable[[], None] | None
    _lock: Lock = field(default_factory=Lock)

    def run(self) -> None:
        with self._lock:
            work, self.work = self.work, None
        if work is None:
            return
        try:
            work()
        except Exception:
            log.exception("agentaccel: work in the background failed")

    def cancel(self) -> None:
        with self._lock:
            self.work = None
