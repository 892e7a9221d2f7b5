"""What goes in and out of the emulator's core: one HTTP request, one reply as bytes with their times. No sockets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

Ending = Literal["complete", "disconnect", "hang"]
"""How a reply ends: properly, with the connection cut, or never (nothing more is sent and the connection stays)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One HTTP request, whole."""

    method: str
    """Upper case, as in the request line."""
    path: str
    """Path with its query, as in the request line."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers; names in any case."""
    body: bytes = b""
    """The body, undecoded."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes of a body and when they leave the server."""

    at: float
    """Seconds after the start of the request."""
    data: bytes
    """The bytes; one server-sent event, or a whole JSON body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply:
    """One HTTP reply as a plan: what is sent, and when."""

    status: int
    """The HTTP status; 0 where nothing is ever sent (`ending` is then "hang" or "disconnect")."""
    headers: Mapping[str, str]
    """Headers, names in lower case, without those of the framing."""
    chunks: tuple[Chunk, ...] = ()
    """The body in order; status and headers leave with the first of them."""
    streamed: bool = False
    """Whether the body is a stream of server-sent events."""
    ending: Ending = "complete"
    """What happens after the last chunk."""

    @property
    def body(self) -> bytes:
        """The whole body."""
        return b"".join(chunk.data for chunk in self.chunks)

    @property
    def seconds(self) -> float:
        """Seconds from the start of the request to the last byte."""
        return self.chunks[-1].at if self.chunks else 0.0

    @property
    def first_byte(self) -> float:
        """Seconds from the start of the request to the first byte."""
        return self.chunks[0].at if self.chunks else 0.0


def json_reply(status: int, value: object, headers: Mapping[str, str], at: float = 0.0) -> HttpReply:
    """A reply whose body is `value` as JSON, all of which leaves `at` seconds after the start of the request."""
    return HttpReply(
        status=status,
        headers={"content-type": "application/json", **headers},
        chunks=(Chunk(at, orjson.dumps(value)),),
    )


def read_json(body: bytes) -> Any:
    """The value of a JSON body. Raises `orjson.JSONDecodeError`, also for one that cannot be written again.

    >>> read_json(b"[" * 300 + b"]" * 300)
    Traceback (most recent call last):
    orjson.JSONDecodeError: nested deeper than this emulator reads: line 1 column 1 (char 0)
    """
    value = orjson.loads(body)
    try:
        orjson.dumps([[[[[[[[value]]]]]]]])  # a reply has what it repeats some levels down
    except TypeError:
        raise orjson.JSONDecodeError("nested deeper than this emulator reads", "", 0) from None
    return value
