"""Virtual time: an event loop whose clock jumps to what is due next, so a test of hours takes no time at all."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from agentaccel import ManualClock

R = TypeVar("R")


class _Jumping(selectors.DefaultSelector):
    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise RuntimeError("every task waits, and nothing is due")
        self._clock.now += max(timeout, 0.0)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time is that of a manual clock."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(_Jumping(clock))
        self._manual = clock
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._manual.now


def run(main: Callable[[], Coroutine[Any, Any, R]], clock: ManualClock) -> R:
    """What `main()` returns, run in virtual time."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(main())
