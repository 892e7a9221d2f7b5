"""What OpenAI's APIs refuse in calls, their results and other items: fields that are missing or of a wrong type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentaccel_emulator.openai_candidate import Candidate
from agentaccel_emulator.openai_checks import missing, wrong_type
from agentaccel_emulator.trial import Problem

Json = Mapping[str, Any]
Types = tuple[type, ...]

_TEXT: Types = (str,)
_ITEMS: Mapping[str, Mapping[str, Types]] = {
    "function_call": {"call_id": _TEXT, "name": _TEXT, "arguments": _TEXT},
    "custom_tool_call": {"call_id": _TEXT, "name": _TEXT, "input": _TEXT},
    "function_call_output": {"call_id": _TEXT, "output": (str, list)},
    "custom_tool_call_output": {"call_id": _TEXT, "output": (str, list)},
    "local_shell_call_output": {"output": _TEXT},
    "reasoning": {"summary": (list,)},
    "item_reference": {"id": _TEXT},
}
"""Fields that an item of a type must have, with their types."""
_WORDS: Mapping[Types, str] = {_TEXT: "a string", (str, list): "a string or an array", (list,): "an array"}


def call_shapes(request: Candidate) -> Problem | None:
    """Calls have ids, names and arguments; results name their call."""
    found = _chat_problems if request.wire == "chat" else _item_problems
    return next((problem for path, item in request.items for problem in found(path, item)), None)


def _chat_problems(path: str, message: Json) -> Iterator[Problem]:
    if message["role"] == "tool":
        yield from _field(message, path, "tool_call_id", _TEXT)
    calls = message.get("tool_calls")
    if not isinstance(calls, (list, type(None))):
        yield wrong_type(f"{path}.tool_calls", "an array", calls)
        return
    for number, call in enumerate(calls or ()):
        place = f"{path}.tool_calls[{number}]"
        if not isinstance(call, dict):
            yield wrong_type(place, "an object", call)
            continue
        yield from _field(call, place, "id", _TEXT)
        kind = "custom" if call.get("type") == "custom" else "function"
        if not isinstance(call.get(kind), dict):
            yield missing(f"{place}.{kind}")
            continue
        yield from _field(call[kind], f"{place}.{kind}", "name", _TEXT)
        yield from _field(call[kind], f"{place}.{kind}", "input" if kind == "custom" else "arguments", _TEXT)


def _item_problems(path: str, item: Json) -> Iterator[Problem]:
    kind = item.get("type", "message")
    if not isinstance(kind, str):
        yield wrong_type(f"{path}.type", "a string", kind)
        return
    for name, types in _ITEMS.get(kind, {}).items():
        yield from _field(item, path, name, types)
    if kind == "reasoning":
        for number, part in enumerate(item["summary"] if isinstance(item.get("summary"), list) else ()):
            if not isinstance(part, dict) or not isinstance(part.get("text"), str):
                yield missing(f"{path}.summary[{number}].text")


def _field(item: Json, path: str, name: str, types: Types) -> Iterator[Problem]:
    if name not in item:
        yield missing(f"{path}.{name}")
    elif not isinstance(item[name], types):
        yield wrong_type(f"{path}.{name}", _WORDS[types], item[name])
