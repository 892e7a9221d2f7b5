"""A stream that was asked for in the place of a whole reply, read to its end and handed on as that whole reply.

The reply is watched where its bytes come in, so its tools begin while it is read here. Its reader gets a response of
the same HTTP library, with the headers that a JSON reply has, or what the library raises where it broke off.

A caller that asks for a whole reply lets its read timeout pass but once, before the first byte; a stream lets it begin
anew with each. So a stream has no longer than that from its headers on: who set a minute does not wait for an hour.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from agentaccel.clients.client_copy import library_of
from agentaccel.clients.looking import peek, peek_async
from agentaccel.clock import Clock
from agentaccel.wire.joining import Broken, StreamJoiner, Unclear, Whole

log = logging.getLogger("agentaccel")


@dataclass(slots=True)
class Join:
    """How the stream of one attempt becomes a whole reply."""

    joiner: StreamJoiner
    clock: Clock
    request: Any
    """As it was sent, of the HTTP library."""
    unclear: Callable[[str], None]
    """Told why a stream does not add up."""
    late: Callable[[], None]
    """Told that it takes longer than its caller allows."""
    strict: bool = False
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock.monotonic()

    def takes(self, chunk: bytes) -> bool:
        """Take the next decoded bytes; False where nothing of what still comes matters.

        Raises the library's `ReadTimeout` where the caller would not have waited so long.
        """
        joiner = self.joiner
        joiner.feed(chunk)
        if joiner.over:
            return joiner.complete  # then the connection is read to its end, and can be used again
        at_most = self.request.extensions.get("timeout", {}).get("read")
        if at_most is not None and self.clock.monotonic() - self.began > at_most:
            self.late()
            said = "the reply took longer than its read timeout"
            raise library_of(self.request).ReadTimeout(said, request=self.request)
        return True

    def forgives(self, error: BaseException) -> bool:
        """True if an error that came behind the whole reply is nobody's concern."""
        return isinstance(error, Exception) and self.joiner.complete

    def refused(self, body: bytes) -> bool:
        """True if the body of a refusal says that it is the stream which is refused, not the call."""
        if b"stream" not in body.lower():
            return False
        self.unclear("it is refused as a streamed one")
        return True

    def response(self, http: Any) -> Any:
        """What the stream of `http` came to, as a response; None where it does not add up. Raises the library's
        `RemoteProtocolError` where it ended before the reply did."""
        match self.joiner.end():
            case Whole(status, body):
                return self._made(http, status, body)
            case Unclear(why):
                self.unclear(why)
                return None
            case Broken():
                said = "the stream ended without the end of the reply"
                raise library_of(self.request).RemoteProtocolError(said, request=self.request)

    def _made(self, http: Any, status: int, body: bytes) -> Any:
        try:
            return _made(http, status, body)
        except Exception:
            if self.strict:
                raise
            log.exception("agentaccel: could not put a reply together")
            self.unclear("it could not be put together")
            return None


def joined(http: Any, join: Join) -> Any:
    """The whole reply of the stream `http`; `http` itself where it is none, and None where the call has to be sent
    again as written: its stream does not add up, or is refused."""
    if not _is_stream(http):
        if not _may_refuse(http) or not join.refused(peek(http)):
            return http
        http.close()
        return None
    try:
        for chunk in http.iter_bytes():
            if not join.takes(chunk):
                break
    except BaseException as error:
        if not join.forgives(error):
            raise
    finally:
        http.close()
    return join.response(http)


async def joined_async(http: Any, join: Join) -> Any:
    """The same on an event loop."""
    if not _is_stream(http):
        if not _may_refuse(http) or not join.refused(await peek_async(http)):
            return http
        await http.aclose()
        return None
    try:
        async with aclosing(http.aiter_bytes()) as chunks:
            async for chunk in chunks:
                if not join.takes(chunk):
                    break
    except BaseException as error:
        if not join.forgives(error):
            raise
    finally:
        await http.aclose()
    return join.response(http)


def _is_stream(http: Any) -> bool:
    """False for a refusal, and for the reply of a server that does not stream."""
    return http is not None and http.is_success and "event-stream" in http.headers.get("content-type", "")


def _may_refuse(http: Any) -> bool:
    """True if it may be the stream that is refused: OpenAI streams some models only to organisations that are
    verified, and a gateway may not stream at all."""
    return http is not None and http.status_code in (400, 403, 404, 405, 422, 501)


def _made(http: Any, status: int, body: bytes) -> Any:
    """A response in the place of `http`. Its body is still to be read, by whoever reads that of a response."""
    headers = [(name, value) for name, value in http.headers.raw if name.lower() not in _OF_BODY]
    headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    extensions = {**http.extensions}
    if status != http.status_code:
        extensions.pop("reason_phrase", None)
    stream = library_of(http).ByteStream(body)
    made = type(http)(status, headers=headers, stream=stream, extensions=extensions, history=http.history)
    if (request := getattr(http, "_request", None)) is not None:
        made.request = request
    return made


_OF_BODY = (
    b"content-type",
    b"content-encoding",
    b"content-length",
    b"transfer-encoding",
    b"cache-control",
    b"x-accel-buffering",
)
"""Headers that hold for the stream alone: what it is, how it is framed, and that nobody on the way keeps it."""
