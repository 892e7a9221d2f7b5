"""Spans of OpenTelemetry as lines: what OTLP/JSON exporters write, and what Python's console exporter prints.

A line is a batch (`resourceSpans`, of the collector's file exporter, or one of its elements), one span of OTLP, or one
span in the form of Python's `to_json`, which may also stand over several lines. A batch of log records
(`resourceLogs`) holds events that tell of requests and tools, too. Names may be in camelCase or in snake_case; scopes
were called instrumentation libraries once. Of the attributes are kept those that records are made of; what was said to
a model, and by it, is not.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from agentaccel import semconv
from agentaccel.hashing import digest, identity_bytes
from agentaccel.sources.dialects import ARGUMENTS, Counters, Kind, SpanFields, said_by
from agentaccel.sources.fields import mapping, seconds

Json = Mapping[str, object]

LONGEST = 100_000
"""Lines that one span may stand on."""

_DEEPEST = 4
"""Levels of a value that is a map."""


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
    """None for what is of no known kind."""
    counters: Counters = field(default_factory=Counters)
    """As in `dialects.Said`, as are the next two."""
    unread: tuple[str, ...] = ()
    called: str = ""
    event: bool = False
    """True for a log record, which may tell of what a span tells of, too."""


def is_spans(entry: Json) -> bool:
    """Whether a line holds spans, or events that tell of requests or tools."""
    if _member(entry, "resourceLogs") is not None or _scopes(entry, "Logs") is not None:
        return next(iter(spans_of(entry) or ()), None) is not None
    return (
        _member(entry, "resourceSpans") is not None
        or _scopes(entry, "Spans") is not None
        or _is_otlp(entry)
        or _is_python(entry)
    )


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
    for signal, make in (("Spans", _otlp), ("Logs", _record)):
        resources = _member(entry, f"resource{signal}")
        if resources is not None:
            return _batch(_objects(resources), signal, make)
        if _scopes(entry, signal) is not None:
            return _batch([entry], signal, make)
    if _is_otlp(entry):
        return iter([_otlp(entry)])
    if _is_python(entry):
        return iter([_python(entry)])
    return None


def _member(entry: Json, name: str) -> object:
    """A member of protobuf's JSON, which has two ways of writing names."""
    found = entry.get(name)
    return entry.get(_snake(name)) if found is None else found


@functools.cache
def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name)


def _is_otlp(entry: Json) -> bool:
    return isinstance(_member(entry, "traceId"), str) and isinstance(_member(entry, "spanId"), str)


def _is_python(entry: Json) -> bool:
    return "trace_id" in mapping(entry, "context") and "attributes" in entry


def _batch(resources: Iterable[Json], signal: str, make: Callable[[Json], Span | None]) -> Iterator[Span]:
    for resource in resources:
        for scope in _objects(_scopes(resource, signal)):
            for one in _objects(_member(scope, "logRecords" if signal == "Logs" else "spans")):
                if (span := make(one)) is not None:
                    yield span


def _scopes(entry: Json, signal: str) -> object:
    found = _member(entry, f"scope{signal}")
    return _member(entry, f"instrumentationLibrary{signal}") if found is None else found


def _told(holder: Json) -> dict[str, object]:
    """The attributes of OTLP; some exporters write them as an object."""
    told = holder.get("attributes")
    if isinstance(told, dict):
        return told
    return {name: _value(mapping(one, "value")) for one in _objects(told) if isinstance(name := one.get("key"), str)}


def _otlp(span: Json) -> Span:
    return _span(
        _text(span.get("name")),
        (_member(span, "traceId"), _member(span, "spanId"), _member(span, "parentSpanId")),
        (
            _from_nanoseconds(_member(span, "startTimeUnixNano")),
            _from_nanoseconds(_member(span, "endTimeUnixNano")),
        ),
        mapping(span, "status").get("code") in (2, "2", "STATUS_CODE_ERROR"),
        _told(span),
    )


def _record(record: Json) -> Span | None:
    """A log record that tells of a request or a tool, or counts tokens; it is written when that ends."""
    told = _told(record)
    names = (_value(mapping(record, "body")), _member(record, "eventName"), told.get("event.name"))
    found = [said_by(_text(name), told) for name in names]
    said = next((one for one in found if one.kind is not None), None) or next(filter(_counts, found), None)
    if said is None:
        return None
    times = (_from_nanoseconds(_member(record, name)) for name in ("timeUnixNano", "observedTimeUnixNano"))
    end = next((at for at in times if at), None)
    lasted = said.said.get("duration")
    start = end - lasted if end is not None and isinstance(lasted, float) else end
    around = (_member(record, "traceId"), "", _member(record, "spanId"))
    span = _made(around, (start, end), False, said)
    span.event = True
    return span


def _counts(said: SpanFields) -> bool:
    return bool(said.counters)


def _python(span: Json) -> Span:
    context = mapping(span, "context")
    return _span(
        _text(span.get("name")),
        (context.get("trace_id"), context.get("span_id"), span.get("parent_id")),
        (seconds(span.get("start_time")), seconds(span.get("end_time"))),
        mapping(span, "status").get("status_code") == "ERROR",
        mapping(span, "attributes"),
    )


def _span(
    name: str,
    ids: tuple[object, object, object],
    times: tuple[float | None, float | None],
    failed: bool,
    told: Mapping[str, object],
) -> Span:
    return _made(ids, times, failed, said_by(name, told))


def _made(
    ids: tuple[object, object, object], times: tuple[float | None, float | None], failed: bool, told: SpanFields
) -> Span:
    trace, own, parent = map(_id, ids)
    said = told.said if told.kind else {}
    arguments = said.pop(ARGUMENTS, None)
    if arguments is not None and told.kind == "tool":
        said[ARGUMENTS] = digest(identity_bytes([said.get(semconv.TOOL_NAME), arguments])).hex()
    return Span(
        trace,
        own,
        parent,
        times[0] or 0.0,
        times[1],
        failed or told.failed,
        said,
        told.kind,
        told.counters,
        told.unread,
        told.called,
    )


def _id(value: object) -> str:
    """A trace's or span's id as lower-case digits; empty where there is none."""
    found = value.lower().removeprefix("0x") if isinstance(value, str) else ""
    return found if found.strip("0") else ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _from_nanoseconds(value: object) -> float | None:
    if isinstance(value, str) and len(value) < 30 and value.isascii() and value.isdigit():
        value = int(value)
    return seconds(value / 1e9) if type(value) is int and value < 1 << 63 else None


def _value(value: Json, deepest: int = _DEEPEST) -> object:
    """A value of OTLP as JSON would have it."""
    for kind in ("stringValue", "boolValue", "doubleValue"):
        if (found := _member(value, kind)) is not None:
            return found
    whole = _member(value, "intValue")
    if isinstance(whole, str):
        return int(whole) if len(whole) < 20 and whole.isascii() and whole.isdigit() else whole
    if whole is not None:
        return whole
    members = _member(value, "kvlistValue")
    if isinstance(members, dict) and deepest:
        pairs = _objects(members.get("values"))
        return {str(one.get("key")): _value(mapping(one, "value"), deepest - 1) for one in pairs}
    several = _member(value, "arrayValue")
    values = _objects(several.get("values")) if isinstance(several, dict) else []
    return [_member(one, "stringValue") for one in values]


def _objects(value: object) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
