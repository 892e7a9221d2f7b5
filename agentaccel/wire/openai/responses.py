"""Reading a request of OpenAI Responses into a `Prompt`.

Each input item counts as one message. Instructions, and system and developer messages at the start, are the level
*system*. A request that goes on from a stored response or conversation holds only what is new: it is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentaccel.facts import CacheFacts, Level
from agentaccel.hashing import block_hash, wire_bytes
from agentaccel.types import Prompt, Request, ToolCall
from agentaccel.wire.json import is_object, items, name_of, name_or_none, text_or_none, word
from agentaccel.wire.legality import illegal
from agentaccel.wire.openai.blocks import (
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
from agentaccel.wire.openai.tap import OpenAITap, Slot, call_of
from agentaccel.wire.parts import PartMemory, PartReader

_MESSAGE = frozenset({"type", "role", "content"})
_RESULT = frozenset({"type", "output"})
OF_PARTS = frozenset({"function_call_output", "custom_tool_call_output"})
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
            markers = kind in OF_PARTS
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


# --- Reading replies of OpenAI Responses, streamed or not -------------------------------------------------------------
# The terminal event (completed, incomplete, failed) holds usage and status; servers differ in whether it repeats the
# output, so calls are told from the events of their items as well.

_INPUT = {"function_call": "arguments", "custom_tool_call": "input"}
"""Items that ask the caller to run a tool, and where their input stands."""

_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_BROKEN = _TERMINAL - {"response.completed"}
"""Ends of a response that was cut: what it lists may be cut as well, unless it says that it is not."""
_CUT = "incomplete"
"""The status of a call whose input is not whole."""
_UNDER_WAY = ("queued", "in_progress")
"""Statuses of a response that is still being made."""


@dataclass(slots=True)
class ResponsesTap(OpenAITap):
    """Watches one response go by. `stop` is its status."""

    @property
    def pending(self) -> bool:
        """True if the status says so: of a response in the background, or of a stream that has not ended."""
        return self.stop in _UNDER_WAY

    def event(self, kind: str, event: Mapping[str, Any]) -> Iterator[ToolCall]:
        slot, item = _slot(event), _call(event.get("item"))
        match kind:
            case "response.output_item.added" if item is not None:
                self._start(slot, item, begun=_text(item))
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                yield from self.calls.delta(slot, text_or_none(event.get("delta")) or "")
            case "response.function_call_arguments.done":
                yield from self.calls.stop(slot, text_or_none(event.get("arguments")))
            case "response.custom_tool_call_input.done":
                yield from self.calls.stop(slot, text_or_none(event.get("input")))
            case "response.output_item.done" if item is not None and item.get("status") != _CUT:
                self._start(slot, item)
                yield from self.calls.stop(slot, _text(item))
            case "error":
                self.error = name_of(event.get("code") or "error")
            case _ if is_object(event.get("response")):
                yield from self._so_far(kind, event["response"])

    def _so_far(self, kind: str, response: Mapping[str, Any]) -> Iterator[ToolCall]:
        """The response as it is when it begins, or ends: it may list what no event told of."""
        self._response(response)
        for place, item in enumerate(map(_call, items(response.get("output")))):
            whole = item is not None and item.get("status") == "completed"
            if item is not None and (whole or (kind not in _BROKEN and item.get("status") != _CUT)):
                at = self.calls.place_of(_named(item)[0]) or (0, place)
                self._start(at, item, begun=_text(item))
                if kind in _TERMINAL:
                    yield from self.calls.stop(at, _text(item))
        if kind in _TERMINAL:
            yield from self.calls.end(cut=kind != "response.completed")
            self.complete = self.error is None

    def whole(self, body: Mapping[str, Any]) -> Iterator[ToolCall]:
        self._response(body)
        self.complete = isinstance(body.get("output"), list) and self.error is None
        for item in map(_call, items(body.get("output"))):
            whole = item is not None and item.get("status") != _CUT and not self.pending
            if item is not None and whole:
                yield from call_of(*_named(item), _text(item), plain=_plain(item))

    def _start(self, slot: Slot, item: Mapping[str, Any], begun: str = "") -> None:
        self.calls.start(slot, *_named(item), begun, plain=_plain(item))

    def _response(self, response: Mapping[str, Any]) -> None:
        self.take_name(response)
        self.take_usage(response.get("usage"))
        self.stop = name_or_none(response.get("status")) or self.stop
        self.take_error(response.get("error"))
        if self.stop == "failed" and self.error is None:
            self.error = "failed"
        diagnosis = response.get("prompt_cache_diagnostics")
        if is_object(diagnosis):
            self.diagnosis = name_or_none(diagnosis.get("reason") or diagnosis.get("type"))


def _slot(event: Mapping[str, Any]) -> Slot:
    """Where in the output an event belongs; some servers say it by the item's id alone."""
    item = event.get("item")
    for place in (event.get("output_index"), event.get("item_id"), item.get("id") if is_object(item) else None):
        if isinstance(place, int | str):
            return 0, place
    return 0, None


def _call(item: Any) -> Mapping[str, Any] | None:
    """`item` where it asks the caller to run a tool."""
    kind = item.get("type") if is_object(item) else None
    if not isinstance(kind, str) or kind not in _INPUT:
        return None
    return item if item.get("name") or item.get(_INPUT[kind]) else None


def _named(item: Mapping[str, Any]) -> tuple[str | None, str]:
    return name_or_none(item.get("call_id")) or None, name_of(item.get("name") or "")


def _text(item: Mapping[str, Any]) -> str:
    """Its input; a server that does not write arguments as text has them as they are."""
    given = item.get(_INPUT[item["type"]])
    return wire_bytes(given).decode() if is_object(given) else text_or_none(given) or ""


def _plain(item: Mapping[str, Any]) -> bool:
    return bool(item["type"] == "custom_tool_call")
