"""Prompts for conversations that were recorded without their text: pieces with an identity and a number of tokens."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from agentaccel.cache.prefix import Prefixes
from agentaccel.facts import LEVELS, CacheFacts, Level
from agentaccel.hashing import digest
from agentaccel.replay.runs import Step, grown
from agentaccel.types import Path, Prompt, Segment


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a prompt, as one segment."""

    level: Level
    role: str
    """"user" or "assistant"; empty for tools and system."""
    tokens: int
    identity: bytes
    """Equal for pieces of equal content."""
    kind: str = "text"
    """The block's type; for tools always the user's own."""


def identity(name: str, number: int) -> bytes:
    """Of a piece of which nothing is known but whose it is, and a number; names come from logs, with whatever is there.

    >>> identity("session \\ud800", 1)
    b'session \\xed\\xa0\\x80/1'
    """
    return f"{name}/{number}".encode("utf-8", "surrogatepass")


def rendered(
    pieces: Sequence[Piece], model: str, facts: CacheFacts, before: Step | None, same: int = 0
) -> tuple[Prefixes, tuple[int, ...]]:
    """The prompt that `pieces` make, each message a piece of its own, and the tokens of its prefixes.

    Bytes follow from tokens by the stated ratio, so that a planner has sizes to go by. Every piece may carry a marker.
    `before` is the request before it, with which it may share segments; the first `same` of its pieces were made again.
    """
    if before is None or before.prefix.facts is not facts:
        same = 0
    segments, tokens = list[Segment](), list[int]()
    counts, total = dict.fromkeys(LEVELS, 0), 0
    if before is not None and same:
        segments += before.prefix.prompt.segments[:same]
        tokens += before.tokens[:same]
        total = tokens[-1]
        _, system, messages = before.prefix.starts
        shares = (min(same, system), max(min(same, messages) - system, 0), max(same - messages, 0))
        counts = dict(zip(LEVELS, shares, strict=True))
    for piece in pieces[same:]:
        segments.append(_segment(piece, counts[piece.level], facts.bytes_per_token))
        counts[piece.level] += 1
        total += piece.tokens
        tokens.append(total)
    prompt = Prompt(
        provider=facts.provider,
        platform=facts.platform,
        model=model,
        segments=tuple(segments),
        parameters={},
        markers=(),
        messages=counts["messages"],
        stream=False,
    )
    return grown(prompt, facts, before), tuple(tokens)


@functools.lru_cache(maxsize=1 << 16)
def _segment(piece: Piece, number: int, bytes_per_token: float) -> Segment:
    """One object for all prompts that hold the same piece in the same place: a long session has millions of these."""
    path: Path = (piece.level, number, "content", 0) if piece.level == "messages" else (piece.level, number)
    return Segment(
        level=piece.level,
        path=path,
        kind="custom" if piece.level == "tools" else piece.kind,
        role=piece.role,
        name=f"tool{number}" if piece.level == "tools" else "",
        digest=digest(piece.identity),
        size=round(piece.tokens * bytes_per_token),
        markable=True,
    )
