"""Lines of synthetic session logs, and what is read from them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.sources.logs import ImportTally, read_logs
from agentaccel.types import Cause

NOON = 1_770_000_000.0
MODEL = "claude-opus-4-6"
Line = dict[str, Any]


def usage(plain: int = 3, read: int = 0, write: int = 0, ttl: str = "1h") -> Line:
    split = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0}
    split[f"ephemeral_{ttl}_input_tokens"] = write
    return {
        "input_tokens": plain,
        "cache_read_input_tokens": read,
        "cache_creation_input_tokens": write,
        "cache_creation": split,
        "output_tokens": 1,
    }


def line(kind: str, at: float, session: str = "s1", **fields: Any) -> Line:
    stamp = datetime.fromtimestamp(NOON + at, UTC).isoformat().replace("+00:00", "Z")
    return {"isSidechain": False, "sessionId": session, "type": kind, "timestamp": stamp, **fields}


def reply(at: float, id_: str, use: Line, *content: Line, model: str = MODEL, **fields: Any) -> Line:
    message = {"id": f"msg_{id_}", "role": "assistant", "model": model, "content": [*content], "usage": use}
    return line("assistant", at, requestId=f"req_{id_}", message=message, **fields)


def prompt(at: float, **fields: Any) -> Line:
    return line("user", at, message={"role": "user", "content": "go on"}, **fields)


def result(at: float, id_: str, *, is_error: bool = False) -> Line:
    block = {"type": "tool_result", "tool_use_id": id_, "content": "done", "is_error": is_error}
    return line("user", at, message={"role": "user", "content": [block]})


def call(id_: str, name: str = "Read") -> Line:
    return {"type": "tool_use", "id": id_, "name": name, "input": {"path": "a"}}


def write(path: Path, lines: Iterable[Line], tail: bytes = b"") -> Path:
    path.write_bytes(b"".join(json.dumps(entry).encode() + b"\n" for entry in lines) + tail)
    return path


def turns(*paths: Path, tally: ImportTally | None = None) -> list[TurnRecord]:
    return [record for record in read_logs(paths, tally=tally) if isinstance(record, TurnRecord)]


def tools(*paths: Path) -> list[ToolRecord]:
    return [record for record in read_logs(paths) if isinstance(record, ToolRecord)]


def causes(*paths: Path) -> list[list[Cause]]:
    return [[miss.cause for miss in turn.misses] for turn in turns(*paths)]
