"""Reading replies of the Anthropic Messages API: usage, tool calls, stop reason, streamed or not.

A stream's `message_start` gives the first figures of usage, and those of a later `message_delta` replace them (recorded
exchanges of real APIs, 2024 to 2026).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentaccel.types import Metered, ToolCall
from agentaccel.wire.anthropic.usage import cached, metered
from agentaccel.wire.json import TERMS, exactly, is_object, items, loaded, name_of, name_or_none
from agentaccel.wire.replies import ReplyReader, merged


@dataclass(slots=True)
class _Block:
    """A tool call whose arguments are still arriving."""

    id: str | None
    name: str
    input: Any
    """What the block began with: all of it, where no pieces come."""
    pieces: list[str] = field(default_factory=list)
    from_start: bool = False
    """True if the message began with it, and not with an event of its own."""

    def call(self) -> Iterator[ToolCall]:
        """The call; none where its arguments were cut or are no object. As in the SDK, pieces replace what the block
        began with; a tool without arguments sends no piece that holds anything."""
        text = "".join(self.pieces)
        begun = {} if self.input is None else self.input
        arguments = exactly(text) if text else begun if is_object(begun) else None
        if arguments is not None:
            yield ToolCall(name=self.name, arguments=arguments, id=self.id)


def _block_of(block: Any) -> _Block | None:
    """A block of content that asks for a tool; None for any other."""
    if not is_object(block) or block.get("type") != "tool_use":
        return None
    return _Block(name_or_none(block.get("id")) or None, name_of(block.get("name")), block.get("input"))


@dataclass(slots=True)
class MessagesTap(ReplyReader):
    """Watches one message go by."""

    _unsure: bool = False
    """True if what the cache did has been told otherwise since the input was."""
    _open: dict[int, _Block] = field(default_factory=dict)
    """Tool calls that have not ended, by the index of their block."""

    @property
    def metered(self) -> Metered:
        return metered(self.reported, self.ttl, unsure=self._unsure)

    def take(self, events: Iterable[tuple[str, bytes]]) -> Iterator[ToolCall]:
        for name, data in events:
            event = loaded(data)
            if event is not None and b"tool_use" in data:
                event = exactly(data)  # it may hold what a tool is called with
            if event is not None:
                yield from self._event(name, event)

    def parsed(self, body: bytes) -> dict[str, Any] | None:
        return exactly(body)  # it holds what tools are called with

    def whole(self, body: Mapping[str, Any]) -> Iterator[ToolCall]:
        if body.get("type") == "error":
            return
        self._message(body)
        self.complete = body.get("type") == "message"
        for block in map(_block_of, items(body.get("content"))):
            if block is not None:
                yield from block.call()

    def _event(self, name: str, event: dict[str, Any]) -> Iterator[ToolCall]:
        match event.get("type") or name:
            case "content_block_start" | "content_block_delta" | "content_block_stop" as kind:
                yield from self._block(kind, event)
            case "message_start":
                if is_object(event.get("message")):
                    self._message(event["message"])
                    self._begun(event["message"])
            case "message_delta":
                self._take_usage(event.get("usage"))
                delta = event.get("delta")
                if is_object(delta):
                    self.stop = name_or_none(delta.get("stop_reason")) or self.stop
            case "message_stop":
                for index in [index for index, block in self._open.items() if block.from_start]:
                    yield from self._open.pop(index).call()
                self.complete = True
            case "error":
                error = event.get("error")
                self.error = name_of(error.get("type")) if is_object(error) else "error"

    def _begun(self, message: Mapping[str, Any]) -> None:
        """A server that sends whole messages has all of it in the first event, and no events of blocks."""
        for index, block in enumerate(map(_block_of, items(message.get("content")))):
            if block is not None:
                block.from_start = True
                self._open[index] = block

    def _block(self, kind: str, event: dict[str, Any]) -> Iterator[ToolCall]:
        """Arguments of tool calls arrive in pieces and are read once, when the block has closed."""
        index = event.get("index")
        if not isinstance(index, int):
            return
        if kind == "content_block_start":
            content = event.get("content_block")
            if is_object(content) and content.get("type") == "fallback" and is_object(content.get("to")):
                self.model = name_or_none(content["to"].get("model")) or self.model
            block, before = _block_of(content), self._open.get(index)
            if before is not None and before.from_start and (block is None or before.id != block.id):
                self._open[-1 - len(self._open)] = before  # another block: the SDK appends it to those that were there
            if block is not None:
                self._open[index] = block
        elif kind == "content_block_delta":
            delta, call = event.get("delta"), self._open.get(index)
            if call is not None and is_object(delta) and delta.get("type") == "input_json_delta":
                call.pieces.append(str(delta.get("partial_json", "")))
        elif (closed := self._open.pop(index, None)) is not None:
            yield from closed.call()

    def _message(self, message: Mapping[str, Any]) -> None:
        self.message_id = name_or_none(message.get("id"))
        self.model = name_or_none(message.get("model"))
        self.stop = name_or_none(message.get("stop_reason")) or self.stop
        diagnostics = message.get("diagnostics")
        if is_object(diagnostics):
            reason = diagnostics.get("cache_miss_reason")
            self.diagnosis = name_of(reason.get("type")) if is_object(reason) else None
        self._terms |= {name: value for name in TERMS if (value := message.get(name))}
        self._take_usage(message.get("usage"))

    def _take_usage(self, usage: Any) -> None:
        if not is_object(usage):
            return
        before, self.reported = self.reported, merged(self.reported, usage)
        if self.reported is before:
            return
        if usage.get("input_tokens") is not None:
            self._unsure = False
        elif before.get("input_tokens") is not None and cached(before) != cached(self.reported):
            self._unsure = True
