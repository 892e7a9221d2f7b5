"""Segments: the cacheable units of a prompt, where they stand, and how two lists of them compare."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import Any, NamedTuple

from agentaccel.facts import LEVELS, Level

THINKING = frozenset({"thinking", "redacted_thinking"})
"""Kinds of segments in which a model thinks; some drop them once a user speaks again."""

Path = tuple[str | int, ...]
"""Where a value stands in a request: ("messages", 3, "content", 0)."""


def show_path(path: Path) -> str:
    """A path as people write it.

    >>> show_path(("messages", 3, "content", 0, "text"))
    'messages[3].content[0].text'
    """
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in path]
    return "".join(parts).lstrip(".")


def value_at(value: Any, path: Path) -> Any:
    """What stands at `path` of a request, or of a part of one.

    >>> value_at({"messages": [{"content": "hi"}]}, ("messages", 0, "content"))
    'hi'
    """
    for part in path:
        value = value[part]
    return value


class Segment(NamedTuple):
    """One cacheable unit in wire order: a tool, a system block or a content block, without its markers.

    A named tuple: a long prompt has thousands, and they are made four times as fast.
    """

    level: Level
    path: Path
    """Where it stands in the request as the user wrote it."""
    kind: str
    """The block's type; for a tool, its type without the date ("custom" for the user's own)."""
    role: str
    """The message's role; empty for tools and system."""
    name: str
    """The tool's name; empty for other segments."""
    digest: bytes
    """Keyed hash of the wire bytes, markers removed."""
    size: int
    """Length of the wire bytes, with what a picture or a document counts for in place of its base64."""
    markable: bool
    """Whether a marker on it is legal."""


class Text(NamedTuple):
    """A piece of text that stands in the request before the conversation: of a tool, or of the operator's."""

    place: str
    """The name of what it stands in: "tools" for any of them, else as people write its path."""
    name: str
    """A name of its own by which it is known in the next request: a tool's is that of the tool."""
    path: Path
    """Where the text itself stands in the request."""
    text: str
    segment: int
    """The segment that it is part of."""


def agreeing(one: tuple[Segment, ...], other: tuple[Segment, ...]) -> int:
    """How many segments two prompts begin with alike. Quick where they are the same objects."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while low < high - 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


level_of, path_of = attrgetter("level"), attrgetter("path")
"""Segments of a conversation are in the order of their paths, so one can be found by halving."""

digest_of = attrgetter("digest")

_RANKS = {level: rank for rank, level in enumerate(LEVELS)}


def _rank(segment: Segment) -> int:
    return _RANKS[segment.level]


def level_starts(segments: tuple[Segment, ...]) -> tuple[int, int, int]:
    """The index of the first segment of each level, or of what comes after an empty one."""
    if len(segments) > _SHORT and segments[_SHORT].level == "messages":  # as in all but the longest lists of tools
        levels = list(map(level_of, segments[:_SHORT]))
        tools = levels.count("tools")
        return 0, tools, tools + levels.count("system")
    tools = bisect_left(segments, 1, key=_rank)
    return 0, tools, bisect_left(segments, 2, lo=tools, key=_rank)


def message_start(segments: tuple[Segment, ...], start: int, message: int) -> int:
    """The first segment of the message with that index in the request; `start` is where the conversation begins."""
    if message == 0 or start >= len(segments):
        return start  # also of an input that is one string, whose path names no message
    return bisect_left(segments, (segments[start].path[0], message), lo=start, key=path_of)


_SHORT = 16
"""Segments within which the conversation begins in most prompts."""


STRETCH = 8
"""Messages that are looked up and hashed together once they are past."""
