"""Reading a request of OpenAI Chat Completions into a `Prompt`.

The wire of OpenAI, Azure, and every server and gateway that is compatible with them. System and developer messages at
the start are the level *system*; later ones belong to the conversation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentaccel.facts import CacheFacts, Level
from agentaccel.hashing import block_hash, wire_bytes
from agentaccel.types import Prompt, Request, ToolCall
from agentaccel.wire.json import is_object, items, name_of, name_or_none, text_or_none, word
from agentaccel.wire.legality import illegal
from agentaccel.wire.openai.blocks import (
    FIRST,
    MORE,
    OPTIONS,
    BlockReader,
    head_of_message,
    head_of_role,
    may_switch,
    opening,
    own_breakpoint,
    parameters_of,
    tools_of,
    ttl_asked,
)
from agentaccel.wire.openai.tap import FORMER, OpenAITap, Slot, call_of, repeats
from agentaccel.wire.parts import PartMemory, PartReader

_KNOWN = frozenset({"role", "content", "tool_calls"})
_NO_PARTS = frozenset({"assistant", "function"})
"""Roles whose messages have no parts that a marker may stand on."""
_APART = frozenset({"messages", "tools", "functions", "model", OPTIONS, "cache_control"})
_SPLIT = frozenset[str]()


@dataclass(slots=True)
class ChatReader(BlockReader):
    """Reads one stretch of a chat."""

    def system(self, system: Any) -> None:
        self._messages(system, 0, "system")

    def messages(self, messages: Sequence[Any], start: int) -> None:
        self._messages(messages, start, "messages")

    def _messages(self, messages: Sequence[Any], start: int, level: Level) -> None:
        for index, message in enumerate(messages, start):
            if not is_object(message):
                self.block((level, ("messages", index), ""), message, b"", "opaque")
                continue
            role = word(message.get("role", ""))
            head = head_of_message(role, message, _KNOWN)
            content, calls = message.get("content"), items(message.get("tool_calls"))
            place = (level, ("messages", index, "content"), role)
            markers = role not in _NO_PARTS and not self._may_move(level, role)
            if isinstance(content, str) and (content or not calls):
                self.text(place, content, "text", head, markers=markers)
                head = MORE
            elif items(content):
                self.parts(place, items(content), head, markers=markers)
                head = MORE
            elif not calls:
                # No content to speak of, and yet a part of the prompt: its role and its other fields count.
                self.block((level, ("messages", index), role), message, head_of_role(role), "opaque")
            for at, call in enumerate(calls):
                self._call((level, ("messages", index, "tool_calls", at), role), call, head)
                head = MORE

    def _may_move(self, level: Level, role: str) -> bool:
        """Whether a gateway in front of Claude may put this message elsewhere, and a marker out of its order."""
        return level == "messages" and role in FIRST and self.facts is not None and self.facts.physics == "markers"

    def _call(self, place: tuple[Level, tuple[str | int, ...], str], call: Any, head: bytes) -> None:
        kind = word(call.get("type") or "function") if is_object(call) else "opaque"
        named = call.get(kind) if is_object(call) else None
        name = name_of(named.get("name") or "") if is_object(named) else ""
        self.block(place, call, head, "tool_call" if kind in ("function", "custom") else kind, name=name)


def decode(
    request: Request,
    facts: CacheFacts | None,
    *,
    key: bytes = b"",
    place: tuple[str, str] = ("openai", "api"),
    model: str = "",
    memory: PartMemory | None = None,
) -> Prompt:
    """Read `request`, hashing its segments under `key`; without facts nothing is markable.

    `place` is the provider and the platform; `model` stands in for the body's own field where the path names it. With a
    `memory`, only what it has not read before is read; the result is the same. Never raises on a malformed body.
    """
    messages = items(request.get("messages"))
    first = opening(messages)
    reader = ChatReader(facts, block_hash(key))
    levels = (tools_of(request), messages[:first] or None, messages[first:])
    read = PartReader(memory, reader, key, first).read(levels)
    own = own_breakpoint(request, facts)
    return Prompt(
        provider=place[0],
        platform=place[1],
        model=name_of(model or request.get("model", "")),
        segments=read.segments,
        parameters=parameters_of(request, key, _APART, _SPLIT),
        markers=read.markers if own is None else (*read.markers, own),
        messages=len(messages) - first,
        opening=first,
        implicit=may_switch(request, facts),
        ttl=ttl_asked(request.get(OPTIONS)),
        stream=request.get("stream") is True,
        stretches=read.digests,
        illegal=illegal(facts, read, own, options=request.get(OPTIONS), top=request.get("cache_control")),
    )


# --- Reading replies of OpenAI Chat Completions, streamed or not ------------------------------------------------------
# A streamed call has no end of its own: it ends where its JSON closes, or where its choice is finished. That another
# call begins says nothing: servers may open several and then fill them.

_WHOLE = frozenset({"tool_calls", "function_call", "stop"})
"""Reasons to stop after which what is still open has ended and was not cut."""


@dataclass(slots=True)
class ChatTap(OpenAITap):
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
        self.take_error(body.get("error"))
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
