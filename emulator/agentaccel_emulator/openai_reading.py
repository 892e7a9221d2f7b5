"""How a Chat Completions and a Responses request become a prompt: the same conversation gives the same pieces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from agentaccel_emulator.anthropic_levels import canonical
from agentaccel_emulator.openai_prompt import (
    READ_APART,
    UNRENDERED,
    Item,
    Kind,
    Piece,
    Prompt,
    content_pieces,
    opening_of,
    rendered,
    tool_pieces,
)

Json = Mapping[str, Any]

_ROLES: Mapping[str, Kind] = {
    "developer": "developer",
    "system": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output"})
_SPOKEN = frozenset({"function_call", "custom_tool_call", "reasoning", "local_shell_call"})
_PARTS_OF_REASONING = frozenset({"summary", "generate_summary", "encrypted_content"})


def seed_of(body: Json) -> object:
    """What a request renders ahead of its prompt: every parameter that is not known to be harmless."""
    apart = UNRENDERED | READ_APART | {"text", "reasoning", "service_tier"}
    rest = {name: rendered(body, name) for name in sorted(body) if name not in apart}
    text, reasoning = body.get("text") or {}, body.get("reasoning") or {}
    return [
        {name: value for name, value in rest.items() if value is not None},
        rendered({"response_format": text.get("format")}, "response_format"),
        rendered(text, "verbosity"),
        {name: reasoning[name] for name in sorted(reasoning) if name not in _PARTS_OF_REASONING},
        "priority" if body.get("service_tier") == "fast" else rendered(body, "service_tier"),
    ]


def read_chat(body: Json, image_tokens: int) -> Prompt:
    """The prompt of a Chat Completions request, which has passed every check."""
    messages = body["messages"]
    return Prompt(
        seed=seed_of(body),
        tools=tool_pieces(body),
        items=tuple(_message(message, image_tokens) for message in messages),
        turns=sum(message["role"] == "assistant" for message in messages),
        opening=next((opening_of(message.get("content")) for message in messages if message["role"] == "user"), ""),
    )


def _message(message: Json, image_tokens: int) -> Item:
    role = message["role"]
    tag = "/".join(str(part) for part in (role, message.get("name"), message.get("tool_call_id")) if part)
    content = message.get("content")
    calls = message.get("tool_calls") or ()
    pieces = content_pieces(content, tag, image_tokens) if content or not calls else ()
    return Item(kind=_ROLES[role], pieces=(*pieces, *(_chat_call(call) for call in calls)))


def _chat_call(call: Json) -> Piece:
    function = call.get("function") or call.get("custom") or {}
    return _call(call.get("id"), function.get("name"), function.get("arguments", function.get("input")))


def _call(call_id: object, name: object, arguments: object) -> Piece:
    return Piece(tag=b"|call", data=canonical([call_id, name, arguments]))


def read_responses(body: Json, context: Sequence[Json], image_tokens: int) -> Prompt:
    """The prompt of a Responses request whose whole conversation is `context`, the server-held part included."""
    items = tuple(_item(item, image_tokens) for item in context)
    instructions = body.get("instructions")
    if instructions is not None:
        items = (Item(kind="other", pieces=content_pieces(instructions, "instructions", image_tokens)), *items)
    users = (item for item in context if item.get("role") == "user")
    return Prompt(
        seed=seed_of(body),
        tools=tool_pieces(body),
        items=items,
        turns=sum(kind == "assistant" for kind, _ in groupby(item.kind for item in items)),
        opening=next((opening_of(item.get("content")) for item in users), ""),
    )


def _item(item: Json, image_tokens: int) -> Item:
    kind = item.get("type") or "message"
    if kind == "message":
        return Item(kind=_ROLES[item["role"]], pieces=content_pieces(item["content"], item["role"], image_tokens))
    if kind in ("function_call", "custom_tool_call"):
        call = _call(item.get("call_id"), item.get("name"), item.get("arguments", item.get("input")))
        return Item(kind="assistant", pieces=(call,))
    if kind in _OUTPUTS:
        return Item(kind="tool", pieces=content_pieces(item.get("output"), f"tool/{item.get('call_id')}", image_tokens))
    if kind == "reasoning":
        texts = [part["text"] for part in item.get("summary") or ()]
        return Item(kind="assistant", pieces=(Piece(tag=b"|reasoning", data=canonical([item.get("id"), *texts])),))
    plain = {name: value for name, value in item.items() if name not in ("id", "status")}
    return Item(kind="assistant" if kind in _SPOKEN else "other", pieces=(Piece(tag=b"|item", data=canonical(plain)),))


def context_of(body: Json) -> list[Json]:
    """The input of a Responses request as a list of items."""
    given = body.get("input")
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}]
    return list(given or ())
