"""Watching a reply go by without touching it: bytes out are the bytes in, in the same pieces, at the same time."""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Literal, Protocol

from agentaccel.clock import Clock
from agentaccel.providers.anthropic import ReplyTap
from agentaccel.turn import Abandoned, CallClosed, Failed, Finished, FirstByte, Reported, Turn

log = logging.getLogger("agentaccel")


class Headers(Protocol):
    """Response headers, of either HTTP library."""

    def get(self, key: str, default: str) -> str: ...


class ReplyWatch:
    """Feeds one reply to its turn. Whatever goes wrong in here stays in here, unless `strict`."""

    def __init__(self, turn: Turn, clock: Clock, headers: Headers, *, strict: bool) -> None:
        self._turn = turn
        self._clock = clock
        self._strict = strict
        self._tap = ReplyTap(streamed="event-stream" in headers.get("content-type", ""))
        self._decode = decoder(headers.get("content-encoding", ""))
        self._blind = self._decode is None

    def chunk(self, raw: bytes) -> None:
        """The next raw bytes of the reply, before they are handed on."""
        self._guarded(self._chunk, raw)

    def end(self, how: Literal["read", "closed", "cancelled", "failed"], error: str | None = None) -> None:
        """The reply is over: read to its end, closed by its reader, or broken off."""
        self._guarded(self._end, how, error)

    def _chunk(self, raw: bytes) -> None:
        if self._turn.ended is not None:
            return
        now = self._clock.monotonic()
        if self._tap.streamed:
            self._turn.handle(FirstByte(now))
        if self._decode is None:
            return
        for call in self._tap.feed(self._decode(raw)):
            self._turn.handle(CallClosed(call, now))
        if self._tap.complete:
            self._end("read", None)

    def _end(self, how: str, error: str | None) -> None:
        if self._turn.ended is not None:
            return
        now = self._clock.monotonic()
        if how == "read":
            for call in self._tap.finish():
                self._turn.handle(CallClosed(call, now))
        tap = self._tap
        self._turn.handle(
            Reported(usage=tap.usage, stop=tap.stop, message_id=tap.message_id, diagnostics=_diagnosis(tap.diagnostics))
        )
        if how == "read" and (tap.complete or self._blind):
            self._turn.handle(Finished(now))
        elif how == "closed" and not tap.error:
            self._turn.handle(Abandoned(now))
        else:
            why = error or tap.error or "reply ended early"
            self._turn.handle(Failed(at=now, error=why, cancelled=how == "cancelled"))

    def _guarded(self, work: Callable[..., None], *args: object) -> None:
        try:
            work(*args)
        except Exception:
            if self._strict:
                raise
            log.exception("agentaccel: could not watch a reply; it goes on unwatched")
            self._turn.on_end = lambda ended: None


def _diagnosis(raw: Any) -> str | None:
    reason = raw.get("cache_miss_reason") if raw is not None else None
    return str(reason.get("type")) if isinstance(reason, dict) else None


def decoder(encoding: str) -> Callable[[bytes], bytes] | None:
    """Undoes a content encoding on a copy of the bytes, piece by piece; None for one that is not known here."""
    match encoding.strip().lower():
        case "" | "identity":
            return lambda data: data
        case "gzip":
            return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress
        case "deflate":
            return zlib.decompressobj().decompress
        case "br":
            return _brotli()
        case "zstd":
            return _zstd()
    return None


def _brotli() -> Callable[[bytes], bytes] | None:
    # The HTTP library offers brotli to servers only where one of these is installed.
    module = sys.modules.get("brotli") or sys.modules.get("brotlicffi")
    return None if module is None else module.Decompressor().process


def _zstd() -> Callable[[bytes], bytes] | None:
    module = sys.modules.get("zstandard")
    return None if module is None else module.ZstdDecompressor().decompressobj().decompress


def watched(stream: Any, watch: ReplyWatch) -> Any:
    """`stream` of httpx or httpx2, of the same kind (sync, async or both), reporting what passes through it."""
    module = sys.modules[_library(stream)]
    sync, both = isinstance(stream, module.SyncByteStream), isinstance(stream, module.AsyncByteStream)
    return _stream_class(module, sync, both)(stream, watch)


def _library(stream: Any) -> str:
    """The HTTP library whose stream classes `stream` derives from."""
    roots = [base.__module__.partition(".")[0] for base in type(stream).__mro__]
    return next(root for root in roots if root in ("httpx2", "httpx"))


@functools.cache
def _stream_class(module: Any, is_sync: bool, is_async: bool) -> Any:
    """The library checks which kind a stream is by its base classes, so the watched one has the same."""
    bases: tuple[Any, ...] = (_Watched,)
    bases += ((_SyncWatched, module.SyncByteStream) if is_sync else ()) + (
        (_AsyncWatched, module.AsyncByteStream) if is_async else ()
    )
    return type("WatchedStream", bases[1:] + bases[:1], {})


class _Watched:
    """A stream of bytes and who watches it."""

    def __init__(self, stream: Any, watch: ReplyWatch) -> None:
        self._stream, self._watch = stream, watch

    def __del__(self) -> None:
        self._watch.end("closed")  # dropped without being closed or read


class _SyncWatched(_Watched):
    def __iter__(self) -> Iterator[bytes]:
        try:
            for chunk in self._stream:
                self._watch.chunk(chunk)
                yield chunk
        except GeneratorExit:
            self._watch.end("closed")
            raise
        except BaseException as error:
            self._watch.end("failed", type(error).__name__)
            raise
        self._watch.end("read")

    def close(self) -> None:
        self._watch.end("closed")
        self._stream.close()


class _AsyncWatched(_Watched):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                self._watch.chunk(chunk)
                yield chunk
        except asyncio.CancelledError as error:
            self._watch.end("cancelled", type(error).__name__)
            raise
        except GeneratorExit:
            self._watch.end("closed")
            raise
        except BaseException as error:
            self._watch.end("failed", type(error).__name__)
            raise
        self._watch.end("read")

    async def aclose(self) -> None:
        self._watch.end("closed")
        await self._stream.aclose()
