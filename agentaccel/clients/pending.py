"""Replies that are not made yet when their exchange is over, such as a background response of OpenAI's: the exchange
that says that they are (a poll, a stream that is taken up again, a cancellation) ends the turn of the request, once.
One that has ended and does not tell what it has used may do so later, unless it failed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

from agentaccel.clients.tap import Ending, Headers, ReplyWatch, Tap, decoder, watched
from agentaccel.engine.draft import reported
from agentaccel.engine.engine import Engine
from agentaccel.engine.pending import Batch, PendingReplies, Server, Unfinished, batch_here, record_result
from agentaccel.turn import CallClosed, Turn
from agentaccel.types import NO_USAGE, Endpoint, ToolCall
from agentaccel.wire import ReplyTap
from agentaccel.wire.batches import result_of

log = logging.getLogger("agentaccel")


def attach(http: Any, engine: Engine, watch: Callable[[Headers], Tap]) -> None:
    """Have what `watch` makes for these headers told the body of a response, which may be read already."""
    if http.is_stream_consumed or http.is_closed:
        made = watch(_Plain(http.headers))
        made.chunk(http.content)
        made.end("read")
        return
    made = watch(http.headers)
    engine.replies.add(made)
    http.stream = watched(http.stream, made)


def keep(later: PendingReplies, server: Server, turn: Turn, tap: ReplyTap, otherwise: Ending) -> bool:
    """True if the reply goes on being made at the provider, or will tell its usage later, and is waited for.

    One that is streamed does so behind a stream that broke off only where that was asked for.
    """
    background = turn.request.get("background") is True
    waits = tap.pending or (background and _untold(tap))
    if not waits or tap.message_id is None or (tap.streamed and not background):
        return False
    later.keep(server, Unfinished(tap.message_id, turn, otherwise))
    return True


def watch_later(engine: Engine, server: Server, path: str, http: Any) -> Any:
    """Watch a response to a request for `path` that may tell the end of an earlier reply. Returns it, its bytes as
    they came."""
    later = engine.replies.later
    try:
        reply = later.named(server, path) if http.is_success else None
        if reply is not None:
            attach(http, engine, lambda headers: _LaterWatch(engine, server, reply, headers))
    except Exception:
        if engine.policy.strict:
            raise
        log.exception("agentaccel: could not watch what may tell the end of an earlier reply; it goes on")
    return http


def _untold(tap: ReplyTap) -> bool:
    """True if the reply has ended otherwise than by failing, and said nothing of usage."""
    metered = tap.metered
    told = metered.usage != NO_USAGE or metered.besides or metered.doubts
    return tap.complete and tap.error is None and not told


class _LaterWatch(ReplyWatch):
    """Tells the turn of an unfinished reply nothing before its end is known. Several may watch for the same one."""

    def __init__(self, engine: Engine, server: Server, reply: Unfinished, headers: Headers) -> None:
        super().__init__(reply.turn, engine.clock, headers, strict=engine.policy.strict)
        self._later, self._server, self._reply = engine.replies.later, server, reply
        self._found: list[ToolCall] = []

    def _chunk(self, raw: bytes) -> None:
        if self._decode is None or self._over:
            return
        self._found.extend(self._tap.feed(self._decode(raw)))
        if self._tap.complete:
            self._end("read", None)

    def _end(self, how: str, error: str | None) -> None:
        if self._over:
            return
        self._over = True
        tap, turn = self._tap, self._turn
        if how == "read":
            self._found.extend(tap.finish())
        its_own = tap.message_id == self._reply.id and tap.stop is not None
        if not its_own or tap.pending or not self._later.take(self._server, self._reply):
            return
        now = self._clock.monotonic()
        told = {call.id for call in turn.calls}
        for call in self._found:
            if call.id is None or call.id not in told:
                turn.handle(CallClosed(call, now))
        turn.handle(reported(tap))
        ending = self._ending(how, error, now)
        if _untold(tap):
            self._later.keep(self._server, self._reply._replace(otherwise=ending))
        else:
            turn.handle(ending)


class _Plain:
    """Headers of a body that the HTTP library has decoded already."""

    def __init__(self, headers: Any) -> None:
        self._headers = headers

    def get(self, key: str, default: str) -> str:
        return default if key == "content-encoding" else str(self._headers.get(key, default))


# --- Results of batches: they are asked for long before they are read, and told as requests when they are read --------


_LONGEST = 16 * 2**20
"""Bytes of a result that are held until its line is over; one that is longer is left out."""

_PLACES = (
    (re.compile("(.*/messages)/batches/([^/]+)/results/?"), ""),
    (re.compile("(.*)/files/([^/]+)/content/?"), "/chat/completions"),
)
"""Paths of what may hold results, and where, beside what they begin with, requests like those of the batch are sent."""


def watch_results(
    engine: Engine, method: str, path: str, http: Any, endpoint: Callable[[str], Endpoint | None]
) -> None:
    """Watch the response `http` to a request for `path`, if it may hold the results of a batch.

    `endpoint` tells where the provider's requests go from the path that they are sent to.
    """
    try:
        if method.upper() != "GET" or http is None or not http.is_success:
            return
        for place, calls in _PLACES:
            found = place.fullmatch(path)
            to = endpoint(found[1] + calls) if found is not None else None
            if found is not None and to is not None:
                attach(http, engine, partial(_ResultsWatch, engine, batch_here(engine.registry.owner, found[2], to)))
                return
    except Exception:
        if engine.policy.strict:
            raise
        log.exception("agentaccel: could not watch the results of a batch; they go on, unrecorded")


class _ResultsWatch:
    """Records each result as its line goes by. Nothing is held but the line that has begun.

    Where the first line is no result, neither is the rest: any file can be downloaded as one of OpenAI's.
    """

    def __init__(self, engine: Engine, batch: Batch, headers: Headers) -> None:
        self._engine, self._batch = engine, batch
        self._decode = decoder(headers.get("content-encoding", ""))
        self._line = bytearray()
        self._known = False
        """True if a line has turned out to be a result."""
        self._too_long = False
        self._over = self._decode is None

    def chunk(self, raw: bytes) -> None:
        """The next raw bytes, before they are handed on."""
        if not self._over and self._decode is not None:
            self._guarded(self._take, self._decode, raw)

    def end(self, how: Literal["read", "closed", "cancelled", "failed"], error: str | None = None) -> None:
        """They are over; what was broken off within a line is no result."""
        if how == "read" and not self._over:
            self._guarded(self._line_ends)
        self._over = True

    def _guarded(self, work: Callable[..., None], *given: Any) -> None:
        try:
            work(*given)
        except Exception:
            self._over = True
            if self._engine.policy.strict:
                raise
            log.exception("agentaccel: could not read the results of a batch; they go on, and the rest is unrecorded")

    def _take(self, decode: Callable[[bytes], bytes], raw: bytes) -> None:
        data, start = decode(raw), 0
        while not self._over and (end := data.find(b"\n", start)) >= 0:
            self._goes_on(data, start, end)
            self._line_ends()
            start = end + 1
        if not self._over:
            self._goes_on(data, start, len(data))

    def _goes_on(self, data: bytes, start: int, end: int) -> None:
        if len(self._line) + end - start > _LONGEST:
            self._too_long = True
        if self._too_long:
            self._line.clear()
        else:
            self._line += memoryview(data)[start:end]

    def _line_ends(self) -> None:
        line, too_long = bytes(self._line).strip(), self._too_long
        self._line.clear()
        self._too_long = False
        if too_long:
            log.warning("agentaccel: a result of a batch is too long to be read; it is not recorded")
        if not line:
            return
        result = result_of(line)
        if result is not None:
            self._known = True
            engine = self._engine
            record_result(engine.recorder, engine.policy, engine.clock.wall(), self._batch, result)
        elif not self._known:
            self._over = True
