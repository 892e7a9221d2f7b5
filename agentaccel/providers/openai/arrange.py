"""What an operator can say at the end of a request on either OpenAI wire, and how tools are kept from being called."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentaccel.providers.openai.blocks import FIRST
from agentaccel.providers.openai.responses import role_of
from agentaccel.providers.values import is_object, items
from agentaccel.types import Request

_SPOKEN = frozenset({"user", "tool", "function", "system", "developer"})
"""Roles behind which a note may stand: behind the assistant's words the model would be asked to go on."""

_CALLABLE = frozenset({"function", "custom"})
"""Kinds of tool that a list of allowed ones can name."""


def note_in_chat(request: Request, note: str, form: str) -> Request | None:
    """`request` with `note` at its end, as a message of whoever gives the instructions; None where it cannot stand.

    Where nobody gives any, it is not known which role this model would take.
    """
    messages = items(request.get("messages"))
    last, speaker = messages[-1] if messages else None, _speaker(messages)
    if not is_object(last) or last.get("role") not in _SPOKEN or not speaker:
        return None
    return {**request, "messages": [*messages, {"role": speaker, "content": note}]}


def note_in_responses(request: Request, note: str, form: str) -> Request | None:
    """As for Chat Completions; an input that is one string becomes the user's message that it stands for."""
    given = request.get("input")
    before = [{"role": "user", "content": given}] if isinstance(given, str) and given else list(items(given))
    last, speaker = before[-1] if before else None, _speaker(before) or (form if request.get("instructions") else "")
    if not is_object(last) or role_of(last) not in _SPOKEN or not speaker:
        return None
    return {**request, "input": [*before, {"role": speaker, "content": note}]}


def _speaker(messages: Sequence[Any]) -> str:
    """The role of the instructions that a conversation begins with; empty where it begins with none."""
    first = messages[0].get("role") if messages and is_object(messages[0]) else None
    return first if isinstance(first, str) and first in FIRST else ""


def only_in_chat(request: Request, names: tuple[str, ...]) -> Request | None:
    """`request` in which only the tools of these `names` can be called; None where that cannot be said."""
    return _only(request, names, lambda mode, tools: {"allowed_tools": {"mode": mode, "tools": tools}}, _in_chat)


def only_in_responses(request: Request, names: tuple[str, ...]) -> Request | None:
    """As for Chat Completions."""
    return _only(request, names, lambda mode, tools: {"mode": mode, "tools": tools}, _in_responses)


def _only(
    request: Request,
    names: tuple[str, ...],
    allowed: Callable[[str, list[Any]], Mapping[str, Any]],
    entry: Callable[[Mapping[str, Any]], tuple[str, Any]],
) -> Request | None:
    choice = request.get("tool_choice", "auto")
    if choice not in ("auto", "required"):
        # None can be called, or one alone, or those that the sender lists: what is kept is none of them.
        return request if choice == "none" or is_object(choice) else None
    tools: list[Any] = []
    for tool in items(request.get("tools")):
        if not is_object(tool) or tool.get("type") not in _CALLABLE:
            return None
        name, one = entry(tool)
        if name in names:
            tools.append(one)
    return {**request, "tool_choice": {"type": "allowed_tools", **allowed(choice, tools)}}


def _in_chat(tool: Mapping[str, Any]) -> tuple[str, Any]:
    kind = tool["type"]
    inner = tool.get(kind)
    name = inner.get("name", "") if is_object(inner) else ""
    return name, {"type": kind, kind: {"name": name}}


def _in_responses(tool: Mapping[str, Any]) -> tuple[str, Any]:
    name = tool.get("name", "")
    return name, {"type": tool["type"], "name": name}
