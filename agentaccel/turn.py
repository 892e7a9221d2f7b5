"""One request to a model as a state machine without I/O: events in, commands out.

The seams under `clients/` perform the commands and report the events; they decide nothing. So the whole model half is
tested without an event loop, and one machine serves event loops, threads and sync clients alike.

    Started ─▶ [Wait …] Send ─▶ FirstByte ─▶ CallClosed* ─▶ Reported* ─▶ Finished | Failed | Abandoned
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from agentaccel.facts import Wire
from agentaccel.records import Outcome
from agentaccel.types import CachePlan, Request, ToolCall, Usage

# --- events: what happened, each with the monotonic time at which it did ---------------------------------------------


@dataclass(frozen=True, slots=True)
class Started:
    """The request is about to go out."""

    at: float


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
    """What the reply says of itself, so far; a later report replaces an earlier one."""

    usage: Usage
    stop: str | None = None
    message_id: str | None = None
    diagnostics: str | None = None
    """The provider's own reason for a missed prefix, where it was asked."""
    model: str | None = None
    """The model that answers, as the reply names it."""


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


Event = Started | FirstByte | CallClosed | Reported | Finished | Failed | Abandoned

# --- commands: what the seam is to do --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Send:
    """Send this request body."""

    request: Request


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until `gate` is set, at most so long, then go on whatever came of it."""

    gate: Future[None]
    at_most: float
    """Seconds."""


Command = Send | Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Everything a turn has to say, once it is over."""

    outcome: Outcome
    started: float
    """Monotonic, like the other times here."""
    first_byte: float | None
    finished: float
    usage: Usage
    stop: str | None
    message_id: str | None
    diagnostics: str | None
    calls: tuple[ToolCall, ...]
    status: int | None
    error: str | None
    model: str | None = None


@dataclass(slots=True, kw_only=True)
class Turn:
    """The machine. `handle` takes each event once; after the turn has ended it ignores whatever still comes."""

    request: Request
    """The body to send; the very object that was given where the plan is empty."""
    plan: CachePlan
    on_end: Callable[[Ended], None]
    """Called once, with everything."""
    hold: Wait | None = None
    """What to wait for before sending."""
    wire: Wire = "messages"
    """The form of the request, and so of the reply."""
    ttl: str = ""
    """The lifetime of what the provider writes, where the reply does not say; empty where that is not known."""
    hides_usage: bool = False
    """Whether the reply holds a chunk of usage that its reader did not ask for and must not see."""
    ended: Ended | None = None
    _started: float = 0.0
    _first_byte: float | None = None
    _report: Reported = field(default_factory=lambda: Reported(usage=Usage()))
    _calls: list[ToolCall] = field(default_factory=list)

    def handle(self, event: Event) -> list[Command]:
        """Take `event`; returns what to do now, in order."""
        if self.ended is not None:
            return []
        match event:
            case Started(at):
                self._started = at
                return [*([self.hold] if self.hold is not None else []), Send(self.request)]
            case FirstByte(at):
                self._first_byte = at if self._first_byte is None else self._first_byte
            case CallClosed(call, _):
                self._calls.append(call)
            case Reported():
                self._report = event
            case Finished(at):
                self._end("ok", at)
            case Abandoned(at):
                self._end("abandoned", at)
            case Failed():
                self._end("cancelled" if event.cancelled else "failed", event.at, event.status, event.error)
        return []

    def _end(self, outcome: Outcome, at: float, status: int | None = None, error: str | None = None) -> None:
        self.ended = Ended(
            outcome=outcome,
            started=self._started,
            first_byte=self._first_byte,
            finished=at,
            usage=self._report.usage,
            stop=self._report.stop,
            message_id=self._report.message_id,
            diagnostics=self._report.diagnostics,
            calls=tuple(self._calls),
            status=status,
            error=error,
            model=self._report.model,
        )
        self.on_end(self.ended)
