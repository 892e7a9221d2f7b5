"""Replies that are not made yet when their exchange is over, such as a background response of OpenAI's: the exchange
that says that they are (a poll, a stream that is taken up again, a cancellation) ends the turn of the request, once.
One that has ended and does not tell what it has used may do so later, unless it failed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from agentaccel.clients.watch import Ending, Headers, ReplyWatch, Watch, watched
from agentaccel.providers import ReplyTap
from agentaccel.session import Composer
from agentaccel.session.later import Later, Server, Unfinished
from agentaccel.session.ours import reported
from agentaccel.turn import CallClosed, Turn
from agentaccel.types import ToolCall
from agentaccel.usage import NO_USAGE

log = logging.getLogger("agentaccel")


def attach(http: Any, composer: Composer, watch: Callable[[Headers], Watch]) -> None:
    """Have what `watch` makes for these headers told the body of a response, which may be read already."""
    if http.is_stream_consumed or http.is_closed:
        made = watch(_Plain(http.headers))
        made.chunk(http.content)
        made.end("read")
        return
    made = watch(http.headers)
    composer.replies.add(made)
    http.stream = watched(http.stream, made)


def keep(later: Later, server: Server, turn: Turn, tap: ReplyTap, otherwise: Ending) -> bool:
    """True if the reply goes on being made at the provider, or will tell its usage later, and is waited for.

    One that is streamed does so behind a stream that broke off only where that was asked for.
    """
    background = turn.request.get("background") is True
    waits = tap.pending or (background and _untold(tap))
    if not waits or tap.message_id is None or (tap.streamed and not background):
        return False
    later.keep(server, Unfinished(tap.message_id, turn, otherwise))
    return True


def watch_later(composer: Composer, server: Server, path: str, http: Any) -> Any:
    """Watch a response to a request for `path` that may tell the end of an earlier reply. Returns it, its bytes as
    they came."""
    later = composer.replies.later
    try:
        reply = later.named(server, path) if http.is_success else None
        if reply is not None:
            attach(http, composer, lambda headers: _LaterWatch(composer, server, reply, headers))
    except Exception:
        if composer.policy.strict:
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

    def __init__(self, composer: Composer, server: Server, reply: Unfinished, headers: Headers) -> None:
        super().__init__(reply.turn, composer.clock, headers, strict=composer.policy.strict)
        self._later, self._server, self._reply = composer.replies.later, server, reply
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
