"""Keeping the usage chunk that we asked for from a reader who did not: every other byte goes on as it came.

A stream of server-sent events is cut where an event ends, so a reader gets whole events and, at the latest, at the end
of the stream what came last.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from agentaccel.clients.watch import decoder, http_library
from agentaccel.providers.values import loaded

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
    return chunk is not None and chunk.get("choices") == [] and isinstance(chunk.get("usage"), dict)


def hiding_usage(http: Any) -> Any:
    """A response of httpx or httpx2 as its reader is to see it: a stream without the usage chunk.

    A body that comes encoded in spite of what was asked for is decoded on the way, and its headers say so.
    """
    if "event-stream" not in http.headers.get("content-type", ""):
        return http
    if http.is_stream_consumed or http.is_closed:  # made up by a transport for tests: there is no stream any more
        usage = UsageFilter()
        content = usage.feed(http.content) + usage.rest()
        kind = http.headers["content-type"]
        return type(http)(http.status_code, headers={"content-type": kind}, content=content)
    decode = decoder(http.headers.get("content-encoding", ""))
    if decode is None:
        return http
    if http.headers.get("content-encoding"):
        del http.headers["content-encoding"]
    module = sys.modules[http_library(http.stream)]
    sync, both = isinstance(http.stream, module.SyncByteStream), isinstance(http.stream, module.AsyncByteStream)
    http.stream = _stream_class(module, sync, both)(http.stream, decode)
    return http


@functools.cache
def _stream_class(module: Any, is_sync: bool, is_async: bool) -> Any:
    bases: tuple[Any, ...] = ((_Sync, module.SyncByteStream) if is_sync else ()) + (
        (_Async, module.AsyncByteStream) if is_async else ()
    )
    return type("FilteredStream", bases, {})


class _Filtered:
    def __init__(self, stream: Any, decode: Callable[[bytes], bytes]) -> None:
        self._stream, self._decode = stream, decode
        self._filter = UsageFilter()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._stream, name)


class _Sync(_Filtered):
    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            passed = self._filter.feed(self._decode(chunk))
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
                passed = self._filter.feed(self._decode(chunk))
                if passed:
                    yield passed
        finally:
            if isinstance(chunks, AsyncGenerator):
                await chunks.aclose()
        if rest := self._filter.rest():
            yield rest

    async def aclose(self) -> None:
        await self._stream.aclose()
