"""Replies of both OpenAI wires, written down for tests of their readers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agentaccel.facts import Wire
from agentaccel.types import ToolCall, Usage
from agentaccel.wire import dialect

Json = dict[str, Any]

CHAT_USAGE: Json = {
    "prompt_tokens": 9000,
    "completion_tokens": 12,
    "total_tokens": 9012,
    "prompt_tokens_details": {"cached_tokens": 7000, "cache_write_tokens": 1500},
}
RESPONSES_USAGE: Json = {
    "input_tokens": 9000,
    "output_tokens": 12,
    "total_tokens": 9012,
    "input_tokens_details": {"cached_tokens": 7000, "cache_write_tokens": 1500},
}
USAGE = Usage(input=9000, read=7000, write={"30m": 1500}, output=12)

DONE = b"data: [DONE]\n\n"


def sse(events: Iterable[Json], *, named: bool = False, newline: str = "\n") -> bytes:
    """`events` as the provider sends them, with their names where it names them."""
    lines: list[str] = []
    for event in events:
        lines += [f"event: {event['type']}"] if named else []
        lines += [f"data: {json.dumps(event, ensure_ascii=False)}", ""]
    return "".join(line + newline for line in lines).encode("utf-8", "surrogatepass")


def chunk(*choices: Json, **more: Any) -> Json:
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": list(choices), **more}


def delta(index: int = 0, stop: str | None = None, **fields: Any) -> Json:
    return {"index": index, "delta": fields, "finish_reason": stop}


def call_delta(at: int, text: str | None = None, **fields: Any) -> Json:
    """A piece of a call: `id` and `name` where they are given."""
    function = {
        name: value for name, value in (("name", fields.pop("name", None)), ("arguments", text)) if value is not None
    }
    return {"index": at, **fields, "function": function}


def calls(*pieces: Json, choice: int = 0) -> Json:
    return chunk(delta(choice, tool_calls=list(pieces)))


def chat_call(at: int, name: str, texts: Sequence[str], choice: int = 0) -> list[Json]:
    """A whole call as its chunks come."""
    head = calls(call_delta(at, "", id=f"call_{choice}_{at}", type="function", name=name), choice=choice)
    return [head, *[calls(call_delta(at, text), choice=choice) for text in texts]]


def finished(stop: str = "tool_calls", choice: int = 0) -> Json:
    return chunk(delta(choice, stop))


CHAT_END = chunk(usage=CHAT_USAGE)


def responses_call(at: int, name: str, texts: Sequence[str], kind: str = "function_call") -> list[Json]:
    """A whole call as its events come."""
    field = "arguments" if kind == "function_call" else "input"
    event = f"{kind}_{field}"
    item = {"type": kind, "id": f"item_{at}", "call_id": f"call_0_{at}", "name": name, field: ""}
    told = {"output_index": at, "item_id": f"item_{at}"}
    whole = {**item, field: "".join(texts)}
    return [
        {"type": "response.output_item.added", "output_index": at, "item": item},
        *[{"type": f"response.{event}.delta", "delta": text, **told} for text in texts],
        {"type": f"response.{event}.done", field: whole[field], **told},
        {"type": "response.output_item.done", "output_index": at, "item": {**whole, "status": "completed"}},
    ]


def response(status: str = "completed", **more: Any) -> Json:
    return {"id": "resp_1", "object": "response", "model": "m", "status": status, "output": [], **more}


def responses_end(status: str = "completed", **more: Any) -> Json:
    return {"type": f"response.{status}", "response": response(status, usage=RESPONSES_USAGE, **more)}


@dataclass(frozen=True)
class Read:
    """What a tap made of a reply."""

    usage: Usage
    calls: list[tuple[str | None, str, Any]]
    stop: str | None
    message_id: str | None
    complete: bool
    error: str | None


def told(call: ToolCall) -> tuple[str | None, str, Any]:
    return call.id, call.name, call.arguments


def read(wire: Wire, chunks: Iterable[bytes], *, streamed: bool = True) -> Read:
    tap = dialect(wire).reply_tap(streamed)
    found = [told(call) for piece in chunks for call in tap.feed(piece)]
    found += map(told, tap.finish())
    return Read(tap.usage, found, tap.stop, tap.message_id, tap.complete, tap.error)
