"""The listener that makes spans and metrics.

A span of a request is made when the request has ended, under the context in which it was sent: its parent is whatever
was open there. A span of a tool is open while the tool runs, so that what the tool does stands below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import Token
from typing import NamedTuple

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, Meter
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer
from opentelemetry.util.types import AttributeValue

from agentaccel import semconv
from agentaccel.cache.bills import cards_of, paid_for
from agentaccel.cache.price import load_prices
from agentaccel.hooks import Told
from agentaccel.policy import Policy
from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.store.codec import dump_json

# --- What a request cost, for people who watch live; by the same prices as the report ---------------------------------


class Cost(NamedTuple):
    """USD of the input of one request."""

    paid: float | None = None
    saved: float | None = None
    """Against the request as it was written; negative for a loss, None where we changed nothing or cannot tell."""


class SpanPrices:
    """The prices that hold for one `Accel`."""

    def __init__(self, policy: Policy) -> None:
        self._aliases, self._prices = policy.aliases, policy.prices
        load_prices()

    def cost(self, turn: TurnRecord) -> Cost:
        """What the input of `turn` cost, as far as that is known."""
        if turn.billed.input is None:
            return Cost()
        cards = cards_of(turn, self._aliases, self._prices)
        paid = paid_for(turn, cards)
        if paid is None or turn.mode != "on" or turn.as_written is None:
            return Cost(paid)
        as_written = paid_for(turn, cards, turn.as_written)
        return Cost(paid, None if as_written is None else as_written - paid)


# --- Records as attributes of spans. What is not known is left out ----------------------------------------------------

Attributes = dict[str, AttributeValue]


def hit_ratio(turn: TurnRecord) -> float | None:
    """Tokens read over all input tokens that were billed; None where nobody reported what the cache did."""
    read, total = turn.billed.read, turn.billed.input
    return None if read is None or not total else read / total


def of_turn(turn: TurnRecord, told: Told) -> Attributes:
    """What the conventions have a name for. Its usage is that of the sampling that answered: the input is the prompt,
    and is priced as the model of the span is."""
    host, port = told.server or (None, None)
    usage = turn.usage
    waited = None if turn.first_byte is None or not turn.streamed else turn.first_byte - turn.started
    return _known(
        {
            semconv.OPERATION: semconv.CHAT,
            semconv.PROVIDER: semconv.provider_name(turn.provider, turn.platform),
            semconv.CONVERSATION: turn.session,
            semconv.AGENT: turn.agent,
            semconv.REQUEST_MODEL: turn.model or None,
            semconv.REQUEST_STREAM: turn.streamed or None,
            semconv.RESPONSE_MODEL: told.model,
            semconv.RESPONSE_ID: told.id,
            semconv.FINISH_REASONS: None if turn.stop is None else [turn.stop],
            semconv.FIRST_CHUNK: waited,
            semconv.INPUT_TOKENS: usage.input,
            semconv.OUTPUT_TOKENS: usage.output,
            semconv.CACHE_READ: usage.read,
            semconv.CACHE_WRITE: usage.written,
            semconv.SERVER_ADDRESS: host,
            semconv.SERVER_PORT: port,
            semconv.HTTP_STATUS: turn.status,
            semconv.ERROR_TYPE: error_type(turn),
        }
    )


def of_ours(turn: TurnRecord, cost: Cost) -> Attributes:
    """What only agentaccel knows of a request."""
    return _known(
        {
            semconv.MODE: turn.mode,
            semconv.ATTEMPT: turn.attempt or None,
            semconv.WAITED: turn.waited,
            semconv.OUTCOME: outcome(turn),
            semconv.HIT_RATIO: hit_ratio(turn),
            **{semconv.WRITTEN_FOR + label: tokens for label, tokens in (turn.usage.write or {}).items() if tokens},
            **{semconv.TERM + name: value for name, value in turn.terms.items()},
            semconv.BILLED: dump_json(turn.besides) if turn.besides else None,
            semconv.DOUBTS: list(turn.doubts) or None,
            semconv.MISS_CAUSES: [miss.cause.value for miss in turn.misses] or None,
            semconv.COST_PAID: cost.paid,
            semconv.COST_SAVED: cost.saved,
        }
    )


def of_tool(tool: ToolRecord, call_id: str | None) -> Attributes:
    """What is known of a run of a tool once it has ended."""
    return _known(
        {
            semconv.TOOL_CALL_ID: call_id,
            semconv.CONVERSATION: tool.session or None,
            semconv.AGENT: tool.agent,
            semconv.OUTCOME: outcome(tool),
            semconv.ERROR_TYPE: error_type(tool),
            semconv.SPECULATIVE: tool.speculative or None,
            semconv.SERVED_FROM: tool.served_from,
            semconv.HIDDEN: tool.hidden,
        }
    )


def outcome(record: TurnRecord | ToolRecord) -> str | None:
    """How it ended, where it did not end well."""
    return None if record.outcome == "ok" else record.outcome


def error_type(record: TurnRecord | ToolRecord) -> str | None:
    """The kind of the error that ended it; None for what was cancelled or broken off, which is no error."""
    if record.outcome != "failed":
        return None
    status = record.status if isinstance(record, TurnRecord) else None
    return record.error or (str(status) if status is not None else semconv.OTHER_ERROR)


def _known(values: dict[str, AttributeValue | None]) -> Attributes:
    return {name: value for name, value in values.items() if value is not None}


# --- The metrics: the conventions' own of requests and tools, and ours of the cache -----------------------------------
# Few attributes, of few values.

_PLACE = (
    semconv.OPERATION,
    semconv.PROVIDER,
    semconv.REQUEST_MODEL,
    semconv.RESPONSE_MODEL,
    semconv.SERVER_ADDRESS,
    semconv.SERVER_PORT,
)
"""What every metric of a request is split by."""

_RATIO_BUCKETS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


class Meters:
    """The instruments. `standard`: whether the conventions' own metrics of requests are made."""

    def __init__(self, meter: Meter, *, standard: bool) -> None:
        self._standard = standard

        def histogram(name: str, unit: str, says: str, buckets: Sequence[float]) -> Histogram:
            return meter.create_histogram(name, unit, says, explicit_bucket_boundaries_advisory=buckets)

        hits = "Input tokens read from the cache, over all input tokens of the request."
        seconds = semconv.DURATION_BUCKETS
        self._tokens = histogram(
            semconv.TOKEN_USAGE, "{token}", "Number of input and output tokens used.", semconv.TOKEN_BUCKETS
        )
        self._duration = histogram(semconv.OPERATION_DURATION, "s", "GenAI operation duration.", seconds)
        self._tools = histogram(semconv.TOOL_DURATION, "s", "The duration of a single tool execution.", seconds)
        self._hits = histogram(semconv.HIT_RATIO, "1", hits, _RATIO_BUCKETS)
        self._paid = meter.create_counter(semconv.COST_PAID, "{USD}", "Cost of input, as paid at listed prices.")
        self._saved = meter.create_up_down_counter(
            semconv.COST_SAVED, "{USD}", "What the request as it was written would have cost more; modelled."
        )

    def turn(self, turn: TurnRecord, cost: Cost, attributes: Attributes, context: Context) -> None:
        """One request; `attributes` are those of its span."""
        place = {name: attributes[name] for name in _PLACE if name in attributes}
        if self._standard:
            self._request(turn, place, attributes, context)
        ours = {**place, semconv.MODE: turn.mode}
        ratio = hit_ratio(turn)
        if ratio is not None:
            self._hits.record(ratio, ours, context)
        if cost.paid is not None:
            self._paid.add(cost.paid, ours, context)
        if cost.saved is not None:
            self._saved.add(cost.saved, ours, context)

    def _request(self, turn: TurnRecord, place: Attributes, attributes: Attributes, context: Context) -> None:
        for kind, tokens in (("input", turn.billed.input), ("output", turn.billed.output)):
            if tokens is not None:
                self._tokens.record(tokens, {**place, semconv.TOKEN_TYPE: kind}, context)
        error = attributes.get(semconv.ERROR_TYPE)
        if turn.finished is not None:
            ended = {**place, semconv.ERROR_TYPE: error} if error is not None else place
            self._duration.record(turn.finished - turn.started, ended, context)

    def tool(self, tool: ToolRecord, attributes: Attributes, context: Context) -> None:
        """One run of a tool."""
        wanted = (semconv.TOOL_NAME, semconv.TOOL_TYPE, semconv.ERROR_TYPE, semconv.SPECULATIVE)
        if tool.finished is not None:
            kept = {name: attributes[name] for name in wanted if name in attributes}
            self._tools.record(tool.finished - tool.started, kept, context)


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

    def __init__(self, tracer: Tracer, meters: Meters, prices: SpanPrices, *, model_spans: bool) -> None:
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
