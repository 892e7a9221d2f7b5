"""Replies of the Messages API, written down for tests of their readers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from agentaccel.types import ToolCall, Usage
from agentaccel.wire.anthropic import MessagesTap

Json = dict[str, Any]

USAGE: Json = {
    "input_tokens": 500,
    "cache_read_input_tokens": 9000,
    "cache_creation_input_tokens": 1500,
    "cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 500},
    "output_tokens": 1,
}


def sse(events: Iterable[Json], *, newline: str = "\n") -> bytes:
    """`events` as the provider sends them."""
    lines: list[str] = []
    for event in events:
        lines += [f"event: {event['type']}", f"data: {json.dumps(event, ensure_ascii=False)}", ""]
    return "".join(line + newline for line in lines).encode()


def start(usage: Json | None = None) -> Json:
    message = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-5", "content": [],
        "stop_reason": None, "stop_sequence": None, "usage": USAGE if usage is None else usage,
    }  # fmt: skip
    return {"type": "message_start", "message": message}


def end(stop: str = "end_turn", **usage: Any) -> list[Json]:
    delta = {"stop_reason": stop, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 12, **usage}},
        {"type": "message_stop"},
    ]


def text(words: str, index: int = 0) -> list[Json]:
    return [
        {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": words}},
        {"type": "content_block_stop", "index": index},
    ]


def call(name: str, pieces: Sequence[str], index: int = 0) -> list[Json]:
    block = {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}
    deltas = [
        {"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": piece}}
        for piece in pieces
    ]
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *deltas,
        {"type": "content_block_stop", "index": index},
    ]


@dataclass(frozen=True)
class Read:
    """What a tap made of a reply."""

    usage: Usage
    calls: list[ToolCall]
    stop: str | None
    message_id: str | None
    complete: bool
    error: str | None


def read(chunks: Iterable[bytes], *, streamed: bool = True) -> Read:
    tap = MessagesTap(streamed=streamed)
    calls = [one for chunk in chunks for one in tap.feed(chunk)]
    calls += tap.finish()
    return Read(tap.usage, calls, tap.stop, tap.message_id, tap.complete, tap.error)


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    """`data` in pieces that end at `places`; an empty piece where one is named twice."""
    ends = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(ends)]
