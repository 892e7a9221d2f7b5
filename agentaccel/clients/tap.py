"""Watching a reply go by without touching it: bytes out are the bytes in, in the same pieces, at the same time."""

from __future__ import annotations

import functools
import logging
import sys
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import Any, Literal, Protocol

from agentaccel.clients.usage_filter import in_place_of
from agentaccel.clock import Clock
from agentaccel.engine.draft import reported
from agentaccel.locks import when_free
from agentaccel.records import outcome_of
from agentaccel.turn import Abandoned, CallClosed, Failed, Finished, FirstByte, Turn
from agentaccel.wire import ReplyTap, dialect
from agentaccel.wire.sse import EventStream

log = logging.getLogger("agentaccel")

Ending = Finished | Abandoned | Failed
"""How a turn can end."""


class Headers(Protocol):
    """Response headers, of either HTTP library."""

    def get(self, key: str, default: str) -> str: ...


class ReplyWatch:
    """Feeds one reply to its turn. Whatever goes wrong in here stays in here, unless `strict`."""

    def __init__(
        self,
        turn: Turn,
        clock: Clock,
        headers: Headers,
        *,
        strict: bool,
        waited_for: Callable[[ReplyTap, Ending], bool] = lambda tap, otherwise: False,
    ) -> None:
        """`waited_for`: told how the exchange ended, and True if that is not yet the end of the reply."""
        self._turn = turn
        self._waited_for = waited_for
        self._over = False
        """True if the exchange has ended."""
        self._clock = clock
        self._strict = strict
        kind = headers.get("content-type", "")
        self._tap: ReplyTap = dialect(turn.wire).reply_tap("event-stream" in kind or _AMAZON in kind, turn.ttl)
        self._decode = decoder(headers.get("content-encoding", ""))
        if self._decode is not None and _AMAZON in kind:
            self._decode = _Frames(self._decode).decompress
        self._blind = self._decode is None
        """What the reply says cannot be read here; its times can."""

    def chunk(self, raw: bytes) -> None:
        """The next raw bytes of the reply, before they are handed on."""
        try:
            self._chunk(raw)
        except Exception:
            if self._strict:
                raise
            log.exception("agentaccel: could not read a reply; it goes on, and its usage is not known")
            self._tap = dialect(self._turn.wire).reply_tap(self._tap.streamed, self._turn.ttl)
            self._decode, self._blind = None, True

    def end(self, how: Literal["read", "closed", "cancelled", "failed"], error: str | None = None) -> None:
        """The reply is over: read to its end, closed by its reader, or broken off."""
        # A reader that drops a stream ends it wherever the garbage collector happens to run, in our own code too.
        when_free(functools.partial(self._end_guarded, how, error))

    def _chunk(self, raw: bytes) -> None:
        if self._over or self._turn.ended is not None:
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
        if self._over or self._turn.ended is not None:
            return
        self._over = True
        now = self._clock.monotonic()
        if how == "read":
            for call in self._tap.finish():
                self._turn.handle(CallClosed(call, now))
        self._turn.handle(reported(self._tap))
        ending = self._ending(how, error, now)
        if not self._waited_for(self._tap, ending):
            self._turn.handle(ending)

    def _ending(self, how: str, error: str | None, now: float) -> Ending:
        tap = self._tap
        if how == "read" and tap.stop == "cancelled" and not tap.error:
            return Failed(at=now, cancelled=True)  # by whoever asked the provider to
        if how == "read" and (tap.complete or self._blind):
            return Finished(now)
        if how == "closed" and not tap.error:
            return Abandoned(now)
        return Failed(at=now, error=error or tap.error or "reply ended early", cancelled=how == "cancelled")

    def _end_guarded(self, how: str, error: str | None) -> None:
        try:
            self._end(how, error)
        except Exception:
            if self._strict:
                raise
            log.exception("agentaccel: could not record a reply")


class _Frames:
    """Amazon's frames as events. Behind a corrupt one there is nothing to read: its reader is the one to complain."""

    def __init__(self, decode: Callable[[bytes], bytes]) -> None:
        self._decode, self._frames = decode, EventStream()
        self._corrupt = False

    def decompress(self, raw: bytes) -> bytes:
        data = self._decode(raw)
        if self._corrupt:
            return b""
        try:
            return self._frames.decompress(data)
        except ValueError:
            self._corrupt = True
            return b""


_AMAZON = "vnd.amazon.eventstream"
"""The content type of Bedrock's streams."""


def decoder(encoding: str) -> Callable[[bytes], bytes] | None:
    """Undoes a content encoding on a copy of the bytes, piece by piece; None for one that is not known here."""
    match encoding.strip().lower():
        case "" | "identity":
            return lambda data: data
        case "gzip":
            return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress
        case "deflate":
            return _Deflate().decompress
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
    module = sys.modules.get("compression.zstd") or sys.modules.get("backports.zstd")
    if module is not None:
        return module.ZstdDecompressor().decompress  # type: ignore[no-any-return]
    module = sys.modules.get("zstandard")
    return None if module is None else module.ZstdDecompressor().decompressobj().decompress


class _Deflate:
    """Servers mean two things by *deflate*, with and without the header of zlib, which its first two bytes tell."""

    def __init__(self) -> None:
        self._head = b""
        self._zlib: Any = None

    def decompress(self, data: bytes) -> bytes:
        if self._zlib is None:
            self._head = data = self._head + data
            if len(data) < 2:
                return b""
            with_header = data[0] & 0x0F == 8 and int.from_bytes(data[:2]) % 31 == 0
            self._zlib = zlib.decompressobj(zlib.MAX_WBITS if with_header else -zlib.MAX_WBITS)
        return self._zlib.decompress(data)  # type: ignore[no-any-return]


class Tap(Protocol):
    """Who is told what passes through a stream."""

    def chunk(self, raw: bytes) -> None: ...
    def end(self, how: Literal["read", "closed", "cancelled", "failed"], error: str | None = None) -> None: ...


def watched(stream: Any, watch: Tap) -> Any:
    """`stream` of httpx or httpx2, of the same kind (sync, async or both), reporting what passes through it."""
    return in_place_of(stream, _SyncWatched, _AsyncWatched, watch)


class _Watched:
    """A stream of bytes and who watches it."""

    def __init__(self, stream: Any, watch: Tap) -> None:
        self._stream, self._watch = stream, watch

    def __getattr__(self, name: str) -> Any:
        # What the HTTP library or the SDK looks up on a stream (`elapsed`) is the watched one's.
        if name in ("_stream", "_watch"):
            raise AttributeError(name)
        return getattr(self._stream, name)

    def _raised(self, error: BaseException) -> None:
        self._watch.end(outcome_of(error), type(error).__name__)

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
            self._raised(error)
            raise
        self._watch.end("read")

    def close(self) -> None:
        self._watch.end("closed")
        self._stream.close()


class _AsyncWatched(_Watched):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = self._stream.__aiter__()
        try:
            async for chunk in chunks:
                self._watch.chunk(chunk)
                yield chunk
        except GeneratorExit:
            self._watch.end("closed")
            raise
        except BaseException as error:
            self._raised(error)
            raise
        finally:
            # A body read in part is closed by the task that read it, not later by the event loop in one of its own.
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()
        self._watch.end("read")

    async def aclose(self) -> None:
        self._watch.end("closed")
        await self._stream.aclose()
