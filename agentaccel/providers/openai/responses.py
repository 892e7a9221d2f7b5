"""Reading a request of OpenAI Responses into a `Prompt`.

Each input item counts as one message. Instructions, and system and developer messages at the start, are the level
*system*. A request that goes on from a stored response or conversation holds only what is new: it is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentaccel.canonical import block_hash
from agentaccel.facts import CacheFacts, Level
from agentaccel.providers.legality import illegal
from agentaccel.providers.openai.blocks import (
    OPTIONS,
    PLAIN,
    BlockReader,
    head_of_message,
    head_of_role,
    may_switch,
    opening,
    own_breakpoint,
    parameters_of,
    ttl_asked,
)
from agentaccel.providers.parts import PartMemory, PartReader
from agentaccel.providers.values import is_object, items, name_of, word
from agentaccel.types import Prompt, Request

_MESSAGE = frozenset({"type", "role", "content"})
_RESULT = frozenset({"type", "output"})
_OF_PARTS = frozenset({"function_call_output", "custom_tool_call_output"})
"""Results that may be a list of parts; those of the provider's own tools are text or an object, and stay so."""
_APART = frozenset({"input", "instructions", "tools", "model", OPTIONS, "cache_control"})
_SPLIT = frozenset({"text", "reasoning"})
_OPERATOR = frozenset({"item_reference", "additional_tools", "configuration_update", "compaction_trigger"})
"""Items that neither the model nor a tool made."""
_HELD = {"previous_response_id": "previous response", "conversation": "conversation"}


@dataclass(slots=True)
class ItemReader(BlockReader):
    """Reads one stretch of input items."""

    def system(self, system: Any) -> None:
        instructions, messages = system
        if isinstance(instructions, str):
            self.block(("system", ("instructions",), ""), instructions, PLAIN, "instructions")
        elif instructions is not None:
            for index, item in enumerate(items(instructions)):
                self._item(item, ("instructions", index), "system")
        self._items(messages, 0, "system")

    def messages(self, messages: Sequence[Any], start: int) -> None:
        self._items(messages, start, "messages")

    def _items(self, messages: Sequence[Any], start: int, level: Level) -> None:
        for index, item in enumerate(messages, start):
            self._item(item, ("input", index), level)

    def _item(self, item: Any, path: tuple[str, int], level: Level) -> None:
        if not is_object(item):
            self.block((level, path, ""), item, b"", "opaque")
            return
        kind = word(item.get("type") or "message")
        role = _role(kind, item)
        if kind == "message":
            head = head_of_message(role, item, _MESSAGE)
            markers = role != "assistant"
            self._content(item.get("content"), (level, (*path, "content"), role), head, item, markers=markers)
        elif kind.endswith("_call_output") and "output" in item:
            head = head_of_message(kind, item, _RESULT)
            markers = kind in _OF_PARTS
            self._content(item["output"], (level, (*path, "output"), role), head, item, markers=markers)
        else:
            name = name_of(item.get("name") or "")
            self.block((level, path, role), item, b"", "tool_call" if kind.endswith("_call") else kind, name=name)

    def _content(
        self,
        content: Any,
        place: tuple[Level, tuple[str | int, ...], str],
        head: bytes,
        item: Mapping[str, Any],
        *,
        markers: bool,
    ) -> None:
        level, path, role = place
        if isinstance(content, str):
            self.text(place, content, "output_text" if role == "assistant" else "input_text", head, markers=markers)
        elif items(content):
            self.parts(place, items(content), head, markers=markers)
        else:
            self.block((level, path[:-1], role), item, head_of_role(role), "opaque")


def role_of(item: Mapping[str, Any]) -> str:
    """The role of an input item: who made it."""
    return _role(word(item.get("type") or "message"), item)


def _role(kind: str, item: Mapping[str, Any]) -> str:
    if kind == "message":
        return word(item.get("role", ""))
    if kind.endswith("_output") or kind == "mcp_approval_response":
        return "tool"
    return "" if kind in _OPERATOR else "assistant"


def _after(request: Request) -> str:
    """What a request names that holds the history."""
    kept = request.get("conversation")
    ids = (request.get("previous_response_id"), kept.get("id") if is_object(kept) else kept)
    return next((id_ for id_ in ids if isinstance(id_, str)), "")


def decode(
    request: Request,
    facts: CacheFacts | None,
    *,
    key: bytes = b"",
    place: tuple[str, str] = ("openai", "api"),
    model: str = "",
    memory: PartMemory | None = None,
) -> Prompt:
    """Read `request`, hashing its segments under `key`; without facts nothing is markable. As for Chat Completions."""
    given = request.get("input")
    messages = [{"role": "user", "content": given}] if isinstance(given, str) else items(given)
    first = opening(messages)
    instructions = request.get("instructions")
    before = (instructions, messages[:first]) if instructions is not None or first else None
    reader = ItemReader(facts, block_hash(key))
    levels = (items(request.get("tools")), before, messages[first:])
    read = PartReader(memory, reader, key, first).read(levels)
    own = own_breakpoint(request, facts)
    options = request.get(OPTIONS)
    held = next((why for name, why in _HELD.items() if request.get(name) is not None), "")
    if is_object(options) and options.get("prewarm"):
        held = "prewarm request"
    segments = read.segments
    if isinstance(given, str):  # it stands for a user's message, and no part of it can be marked
        segments = (*segments[:-1], segments[-1]._replace(path=("input",), markable=False))
    return Prompt(
        provider=place[0],
        platform=place[1],
        model=name_of(model or request.get("model", "")),
        segments=segments,
        parameters=parameters_of(request, key, _APART, _SPLIT),
        markers=read.markers if own is None else (*read.markers, own),
        messages=len(messages) - first,
        opening=first,
        implicit=may_switch(request, facts),
        stream=request.get("stream") is True,
        held=held,
        after=_after(request),
        ttl=ttl_asked(options),
        stretches=read.digests,
        illegal=illegal(facts, read, own, options=options, top=None),
    )
