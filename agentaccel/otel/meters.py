"""The metrics: the conventions' own of requests and tools, and ours of the cache. Few attributes, of few values."""

from __future__ import annotations

from opentelemetry.context import Context
from opentelemetry.metrics import Meter

from agentaccel import semconv
from agentaccel.otel.attributes import Attributes, hit_ratio
from agentaccel.otel.money import Cost
from agentaccel.records import ToolRecord, TurnRecord

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
        self._tokens = meter.create_histogram(
            semconv.TOKEN_USAGE,
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=semconv.TOKEN_BUCKETS,
        )
        self._duration = meter.create_histogram(
            semconv.OPERATION_DURATION,
            "s",
            "GenAI operation duration.",
            explicit_bucket_boundaries_advisory=semconv.DURATION_BUCKETS,
        )
        self._tools = meter.create_histogram(
            semconv.TOOL_DURATION,
            "s",
            "The duration of a single tool execution.",
            explicit_bucket_boundaries_advisory=semconv.DURATION_BUCKETS,
        )
        self._hits = meter.create_histogram(
            semconv.HIT_RATIO,
            "1",
            "Input tokens read from the cache, over all input tokens of the request.",
            explicit_bucket_boundaries_advisory=_RATIO_BUCKETS,
        )
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
