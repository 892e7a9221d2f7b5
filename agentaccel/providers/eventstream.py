"""Amazon's event stream (application/vnd.amazon.eventstream) from bytes in any pieces, as server-sent events.

A frame is: its length and that of its headers (4 bytes each, big endian), a CRC-32 of both, the headers, the payload,
a CRC-32 of all before it (the AWS SDKs' documentation, "Event stream encoding"; checked against botocore). Bedrock puts
one event of the Messages API into each, as base64 in a JSON object; an exception is a frame that has its name among the
headers.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson

from agentaccel.providers.values import loaded

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
