"""One HTTP attempt of a vendor SDK, whatever its seam: its turn, and how the turn ends.

A seam asks for an attempt, sends what it says, and hands it the response; this module decides nothing either.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from agentaccel.clients.joining import Join, joined, joined_async
from agentaccel.clients.pending import attach, keep
from agentaccel.clients.tap import Headers, ReplyWatch, decoder, watched
from agentaccel.clients.usage_filter import hiding_usage
from agentaccel.clock import Clock
from agentaccel.concurrency import in_a_loop
from agentaccel.engine.engine import Engine
from agentaccel.engine.pending import Server
from agentaccel.engine.scope import NO_SENDER, Announced, Scope, Sender, bypassed, current
from agentaccel.locks import when_free
from agentaccel.records import outcome_of
from agentaccel.selfhost.hints import REFUSALS, added, refused
from agentaccel.turn import Answer, Failed, Finished, Resend, Responded, Started, Turn, Wait, Waited
from agentaccel.types import CachePlan, Endpoint, Request
from agentaccel.wire import dialect

# --- Replies that say no: the provider's own name for the error, never its text ---------------------------------------
# Read from what the caller reads anyway: a refusal whose body nobody asks for keeps its name to itself.


_MOST = 65_536
"""Bytes of a body that are looked at; refusals are short."""

_NAMES = ("type", "status", "code")
"""Where an error object has its name: most providers', Google's, and gateways'."""


def error_name(headers: Headers, body: bytes) -> str | None:
    """What the provider calls the error.

    >>> error_name({"x-amzn-errortype": "ThrottlingException:http://internal"}, b"")
    'ThrottlingException'
    >>> error_name({}, b'{"error": {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED"}}')
    'RESOURCE_EXHAUSTED'
    >>> error_name({}, b"<html>") is None
    True
    """
    named = headers.get("x-amzn-errortype", "").partition(":")[0]
    if named:
        return named
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return None
    told = told[0] if isinstance(told, list) and told else told  # Google's streams are lists
    error = told.get("error") if isinstance(told, dict) else None
    names = [error.get(name) for name in _NAMES] if isinstance(error, dict) else []
    return next((name for name in names if isinstance(name, str) and name), None)


class RefusalWatch:
    """Ends the turn of a request that was refused, once the body has been read or given up."""

    def __init__(self, turn: Turn, clock: Clock, http: Any, *, strict: bool) -> None:
        self._turn, self._clock, self._strict = turn, clock, strict
        self._status, self._headers = http.status_code, http.headers
        self._decode = decoder(http.headers.get("content-encoding", ""))
        self._body = b""

    def chunk(self, raw: bytes) -> None:
        """The next raw bytes of the refusal, before they are handed on."""
        if self._decode is None or len(self._body) > _MOST:
            return
        try:
            self._body += self._decode(raw)
        except Exception:
            # It is not encoded as it says, in words that differ by library; its reader is the one to complain.
            log.debug("agentaccel: could not read a refusal", exc_info=True)
            self._decode = None

    def decoded(self, body: bytes) -> None:
        """The whole body, which the HTTP library has read and decoded before."""
        self._body = body

    def end(self, how: str, error: str | None = None) -> None:
        """The refusal is over, however that came about: the provider had said no before."""
        when_free(self._end_guarded)

    def _end_guarded(self) -> None:
        try:
            name = error_name(self._headers, self._body)
            self._turn.handle(Failed(at=self._clock.monotonic(), status=self._status, error=name))
        except Exception:
            if self._strict:
                raise
            log.exception("agentaccel: could not record a refusal")


log = logging.getLogger("agentaccel")


ANNOUNCED = "x-agentaccel-announced"
"""A header that tells a request that is announced, and never sent, from others that are made on the way to it."""


class Outgoing(NamedTuple):
    """What a client is about to send."""

    engine: Engine
    body: Request
    endpoint: Endpoint
    model: str = ""
    """Stands in for the body's own field where the path names it."""
    retries: int = 0
    """Attempts before this one."""
    announced: bool = False
    """True if it has the header of that name."""
    as_written: bool = False
    """True if it must not be changed."""
    sender: Sender = NO_SENDER

    def attempt(self) -> Attempt:
        """The attempt to send it, in a thread."""
        with self._scope() as scope:
            if scope.announces or self.announced:
                return self._announcement(scope)
            turn = self.engine.begin(
                self.body, self.endpoint, model=self.model, attempt=self.retries, sender=self.sender
            )
        return Attempt(self.engine, turn, self.endpoint.server, self.body)

    async def attempt_async(self) -> Attempt:
        """The same on an event loop: on asyncio's, the trace store is read beside it."""
        if not in_a_loop():
            return self.attempt()
        with self._scope() as scope:
            if scope.announces or self.announced:
                return self._announcement(scope)
            turn = await self.engine.begin_async(
                self.body, self.endpoint, model=self.model, attempt=self.retries, sender=self.sender
            )
        return Attempt(self.engine, turn, self.endpoint.server, self.body)

    @contextlib.contextmanager
    def _scope(self) -> Iterator[Scope]:
        with bypassed() if self.as_written else contextlib.nullcontext():
            yield current.get()

    def _announcement(self, scope: Scope) -> Attempt:
        ahead = scope.announces and self.announced and not scope.bypass
        return _Announcement(self, ahead=ahead)


class Attempt:
    """One HTTP attempt: its turn, and the body to be sent for it. Entered around the sending."""

    def __init__(self, engine: Engine, turn: Turn, server: Server = None, written: Request | None = None) -> None:
        self._engine = engine
        self._turn = turn
        self._server = server
        self._written = turn.request if written is None else written
        self.body: Request = turn.request

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers to be added to those of the request."""
        return self._turn.headers

    def may_be_ours(self, status: int) -> bool:
        """True if a reply of this status may refuse a field that only our request has: its body tells."""
        if status not in REFUSALS or self._server is None or self.body is self._written:
            return False
        return bool(added(self.body, self._written))

    def refused(self, status: int, body: bytes) -> bool:
        """True if the body of a refusal names a field of ours: nothing was generated, this attempt is over, and another
        one goes without the field, now and from now on."""
        try:
            places = refused(body, added(self.body, self._written), self._written)
            if self._server is None or places <= self._engine.servers.refused(self._server):
                return False
            self._engine.servers.refuse(self._server, places)
        except Exception:
            if self._engine.policy.strict:
                raise
            log.exception("agentaccel: could not read a refusal; it goes on")
            return False
        log.info("agentaccel: %s:%d refuses %s; asked again without", *self._server, ", ".join(sorted(places)))
        self._end(lambda now: Failed(at=now, status=status, error="refused field"))
        return True

    @property
    def hides_usage(self) -> bool:
        """Whether the reply will hold what its reader must not see."""
        return self._turn.hides_usage

    @property
    def joins(self) -> bool:
        """True if it goes out streamed although its caller asks for a whole reply."""
        return self._turn.unclear is not None

    def whole(self, http: Any, request: Any) -> Any:
        """A response that was watched as its caller asked for it, put together from its stream where `joins`.

        None where the stream does not add up: the request is to be sent again, and goes out as written. Raises what
        the HTTP library does where the reply of `request` breaks off or takes too long.
        """
        return joined(http, self._join(request)) if self.joins else http

    async def whole_async(self, http: Any, request: Any) -> Any:
        """The same on an event loop."""
        return await joined_async(http, self._join(request)) if self.joins else http

    def _join(self, request: Any) -> Join:
        turn = self._turn
        late = partial(self._end, lambda now: Failed(at=now, error="ReadTimeout"))
        return Join(
            dialect(turn.wire).joiner(),
            self._engine.clock,
            request,
            unclear=turn.unclear or (lambda why: None),
            late=late,
            strict=self._engine.policy.strict,
        )

    @property
    def keeps(self) -> bool:
        """Whether it is of use to know how other requests can be sent as this one is."""
        return self._engine.policy.cache.keep_alive

    def can_resend(self, send: Callable[[Request, Mapping[str, str]], Answer]) -> None:
        """Other requests can be sent as this one is, by `send`, which blocks."""
        self._turn.resend = Resend(send)

    def can_resend_async(self, send: Callable[[Request, Mapping[str, str]], Awaitable[Answer]]) -> None:
        """The same on the running event loop; on one that is not asyncio's they cannot."""
        if in_a_loop():
            self._turn.resend = Resend(send, asyncio.get_running_loop())

    def wait(self) -> None:
        """Do what has to be done before sending, in a thread; on an event loop what is waited for might not go on."""
        command = self._next(lambda now: Started(now, can_wait=not in_a_loop()))
        while command is not None:
            wait(command)
            command = self._next(Waited)

    async def wait_async(self) -> None:
        """The same on an event loop; nothing waits on one that is not asyncio's."""
        command = self._next(lambda now: Started(now, can_wait=in_a_loop()))
        while command is not None:
            await wait_async(command)
            command = self._next(Waited)

    def _next(self, event: Callable[[float], Started | Waited]) -> Wait | None:
        """What to wait for now; None where the request is to be sent, also because we failed to tell."""
        try:
            commands = self._turn.handle(event(self._engine.clock.monotonic()))
        except Exception:
            if self._engine.policy.strict:
                raise
            log.exception("agentaccel: could not tell whether to hold a request; it goes out")
            return None
        return next((command for command in commands if isinstance(command, Wait)), None)

    def __enter__(self) -> Attempt:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """No response came: the network's error, or a cancelled task, ends the turn and goes on to the caller."""
        if error is not None:
            cancelled = outcome_of(error) == "cancelled"
            self._end(lambda now: Failed(at=now, error=type(error).__name__, cancelled=cancelled))

    def watch(self, http: Any) -> Any:
        """A response of the HTTP library came, whatever its status; its body may be read already, or still to come.

        None stands for an answer that somebody else made up. Returns the response for the caller to see.
        """
        if http is None:
            self._end(lambda now: Failed(at=now, error="answered without a response"))
            return None
        try:
            self._turn.handle(Responded(self._engine.clock.monotonic(), http.status_code))
            if http.is_success:
                self._watch_body(http)
            else:
                self._watch_refusal(http)
        except Exception:
            if self._engine.policy.strict:
                raise
            log.exception("agentaccel: could not watch a reply; it goes on, and its usage is not known")
            self._end(Finished)
        # Also where it could not be watched: what we asked for is not the caller's.
        return hiding_usage(http) if http.is_success and self._turn.hides_usage else http

    def _watch_body(self, http: Any) -> None:
        of, turn = self._engine, self._turn
        waited_for = partial(keep, of.replies.later, self._server, turn)
        strict = of.policy.strict
        attach(http, of, lambda told: ReplyWatch(turn, of.clock, told, strict=strict, waited_for=waited_for))

    def _watch_refusal(self, http: Any) -> None:
        watch = RefusalWatch(self._turn, self._engine.clock, http, strict=self._engine.policy.strict)
        if not (http.is_stream_consumed or http.is_closed):
            http.stream = watched(http.stream, watch)
            return
        with contextlib.suppress(RuntimeError):  # closed before it was read
            watch.decoded(http.content)
        watch.end("read")

    def _end(self, event: Callable[[float], Failed | Finished]) -> None:
        try:
            self._turn.handle(event(self._engine.clock.monotonic()))
        except Exception:
            if self._engine.policy.strict:
                raise
            log.exception("agentaccel: could not record a request")


class _Announcement(Attempt):
    """One that is not sent: as soon as it is known how it would be, whoever announces it is told.

    `ahead` says whether it can be written ahead: not one that is signed, or that a middleware has taken to another
    context; nor one that somebody's middleware makes on the way to it, and on whose reply it may depend.
    """

    def __init__(self, outgoing: Outgoing, *, ahead: bool) -> None:
        super().__init__(outgoing.engine, Turn(request=outgoing.body, plan=CachePlan(), on_end=lambda ended: None))
        self._outgoing, self._ahead = outgoing, ahead

    @property
    def keeps(self) -> bool:
        return True

    def can_resend(self, send: Callable[[Request, Mapping[str, str]], Answer]) -> None:
        self._stop(Resend(send))

    def can_resend_async(self, send: Callable[[Request, Mapping[str, str]], Awaitable[Answer]]) -> None:
        self._stop(Resend(send, asyncio.get_running_loop()))  # an announcement is made on asyncio's

    def _stop(self, resend: Resend) -> None:
        told = self._outgoing
        raise Announced(told.body, told.endpoint, told.model, resend if self._ahead else None, told.sender)


def stop_announced() -> None:
    """What was announced has come to where it would be sent as something that is planned for nobody: it is not sent.

    Raises `Announced`.
    """
    raise Announced({}, Endpoint())


def wait(command: Wait) -> None:
    """Perform a `Wait` in a thread: until the gate is set or the time is up, whatever came of it."""
    with contextlib.suppress(concurrent.futures.CancelledError, TimeoutError):
        command.gate.exception(timeout=command.at_most)


async def wait_async(command: Wait) -> None:
    """Perform a `Wait` on an event loop: other tasks go on, and a cancelled waiter leaves the gate to the others."""
    loop, passed = asyncio.get_running_loop(), asyncio.Event()

    def wake(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(passed.set)

    command.gate.add_done_callback(wake)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(command.at_most):
            await passed.wait()
