"""What a provider answers, as its bytes come: a content type and the pieces."""

from __future__ import annotations

import json
from typing import Any

BYTES = ("application/octet-stream", [bytes(range(200)), "Grüße 🚚\n".encode()])
LINES = ("application/x-jsonl", [b'{"custom_id": "a", "result"', b': {"type": "expired"}}\n{"custom_id": "b"}\n'])
CLAUDE = {"model": "claude-sonnet-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
GPT = {"model": "gpt-6.1-sol", "messages": [{"role": "user", "content": "Hello"}]}
TYPED = {"model": "gpt-6.1-sol", "input": "Hello"}


def _events(*events: dict[str, Any]) -> tuple[str, list[bytes]]:
    named = [f"event: {one['type']}\n" if "type" in one else "" for one in events]
    return "text/event-stream", [
        f"{name}data: {json.dumps(one)}\n\n".encode() for name, one in zip(named, events, strict=True)
    ]


MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-5",
    "content": [{"type": "text", "text": "Grüße"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 7, "output_tokens": 5},
}
CLAUDE_SAYS = ("application/json", [json.dumps(MESSAGE).encode()])
CLAUDE_STREAMS = _events(
    {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Grüße"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": MESSAGE["usage"]},
    {"type": "message_stop"},
)
_CHOICE = {"index": 0, "finish_reason": "stop"}
_SAID = {"role": "assistant", "content": "Grüße"}
_COMPLETION = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-6.1-sol"}
_COUNTED = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
GPT_SAYS = (
    "application/json",
    [json.dumps({**_COMPLETION, "choices": [{**_CHOICE, "message": _SAID}], "usage": _COUNTED}).encode()],
)
_CHUNK = {**_COMPLETION, "object": "chat.completion.chunk"}
GPT_STREAMS = _events(
    {**_CHUNK, "choices": [{**_CHOICE, "delta": _SAID}]}, {**_CHUNK, "choices": [], "usage": _COUNTED}
)
GPT_STREAMS[1].append(b"data: [DONE]\n\n")
_RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "status": "completed",
    "model": "gpt-6.1-sol",
    "output": [],
    "usage": {"input_tokens": 7, "output_tokens": 5, "total_tokens": 12},
}
TYPED_SAYS = ("application/json", [json.dumps(_RESPONSE).encode()])
TYPED_STREAMS = _events(
    {"type": "response.created", "response": {**_RESPONSE, "status": "in_progress", "usage": None}},
    {"type": "response.completed", "response": _RESPONSE},
)
EVENTS = _events({"type": "ping", "n": 1}, {"type": "ping", "n": 2})
STREAMED = {"stream": True}
