"""Prompts for conversations that were recorded without their text: pieces with an identity and a number of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentaccel.cache.prefix import Prefixes, prefixes
from agentaccel.canonical import digest
from agentaccel.facts import CacheFacts, Level
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


def rendered(pieces: Sequence[Piece], model: str, facts: CacheFacts) -> tuple[Prefixes, tuple[int, ...]]:
    """The prompt that `pieces` make, each message a piece of its own, and the tokens of its prefixes.

    Bytes follow from tokens by the stated ratio, so that a planner has sizes to go by. Every piece may carry a marker.
    """
    segments: list[Segment] = []
    counts = dict.fromkeys(("tools", "system", "messages"), 0)
    tokens: list[int] = []
    total = 0
    for piece in pieces:
        number = counts[piece.level]
        counts[piece.level] += 1
        path: Path = (piece.level, number, "content", 0) if piece.level == "messages" else (piece.level, number)
        segments.append(
            Segment(
                level=piece.level,
                path=path,
                kind="custom" if piece.level == "tools" else piece.kind,
                role=piece.role,
                name=f"tool{number}" if piece.level == "tools" else "",
                digest=digest(piece.identity),
                size=round(piece.tokens * facts.bytes_per_token),
                markable=True,
            )
        )
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
    return prefixes(prompt, facts), tuple(tokens)
