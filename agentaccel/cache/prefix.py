"""The prefixes of a prompt as the provider tells them apart: one chained hash per segment, sizes and positions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from agentaccel.canonical import ROOT, chain, digest, link
from agentaccel.facts import LEVELS, CacheFacts, Level
from agentaccel.types import Prompt, Segment, show_path

_RUNS = frozenset({"tool_use", "tool_result"})
_THINKING = frozenset({"thinking", "redacted_thinking"})


@dataclass(frozen=True)
class Prefixes:
    """Per segment i of `prompt`, the prefix that ends with it, inclusive."""

    prompt: Prompt
    facts: CacheFacts
    hashes: tuple[bytes, ...]
    """Equal hashes are equal prefixes: same segments, same parameters that the provider renders before them."""
    sizes: tuple[int, ...]
    """Bytes of the prefix, inclusive of segment i."""

    @cached_property
    def index(self) -> dict[bytes, int]:
        """Where each hash stands; a repeated one (impossible but for stripped thinking) at its last place."""
        return {value: i for i, value in enumerate(self.hashes)}

    @cached_property
    def by_name(self) -> dict[str, int]:
        """Segments behind the tools by their path as people write it."""
        segments = enumerate(self.prompt.segments)
        return {show_path(segment.path): i for i, segment in segments if segment.level != "tools"}

    @property
    def size(self) -> int:
        """Bytes of the whole prompt."""
        return self.sizes[-1] if self.sizes else 0

    def previous(self, i: int, positions: str) -> int:
        """The last segment of the position before the one that segment i belongs to; -1 before the first.

        Under the reading "runs", consecutive tool calls are one position, and so are consecutive results.
        """
        segments = self.prompt.segments
        if positions == "runs" and segments[i].kind in _RUNS:
            while i > 0 and segments[i - 1].kind == segments[i].kind and segments[i - 1].level == segments[i].level:
                i -= 1
        return i - 1


def prefixes(prompt: Prompt, facts: CacheFacts) -> Prefixes:
    """Chain the segments of `prompt`, mixing in at each level the parameters that break it.

    Where the model drops earlier thinking once a user speaks again, those blocks count for nothing: they are in the
    request and not in the prompt.
    """
    dropped = _dropped(prompt.segments) if facts.strips_thinking else frozenset[int]()
    hashes: list[bytes] = []
    sizes: list[int] = []
    parent, size, place = ROOT, 0, 0
    segments = prompt.segments
    system_tools = [
        segment.digest for segment in segments if segment.level == "tools" and segment.kind in facts.system_tools
    ]
    for level in LEVELS:
        parent = link(parent, _seed(prompt, facts, level))
        if level == "system":
            parent = chain(system_tools, parent)[-1] if system_tools else parent
        while place < len(segments) and segments[place].level == level:
            segment = segments[place]
            apart = level == "tools" and segment.kind in facts.system_tools
            if not apart and place not in dropped:
                parent = link(parent, segment.digest)
                size += segment.size
            hashes.append(parent)
            sizes.append(size)
            place += 1
    return Prefixes(prompt=prompt, facts=facts, hashes=tuple(hashes), sizes=tuple(sizes))


def _seed(prompt: Prompt, facts: CacheFacts, level: Level) -> bytes:
    parts = [
        name.encode("utf-8", "surrogatepass") + value
        for name, value in sorted(prompt.parameters.items())
        if level in facts.breaks(name)
    ]
    return digest(b"\x00".join((level.encode(), prompt.model.encode("utf-8", "surrogatepass"), *parts)))


def _dropped(segments: tuple[Segment, ...]) -> frozenset[int]:
    """Thinking before the last user message that holds anything but tool results."""
    last = max(
        (i for i, s in enumerate(segments) if s.level == "messages" and s.role == "user" and s.kind != "tool_result"),
        default=-1,
    )
    return frozenset(i for i, s in enumerate(segments[: max(last, 0)]) if s.kind in _THINKING and s.level == "messages")
