"""Lines of synthetic span files, in the forms that exporters write, and what is read from them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.sources.logs import ImportTally, read_logs

NOON = 1_770_000_000.0
MODEL = "claude-sonnet-5"
Json = dict[str, Any]


def span(
    name: str, said: Json, *, at: float = 0.0, parent: str = "", trace: str = "a" * 32, failed: bool = False
) -> Json:
    """A span called `name`, which is what its id is made of, that begins `at` seconds after noon and lasts one."""
    return {"id": own_id(name), "parent": own_id(parent), "trace": trace, "at": at, "said": said, "failed": failed}


def own_id(name: str) -> str:
    return name.encode().hex()[:16].ljust(16, "0") if name else ""


def chat(
    total: int | None = 9000, read: int | None = None, write: int | None = None, output: int | None = 5, **more: Any
) -> Json:
    """Attributes of a request, under today's names; None leaves one out."""
    said = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": MODEL,
        "gen_ai.usage.input_tokens": total,
        "gen_ai.usage.output_tokens": output,
        "gen_ai.usage.cache_read.input_tokens": read,
        "gen_ai.usage.cache_write.input_tokens": write,
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    return {name: value for name, value in said.items() if value is not None}


def agent(name: str | None = None, **more: Any) -> Json:
    named = {"gen_ai.agent.name": name} if name else {}
    return {"gen_ai.operation.name": "invoke_agent", **named, **more}


def tool(name: str, **more: Any) -> Json:
    return {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, **more}


def _value(value: Any) -> Json:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(one) for one in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": name, "value": _value(one)} for name, one in value.items()]}}
    return {"stringValue": value}


def otlp(one: Json) -> Json:
    """One span as OTLP/JSON has it."""
    start = int((NOON + one["at"]) * 1e9)
    return {
        "traceId": one["trace"],
        "spanId": one["id"],
        "parentSpanId": one["parent"],
        "name": "x",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + 10**9),
        "attributes": [{"key": name, "value": _value(value)} for name, value in one["said"].items()],
        "status": {"code": 2} if one["failed"] else {},
    }


def batch(*spans: Json) -> str:
    """A line of the collector's file exporter."""
    scope = {"scope": {"name": "x"}, "spans": [otlp(one) for one in spans]}
    return json.dumps({"resourceSpans": [{"resource": {}, "scopeSpans": [scope]}]}) + "\n"


def python(one: Json, indent: int | None = None) -> str:
    """A line, or lines, of Python's console exporter."""
    start = datetime.fromtimestamp(NOON + one["at"], UTC)
    made = {
        "name": "x",
        "context": {"trace_id": f"0x{one['trace']}", "span_id": f"0x{one['id']}", "trace_state": "[]"},
        "kind": "SpanKind.CLIENT",
        "parent_id": f"0x{one['parent']}" if one["parent"] else None,
        "start_time": start.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "end_time": datetime.fromtimestamp(NOON + one["at"] + 1, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "status": {"status_code": "ERROR" if one["failed"] else "UNSET"},
        "attributes": one["said"],
        "events": [],
        "links": [],
        "resource": {"attributes": {}, "schema_url": ""},
    }
    return json.dumps(made, indent=indent) + "\n"


def read(path: Path, *lines: str) -> tuple[list[TurnRecord], list[ToolRecord], ImportTally]:
    """What a file of these lines holds."""
    path.write_text("".join(lines), encoding="utf-8")
    return read_files(path)


def read_files(*paths: Path) -> tuple[list[TurnRecord], list[ToolRecord], ImportTally]:
    tally = ImportTally()
    found = list(read_logs(paths, tally=tally))
    turns = [one for one in found if isinstance(one, TurnRecord)]
    return turns, [one for one in found if isinstance(one, ToolRecord)], tally
