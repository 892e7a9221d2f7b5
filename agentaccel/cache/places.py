"""Places of a prompt that may change between turns, named so that the next turn's can be compared with them.

A place is `tools` (the whole list: its order is one thing), `system[1]`, a content block (`messages[0].content[1]`), a
parameter (`parameters.tool_choice`), `end of tools` or `end of system`, where a list is added to and else stays as it
was, or one that moves along with the conversation: `tail`, what the last request added, and `loop`, what followed on
the last words of a person, calls of tools and their results, which some agents leave out once they have answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentaccel.cache.beliefs import END_OF, PARAMETERS
from agentaccel.cache.prefix import Prefixes
from agentaccel.canonical import chain, digest
from agentaccel.facts import LEVELS
from agentaccel.types import Segment, digest_of

TOOLS = "tools"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a place stands in one prompt, and what is there."""

    name: str
    index: int
    """The first segment whose prefix a change of it breaks."""
    digest: bytes


def find(prefix: Prefixes, name: str) -> Place | None:
    """The place called `name` in this prompt; None where there is none. `tail` has no digest: it is never the same."""
    segments = prefix.prompt.segments
    if name == prefix.named(TOOLS):
        tools = segments[: prefix.starts[1]]
        return Place(name, 0, listed(tools)) if tools else None
    if name.startswith(PARAMETERS):
        parameter = name[len(PARAMETERS) :]
        start = level_start(prefix, parameter)
        value = prefix.prompt.parameters.get(parameter, b"")
        if parameter == "model":
            value = digest(prefix.prompt.model.encode("utf-8", "surrogatepass"))
        return Place(name, start, value) if start is not None else None
    if name.startswith(END_OF):
        return _end_of(prefix, name)
    index = prefix.place(name)
    return None if index is None else Place(name, index, segments[index].digest)


def _end_of(prefix: Prefixes, name: str) -> Place | None:
    segments = prefix.prompt.segments
    for level, start, end in static_levels(prefix.starts):
        if name == end_of(prefix, level):
            there = end < len(segments) and start < end
            return Place(name, end, listed(segments[start:end])) if there else None
    return None


def end_of(prefix: Prefixes, level: str) -> str:
    """The name of the place where that level of the prompt ends."""
    return END_OF + prefix.named(level)


def static_levels(starts: tuple[int, int, int]) -> tuple[tuple[str, int, int], ...]:
    """Those before the messages: name, first segment, and the segment behind them."""
    first, system, messages = starts
    return ("tools", first, system), ("system", system, messages)


def listed(segments: Sequence[Segment]) -> bytes:
    """A hash of what a list holds, in its order."""
    return chain(map(digest_of, segments))[-1]


def level_start(prefix: Prefixes, parameter: str) -> int | None:
    """The first segment whose prefix `parameter` is rendered into; None where a change of it breaks nothing."""
    broken = LEVELS if parameter == "model" else prefix.facts.breaks(parameter)
    if not broken:
        return None
    first = min(LEVELS.index(level) for level in broken)
    segments = prefix.prompt.segments
    return next((i for i, segment in enumerate(segments) if LEVELS.index(segment.level) >= first), len(segments))
