"""Reading replies of OpenAI Chat Completions, streamed or not.

A streamed call has no end of its own: it ends where its JSON closes, or where its choice is finished. That another call
begins says nothing: servers may open several and then fill them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentaccel.canonical import wire_bytes
from agentaccel.providers.openai.calls import FORMER, Slot, call_of, repeats
from agentaccel.providers.openai.tap import Tap
from agentaccel.providers.values import is_object, items, name_or_none, text_or_none
from agentaccel.types import ToolCall

_WHOLE = frozenset({"tool_calls", "function_call", "stop"})
"""Reasons to stop after which what is still open has ended and was not cut."""


@dataclass(slots=True)
class ChatTap(Tap):
    """Watches one chat completion go by."""

    _now: dict[Slot, Slot] = field(default_factory=dict)
    """Where what comes next for a place belongs, if several calls are said to stand there."""

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
            if is_object(delta.get("function_call")):
                yield from self._call((index, FORMER), {"function": delta["function_call"]})
        stop = name_or_none(choice.get("finish_reason"))
        if stop is not None:
            yield from self.calls.end(index, cut=stop not in _WHOLE)
            if index == 0:
                self.stop = stop

    def _call(self, slot: Slot, call: Mapping[str, Any]) -> Iterator[ToolCall]:
        id_, name, text, plain = _form(call)
        slot = self._place(slot, id_, name, text)
        if id_ or name:
            self.calls.start(slot, id_, name, plain=plain)
        yield from self.calls.delta(slot, text)

    def _place(self, slot: Slot, id_: str | None, name: str, text: str) -> Slot:
        """Where a piece of a call belongs that says that it is of `slot`.

        Some servers count no calls, or all of them as the first: another id with a name is another call, and so is a
        name with arguments behind a call that has ended. (Some make up an id for every piece; those have no name.)
        """
        at = self.calls.place_of(id_, slot[0]) or self._now.get(slot, slot)
        known = self.calls.known(at)
        if known is not None and name:
            other, ended = known
            if (id_ is not None and other is not None and id_ != other) or (ended and id_ is None and text):
                at = (slot[0], (slot[1], self.calls.count))
        self._now[slot] = at
        return at

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


def _form(call: Mapping[str, Any]) -> tuple[str | None, str, str, bool]:
    """Id, name and input of a call or of a piece of one, and whether its input is text: in the one form that is filled.

    Some servers fill one and have the others there, empty: without a name, and without an input or with an empty one.
    """
    forms = [(of, of.get(field), custom) for form, field, custom in _FORMS if is_object(of := call.get(form))]
    filled = max(forms, key=lambda form: (bool(form[0].get("name")), form[1] not in _EMPTY), default=({}, None, False))
    of, given, custom = filled
    # A server that does not write arguments as text has them as they are.
    text = wire_bytes(given).decode() if is_object(given) else text_or_none(given) or ""
    return name_or_none(call.get("id")) or None, name_or_none(of.get("name")) or "", text, custom


_FORMS = (("function", "arguments", False), ("custom", "input", True))
_EMPTY: tuple[Any, ...] = (None, "", "{}", {})


def _calls(message: Mapping[str, Any]) -> Iterator[ToolCall]:
    """The tool calls of a whole message."""
    found = [made for call in items(message.get("tool_calls")) if is_object(call) for made in _made(call)]
    yield from found
    yield from (one for one in _made({"function": message.get("function_call")}) if not repeats(one, found))


def _made(call: Mapping[str, Any]) -> Iterator[ToolCall]:
    id_, name, text, plain = _form(call)
    if name or (text and text != "{}"):
        yield from call_of(id_, name, text, plain=plain)
