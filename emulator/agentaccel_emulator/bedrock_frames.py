"""The binary framing of streams on Bedrock (application/vnd.amazon.eventstream), encoded.

A frame is a prelude (the length of the whole and of the headers, and a checksum of the two), headers, a payload, and a
checksum of all that. The tests let botocore decode it.

>>> frame({":event-type": "chunk"}, b"{}").hex(" ", 4)
'0000 00260000 00143179 d1b00b3a 6576656e 742d7479 70650700 05636875 6e6b7b7d 9bf70107'
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from zlib import crc32

import orjson

_STRING = b"\x07"
"""The code of a header value that is a string."""
_JSON = {":content-type": "application/json"}


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """One frame."""
    head = b"".join(_header(name.encode(), value.encode()) for name, value in headers.items())
    lengths = (12 + len(head) + len(payload) + 4).to_bytes(4, "big") + len(head).to_bytes(4, "big")
    body = lengths + _checksum(lengths) + head + payload
    return body + _checksum(body)


def _header(name: bytes, value: bytes) -> bytes:
    return len(name).to_bytes(1, "big") + name + _STRING + len(value).to_bytes(2, "big") + value


def _checksum(data: bytes) -> bytes:
    return crc32(data).to_bytes(4, "big")


def chunk_frame(data: bytes) -> bytes:
    """The frame of one event of a Messages stream."""
    payload = orjson.dumps({"bytes": base64.b64encode(data).decode()})
    return frame({":event-type": "chunk", **_JSON, ":message-type": "event"}, payload)


def exception_frame(kind: str, message: str) -> bytes:
    """The frame of an exception in a stream."""
    headers = {":exception-type": kind, **_JSON, ":message-type": "exception"}
    return frame(headers, orjson.dumps({"message": message}))


def corrupt_frame(data: bytes) -> bytes:
    """A frame whose checksum is wrong."""
    whole = chunk_frame(data)
    return whole[:-1] + bytes([whole[-1] ^ 0xFF])
