"""What OpenAI's APIs refuse in a conversation: shapes of messages and items, and calls without results.

*Invented* marks a text that is not published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentaccel_emulator.openai_call_shapes import call_shapes
from agentaccel_emulator.openai_candidate import Candidate, refusal
from agentaccel_emulator.openai_checks import CACHE_RULES, ENVELOPE, missing, unknown, wrong_type, wrong_value
from agentaccel_emulator.openai_prompt import TEXTS
from agentaccel_emulator.schema_writing import has_instances
from agentaccel_emulator.trial import Check, Problem

_ROLES = {
    "chat": ("system", "developer", "assistant", "user", "function", "tool"),
    "responses": ("assistant", "system", "developer", "user"),
}
_PARTS = {
    "chat": ("text", "image_url", "input_audio", "file", "refusal"),
    "responses": ("input_text", "input_image", "input_file", "input_audio", "output_text", "refusal", "summary_text"),
}


def item_shapes(request: Candidate) -> Problem | None:
    """Messages and items are objects; messages have a role and content."""
    name = "messages" if request.wire == "chat" else "input"
    given = request.body.get(name)
    if request.wire == "chat" and not given:
        text = (
            "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead."
        )
        return refusal(text, "messages", "empty_array")
    for index, item in enumerate(given if isinstance(given, list) else ()):
        path = f"{name}[{index}]"
        if not isinstance(item, dict):
            return wrong_type(path, "an object", item)
        if request.wire == "responses" and item.get("type", "message") != "message":
            continue
        if "role" not in item:
            return missing(f"{path}.role")
        if item["role"] not in _ROLES[request.wire]:
            return wrong_value(f"{path}.role", item["role"], _ROLES[request.wire])
        if (problem := _content(request, item, path)) is not None:
            return problem
    return None


def _content(request: Candidate, item: Mapping[str, Any], path: str) -> Problem | None:
    content = item.get("content")
    if content is None:
        instead = ("tool_calls", "function_call", "audio", "refusal")
        silent = item["role"] == "assistant" and ("content" in item or any(item.get(name) for name in instead))
        return None if silent and request.wire == "chat" else missing(f"{path}.content")
    if not isinstance(content, (str, list)):
        return wrong_type(f"{path}.content", "a string or an array", content)
    return None


def part_shapes(request: Candidate) -> Problem | None:
    """Content parts are objects of a known type; text is a string."""
    for found in request.parts:
        if not isinstance(found.part, dict):
            return wrong_type(found.path, "an object", found.part)
        if "type" not in found.part:
            return missing(f"{found.path}.type")
        kind = found.part["type"]
        if not isinstance(kind, str) or (request.strict and kind not in _PARTS[request.wire]):
            return wrong_value(f"{found.path}.type", kind, _PARTS[request.wire])
        if kind in TEXTS and not isinstance(found.part.get(TEXTS[kind]), str):
            return missing(f"{found.path}.{TEXTS[kind]}")
    return None


def tool_shapes(request: Candidate) -> Problem | None:
    """Tools are objects with a type, and functions have a name."""
    for number, tool in enumerate(request.body.get("tools") or ()):
        path = f"tools[{number}]"
        if not isinstance(tool, dict):
            return wrong_type(path, "an object", tool)
        if "type" not in tool and request.strict:
            return missing(f"{path}.type")
        if "cache_control" in tool and request.strict:
            return unknown(f"{path}.cache_control")
        if tool.get("type", "function") == "function":
            function = tool.get("function") if request.wire == "chat" else tool
            place = f"{path}.function" if request.wire == "chat" else path
            if not isinstance(function, dict):
                return missing(place)
            if not isinstance(function.get("name"), str):
                return missing(f"{place}.name")
    return None


def foreign_markers(request: Candidate) -> Problem | None:
    """No other vendor's marker stands on a part."""
    found = next((found for found in request.parts if "cache_control" in found.part), None)
    return unknown(f"{found.path}.cache_control") if found else None


def chat_results(request: Candidate) -> Problem | None:
    """Every tool call is answered by the messages right after it, and every tool message answers one."""
    open_: dict[str, str] = {}
    for path, message in request.items:
        if message["role"] == "tool":
            if not open_ and not _answers(request, message):
                text = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
                return refusal(f"Invalid parameter: {text}", f"{path}.role")
            open_.pop(message.get("tool_call_id", ""), None)
            continue
        if open_:
            return _unanswered(open_, path)
        open_ = {call.get("id", ""): path for call in message.get("tool_calls") or ()}
    return _unanswered(open_, "messages") if open_ else None


def _answers(request: Candidate, message: Mapping[str, Any]) -> bool:
    calls = (call.get("id") for _, one in request.items for call in one.get("tool_calls") or ())
    return message.get("tool_call_id") in calls


def _unanswered(calls: Mapping[str, str], path: str) -> Problem:
    text = (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(calls)}"
    )
    return refusal(text, path if path == "messages" else f"{path}.role")


def stream_options(request: Candidate) -> Problem | None:
    """Options of a stream go with a stream."""
    if request.body.get("stream_options") is None or request.body.get("stream") is True:
        return None
    return refusal("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")


def limits(request: Candidate) -> Problem | None:
    """Numbers of tokens, choices and alternatives are within their bounds."""
    for name, (least, most) in _BOUNDS.items():
        value = request.body.get(name)
        if value is not None and value < least:
            text = (
                f"Invalid '{name}': integer below minimum value. Expected a value >= {least}, but got {value} instead."
            )
            return refusal(text, name, "integer_below_min_value")
        if value is not None and value > most:
            text = (
                f"Invalid '{name}': integer above maximum value. Expected a value <= {most}, but got {value} instead."
            )
            return refusal(text, name, "integer_above_max_value")
    return None


_BOUNDS = {
    **dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), (1, float("inf"))),
    "n": (1, 128),
    "top_logprobs": (0, 20),
}


def output_format(request: Candidate) -> Problem | None:
    """A JSON schema has a name and a schema."""
    form: Any = request.body.get("response_format")
    path = "response_format"
    if request.wire == "responses":
        form, path = (request.body.get("text") or {}).get("format"), "text.format"
    if form is None:
        return None
    if not isinstance(form, dict):
        return wrong_type(path, "an object", form)
    if form.get("type") not in ("text", "json_object", "json_schema"):
        return wrong_value(f"{path}.type", form.get("type"), ("json_object", "json_schema", "text"))
    if form["type"] == "json_schema":
        inner = form.get("json_schema") if request.wire == "chat" else form
        place = f"{path}.json_schema" if request.wire == "chat" else path
        if not isinstance(inner, dict) or "name" not in inner:
            return missing(f"{place}.name")
        if not has_instances(inner.get("schema", {})):
            return refusal(f"Invalid schema for response_format '{inner['name']}'.", place, "invalid_json_schema")
    return None


def one_history(request: Candidate) -> Problem | None:
    """A response goes on from another one or from a conversation, not from both, and something is said (invented)."""
    body = request.body
    if body.get("previous_response_id") is not None and body.get("conversation") is not None:
        return refusal(
            "Mutually exclusive parameters: 'previous_response_id' and 'conversation'.",
            "previous_response_id",
            "mutually_exclusive_parameters",
        )
    if any(body.get(name) for name in ("input", "previous_response_id", "conversation", "prompt")):
        return None
    return refusal(
        "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation' must be provided.",
        None,
        "missing_required_parameter",
    )


def outputs_answer(context: Sequence[Mapping[str, Any]]) -> Problem | None:
    """Every output in a whole conversation answers a call before it, and every call is answered."""
    asked: dict[object, None] = {}
    answered: set[object] = set()
    for item in context:
        kind, call = item.get("type"), item.get("call_id")
        if kind in _CALLS:
            asked[call] = None
        elif kind in _OUTPUTS:
            answered.add(call)
            if call not in asked:
                return refusal(f"No tool call found for function call output with call_id {call}.", "input")
    open_ = next((call for call in asked if call not in answered), None)
    return refusal(f"No tool output found for function call {open_}.", "input") if open_ else None


_CALLS = ("function_call", "custom_tool_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_BOTH = (
    *ENVELOPE,
    Check("item_shapes", item_shapes),
    Check("part_shapes", part_shapes),
    Check("call_shapes", call_shapes),
    Check("tool_shapes", tool_shapes),
    Check("foreign_markers", foreign_markers),
    *CACHE_RULES,
    Check("stream_options", stream_options),
    Check("limits", limits),
    Check("output_format", output_format),
)
CHECKS: Mapping[str, tuple[Check[Candidate], ...]] = {
    "chat": (*_BOTH, Check("chat_results", chat_results)),
    "responses": (*_BOTH, Check("one_history", one_history)),
}
"""Every rule of the two APIs that is emulated, in the order in which they are tried."""

_LENIENT = frozenset({"known_fields", "foreign_markers", "cache_options", "breakpoints", "cache_key", "retention"})
"""Checks that servers which only speak the API leave out: they ignore what they do not know."""


def objection(request: Candidate, skipped: frozenset[str]) -> tuple[str, Problem] | None:
    """The first check that objects, by name, and its problem; checks named in `skipped` are left out."""
    skipped = skipped if request.strict else skipped | _LENIENT
    for check in CHECKS[request.wire]:
        if check.name not in skipped and (problem := check.objection(request)) is not None:
            return check.name, problem
    return None
