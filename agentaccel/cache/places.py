"""Places of a prompt that may change between turns, named so that the next turn's can be compared with them.

A place is `tools` (the whole list: its order is one thing), `system[1]`, a content block (`messages[0].content[1]`), a
parameter (`parameters.tool_choice`), or `tail`: the end of the last message, wherever the conversation has got to.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentaccel.cache.prefix import Prefixes
from agentaccel.canonical import chain, digest
from agentaccel.facts import LEVELS

TOOLS, TAIL, PARAMETERS = "tools", "tail", "parameters."


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
        digests = [segment.digest for segment in segments if segment.level == "tools"]
        return Place(name, 0, chain(digests)[-1]) if digests else None
    if name.startswith(PARAMETERS):
        parameter = name[len(PARAMETERS) :]
        start = level_start(prefix, parameter)
        value = prefix.prompt.parameters.get(parameter, b"")
        if parameter == "model":
            value = digest(prefix.prompt.model.encode("utf-8", "surrogatepass"))
        return Place(name, start, value) if start is not None else None
    index = prefix.place(name)
    return None if index is None else Place(name, index, segments[index].digest)


def level_start(prefix: Prefixes, parameter: str) -> int | None:
    """The first segment whose prefix `parameter` is rendered into; None where a change of it breaks nothing."""
    broken = LEVELS if parameter == "model" else prefix.facts.breaks(parameter)
    if not broken:
        return None
    first = min(LEVELS.index(level) for level in broken)
    segments = prefix.prompt.segments
    return next((i for i, segment in enumerate(segments) if LEVELS.index(segment.level) >= first), len(segments))
