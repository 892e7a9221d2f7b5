"""Server-sent events from bytes that arrive in any pieces; linear in the bytes, exact under any cut.

The grammar is the HTML standard's (html.spec.whatwg.org, "Server-sent events"): lines end in CR, LF or CRLF, an empty
line ends an event, `data` lines join with a newline, comments and unknown fields are skipped.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson

from agentaccel.wire.json import loaded


@dataclass(slots=True)
class SseParser:
    """Feed it bytes; it yields each event as (name, data) when its empty line has arrived.

    >>> parser = SseParser()
    >>> list(parser.feed(b"event: ping\\r\\ndata: {")), list(parser.feed(b"}\\r\\n\\r")), list(parser.feed(b"\\n"))
    ([], [('ping', b'{}')], [])
    """

    _pieces: list[bytes] = field(default_factory=list)
    """The line that has begun and not ended."""
    _name: str = ""
    _data: list[bytes] = field(default_factory=list)
    _after_cr: bool = False
    """A LF that follows belongs to the CR that already ended the line."""

    def feed(self, chunk: bytes) -> Iterator[tuple[str, bytes]]:
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        if not chunk:
            return
        lines = chunk.splitlines(keepends=True)
        for line in lines:
            body = line.rstrip(b"\r\n")
            if len(body) == len(line):
                self._pieces.append(body)
                break
            if self._pieces:
                body = b"".join((*self._pieces, body))
                self._pieces.clear()
            event = self._line(body)
            if event is not None:
                yield event
        self._after_cr = chunk.endswith(b"\r")

    def end(self) -> Iterator[tuple[str, bytes]]:
        """The bytes have ended: an event that lacks its empty line has ended with them.

        >>> parser = SseParser()
        >>> list(parser.feed(b"data: {}")), list(parser.end()), list(parser.end())
        ([], [('', b'{}')], [])
        """
        line = b"".join(self._pieces)
        self._pieces.clear()
        for one in (line, b"") if line else (b"",):
            event = self._line(one)
            if event is not None:
                yield event

    def _line(self, line: bytes) -> tuple[str, bytes] | None:
        if not line:
            event = (self._name, b"\n".join(self._data)) if self._data else None
            self._name, self._data = "", []
            return event
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._name = value.decode("utf-8", "replace")
        return None


# --- Amazon's event stream (application/vnd.amazon.eventstream) from bytes in any pieces, as server-sent events -------
# A frame is: its length and that of its headers (4 bytes each, big endian), a CRC-32 of both, the headers, the
# payload, a CRC-32 of all before it (the AWS SDKs' documentation, "Event stream encoding"; checked against botocore).
# Bedrock puts one event of the Messages API into each, as base64 in a JSON object; an exception is a frame that has
# its name among the headers.

_PRELUDE = 12
_CRC = 4
_MOST = 24 * 1024 * 1024 + 128 * 1024 + _PRELUDE + _CRC
"""Bytes that a frame has at most, by the format's own rules for its payload and its headers."""

_STRING = 7
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of header values, by type; strings and byte arrays say their own."""


@dataclass(slots=True)
class EventStream:
    """Feed it bytes; it gives what has come whole as server-sent events."""

    _held: bytearray = field(default_factory=bytearray)

    def decompress(self, chunk: bytes) -> bytes:
        """The events that have come whole by now. Raises ValueError for bytes that are no event stream."""
        return b"".join(map(_as_sse, self._events(chunk)))

    def _events(self, chunk: bytes) -> Iterator[bytes]:
        held = self._held
        held += chunk
        start = 0
        while len(held) - start >= _PRELUDE:
            length, headers, crc = (int.from_bytes(held[start + i : start + i + 4]) for i in (0, 4, 8))
            if crc != zlib.crc32(held[start : start + 8]) or not _PRELUDE + headers + _CRC <= length <= _MOST:
                raise ValueError("not a frame of an event stream")
            if len(held) - start < length:
                break
            frame = bytes(held[start : start + length])
            start += length
            if int.from_bytes(frame[-_CRC:]) != zlib.crc32(frame[:-_CRC]):
                raise ValueError("a frame of the event stream is corrupt")
            event = _event(frame[_PRELUDE : _PRELUDE + headers], frame[_PRELUDE + headers : -_CRC])
            if event is not None:
                yield event
        del held[:start]


def _as_sse(event: bytes) -> bytes:
    return b"".join(b"data: " + line + b"\n" for line in event.splitlines()) + b"\n"


def _event(headers: bytes, payload: bytes) -> bytes | None:
    named = dict(_strings(headers))
    if named.get(b":message-type") in (b"exception", b"error"):
        kind = named.get(b":exception-type") or named.get(b":error-code") or b"error"
        return orjson.dumps({"type": "error", "error": {"type": kind.decode("utf-8", "replace")}})
    body = loaded(payload)
    data = body.get("bytes") if body is not None else None
    try:
        return base64.b64decode(data, validate=True) if isinstance(data, str) else None
    except binascii.Error:
        return None


def _strings(headers: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The headers whose value is a string."""
    at = 0
    while at < len(headers):
        name_end = at + 1 + headers[at]
        name, kind = headers[at + 1 : name_end], headers[name_end : name_end + 1]
        at = name_end + 1
        if not kind or (kind[0] not in _SIZES and kind[0] not in (6, _STRING)):
            return
        size = _SIZES.get(kind[0])
        if size is None:
            size = int.from_bytes(headers[at : at + 2])
            at += 2
        if kind[0] == _STRING:
            yield name, headers[at : at + size]
        at += size
