"""One request to a model as a state machine without I/O: events in, commands out.

The seams under `clients/` perform the commands and report the events; they decide nothing. So the whole model half is
tested without an event loop, and one machine serves event loops, threads and sync clients alike.

    Started ─▶ [Wait ─▶ Waited]* ─▶ Send ─▶ Responded ─▶ FirstByte ─▶ CallClosed* ─▶ Reported*
            ─▶ Finished | Failed | Abandoned
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from agentaccel.facts import Wire
from agentaccel.records import Outcome
from agentaccel.types import BilledPart, CachePlan, EngineWork, Request, ToolCall, Usage
from agentaccel.values import quickly_made

# --- events: what happened, each with the monotonic time at which it did ----------------------------------------------


@dataclass(frozen=True, slots=True)
class Started:
    """The request is about to go out."""

    at: float
    can_wait: bool = False
    """Whether whoever sends it performs a `Wait`. Else there is none, and `Send` is the answer."""


@dataclass(frozen=True, slots=True)
class Waited:
    """A `Wait` is over: the gate was set, or the time was up."""

    at: float


@dataclass(frozen=True, slots=True)
class Responded:
    """The headers of a reply are there, with any HTTP status; its body may still be to come."""

    at: float
    status: int


@dataclass(frozen=True, slots=True)
class FirstByte:
    """The reply has begun."""

    at: float


@dataclass(frozen=True, slots=True)
class CallClosed:
    """The arguments of a tool call in the reply are complete."""

    call: ToolCall
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What the reply says of itself, so far (`besides`, `doubts`, `terms`: as in `TurnRecord`); a later report replaces
    an earlier one."""

    usage: Usage
    stop: str | None = None
    message_id: str | None = None
    diagnostics: str | None = None
    """The provider's own reason for a missed prefix, where it was asked."""
    model: str | None = None
    """The model that answers, as the reply names it."""
    terms: Mapping[str, str] = field(default_factory=dict)
    besides: tuple[BilledPart, ...] = ()
    doubts: tuple[str, ...] = ()
    work: EngineWork | None = None
    """What a server of the user's own says of its work; None where it says nothing."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The reply has ended."""

    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """No reply, or half of one: an error of the provider, of the network, or a cancelled task."""

    at: float
    status: int | None = None
    error: str | None = None
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The reader broke off before the reply had ended."""

    at: float


Event = Started | Waited | Responded | FirstByte | CallClosed | Reported | Finished | Failed | Abandoned

# --- commands: what the seam is to do ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send this request body."""

    request: Request


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until `gate` is set, at most so long, then say `Waited` whatever came of it."""

    gate: Future[None]
    at_most: float
    """Seconds."""


Command = Send | Wait


class Hold(Protocol):
    """What a request may have to wait for before it is sent, and who waits for it."""

    def before(self, at: float, *, can_wait: bool) -> tuple[Future[None], float] | None:
        """The gate to wait for and the most seconds; None where the request goes out now."""
        ...

    def began(self, at: float) -> None:
        """The reply has begun."""
        ...

    def over(self, at: float) -> None:
        """The turn has ended, whatever way."""
        ...


class Answer(NamedTuple):
    """What came back for a request of our own."""

    status: int
    body: bytes


class Resend(NamedTuple):
    """A way to send another body as the turn's own was sent: same client, headers and place."""

    send: Callable[[Request, Mapping[str, str]], Answer | Awaitable[Answer]]
    """Takes the body, and headers to be added where the sender has none of that name."""
    loop: Any = None
    """The event loop that it has to be awaited on; None where it blocks."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Everything a turn has to say, once it is over."""

    outcome: Outcome
    started: float
    """When the request was sent, or was about to be; monotonic, like the other times here."""
    first_byte: float | None
    finished: float
    said: Reported
    """The last report."""
    calls: tuple[ToolCall, ...]
    status: int | None
    error: str | None
    asked: float = 0.0
    """When it was about to be sent, before it waited."""
    waited: float | None = None
    """Seconds for which it was held back, until it was sent or given up; None where it was not."""
    request: Request = field(default_factory=dict)
    """As it was sent."""
    resend: Resend | None = None
    """As in `Turn`."""

    @property
    def usage(self) -> Usage:
        """Of the sampling that answered."""
        return self.said.usage


_NOTHING = Reported(usage=Usage())


@dataclass(slots=True, kw_only=True)
class Turn:
    """The machine. `handle` takes each event once; after the turn has ended it ignores whatever still comes."""

    request: Request
    """The body to send; the very object that was given where the plan is empty."""
    plan: CachePlan
    on_end: Callable[[Ended], None]
    """Called once, with everything."""
    hold: Hold | None = None
    """What to wait for before sending, if anything."""
    wire: Wire = "messages"
    """The form of the request, and so of the reply."""
    ttl: str = ""
    """The lifetime of what the provider writes, where the reply does not say; empty where that is not known."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers to be added to the request."""
    hides_usage: bool = False
    """Whether the reply holds a chunk of usage that its reader did not ask for and must not see."""
    resend: Resend | None = None
    """How another request can be sent as this one was; None where nobody said."""
    unclear: Callable[[str], None] | None = None
    """There where the request goes out streamed and its caller asks for a whole reply, which the seam puts together:
    told why, where the stream does not add up."""
    on_send: Callable[[], None] | None = None
    """Called once, when it is about to be sent."""
    on_call: Callable[[ToolCall], None] | None = None
    """Called with each tool call of the reply, as soon as its arguments are complete."""
    ended: Ended | None = None
    calls: list[ToolCall] = field(default_factory=list)
    _asked: float = 0.0
    _started: float | None = None
    """When it was sent; None before that."""
    _held: bool = False
    _first_byte: float | None = None
    _report: Reported = _NOTHING

    def handle(self, event: Event) -> list[Command]:
        """Take `event`; returns what to do now, in order."""
        if self.ended is not None:
            return []
        match event:
            case Started() | Waited():
                return self._before(event)
            case Responded() | FirstByte():
                self._heard(event)
            case CallClosed(call, _):
                self.calls.append(call)
                if self.on_call is not None:
                    self.on_call(call)
            case Reported():
                self._report = event
            case Finished(at):
                self._end("ok", at)
            case Abandoned(at):
                self._end("abandoned", at)
            case Failed():
                self._end("cancelled" if event.cancelled else "failed", event.at, event.status, event.error)
        return []

    def _before(self, event: Started | Waited) -> list[Command]:
        at = event.at
        if isinstance(event, Started):
            self._asked, can_wait = at, event.can_wait
        elif self._started is not None:
            return []
        else:
            can_wait = True
        wait = self.hold.before(at, can_wait=can_wait) if self.hold is not None else None
        if wait is not None:
            self._held = True
            return [Wait(*wait)]
        self._started = at
        if self.on_send is not None:
            self.on_send()
        return [Send(self.request)]

    def _heard(self, event: Responded | FirstByte) -> None:
        """The provider has made up its mind: from here on nobody needs to wait for this request."""
        began = True
        if isinstance(event, Responded):
            began = 200 <= event.status < 300
        elif self._first_byte is None:
            self._first_byte = event.at
        if self.hold is None:
            return
        if began:
            self.hold.began(event.at)
        else:
            self.hold.over(event.at)

    def _end(self, outcome: Outcome, at: float, status: int | None = None, error: str | None = None) -> None:
        if self.hold is not None:
            if outcome == "ok":
                self.hold.began(at)
            self.hold.over(at)
        sent = self._started
        self.ended = Ended(
            outcome=outcome,
            started=self._asked if sent is None else sent,
            first_byte=self._first_byte,
            finished=at,
            said=self._report,
            calls=tuple(self.calls),
            status=status,
            error=error,
            asked=self._asked,
            waited=None if not self._held else (at if sent is None else sent) - self._asked,
            request=self.request,
            resend=self.resend,
        )
        self.on_end(self.ended)
