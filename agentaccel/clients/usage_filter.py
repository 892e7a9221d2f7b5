"""Keeping the usage chunk that we asked for from a reader who did not: every other byte goes on as it came.

A stream of server-sent events is cut where an event ends, so a reader gets whole events and, at the latest, at the end
of the stream what came last.
"""

from __future__ import annotations

import functools
import logging
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from agentaccel.wire.json import loaded

# --- Streams of httpx and httpx2, and others of the same kind in their place ------------------------------------------


def in_place_of(stream: Any, in_threads: type, on_loops: type, *given: object) -> Any:
    """A stream of the same kind as `stream` (for threads, for event loops, or both), made of those classes and from
    `stream` and what else is `given`."""
    library = sys.modules[_library(stream)]
    is_sync, is_async = isinstance(stream, library.SyncByteStream), isinstance(stream, library.AsyncByteStream)
    return _class(library, in_threads if is_sync else None, on_loops if is_async else None)(stream, *given)


def _library(stream: Any) -> str:
    """The HTTP library whose stream classes `stream` derives from."""
    roots = [base.__module__.partition(".")[0] for base in type(stream).__mro__]
    return next(root for root in roots if root in ("httpx2", "httpx"))


@functools.cache
def _class(library: Any, in_threads: type | None, on_loops: type | None) -> Any:
    """The library checks which kind a stream is by its base classes, so ours has the same."""
    bases: tuple[type, ...] = () if in_threads is None else (in_threads, library.SyncByteStream)
    bases += () if on_loops is None else (on_loops, library.AsyncByteStream)
    return type("Stream", bases, {})


log = logging.getLogger("agentaccel")

_END = re.compile(rb"\n\n|\n\r\n?|\r\r\n?")
"""Two ends of line in a row, of which each is LF, CRLF or CR."""


@dataclass(slots=True)
class UsageFilter:
    """Takes bytes in any pieces; gives back those of every event but the chunk that holds usage and no choice.

    >>> usage = UsageFilter()
    >>> usage.feed(b'data: {"choices": [1]}\\n\\ndata: {"choices": [],')
    b'data: {"choices": [1]}\\n\\n'
    >>> usage.feed(b' "usage": {}}\\n\\ndata: [DONE]\\n\\n')
    b'data: [DONE]\\n\\n'
    """

    _held: bytearray = field(default_factory=bytearray)
    _searched: int = 0
    """Up to where the held bytes are known to hold no end of an event."""

    def feed(self, chunk: bytes) -> bytes:
        held = self._held
        held += chunk
        passed: list[bytes] = []
        start, at = 0, self._searched
        while (end := _END.search(held, at)) is not None:
            if end.end() == len(held) and held.endswith(b"\r"):
                break  # a LF may follow that belongs to it
            event = bytes(held[start : end.end()])
            if not _is_usage(event):
                passed.append(event)
            start = at = end.end()
        del held[:start]
        self._searched = max(len(held) - 3, 0)
        return b"".join(passed)

    def rest(self) -> bytes:
        """What came after the last whole event."""
        held, self._held, self._searched = bytes(self._held), bytearray(), 0
        return b"" if _END.search(held) and _is_usage(held) else held


def _is_usage(event: bytes) -> bool:
    if b'"usage"' not in event:
        return False
    lines = [line[5:] for line in event.splitlines() if line.startswith(b"data:")]
    chunk = loaded(b"\n".join(lines))
    if chunk is None or chunk.get("error"):  # whose reader is to raise it
        return False
    return chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)


def hiding_usage(http: Any) -> Any:
    """A response of httpx or httpx2 as its reader is to see it: a stream without the usage chunk.

    A body that comes encoded, once or several times over, in spite of what was asked for, is filtered behind the
    library's own decoder: what cannot be decoded fails as it does without us, and raw bytes and headers stay as they
    came, usage chunk included.
    """
    if "event-stream" not in http.headers.get("content-type", ""):
        return http
    if http.is_stream_consumed or http.is_closed:  # made up by a transport for tests: there is no stream any more
        usage = UsageFilter()
        content = usage.feed(http.content) + usage.rest()
        headers = [(name, value) for name, value in http.headers.raw if name.lower() not in _OF_BODY]
        return type(http)(http.status_code, headers=headers, content=content)
    if http.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        _hide_decoded(http)
        return http
    http.stream = in_place_of(http.stream, _Sync, _Async)
    return http


_OF_BODY = (b"content-encoding", b"content-length", b"transfer-encoding")
"""Headers that do not hold for the filtered body."""


def _hide_decoded(http: Any) -> None:
    try:
        http._decoder = _Decoder(http._get_content_decoder())
    except Exception:  # the library has no such part any more, or says that it cannot decode this: nothing is hidden
        log.debug("agentaccel: cannot filter an encoded stream", exc_info=True)


class _Decoder:
    """The HTTP library's decoder, and the filter behind it. httpx hands out bytes, httpx2 pieces of them."""

    def __init__(self, inner: Any) -> None:
        self._inner, self._filter = inner, UsageFilter()

    def decode(self, data: bytes) -> Any:
        return self._passed(self._inner.decode(data), self._filter.feed)

    def flush(self) -> Any:
        return self._passed(self._inner.flush(), lambda last: self._filter.feed(last) + self._filter.rest())

    def _passed(self, decoded: Any, keep: Callable[[bytes], bytes]) -> Any:
        if isinstance(decoded, bytes):
            return keep(decoded)
        return iter((keep(b"".join(decoded)),))


class _Filtered:
    def __init__(self, stream: Any) -> None:
        self._stream, self._filter = stream, UsageFilter()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._stream, name)


class _Sync(_Filtered):
    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            passed = self._filter.feed(chunk)
            if passed:
                yield passed
        if rest := self._filter.rest():
            yield rest

    def close(self) -> None:
        self._stream.close()


class _Async(_Filtered):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        chunks = self._stream.__aiter__()
        try:
            async for chunk in chunks:
                passed = self._filter.feed(chunk)
                if passed:
                    yield passed
        finally:
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()
        if rest := self._filter.rest():
            yield rest

    async def aclose(self) -> None:
        await self._stream.aclose()
