"""The only creator of threads and tasks: work that a session owns, done beside the agent's own, and gone with it.

A session that is left takes what it owns with it: what is due later is never begun, and what is under way is cancelled
where that can be (a task) or waited for (a thread, whose request ends by the client's own timeout). Nothing is created
before somebody asks for it.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import heapq
import logging
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor, Future
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from queue import Empty, SimpleQueue
from typing import Any, ParamSpec, Protocol, TypeVar
from weakref import WeakSet

from agentaccel.clock import Alarm, Clock
from agentaccel.locks import Lock, forks

log = logging.getLogger("agentaccel")

T = TypeVar("T")

_MOST_SECONDS = 10.0
"""How long leaving a session, or closing all, waits for a thread that is in the middle of a request, or for a task that
does not heed its cancellation."""


class Background:
    """Work owned by sessions. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._sooner = threading.Event()
        """Set when something has become due sooner than the thread knows."""
        self._order = count()
        self._due: list[tuple[float, int, _Later]] = []
        self._laters: WeakSet[_Later] = WeakSet()
        """All that is due, whoever keeps its time."""
        self._closed = False
        self._running: dict[str, list[_RunningWork]] = {}
        self._thread: threading.Thread | None = None
        self._forks = forks()

    def later(self, owner: str, seconds: float, work: Callable[[], None]) -> DueWork:
        """Do `work` in `seconds`, unless `owner` is gone by then or what is returned was cancelled."""
        self._after_fork()
        later = _Later(owner, work)
        with self._lock:
            if self._closed:
                later.cancel()
                return later
            self._laters.add(later)
        if isinstance(self._clock, Alarm):
            self._clock.call_later(max(seconds, 0.0), later.run)
            return later
        with self._lock:
            heapq.heappush(self._due, (self._clock.monotonic() + max(seconds, 0.0), next(self._order), later))
            if self._thread is None:
                self._thread = _started(self._keep_time)
        self._sooner.set()
        return later

    @property
    def is_virtual(self) -> bool:
        """True if time passes only when somebody moves the clock."""
        return isinstance(self._clock, Alarm)

    @property
    def closed(self) -> bool:
        """Whether nothing is begun any more."""
        return self._closed

    def submit(self, owner: str, work: Callable[[], T]) -> Future[T]:
        """Do `work` in a thread of its own; what is returned is cancelled where nothing is begun any more."""
        future: Future[T] = Future()
        if self._closed:
            future.cancel()
            return future

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - it is whoever waits for the result that is told
                future.set_exception(error)

        self._own(owner, _RunningWork(future, future.cancel))
        if _started(run) is None:
            future.cancel()
        return future

    def spawn(self, owner: str | None, work: Callable[[], Coroutine[Any, Any, T]], context: Context) -> asyncio.Task[T]:
        """Await `work` in a task of its own on the running event loop, in `context`; without an owner it is for the
        caller to end."""
        loop, over = asyncio.get_running_loop(), Future[None]()
        over.set_running_or_notify_cancel()
        task = loop.create_task(work(), context=context)
        _ends_with_loop(task)
        task.add_done_callback(partial(_over, over))
        if owner is not None:
            self._own(owner, _RunningWork(over, lambda: _call(loop, task.cancel, over), loop))
        return task

    def on_loop(
        self, owner: str, loop: asyncio.AbstractEventLoop, work: Callable[[], Awaitable[T]]
    ) -> Future[T | None]:
        """Await `work` in a task on `loop`, from whichever thread; what is returned is done when the task has ended.

        Its result is None where the task was cancelled, or where nothing is begun any more.
        """
        over: Future[T | None] = Future()
        over.set_running_or_notify_cancel()
        if self._closed:
            over.set_result(None)
            return over
        tasks: list[asyncio.Task[T]] = []

        async def run() -> T:
            return await work()

        def start() -> None:
            if not over.done():
                tasks.append(loop.create_task(run()))
                _ends_with_loop(tasks[0])
                tasks[0].add_done_callback(partial(_hand_over, over))

        def cancel() -> None:
            def now() -> None:
                if tasks:
                    tasks[0].cancel()
                elif not over.done():
                    over.set_result(None)

            _call(loop, now, over)

        self._own(owner, _RunningWork(over, cancel, loop))
        _call(loop, start, over)
        return over

    def left(self, owner: str) -> list[Future[Any]]:
        """Take back all that is due or under way for `owner`; returns what has not ended yet."""
        self._after_fork()
        with self._lock:
            due = [later for later in self._laters if later.owner == owner]
            running = list(self._running.get(owner, ()))
        for later in due:
            later.cancel()
        for one in running:
            one.cancel()
        return [one.over for one in running if one.goes_on()]

    def leave(self, *owners: str) -> None:
        """The same for all of `owners`, and wait for what ends by itself; tasks of a loop that stands still end when it
        goes on."""
        until = time.monotonic() + _MOST_SECONDS
        while (waiting := [one for owner in owners for one in self.left(owner)]) and not in_a_loop():
            if (left := until - time.monotonic()) <= 0:
                return
            concurrent.futures.wait(waiting, timeout=left)

    async def leave_async(self, owner: str) -> None:
        """The same on an event loop; tasks have ended when this returns."""
        until = time.monotonic() + _MOST_SECONDS
        while (waiting := self.left(owner)) and (left := until - time.monotonic()) > 0:
            await asyncio.wait([asyncio.wrap_future(future) for future in waiting], timeout=left)

    def close(self) -> None:
        """Take back everything; what comes later is never due."""
        with self._lock:
            self._closed = True
            owners = {later.owner for later in self._laters} | set(self._running)
        self.leave(*owners)

    def _own(self, owner: str, running: _RunningWork) -> None:
        self._after_fork()
        with self._lock:
            self._running.setdefault(owner, []).append(running)
        running.over.add_done_callback(lambda done: self._disown(owner, running))

    def _disown(self, owner: str, running: _RunningWork) -> None:
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
                while self._due and not self._due[0][2].work:
                    heapq.heappop(self._due)
                if not self._due:
                    self._thread = None
                    return
                until = self._due[0][0] - self._clock.monotonic()
                later = heapq.heappop(self._due)[2] if until <= 0 else None
            if later is not None:
                self.submit(later.owner, later.run)  # a request that blocks would keep those of other sessions waiting
            else:
                self._sooner.wait(until)

    def _after_fork(self) -> None:
        """The parent's thread is not here, and what it was about to do, the parent does."""
        if self._forks != forks():
            self._forks = forks()
            self._lock, self._sooner = Lock(), threading.Event()
            self._due, self._running, self._thread, self._laters = [], {}, None, WeakSet()


@dataclass(frozen=True, slots=True, eq=False)
class _RunningWork:
    """Work under way."""

    over: Future[Any]
    cancel: Callable[[], object]
    loop: asyncio.AbstractEventLoop | None = None
    """The loop that it is a task of; None for a thread."""

    def goes_on(self) -> bool:
        """Whether it has not ended, and will without anybody's help."""
        return not self.over.done() and (self.loop is None or self.loop.is_running())


def _started(work: Callable[[], None]) -> threading.Thread | None:
    thread = threading.Thread(target=work, name="agentaccel", daemon=True)
    with suppress(RuntimeError):  # the interpreter is about to end, and begins none any more
        thread.start()
        return thread
    return None


def _ends_with_loop(task: asyncio.Task[Any]) -> None:
    """Where the event loop is closed before the task has ended, asyncio says nothing of it: the program did not begin
    it and can do nothing about it. asyncio does the same with tasks of its own."""
    with suppress(AttributeError):  # a task of another kind
        task._log_destroy_pending = False  # type: ignore[attr-defined]


def _over(over: Future[None], task: asyncio.Task[Any]) -> None:
    """The task has ended; whoever waits for it hears of its error, and nobody has to."""
    if not task.cancelled():
        task.exception()
    if not over.done():
        over.set_result(None)


def _call(loop: asyncio.AbstractEventLoop, work: Callable[[], object], over: Future[Any]) -> None:
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


def in_a_loop() -> bool:
    """Whether this thread runs an event loop, and so must not wait."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class DueWork(Protocol):
    """Work that is due later."""

    def cancel(self) -> None: ...


@dataclass(slots=True, weakref_slot=True, eq=False)
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


def at_end(work: Callable[[], None]) -> None:
    """Do `work` when this process ends, before whatever was registered until now; also in a child of `multiprocessing`,
    which ends without what `atexit` knows. Asked for again, it comes first again."""
    atexit.unregister(work)
    atexit.register(work)
    process, util = (sys.modules.get(f"multiprocessing.{name}") for name in ("process", "util"))
    if process is not None and util is not None and process.parent_process() is not None:
        # After all of the child's own: those of one priority run in the reverse order of their registration.
        util.Finalize(None, work, exitpriority=-100)


# --- One thread for what is computed beside event loops: the interpreter runs one at a time, two would wait for both --
# The thread ends once there was nothing to do for a while: a loop that starts one waits until it runs.

_IDLE = 5.0
"""Seconds for which the thread waits for more to do."""
P = ParamSpec("P")


class Worker(Executor):
    """Does what it is given in a thread of its own, one after the other. Thread-safe; a forked child begins anew."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._due = SimpleQueue[Callable[[], None]]()
        self._thread: threading.Thread | None = None
        self._begun: float | None = None
        """When what it is at was begun, monotonic; None where it is at nothing."""
        self._forks = forks()

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._forks != forks():  # the parent's thread is not here, and what was due there is not ours
                self._forks, self._thread, self._begun = forks(), None, None
                self._due = SimpleQueue()
            self._due.put(partial(self._do, future, partial(work, *args, **kwargs)))
            if self._thread is None:
                self._thread = _started(self._run)
            here = self._thread is None
        if here:  # the program ends, and no thread begins any more
            self._due.get()()
        return future

    def _run(self) -> None:
        while True:
            try:
                self._due.get(timeout=_IDLE)()
            except Empty:
                with self._lock:
                    if self._due.empty():
                        self._thread = None
                        return

    def _do(self, future: Future[Any], work: Callable[[], Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        self._begun = time.monotonic()
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - it is whoever waits for the result that is told
            future.set_exception(error)
        else:
            future.set_result(result)
        self._begun = None

    def hangs(self, seconds: float) -> bool:
        """True if it has been at one thing for so long that what comes now would wait in vain: a disk that does not
        answer."""
        begun = self._begun
        return begun is not None and time.monotonic() - begun > seconds


class Inline(Executor):
    """Does what it is given at once, in the caller's thread."""

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        future.set_result(work(*args, **kwargs))
        return future

    def hangs(self, seconds: float) -> bool:
        """As that of `Worker`: whoever comes waits already."""
        return False


WORKER = Worker()
"""Of this process: it is the interpreter that is shared."""


def beside(work: Callable[[], T]) -> asyncio.Future[T]:
    """Do `work` beside the running event loop."""
    return asyncio.get_running_loop().run_in_executor(WORKER, work)


async def in_time(work: Callable[[], T], seconds: float) -> T | None:
    """What `work` returns, done beside the event loop; None where that takes longer than `seconds`."""
    if WORKER.hangs(seconds):
        return None
    future = beside(work)
    try:
        await asyncio.wait([future], timeout=seconds)
        return future.result() if future.done() else None
    finally:
        future.cancel()  # what has not begun is not needed any more
