"""Reading replies of OpenAI Chat Completions, streamed or not.

A streamed call has no end of its own: it ends where its JSON closes, or where its choice is finished. That another call
begins says nothing: servers may open several and then fill them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentaccel.providers.openai.calls import Slot, call_of
from agentaccel.providers.openai.tap import Tap
from agentaccel.providers.values import is_object, items, name_of, name_or_none, text_or_none
from agentaccel.types import ToolCall

_WHOLE = frozenset({"tool_calls", "function_call", "stop"})
"""Reasons to stop after which what is still open has ended and was not cut."""


@dataclass(slots=True)
class ChatTap(Tap):
    """Watches one chat completion go by."""

    def event(self, kind: str, event: Mapping[str, Any]) -> Iterator[ToolCall]:
        self.take_name(event)
        self.take_usage(event.get("usage"))
        self._groq(event)
        for choice in items(event.get("choices")):
            if is_object(choice):
                yield from self._choice(choice)

    def _choice(self, choice: Mapping[str, Any]) -> Iterator[ToolCall]:
        index, delta = _index(choice.get("index"), 0), choice.get("delta")
        if is_object(delta):
            for place, call in enumerate(items(delta.get("tool_calls"))):
                if is_object(call):
                    yield from self._call((index, _index(call.get("index"), place)), call)
            legacy = delta.get("function_call")
            if is_object(legacy):
                yield from self._call((index, "function_call"), {"function": legacy})
        stop = name_or_none(choice.get("finish_reason"))
        if stop is not None:
            yield from self.calls.end(index, cut=stop not in _WHOLE)
            if index == 0:
                self.stop = stop

    def _call(self, slot: Slot, call: Mapping[str, Any]) -> Iterator[ToolCall]:
        custom = call.get("custom")
        named = custom if is_object(custom) else call.get("function")
        named = named if is_object(named) else {}
        id_, name = name_or_none(call.get("id")), name_or_none(named.get("name"))
        if id_ or name:
            self.calls.start(slot, id_, name or "", plain=is_object(custom))
        yield from self.calls.delta(slot, text_or_none(named.get("input" if is_object(custom) else "arguments")) or "")

    def whole(self, body: Mapping[str, Any]) -> Iterator[ToolCall]:
        self.take_name(body)
        self.take_usage(body.get("usage"))
        self._groq(body)
        choices = body.get("choices")
        self.complete = isinstance(choices, list) and self.error is None
        for place, choice in enumerate(items(choices)):
            if not is_object(choice):
                continue
            if place == 0:
                self.stop = name_or_none(choice.get("finish_reason"))
            message = choice.get("message")
            if is_object(message):
                yield from _calls(message)

    def done(self) -> Iterator[ToolCall]:
        yield from self.calls.end(cut=False)
        self.complete = self.error is None

    def ended(self) -> None:
        self.complete = self.complete or (self.stop is not None and self.error is None)

    def _groq(self, event: Mapping[str, Any]) -> None:
        own = event.get("x_groq")
        if not self.reported and is_object(own):
            self.take_usage(own.get("usage"))


def _index(value: Any, otherwise: int) -> int:
    return value if isinstance(value, int) else otherwise


def _calls(message: Mapping[str, Any]) -> Iterator[ToolCall]:
    """The tool calls of a whole message."""
    legacy = message.get("function_call")
    for call in (*items(message.get("tool_calls")), *([{"function": legacy}] if is_object(legacy) else ())):
        if not is_object(call):
            continue
        custom = call.get("custom")
        named = custom if is_object(custom) else call.get("function")
        if is_object(named):
            text = text_or_none(named.get("input" if is_object(custom) else "arguments")) or ""
            yield from call_of(
                name_or_none(call.get("id")), name_of(named.get("name") or ""), text, plain=is_object(custom)
            )
