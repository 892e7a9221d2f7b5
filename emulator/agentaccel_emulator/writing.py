"""From a scripted reply to what the model wrote: ids filled in, tokens counted, cut off at max_tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentaccel_emulator.anthropic_levels import canonical
from agentaccel_emulator.anthropic_prompt import Tokenizer
from agentaccel_emulator.given import well_formed
from agentaccel_emulator.script import ScriptedReply

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What the model wrote."""

    content: tuple[Json, ...]
    """Content blocks."""
    stop_reason: str
    """Why it stopped."""
    tokens: int
    """Output tokens."""
    thinking: int
    """Output tokens that were thinking."""


def write(
    scripted: ScriptedReply, *, limit: float, turn: int, tokenizer: Tokenizer, ids: str = "toolu_emulated"
) -> Written:
    """What the model writes of `scripted` within `limit` tokens, as the message number `turn` of its conversation.

    A reply that is too long loses its end: text is cut, other blocks are dropped, and the stop reason is max_tokens.
    `ids` is what the ids of tool calls begin with. Half a surrogate pair, which no server can send, is replaced.
    """
    blocks = tuple(
        _finished(well_formed(block), ids, f"{turn}_{place}") for place, block in enumerate(scripted.content)
    )
    sizes = [tokenizer.count(len(canonical(block))) for block in blocks]
    thinking = sum(size for block, size in zip(blocks, sizes, strict=True) if block["type"] == "thinking")
    total = scripted.output_tokens if scripted.output_tokens is not None else sum(sizes)
    if total > limit:
        kept = _cut(blocks, sizes, limit, total)
        return Written(content=kept, stop_reason="max_tokens", tokens=int(limit), thinking=min(thinking, int(limit)))
    called = any(block["type"] == "tool_use" for block in blocks)
    reason = scripted.stop_reason or ("tool_use" if called else "end_turn")
    return Written(content=blocks, stop_reason=reason, tokens=total, thinking=min(thinking, total))


def _cut(blocks: Sequence[Json], sizes: Sequence[int], limit: float, total: int) -> tuple[Json, ...]:
    left = limit * sum(sizes) / total
    kept: list[Json] = []
    for block, size in zip(blocks, sizes, strict=True):
        if size > left:
            share = int(len(block.get("text", "")) * left / size)
            if block["type"] == "text" and share:
                kept.append({**block, "text": block["text"][:share]})
            break
        kept.append(block)
        left -= size
    return tuple(kept)


def _finished(block: Json, ids: str, place: str) -> Json:
    """The block with what a script may leave out: a call's id, a thinking's signature."""
    if block["type"] == "tool_use":
        return {"type": "tool_use", "id": f"{ids}_{place}", "input": {}, **block}
    if block["type"] == "server_tool_use":
        return {"input": {}, **block}
    if block["type"] == "thinking":
        return {"signature": f"signature_emulated_{place}", **block}
    return block


def turn_of(messages: Sequence[Json]) -> int:
    """The number of a reply to `messages`; what the operator adds to a conversation makes no other one of it."""
    return sum(message.get("role") not in ("system", "developer") for message in messages)


def opening_text(messages: Sequence[Json]) -> str:
    """The text of the first user message."""
    content = next((message.get("content") for message in messages if message["role"] == "user"), "")
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content or () if block["type"] == "text")
