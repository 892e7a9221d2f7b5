"""Reading a request of OpenAI Chat Completions into a `Prompt`.

The wire of OpenAI, Azure, and every server and gateway that is compatible with them. System and developer messages at
the start are the level *system*; later ones belong to the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentaccel.canonical import block_hash
from agentaccel.facts import CacheFacts, Level
from agentaccel.providers.legality import illegal
from agentaccel.providers.openai.blocks import (
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
from agentaccel.providers.parts import PartMemory, PartReader
from agentaccel.providers.values import is_object, items, name_of, word
from agentaccel.types import Prompt, Request

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
