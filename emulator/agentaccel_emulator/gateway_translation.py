"""How a gateway turns a Chat Completions request into a Messages request, and the reply back.

Markers are passed on where they stand on content: on a part of a system or user message, and on a part of a tool's
output, where the whole result carries it. Those on tools are dropped, as nothing is documented of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from agentaccel_emulator.writing import Written

Json = Mapping[str, Any]

_MAX_TOKENS = 64_000
"""What a gateway asks for where the request names no limit (invented)."""
_CHOICES: Mapping[str, Json] = {"auto": {"type": "auto"}, "none": {"type": "none"}, "required": {"type": "any"}}


def messages_request(body: Json) -> dict[str, Any]:
    """The Messages request for a Chat Completions one, whose shape has been checked."""
    system: list[Json] = []
    messages: list[dict[str, Any]] = []
    for message in body["messages"]:
        if message["role"] in ("system", "developer"):
            system += _parts(message.get("content"))
            continue
        blocks = _blocks(message)
        if messages and messages[-1]["role"] == "user" and message["role"] == "tool":
            messages[-1]["content"] += blocks
        else:
            role = "assistant" if message["role"] == "assistant" else "user"
            messages.append({"role": role, "content": blocks})
    name = str(body["model"]).partition("/")[2] or body["model"]
    limit = body.get("max_completion_tokens") or body.get("max_tokens") or _MAX_TOKENS
    said = {"system": system} if system else {}
    return {"model": name, "max_tokens": limit, "messages": messages, **said, **_parameters(body)}


def _parameters(body: Json) -> dict[str, Any]:
    names = ("temperature", "top_p", "top_k", "cache_control")
    parameters: dict[str, Any] = {name: body[name] for name in names if body.get(name) is not None}
    if body.get("tools"):
        parameters["tools"] = [
            _tool(tool["function"]) for tool in body["tools"] if tool.get("type", "function") == "function"
        ]
        if body.get("tool_choice") is not None:
            parameters["tool_choice"] = _choice(body["tool_choice"])
        if body.get("parallel_tool_calls") is False:
            chosen = parameters.get("tool_choice", {"type": "auto"})
            parameters["tool_choice"] = {**chosen, "disable_parallel_tool_use": True}
    if body.get("stop"):
        parameters["stop_sequences"] = [body["stop"]] if isinstance(body["stop"], str) else body["stop"]
    return parameters


def _tool(function: Json) -> Json:
    schema = function.get("parameters") or {"type": "object", "properties": {}}
    described = {"description": function["description"]} if function.get("description") else {}
    return {"name": function["name"], **described, "input_schema": schema}


def _choice(choice: object) -> Json:
    if isinstance(choice, Mapping):
        return {"type": "tool", "name": (choice.get("function") or {}).get("name")}
    return _CHOICES.get(str(choice), _CHOICES["auto"])


def _blocks(message: Json) -> list[Json]:
    parts = _parts(message.get("content"))
    if message["role"] == "tool":
        marks = [part["cache_control"] for part in parts if "cache_control" in part]
        plain = [{name: value for name, value in part.items() if name != "cache_control"} for part in parts]
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": plain}
        return [{**result, "cache_control": marks[-1]} if marks else result]
    calls = [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["function"]["name"],
            "input": _arguments(call["function"].get("arguments")),
        }
        for call in message.get("tool_calls") or ()
    ]
    return [*parts, *calls]


def _arguments(text: str | None) -> object:
    """The arguments of a call; the upstream refuses what is no object."""
    try:
        return orjson.loads(text or b"{}")
    except orjson.JSONDecodeError:
        return text


def _parts(content: object) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    parts: Sequence[Json] = content or ()  # type: ignore[assignment]  # the shape has been checked
    return [_part(part) for part in parts]


def _part(part: Json) -> Json:
    marked = {"cache_control": part["cache_control"]} if part.get("cache_control") is not None else {}
    if part["type"] == "image_url":
        source = {"type": "url", "url": part.get("image_url")}
        return {"type": "image", "source": source, **marked}
    return {"type": "text", "text": part.get("text", ""), **marked}


def written_of(message: Json) -> Written:
    """What a model wrote, from the Messages reply that says so."""
    usage = message.get("usage") or {}
    thinking = (usage.get("output_tokens_details") or {}).get("thinking_tokens", 0)
    return Written(
        content=tuple(message["content"]),
        stop_reason=message["stop_reason"],
        tokens=usage.get("output_tokens", 0),
        thinking=thinking,
    )
