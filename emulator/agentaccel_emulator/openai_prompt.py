"""What OpenAI's two APIs and their imitators have in common once a request is read: pieces in reading order.

A *piece* is the smallest part that a breakpoint can end: a tool, a part of a message's content, a tool call. An *item*
is a message, or what the Responses API calls an item. Nothing here knows of entries, prices or time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal

from agentaccel_emulator.anthropic_levels import canonical
from agentaccel_emulator.anthropic_prompt import Tokenizer

Json = Mapping[str, Any]
Kind = Literal["developer", "user", "assistant", "tool", "other"]

MARK = "prompt_cache_breakpoint"
"""The field of a content part that carries an explicit breakpoint."""
TEXTS: Mapping[str, str] = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "summary_text": "text",
}
"""Types of content part that are text, and the field that holds it."""
IMAGES = frozenset({"image_url", "input_image", "image"})
"""Types of content part that count as an image."""

UNRENDERED = frozenset(
    {
        "stream",
        "stream_options",
        "n",
        "seed",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "logprobs",
        "top_logprobs",
        "logit_bias",
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "max_tool_calls",
        "stop",
        "stop_sequences",
        "store",
        "metadata",
        "user",
        "safety_identifier",
        "include",
        "background",
        "moderation",
        "prediction",
        "modalities",
        "audio",
        "tool_choice",
        "prompt_cache_options",
        "prompt_cache_retention",
        "usage",
        "session_id",
        "priority",
        "request_id",
        "rid",
        "cache_prompt",
        "random_seed",
    }
)
"""Request parameters that the prompt does not show; `tool_choice` masks tools without touching them."""
READ_APART = frozenset(
    {
        "model",
        "messages",
        "input",
        "instructions",
        "tools",
        "previous_response_id",
        "conversation",
        "prompt_cache_key",
        "cache_salt",
    }
)
"""Fields that are read on their own."""
DEFAULTS: Mapping[str, tuple[object, ...]] = {
    "parallel_tool_calls": (None, True),
    "response_format": (None, {"type": "text"}),
    "verbosity": (None, "medium"),
    "service_tier": (None, "auto", "default"),
    "truncation": (None, "disabled"),
}
"""Values that render as if the parameter had been left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The smallest part of a prompt that a breakpoint can end."""

    tag: bytes
    """What it is, and whether an item begins with it."""
    data: bytes
    """What is rendered: text as it is, anything else as JSON in the sender's key order."""
    fixed: int | None = None
    """Its tokens, where they do not follow from its bytes."""
    marker: str | None = None
    """Lifetime of the breakpoint that it carries; empty for that of the request."""

    def tokens(self, tokenizer: Tokenizer) -> int:
        """Its tokens."""
        return tokenizer.count(len(self.data)) if self.fixed is None else self.fixed


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A message, a tool call, a tool's output or another item of a conversation."""

    kind: Kind
    """Whose it is."""
    pieces: tuple[Piece, ...]
    """At least one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """A request in reading order."""

    seed: object
    """What is rendered ahead of everything: a change of it breaks everything."""
    tools: tuple[Piece, ...]
    """The tools, deferred ones left out."""
    items: tuple[Item, ...]
    """The conversation."""
    turns: int
    """How often the model has spoken."""
    opening: str
    """Text of the first user message."""

    @property
    def pieces(self) -> Iterator[Piece]:
        """All pieces in reading order."""
        yield from self.tools
        for item in self.items:
            yield from item.pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Tape:
    """A prompt as its cumulative hashes. The first two lists run in parallel, one item per piece."""

    hashes: Sequence[bytes]
    """Hash of everything up to and including the piece."""
    tokens: Sequence[int]
    """Tokens of everything up to and including the piece; hidden ones do not count."""
    explicit: Sequence[tuple[int, str]]
    """Piece and lifetime (empty: the request's) of each explicit breakpoint, in reading order."""
    endings: Sequence[int]
    """Last piece of each eligible message: user messages, groups of tool outputs, and the first developer messages."""
    opening: int | None
    """Last piece of the developer messages that the conversation begins with."""

    @property
    def total(self) -> int:
        """Tokens of the whole prompt."""
        return self.tokens[-1] if self.tokens else 0


def root_hash(scope: object, seed: object) -> bytes:
    """The hash that a prompt's chain begins with; `scope` is what may not be shared."""
    return blake2b(canonical([scope, seed]), digest_size=16).digest()


def read_tape(prompt: Prompt, scope: object, tokenizer: Tokenizer) -> Tape:
    """The tape of `prompt`."""
    writer = _Writer(tokenizer, root_hash(scope, prompt.seed))
    for tool in prompt.tools:
        writer.write(tool)
    endings: list[int] = []
    opening = None
    for index, item in enumerate(prompt.items):
        for piece in item.pieces:
            writer.write(piece)
        following = prompt.items[index + 1].kind if index + 1 < len(prompt.items) else None
        leads = item.kind == "developer" and all(one.kind in ("developer", "other") for one in prompt.items[:index])
        if leads and following != "developer":
            opening = len(writer.hashes) - 1
        if item.kind == "user" or (item.kind == "tool" and following != "tool") or opening == len(writer.hashes) - 1:
            endings.append(len(writer.hashes) - 1)
    return Tape(hashes=writer.hashes, tokens=writer.tokens, explicit=writer.explicit, endings=endings, opening=opening)


@dataclass(slots=True)
class _Writer:
    """Grows the lists of a tape; mutable because it is the loop's state."""

    tokenizer: Tokenizer
    parent: bytes
    total: int = 0
    hashes: list[bytes] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    explicit: list[tuple[int, str]] = field(default_factory=list)

    def write(self, piece: Piece) -> None:
        self.parent = chained(self.parent, piece)
        self.total += piece.tokens(self.tokenizer)
        self.hashes.append(self.parent)
        self.tokens.append(self.total)
        if piece.marker is not None:
            self.explicit.append((len(self.hashes) - 1, piece.marker))


def chained(parent: bytes, piece: Piece) -> bytes:
    """The hash of what `parent` stands for and `piece` behind it."""
    return blake2b(parent + b"%d:" % len(piece.tag) + piece.tag + piece.data, digest_size=16).digest()


def rendered(body: Json, name: str) -> object:
    """The value of the parameter `name`, with the provider's explicit default as None."""
    value = body.get(name)
    return None if value in DEFAULTS.get(name, (None,)) else value


def tool_pieces(body: Json) -> tuple[Piece, ...]:
    """The tools of a request; deferred ones are outside the prefix."""
    tools = (tool for tool in body.get("tools") or () if not tool.get("defer_loading"))
    return tuple(Piece(tag=b"tool", data=canonical(tool)) for tool in tools)


def content_pieces(content: object, tag: str, image_tokens: int) -> tuple[Piece, ...]:
    """The pieces of a message's content; the first one tells that an item begins."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())  # type: ignore[call-overload]  # checked by the shape checks
    pieces = []
    for number, part in enumerate(parts):
        kind = part["type"]
        mark = part.get(MARK)
        text = kind in TEXTS
        plain = {key: value for key, value in part.items() if key not in (MARK, "cache_control")}
        pieces.append(
            Piece(
                tag=f"{'+' if number else '|'}{tag}/{'text' if text else kind}".encode(),
                data=part[TEXTS[kind]].encode() if text else canonical(plain),
                fixed=image_tokens if kind in IMAGES else None,
                marker=(mark.get("ttl") or "") if isinstance(mark, Mapping) else None,
            )
        )
    return tuple(pieces) or (Piece(tag=f"|{tag}/empty".encode(), data=b""),)


def opening_of(content: object) -> str:
    """The text of a message's content."""
    if isinstance(content, str):
        return content
    texts = (part.get(TEXTS.get(part["type"], "")) for part in content or ())  # type: ignore[attr-defined]
    return "\n".join(text for text in texts if text)
