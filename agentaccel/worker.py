"""One thread for what is computed beside event loops: the interpreter runs one thread at a time, so two would only make
the loops wait for both. The thread ends once there is nothing to do.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any, ParamSpec, TypeVar

from agentaccel.locks import Lock, forks

P = ParamSpec("P")
T = TypeVar("T")


class Worker(Executor):
    """Does what it is given in a thread of its own, one after the other. Thread-safe; a forked child begins anew."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._due = deque[tuple[Future[Any], Callable[[], Any]]]()
        self._thread: threading.Thread | None = None
        self._begun: float | None = None
        """When what it is at was begun, monotonic; None where it is at nothing."""
        self._forks = forks()

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            if self._forks != forks():  # the parent's thread is not here, and what was due there is not ours
                self._forks, self._thread, self._begun = forks(), None, None
                self._due.clear()
            self._due.append((future, partial(work, *args, **kwargs)))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="agentaccel", daemon=True)
                self._thread.start()
        return future

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._due:
                    self._thread = None
                    return
                future, work = self._due.popleft()
            if not future.set_running_or_notify_cancel():
                continue
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
