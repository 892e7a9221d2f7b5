"""Listening to what an engine says of its KV cache: over ZeroMQ, on the event loop, with replay of what was missed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from agentaccel.errors import ConfigError
from agentaccel.once import Once
from agentaccel.selfhost.asking import installed
from agentaccel.selfhost.kv_events import KvBatch, KvCache, decoded, sequence_of
from agentaccel.selfhost.kv_sources import KvSource

_REPLAY_WITHIN = 2.0
"""Seconds that each batch of a replay may take."""
_WHOLE_REPLAY_WITHIN = 20.0
"""Seconds that all of a replay may take: while it is read, the engine's batches wait, and few of them can."""
_MOST_REPLAYED = 20_000
"""Batches of one replay that are read: vLLM keeps 10,000."""
_END_OF_REPLAY = -1
_LARGEST = 16 << 20
"""Bytes of the largest frame that is taken; ZeroMQ ends the connection that brings a larger one, and makes no other. A
step that stores 3 million tokens has a frame as large, and no step stores as many."""
_AGAIN_WITHIN = 1.0
"""Seconds after the end of a connection: ZeroMQ says at once that it will make another, where it will. If it is late in
saying so, the feed ends, and nothing is believed that could be wrong."""


class KvFeed:
    """What an engine says of its KV cache, batch by batch: `Backend.kv_events` makes it.

    An async context manager, and within it an async iterator that ends when it is left, also in another task that waits
    for a batch. Each batch comes once, in order; `cache` has taken in all that have come. An engine that was away is
    listened to again. One that sends a frame of more than 16 MiB is not: the iterator ends, with one log line, and
    nothing is believed of the engine's cache.
    """

    def __init__(
        self,
        endpoint: str | None,
        replay: str | None,
        topic: str | None,
        listed: Callable[[], Awaitable[KvSource]],
        *,
        off: bool = False,
    ) -> None:
        """`listed` is asked for an endpoint where none is given."""
        installed("zmq", "pyzmq")
        installed("msgspec", "msgspec")
        self.cache = KvCache()
        self._off, self._listed = off, listed
        self._endpoint, self._replay, self._topic = endpoint, replay, topic
        _check_addresses(endpoint, replay)
        self._fresh: deque[KvBatch] = deque()
        self._context: Any = None
        self._socket: Any = None
        self._monitor: Any = None
        """Tells what becomes of the connection of `_socket`."""
        self._once = Once()

    async def __aenter__(self) -> KvFeed:
        if self._off:
            return self
        import zmq.asyncio

        if self._endpoint is None:
            there = await self._listed()
            self._endpoint, self._replay = there.endpoint, self._replay or there.replay
            self._topic = there.topic if self._topic is None else self._topic
            _check_addresses(self._endpoint, self._replay)
        self._context = zmq.asyncio.Context()
        try:
            self._socket = self._connected(zmq.SUB, self._endpoint, watched=True)
            self._socket.setsockopt(zmq.SUBSCRIBE, (self._topic or "").encode())
            if replayed := await self._replayed(0):
                self._fresh.extend(self.cache.mend(replayed[:-1], replayed[-1]))
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def __aiter__(self) -> KvFeed:
        return self

    async def __anext__(self) -> KvBatch:
        while not self._fresh:
            if self._socket is None:
                raise StopAsyncIteration
            self._fresh.extend(await self._next())
        return self._fresh.popleft()

    async def _next(self) -> tuple[KvBatch, ...]:
        """What comes next, once it comes; nothing if the feed was left meanwhile."""
        import zmq.asyncio

        poller = zmq.asyncio.Poller()
        for one in (self._socket, self._monitor):
            poller.register(one, zmq.POLLIN)
        try:
            ready = dict(await poller.poll())
            if self._socket in ready:  # what came before the connection ended is read before its end
                return await self._read(await self._socket.recv_multipart())
            if await self._has_ended():
                self._end()
            return ()
        except (asyncio.CancelledError, zmq.ZMQError):
            # A socket that is closed cancels whoever waits for it, though nobody has cancelled the task.
            if self._socket is not None or _is_being_cancelled():
                raise
            return ()

    async def _has_ended(self) -> bool:
        """True if what is told of the connection is that it has ended, and if ZeroMQ does not make it again."""
        import zmq
        from zmq.utils.monitor import parse_monitor_message

        told = parse_monitor_message(await self._monitor.recv_multipart())
        return told["event"] == zmq.EVENT_DISCONNECTED and not await self._monitor.poll(_AGAIN_WITHIN * 1000)

    def _end(self) -> None:
        self._once.say(
            f"{self._endpoint} is listened to no more, and nothing is believed of its cache: the connection has ended, "
            f"as after a frame of more than {_LARGEST:,} bytes"
        )
        self.cache.forget()
        self._close()

    async def _read(self, frames: list[bytes]) -> tuple[KvBatch, ...]:
        try:
            batch = decoded(frames)
        except ValueError as error:
            self._once.say(
                f"what {self._endpoint} sends could not be read, so nothing is believed of its cache: {error}"
            )
            self.cache.forget()
            return ()
        fresh = self.cache.see(batch)
        if fresh is None:
            fresh = self.cache.mend(await self._replayed(self.cache.wanted), batch)
        return fresh

    async def _replayed(self, first: int) -> list[KvBatch]:
        """What the engine still has of its batches, from number `first` on; nothing where it does not answer."""
        if self._replay is None:
            return []
        import zmq

        batches: list[KvBatch] = []
        socket = self._connected(zmq.DEALER, self._replay)
        try:
            async with asyncio.timeout(_WHOLE_REPLAY_WITHIN):
                await socket.send_multipart([b"", first.to_bytes(8, "big")])
                while len(batches) < _MOST_REPLAYED and await socket.poll(_REPLAY_WITHIN * 1000):
                    *_, sequence, payload = await socket.recv_multipart()
                    if sequence_of(sequence) == _END_OF_REPLAY:
                        break
                    batches.append(decoded([b"", sequence, payload]))
                    await asyncio.sleep(0)  # what has come already is read without a wait: others have their turn
        except ValueError as error:
            self._once.say(f"what {self._replay} replays could not be read: {error}")
        except TimeoutError:
            self._once.say(f"{self._replay} was still replaying after {_WHOLE_REPLAY_WITHIN:g} s; the rest is not read")
        finally:
            socket.close(linger=0)
        return batches

    def _connected(self, kind: int, url: str, *, watched: bool = False) -> Any:
        import zmq

        socket = self._context.socket(kind)
        socket.setsockopt(zmq.MAXMSGSIZE, _LARGEST)
        if watched:
            self._monitor = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED | zmq.EVENT_CONNECT_RETRIED)
        try:
            socket.connect(url)
        except zmq.ZMQError as error:
            socket.close(linger=0)
            raise ConfigError(f"Backend.kv_events: {url!r} is no address: {error}") from None
        return socket

    def _close(self) -> None:
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close(linger=0)
        if self._context is not None:
            self._context.destroy(linger=0)  # closes that of a replay, too: to end with a socket open would block


def _check_addresses(endpoint: str | None, replay: str | None) -> None:
    """Raises `ConfigError` for what is no address that another process can publish at."""
    for name, url in (("endpoint", endpoint), ("replay", replay)):
        if url is not None and not (isinstance(url, str) and url.startswith(("tcp://", "ipc://"))):
            raise ConfigError(f"Backend.kv_events: {name} is {url!r}; give an address such as 'tcp://127.0.0.1:5557'")


def _is_being_cancelled() -> bool:
    """True if somebody has asked for this task to be cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
