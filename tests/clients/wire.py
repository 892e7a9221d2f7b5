"""The far side of a vendor client, without sockets: what it was sent, and what it answers, piece by piece."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anthropic
import httpx2

from agentaccel import Accel, Policy, StorePolicy, TurnRecord
from agentaccel.store.store import open_reader
from agentaccel.testing import ManualClock
from tests.driver import body, prose, tool, user
from tests.wire.replies import USAGE, Json, call, end, sse, start, text

ASK: Json = body(user(prose(60)), system=prose(1200), tools=[tool("search", 600)])
"""A request that is worth markers."""

MESSAGE: Json = {
    **start()["message"],
    "content": [
        {"type": "text", "text": "Grüße"},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
    ],
    "stop_reason": "tool_use",
    "usage": {**USAGE, "output_tokens": 12},
}
EVENTS: list[Json] = [start(), *text("Grüße 🚚"), *call("f", ['{"a"', ": 1}"], 1), *end("tool_use")]
PIECES: list[bytes] = [sse([event]) for event in EVENTS]


class Hold:
    """A place in a reply at which the server waits until the test goes on."""

    def __init__(self) -> None:
        self.reached, self.release = asyncio.Event(), asyncio.Event()

    async def wait(self) -> None:
        self.reached.set()
        await self.release.wait()


Piece = bytes | Exception | Hold


class Body(httpx2.SyncByteStream, httpx2.AsyncByteStream):
    """A body in pieces; an exception among them breaks it off."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces, self.closed, self.left = list(pieces), False, False

    def __iter__(self) -> Iterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            assert isinstance(piece, bytes)
            yield piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            for piece in self.pieces:
                if isinstance(piece, Exception):
                    raise piece
                if isinstance(piece, Hold):
                    await piece.wait()
                else:
                    yield piece
        finally:
            self.left = True

    def close(self) -> None:
        self.closed = True

    async def aclose(self) -> None:
        self.closed = True


@dataclass
class Reply:
    """One answer."""

    pieces: Sequence[Piece]
    status: int = 200
    kind: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    before: Hold | Exception | None = None
    """What happens before the headers."""


def message(of: Json = MESSAGE, **more: Any) -> Reply:
    return Reply([json.dumps(of).encode()], **more)


def stream(pieces: Sequence[Piece] = PIECES, **more: Any) -> Reply:
    return Reply(pieces, kind="text/event-stream; charset=utf-8", **more)


def zipped(reply: Reply) -> Reply:
    """The same reply, compressed as a whole and cut into small pieces."""
    data = gzip.compress(b"".join(piece for piece in reply.pieces if isinstance(piece, bytes)), mtime=0)
    pieces = [data[i : i + 17] for i in range(0, len(data), 17)]
    return Reply(pieces, reply.status, reply.kind, {"content-encoding": "gzip"})


class Peer:
    """A server in memory: answers in order, the last answer again and again, and remembers what it was sent."""

    def __init__(self, *replies: Reply) -> None:
        self.replies, self.requests, self.bodies = list(replies), list[httpx2.Request](), list[Body]()

    def _next(self, request: httpx2.Request) -> Reply:
        self.requests.append(request)
        return self.replies[min(len(self.requests), len(self.replies)) - 1]

    def _response(self, reply: Reply) -> httpx2.Response:
        self.bodies.append(Body(reply.pieces))
        headers = {"content-type": reply.kind, "request-id": "req_1", **reply.headers}
        return httpx2.Response(reply.status, headers=headers, stream=self.bodies[-1])

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        reply = self._next(request)
        if isinstance(reply.before, Exception):
            raise reply.before
        return self._response(reply)

    async def answer_async(self, request: httpx2.Request) -> httpx2.Response:
        reply = self._next(request)
        if isinstance(reply.before, Exception):
            raise reply.before
        if reply.before is not None:
            await reply.before.wait()
        return self._response(reply)

    def client(self, **options: Any) -> anthropic.Anthropic:
        http = httpx2.Client(transport=httpx2.MockTransport(self.answer))
        return anthropic.Anthropic(api_key="k", http_client=http, **{"max_retries": 0, **options})

    def async_client(self, **options: Any) -> anthropic.AsyncAnthropic:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self.answer_async))
        return anthropic.AsyncAnthropic(api_key="k", http_client=http, **{"max_retries": 0, **options})

    @property
    def sent(self) -> list[Json]:
        """The bodies that arrived."""
        return [json.loads(request.content) for request in self.requests if request.content]


MIDDLEWARE_HEADER = b"x-stainless-raw-response"
"""The SDK itself sends this header, with the value "raw", for any client that has any middleware."""


def wire_of(request: httpx2.Request) -> tuple[str, str, list[tuple[bytes, bytes]], bytes]:
    """Everything of a request that the server sees, but for what the SDK says of there being a middleware."""
    headers = [(name, value) for name, value in request.headers.raw if name.lower() != MIDDLEWARE_HEADER]
    return request.method, str(request.url), sorted(headers), request.content


def an_accel(
    folder: Path, *, mode: Any = "on", strict: bool = True, environ: Mapping[str, str] | None = None, **more: Any
) -> Accel:
    policy = Policy(mode=mode, strict=strict, store=StorePolicy(path=folder / "trace.db"), **more)
    return Accel(policy, clock=ManualClock(), environ=environ)


def records(folder: Path) -> list[TurnRecord]:
    """Every turn in the store, oldest first."""
    with open_reader(folder / "trace.db") as store:
        return list(store.turns())


def marks(sent: Json) -> int:
    """How many markers a body carries."""
    return json.dumps(sent).count('"cache_control"')
