"""The listener that makes spans and metrics.

A span of a request is made when the request has ended, under the context in which it was sent: its parent is whatever
was open there. A span of a tool is open while the tool runs, so that what the tool does stands below it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import Token
from typing import NamedTuple

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer

from agentaccel import semconv
from agentaccel.listening import Told
from agentaccel.otel.attributes import Attributes, of_ours, of_tool, of_turn
from agentaccel.otel.meters import Meters
from agentaccel.otel.money import Prices
from agentaccel.records import ToolRecord, TurnRecord

_SHARED = (semconv.CONVERSATION, semconv.AGENT, semconv.FINISH_REASONS)
"""What another's span of a request gets of the conventions' attributes, where it has none: what an SDK cannot know, or
leaves out. Its usage is its own business: it sets that later, from the same reply."""

_OF_TOOLS = (semconv.TOOL_CALL_ID, semconv.CONVERSATION)
"""The same for another's span of a tool."""


class _Begun(NamedTuple):
    """What is noted where a call begins."""

    context: Context
    theirs: Span | None
    """The span that somebody else has open for this very call."""
    ours: Span | None = None
    token: Token[Context] | None = None


class Exporter:
    """Makes the spans and metrics of one `Accel`; thread-safe as its tracer and meter are."""

    def __init__(self, tracer: Tracer, meters: Meters, prices: Prices, *, model_spans: bool) -> None:
        self._tracer, self._meters, self._prices = tracer, meters, prices
        self._model_spans = model_spans

    def begins(self, at: float, tool: str | None) -> _Begun:
        """Note the caller's context; a tool's span opens here."""
        context, current = contexts.get_current(), trace.get_current_span()
        theirs = current if _is_of_this_call(current, tool) else None
        if tool is None or theirs is not None:
            return _Begun(context, theirs)
        span = self._tracer.start_span(
            f"{semconv.EXECUTE_TOOL} {tool}",
            context,
            SpanKind.INTERNAL,
            {semconv.OPERATION: semconv.EXECUTE_TOOL, semconv.TOOL_NAME: tool, semconv.TOOL_TYPE: "function"},
            start_time=_nanoseconds(at),
        )
        inside = trace.set_span_in_context(span, context)
        return _Begun(inside, None, span, contexts.attach(inside))

    def ended(self, began: object, told: Told | None) -> None:
        """Make what is to be made of it."""
        assert isinstance(began, _Begun)
        if began.token is not None:
            contexts.detach(began.token)
        if told is None:
            return  # a span that is never ended is never exported
        if isinstance(told.record, TurnRecord):
            self._turn(began, told.record, told)
        else:
            self._tool(began, told.record, told)

    def _turn(self, began: _Begun, turn: TurnRecord, told: Told) -> None:
        cost = self._prices.cost(turn)
        attributes, ours = of_turn(turn, told), of_ours(turn, cost)
        context = began.context
        if began.theirs is not None:
            _add(began.theirs, {name: attributes[name] for name in _SHARED if name in attributes}, ours)
        elif self._model_spans:
            span = self._tracer.start_span(
                f"{semconv.CHAT} {turn.model}".rstrip(),
                context,
                SpanKind.CLIENT,
                {**attributes, **ours},
                start_time=_nanoseconds(turn.started),
            )
            context = trace.set_span_in_context(span, context)
            _end(span, attributes, turn.finished or turn.started)
        self._meters.turn(turn, cost, attributes, context)

    def _tool(self, began: _Begun, tool: ToolRecord, told: Told) -> None:
        attributes = of_tool(tool, told.id)
        if began.theirs is not None:
            _add(began.theirs, {name: attributes[name] for name in _OF_TOOLS if name in attributes}, {})
        elif began.ours is not None:
            began.ours.set_attributes(attributes)
            _end(began.ours, attributes, tool.finished or tool.started)
        named = {semconv.TOOL_NAME: tool.name, semconv.TOOL_TYPE: "function", **attributes}
        self._meters.tool(tool, named, began.context)


def _is_of_this_call(span: Span, tool: str | None) -> bool:
    """Whether `span` is somebody's for the very call that begins inside it: a request, or a run of `tool`.

    The API cannot be asked what a span is called or says; a span of the SDK can, and another one is nobody's.
    """
    said = getattr(span, "attributes", None)
    if not span.is_recording() or not isinstance(said, Mapping):
        return False
    operation = said.get(semconv.OPERATION)
    if tool is not None:
        return operation == semconv.EXECUTE_TOOL and said.get(semconv.TOOL_NAME) == tool
    return operation in semconv.INFERENCE


def _add(span: Span, theirs: Attributes, ours: Attributes) -> None:
    """Add to somebody else's span what it does not say; what it says stays, and one that has ended stays as it is."""
    if not span.is_recording():
        return
    said = getattr(span, "attributes", None) or {}
    span.set_attributes({**{name: value for name, value in theirs.items() if name not in said}, **ours})


def _end(span: Span, attributes: Attributes, at: float) -> None:
    error = attributes.get(semconv.ERROR_TYPE)
    if error is not None:
        span.set_status(Status(StatusCode.ERROR))
    span.end(_nanoseconds(at))


def _nanoseconds(seconds: float) -> int:
    return int(seconds * 1e9)
