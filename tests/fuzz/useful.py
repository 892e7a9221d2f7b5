"""How far one request repeats another, told from the bodies alone: an opinion independent of the planner's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agentaccel.facts import cache_facts
from agentaccel_emulator.behaviour import Behaviour

UNMARKABLE = {"thinking", "redacted_thinking"}
KEYED = ("model", "thinking", "tool_choice", "speed", "output_config")
"""Parameters that belong to what is cached, here taken to break everything: a stricter reading than the planner's."""


@dataclass(frozen=True, slots=True)
class Block:
    """One block in reading order."""

    text: str
    """Its JSON without markers, level and role in front."""
    tokens: int
    markable: bool
    marked: bool


@dataclass(frozen=True, slots=True)
class Reach:
    """A request as a list of blocks."""

    at: float
    key: str
    minimum: int
    blocks: tuple[Block, ...]

    def shares(self, before: Reach) -> int | None:
        """How many of the blocks of `before` this longer request repeats, if that ends at or behind a markable block
        whose prefix reaches the minimum; None where it does not."""
        if self.key != before.key or len(self.blocks) <= len(before.blocks):
            return None
        same = 0
        for old, new in zip(before.blocks, self.blocks, strict=False):
            if old.text != new.text:
                break
            same += 1
        if same < len(before.blocks):
            return None
        total, reached = 0, False
        for block in before.blocks[:same]:
            total += block.tokens
            reached |= block.markable and total >= before.minimum
        return same if reached else None

    def marked_within(self, shared: int) -> bool:
        """Whether a marker stands on a block within the first `shared` whose prefix reaches the minimum."""
        total = 0
        for block in self.blocks[:shared]:
            total += block.tokens
            if block.marked and total >= self.minimum:
                return True
        return False


def reach_of(body: dict[str, Any], at: float, platform: str = "api") -> Reach:
    """`body` as the provider reads it."""
    facts = cache_facts(body["model"])
    assert facts is not None
    tokenizer = Behaviour().tokenizer_of(body["model"])
    top = "cache_control" in body
    blocks: list[Block] = []
    for label, block in _flat(body):
        plain = {name: value for name, value in block.items() if name != "cache_control"}
        if isinstance(plain.get("content"), list):
            plain["content"] = [
                {name: value for name, value in part.items() if name != "cache_control"} for part in plain["content"]
            ]
        text = label + json.dumps(plain)
        kind = block.get("type")
        size = 1500 if kind == "image" else tokenizer.count(len(json.dumps(plain)))
        nested = isinstance(block.get("content"), list) and any("cache_control" in part for part in block["content"])
        markable = kind not in UNMARKABLE and not (kind == "text" and not block["text"].strip())
        blocks.append(Block(text, size, markable, "cache_control" in block or nested))
    if top:
        last = max(i for i, block in enumerate(blocks) if block.markable)
        blocks[last] = Block(blocks[last].text, blocks[last].tokens, True, True)
    key = json.dumps([body.get(name) for name in KEYED])
    return Reach(at, key, facts.min_tokens, tuple(blocks))


def _flat(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for tool in body.get("tools") or ():
        if not tool.get("defer_loading"):
            yield "tools", tool
    for block in _list(body.get("system")):
        yield "system", block
    for message in body["messages"]:
        for block in _list(message["content"]):
            yield message["role"], block


def _list(content: Any) -> list[dict[str, Any]]:
    if content is None:
        return []
    return [{"type": "text", "text": content}] if isinstance(content, str) else content
