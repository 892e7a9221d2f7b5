"""What an operator can say at the end of a request of the Anthropic Messages API."""

from __future__ import annotations

from typing import Any

from agentaccel.providers.values import is_object, items
from agentaccel.types import Request


def with_note(request: Request, note: str, form: str) -> Request | None:
    """`request` with `note` at its end, in the `form` that the model takes; None where it cannot stand there.

    A system message comes last and after the user's (vendor's guide on system messages in mid-conversation, 2026-08).
    Where there is none, the note is the last text of the user's message, behind the results of tools, which must come
    first. A message of the assistant at the end is one that the model goes on with: nothing can stand behind it.

    >>> with_note({"messages": [{"role": "user", "content": "Hi"}]}, "It is noon.", "user")["messages"]
    [{'role': 'user', 'content': [{'type': 'text', 'text': 'Hi'}, {'type': 'text', 'text': 'It is noon.'}]}]
    """
    messages = items(request.get("messages"))
    last = messages[-1] if messages else None
    if not is_object(last) or last.get("role") not in ("user", "system"):
        return None
    if form == "system" and last["role"] == "user" and last.get("content"):
        return {**request, "messages": [*messages, {"role": "system", "content": note}]}
    if last["role"] != form or (len(messages) < 2 and form == "system"):
        return None
    content = _longer(last.get("content"), note)
    if content is None:
        return None
    return {**request, "messages": [*messages[:-1], {**last, "content": content}]}


def _longer(content: Any, note: str) -> list[Any] | None:
    block = {"type": "text", "text": note}
    if isinstance(content, str):
        return [{"type": "text", "text": content}, block] if content.strip() else None
    return [*content, block] if items(content) else None


def only_tools(request: Request, names: tuple[str, ...]) -> Request | None:
    """Tools cannot be kept from being called without breaking the prefix: `tool_choice` is part of it."""
    return None
