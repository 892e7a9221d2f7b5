"""How a Messages request becomes one long tape: the order in which the provider reads it, and what is hashed where.

A *leaf* is the smallest piece that an entry can end at: a tool, a system block, a content block, or a block inside a
tool result. The tape holds, per leaf, the hash of everything up to it, the tokens up to it (inclusive) and its
position. Nothing here knows of entries, prices or time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import ceil
from typing import Literal

from agentaccel_emulator.anthropic_levels import Json, as_blocks, canonical, messages_seed, root_seed, system_seed

Positions = Literal["runs", "blocks"]

IMAGE_TOKENS = 1_500
"""What an image counts for, whatever its size: images are modelled by presence only."""
_THINKING = frozenset({"thinking", "redacted_thinking"})
_SYSTEM_TOOLS = ("web_search_", "web_fetch_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizer:
    """How many tokens the emulator counts; additive, so that prefixes and totals agree to the token."""

    bytes_per_token: float = 4.0
    """Bytes of a block's JSON per token; each block is rounded up."""
    hidden: int = 0
    """Tokens that the provider adds at the front of every prompt."""

    def count(self, size: int) -> int:
        """Tokens for `size` bytes."""
        return ceil(size / self.bytes_per_token)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tape:
    """A request in reading order. The lists run in parallel, one item per leaf."""

    hashes: Sequence[bytes]
    """Hash of everything up to and including the leaf."""
    tokens: Sequence[int]
    """Tokens of everything up to and including the leaf, the hidden ones too."""
    positions: Sequence[int]
    """The leaf's position, counted from 0; leaves of one run share one."""
    markers: Sequence[tuple[int, str]]
    """Leaf and lifetime of each marker, in reading order, the automatic one included."""
    hidden: int
    """Tokens ahead of the first leaf."""

    @property
    def total(self) -> int:
        """Tokens of the whole prompt."""
        return self.tokens[-1] if self.tokens else self.hidden


def unmarked(block: Json) -> Json:
    """`block` without its own marker; what lies deeper (a tool's schema, a call's input) is content and stays."""
    if "cache_control" not in block:
        return block
    return {key: value for key, value in block.items() if key != "cache_control"}


def with_lists(body: Json) -> Json:
    """`body` with the string forms of `system` and of messages written as lists of blocks."""
    messages = [
        {**message, "content": as_blocks(message["content"])} if isinstance(message.get("content"), str) else message
        for message in body["messages"]
    ]
    plain = {**body, "messages": messages}
    if isinstance(body.get("system"), str):
        plain["system"] = as_blocks(body["system"])
    return plain


def in_system(tool: Json) -> bool:
    """Whether the provider renders `tool` into the system prompt."""
    return str(tool.get("type") or "").startswith(_SYSTEM_TOOLS)


def shown_messages(messages: Sequence[Json], strips_thinking: bool) -> Iterable[tuple[int, Json, Sequence[Json]]]:
    """Index, message and blocks of what the model is shown.

    Left out are system messages that end with the next user message, and, where the model strips it, the thinking
    that a user message other than tool results came after.
    """
    last_user = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=-1)
    cut = -1
    if strips_thinking:
        spoken = (i for i, m in enumerate(messages) if m["role"] == "user" and _speaks(as_blocks(m.get("content"))))
        cut = max(spoken, default=-1)
    for index, message in enumerate(messages):
        if message.get("clear_at") == "next_user_message" and index < last_user:
            continue
        blocks = as_blocks(message.get("content"))
        if index < cut and message["role"] == "assistant":
            blocks = [block for block in blocks if block["type"] not in _THINKING]
        yield index, message, blocks


def _speaks(blocks: Sequence[Json]) -> bool:
    return any(block["type"] != "tool_result" for block in blocks)


@dataclass(slots=True)
class _Writer:
    """Grows the lists of a tape; mutable because it is the loop's state."""

    tokenizer: Tokenizer
    positions_rule: Positions
    parent: bytes
    total: int
    hashes: list[bytes] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    explicit: list[tuple[int, str]] = field(default_factory=list)
    leaf_of: dict[int, int] = field(default_factory=dict)
    _run: object = None

    def seed(self, tag: bytes, value: object) -> None:
        """Mix `value` in where a level begins."""
        self.parent = blake2b(self.parent + tag + canonical(value), digest_size=16).digest()

    def leaf(self, tag: bytes, block: Json, run: object = None, extra: int = 0) -> None:
        """Append one leaf; it shares the position of the leaf before if both are of the same `run`."""
        data = canonical(unmarked(block))
        size = IMAGE_TOKENS if block.get("type") == "image" else self.tokenizer.count(len(data))
        self.total += size + extra
        self.parent = blake2b(self.parent + tag + data, digest_size=16).digest()
        joins = run is not None and run == self._run
        self._run = run
        self.positions.append((self.positions[-1] if self.positions else -1) + (not joins))
        self.hashes.append(self.parent)
        self.tokens.append(self.total)
        self.mark(block)
        self.leaf_of[id(block)] = len(self.hashes) - 1

    def mark(self, block: Json) -> None:
        """Note the marker of `block`, if it has one, at the leaf that was written last."""
        if (control := block.get("cache_control")) is not None:
            self.explicit.append((len(self.hashes) - 1, control.get("ttl") or "5m"))

    def content(self, tag: bytes, block: Json, run: object) -> None:
        """Append one content block; a tool result is a leaf per block inside it."""
        parts = as_blocks(block.get("content")) if block["type"] == "tool_result" else ()
        if not parts:
            self.leaf(tag, block, run)
            return
        frame = {key: value for key, value in block.items() if key not in ("content", "cache_control")}
        data = canonical(frame)
        self.parent = blake2b(self.parent + tag + data, digest_size=16).digest()
        for number, part in enumerate(parts):
            self.leaf(b"nested", part, run, extra=0 if number else self.tokenizer.count(len(data)))
        self.mark(block)
        self.leaf_of[id(block)] = len(self.hashes) - 1

    def run_of(self, message: int, number: int, kind: str) -> object:
        """The run that a content block belongs to: leaves of one run are one position."""
        if self.positions_rule == "runs" and kind in ("tool_use", "tool_result"):
            return (message, kind)
        return (message, number)


def read_tape(
    body: Json,
    *,
    scope: bytes,
    betas: str,
    tokenizer: Tokenizer,
    positions: Positions,
    strips_thinking: bool,
) -> Tape:
    """Read `body`, which has passed every check and is `with_lists`, into a tape.

    `scope` is what may not be shared (workspace, model); `betas` is the anthropic-beta header.
    """
    writer = _Writer(tokenizer, positions, blake2b(scope, digest_size=16).digest(), tokenizer.hidden)
    writer.seed(b"root", root_seed(body, betas))
    tools = [tool for tool in body.get("tools") or () if not tool.get("defer_loading")]
    for tool in tools:
        if not in_system(tool):
            writer.leaf(b"tool", tool)
    writer.seed(b"system", system_seed(body))
    for tool in tools:
        if in_system(tool):
            writer.leaf(b"tool", tool)
    for block in as_blocks(body.get("system")):
        writer.leaf(b"system", block)
    writer.seed(b"messages", messages_seed(body))
    for index, message, blocks in shown_messages(body["messages"], strips_thinking):
        role = message["role"].encode()
        writer.seed(b"message", [role.decode(), message.get("output_config")])
        for number, block in enumerate(blocks):
            writer.content(role, block, writer.run_of(index, number, block["type"]))
    return Tape(
        hashes=writer.hashes,
        tokens=writer.tokens,
        positions=writer.positions,
        markers=_with_automatic(body, writer),
        hidden=tokenizer.hidden,
    )


def _with_automatic(body: Json, writer: _Writer) -> list[tuple[int, str]]:
    """The explicit markers and the top-level one, on the last block that can take it."""
    markers = list(writer.explicit)
    control = body.get("cache_control")
    block = last_markable(body) if control is not None else None
    if control is not None and block is not None and block.get("cache_control") is None:
        leaf = writer.leaf_of.get(id(block))
        if leaf is not None:
            markers.append((leaf, control.get("ttl") or "5m"))
    return sorted(markers)


def last_markable(body: Json) -> Json | None:
    """The block that the top-level marker goes to: the last one that can carry a marker."""
    for message in reversed(body["messages"]):
        content = message.get("content")
        for block in reversed(as_blocks(content)):
            if _markable(block):
                return block
    for block in reversed(as_blocks(body.get("system"))):
        if _markable(block):
            return block
    return next((tool for tool in reversed(body.get("tools") or ()) if not tool.get("defer_loading")), None)


def _markable(block: Json) -> bool:
    return block["type"] not in _THINKING and not (block["type"] == "text" and not block["text"])
