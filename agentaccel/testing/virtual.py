"""Virtual time: an event loop that never sleeps, and the emulator behind it as a transport of the vendor SDKs.

    clock = ManualClock()
    transport = EmulatedTransport(Emulator(script=["Done."], clock=clock), clock)
    client = AsyncAnthropic(api_key="any", http_client=httpx2.AsyncClient(transport=transport))
    run(main, clock)                                    # in place of asyncio.run(main())

Where every task waits, the clock jumps to the first thing that is due. So latencies are those of the emulator's timing
model, exactly, whatever the machine does meanwhile, and a test of hours takes no time at all.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import httpx2

from agentaccel.clock import ManualClock
from agentaccel_emulator import Emulator, HttpRequest
from agentaccel_emulator.exchange import HttpReply

R = TypeVar("R")


class _Jumping(selectors.DefaultSelector):
    """A selector that lets the clock jump in place of waiting."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        due = self._clock.until_next()
        if due is not None and (timeout is None or due < timeout):
            timeout = due
        if timeout is None:
            return super().select(_PATIENCE) or _stuck()
        self._clock.advance(max(timeout, 0.0))  # and what is to be called then, such as a request that keeps entries
        return []


_PATIENCE = 30.0
"""Real seconds for which another thread may be waited for; the loop has none of its own."""


def _stuck() -> Any:
    raise RuntimeError("every task waits, and nothing is due")


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is that of a manual clock, to the microsecond."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(_Jumping(clock))
        self._manual = clock
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._manual.now

    def run_in_executor(  # type: ignore[override]  # the base promises a TypeVarTuple of arguments
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Here and now: a thread takes real time, in which the clock would jump to whatever is due next."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it is whoever awaits it that is told
            done.set_exception(error)
        return done


def run(main: Callable[[], Coroutine[Any, Any, R]], clock: ManualClock) -> R:
    """What `main()` returns, run in virtual time. Raises `RuntimeError` where every task waits and nothing is due."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(main())


@dataclass(slots=True)
class EmulatedTransport(httpx2.AsyncBaseTransport):
    """An HTTP transport that ends in an emulator; each byte arrives when it is due."""

    emulator: Emulator
    clock: ManualClock
    breaks: set[int] = field(default_factory=set)
    """Numbers of the requests, from 1, whose connection breaks before an answer."""
    sent: list[float] = field(default_factory=list)
    """When each request was sent."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        content = await request.aread()
        start = self.clock.now
        self.sent.append(start)
        if len(self.sent) in self.breaks:
            await self._until(start + 1.0)
            raise httpx2.ConnectError("the connection broke", request=request)
        path = request.url.raw_path.decode()
        asked = HttpRequest(method=request.method, path=path, headers=dict(request.headers), body=content)
        reply = self.emulator.handle(asked, start)
        if reply.ending == "hang":
            await asyncio.Event().wait()
        await self._until(start + reply.first_byte)
        return httpx2.Response(reply.status, headers=dict(reply.headers), stream=_Body(self, reply, start))

    async def _until(self, moment: float) -> None:
        await asyncio.sleep(max(moment - self.clock.now, 0.0))


class _Body(httpx2.AsyncByteStream):
    def __init__(self, transport: EmulatedTransport, reply: HttpReply, start: float) -> None:
        self._transport, self._reply, self._start = transport, reply, start

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._reply.chunks:
            await self._transport._until(self._start + chunk.at)
            yield chunk.data
        if self._reply.ending == "disconnect":
            raise httpx2.RemoteProtocolError("the connection was cut")
