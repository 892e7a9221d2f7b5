"""Spans of OpenTelemetry as lines: what OTLP/JSON exporters write, and what Python's console exporter prints.

A line is a batch (`resourceSpans`, of the collector's file exporter, or one of its elements), one span of OTLP, or one
span in the form of Python's `to_json`, which may also stand over several lines. Of its attributes are kept those that
records are made of; what was said to a model, and by it, is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from agentaccel import semconv
from agentaccel.canonical import digest, identity_bytes
from agentaccel.facts import lifetimes
from agentaccel.trace.importers.fields import mapping, seconds, text

Json = Mapping[str, object]
Kind = Literal["turn", "tool", "agent"]

LONGEST = 100_000
"""Lines that one span may stand on."""

FORMER = {
    "gen_ai.system": semconv.PROVIDER,
    "gen_ai.usage.prompt_tokens": semconv.INPUT_TOKENS,
    "gen_ai.usage.completion_tokens": semconv.OUTPUT_TOKENS,
    "gen_ai.usage.cache_creation.input_tokens": semconv.CACHE_WRITE,
    "gen_ai.usage.cache_creation_input_tokens": semconv.CACHE_WRITE,
    "gen_ai.usage.cache_read_input_tokens": semconv.CACHE_READ,
    "gen_ai.usage.details.cache_creation_input_tokens": semconv.CACHE_WRITE,
    "gen_ai.usage.details.cache_read_input_tokens": semconv.CACHE_READ,
    "gen_ai.usage.input_tokens.cache_write": semconv.CACHE_WRITE,
    "gen_ai.usage.input_tokens.cached": semconv.CACHE_READ,
    "anthropic.message.stop_reason": semconv.FINISH_REASONS,
}
"""Earlier names, and those of some instrumentations, for what the conventions call otherwise today."""

ARGUMENTS = "gen_ai.tool.call.arguments"
"""Of these only a hash is kept."""
WRITTEN_FOR = {
    **{f"anthropic.usage.cache_creation.ephemeral_{label}_input_tokens": label for label in ("5m", "1h")},
    **{semconv.WRITTEN_FOR + label: label for label in lifetimes()},
}
"""The `anthropic` SDK's names, and ours, for what was written with each lifetime."""

_REQUEST_TYPE = "llm.request.type"
"""Says of older spans whether they are chats; the others have no operation that this could be told from."""

KEPT = frozenset(
    {
        semconv.OPERATION,
        semconv.PROVIDER,
        semconv.CONVERSATION,
        semconv.AGENT,
        semconv.REQUEST_MODEL,
        semconv.REQUEST_STREAM,
        semconv.RESPONSE_MODEL,
        semconv.FINISH_REASONS,
        semconv.FIRST_CHUNK,
        semconv.INPUT_TOKENS,
        semconv.OUTPUT_TOKENS,
        semconv.CACHE_READ,
        semconv.CACHE_WRITE,
        semconv.TOOL_NAME,
        semconv.ERROR_TYPE,
        semconv.HTTP_STATUS,
        semconv.OUTCOME,
        semconv.MODE,
        semconv.SPECULATIVE,
        semconv.SERVED_FROM,
        semconv.HIDDEN,
        ARGUMENTS,
        _REQUEST_TYPE,
        *WRITTEN_FOR,
    }
)


@dataclass(slots=True)
class Span:
    """One span, as far as records need it."""

    trace: str
    id: str
    parent: str
    """Empty for a root."""
    start: float
    """0.0 where not told."""
    end: float | None
    failed: bool
    said: dict[str, object]
    """Its attributes, under today's names."""
    kind: Kind | None
    """None for what is neither a request, nor a tool, nor an agent."""


def is_spans(entry: Json) -> bool:
    """Whether a line holds spans."""
    return "resourceSpans" in entry or "scopeSpans" in entry or _is_otlp(entry) or _is_python(entry)


def joined(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The lines, an object that stands over several of them as one."""
    held: list[bytes] = []
    for line in lines:
        if not held and line.rstrip() != b"{":
            yield line
            continue
        held.append(line)
        if line.rstrip() == b"}" or len(held) > LONGEST:
            yield b"".join(held)
            held.clear()
    yield from held


def spans_of(entry: Json) -> Iterator[Span] | None:
    """The spans of one line; None where it has another form."""
    if "resourceSpans" in entry:
        return _batch(_objects(entry["resourceSpans"]))
    if "scopeSpans" in entry:
        return _batch([entry])
    if _is_otlp(entry):
        return iter([_otlp(entry)])
    if _is_python(entry):
        return iter([_python(entry)])
    return None


def _is_otlp(entry: Json) -> bool:
    return isinstance(entry.get("traceId"), str) and isinstance(entry.get("spanId"), str)


def _is_python(entry: Json) -> bool:
    return "trace_id" in mapping(entry, "context") and "attributes" in entry


def _batch(resources: Iterable[Json]) -> Iterator[Span]:
    for resource in resources:
        for scope in _objects(resource.get("scopeSpans")):
            for span in _objects(scope.get("spans")):
                yield _otlp(span)


def _otlp(span: Json) -> Span:
    said = {}
    for one in _objects(span.get("attributes")):
        name = one.get("key")
        if isinstance(name, str) and (name in KEPT or name in FORMER):
            said[name] = _value(mapping(one, "value"))
    code = mapping(span, "status").get("code")
    return _span(
        (span.get("traceId"), span.get("spanId"), span.get("parentSpanId")),
        (_from_nanoseconds(span.get("startTimeUnixNano")), _from_nanoseconds(span.get("endTimeUnixNano"))),
        code in (2, "2", "STATUS_CODE_ERROR"),
        said,
    )


def _python(span: Json) -> Span:
    context, attributes = mapping(span, "context"), mapping(span, "attributes")
    said = {name: value for name, value in attributes.items() if name in KEPT or name in FORMER}
    return _span(
        (context.get("trace_id"), context.get("span_id"), span.get("parent_id")),
        (seconds(span.get("start_time")), seconds(span.get("end_time"))),
        mapping(span, "status").get("status_code") == "ERROR",
        said,
    )


def _span(
    ids: tuple[object, object, object], times: tuple[float | None, float | None], failed: bool, told: dict[str, object]
) -> Span:
    trace, own, parent = map(_id, ids)
    said = {name: value for name, value in told.items() if name in KEPT}
    for name, value in told.items():
        if name in FORMER:
            said.setdefault(FORMER[name], value)
    kind = _kind(said)
    if ARGUMENTS in said:
        said[ARGUMENTS] = digest(identity_bytes([said.get(semconv.TOOL_NAME), said[ARGUMENTS]])).hex()
    return Span(trace, own, parent, times[0] or 0.0, times[1], failed, said if kind else {}, kind)


def _kind(said: Mapping[str, object]) -> Kind | None:
    operation = said.get(semconv.OPERATION)
    if not isinstance(operation, str):
        # Older spans name no operation; a request names a model and who offers it.
        model = text(said, semconv.REQUEST_MODEL) or text(said, semconv.RESPONSE_MODEL)
        chats = said.get(_REQUEST_TYPE, "chat") in ("chat", "completion")
        return "turn" if model and chats and semconv.PROVIDER in said else None
    if operation in semconv.INFERENCE:
        return "turn"
    if operation == semconv.EXECUTE_TOOL:
        return "tool"
    return "agent" if operation == semconv.INVOKE_AGENT else None


def _id(value: object) -> str:
    """A trace's or span's id as lower-case digits; empty where there is none."""
    found = value.lower().removeprefix("0x") if isinstance(value, str) else ""
    return found if found.strip("0") else ""


def _from_nanoseconds(value: object) -> float | None:
    if isinstance(value, str) and len(value) < 30 and value.isascii() and value.isdigit():
        value = int(value)
    return seconds(value / 1e9) if type(value) is int and value < 1 << 63 else None


def _value(value: Json) -> object:
    """A value of OTLP as JSON would have it."""
    for kind in ("stringValue", "boolValue", "doubleValue"):
        if kind in value:
            return value[kind]
    whole = value.get("intValue")
    if isinstance(whole, str):
        return int(whole) if len(whole) < 20 and whole.isascii() and whole.isdigit() else None
    if whole is not None:
        return whole
    return [one.get("stringValue") for one in _objects(mapping(value, "arrayValue").get("values"))[:1]]


def _objects(value: object) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
