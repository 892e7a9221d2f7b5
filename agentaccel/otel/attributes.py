"""Records as attributes of spans. What is not known is left out."""

from __future__ import annotations

from opentelemetry.util.types import AttributeValue

from agentaccel import semconv
from agentaccel.listening import Told
from agentaccel.otel.money import Cost
from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.trace.record import dump_json

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
