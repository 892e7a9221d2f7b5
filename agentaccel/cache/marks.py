"""Where markers stand in a prompt: segments for paths, the ends worth marking, and how far a conversation has got."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from agentaccel.cache.beliefs import MANY_TURNS
from agentaccel.cache.ledger import Mark, Tokens
from agentaccel.cache.prefix import Prefixes
from agentaccel.facts import LEVELS
from agentaccel.types import Marker, Path, Prompt, path_of


def marks_of(prefix: Prefixes, markers: Sequence[Marker]) -> tuple[Mark, ...]:
    """`markers` of a request as the segments whose prefix they end, ascending; a nested one ends its block's.

    The top-level marker stands on the last block that can carry one; where none can, it does nothing.
    """
    marks = [Mark(at, marker.ttl) for marker in markers if (at := _segment_at(prefix.prompt, marker.path)) is not None]
    marks.sort(key=_at)
    return tuple(marks)


_at = attrgetter("at")


def _segment_at(prompt: Prompt, path: Path) -> int | None:
    """The segment that stands at `path` or holds what does; the empty path is the last that can carry a marker."""
    segments = prompt.segments
    if not path:
        return next((i for i in reversed(range(len(segments))) if segments[i].markable), None)
    if path[0] not in LEVELS:
        return None
    level = LEVELS.index(path[0])
    starts = (*prompt.starts, len(segments))
    i = bisect_right(segments, path, lo=starts[level], hi=starts[level + 1], key=path_of) - 1
    own = segments[i].path if i >= starts[level] else None
    return i if own is not None and own == path[: len(own)] else None


def reaching(tokens: Tokens, marks: Sequence[Mark], minimum: int) -> tuple[Mark, ...]:
    """The marks whose prefix reaches the model's minimum: the others are silently ignored by the provider."""
    return tuple(mark for mark in marks if tokens(mark.at) >= minimum)


def turn_of(prompt: Prompt) -> int:
    """How many replies the prompt holds, counted up to `MANY_TURNS`: 0 for a first request, whoever makes it."""
    replies: set[Any] = set()
    for segment in prompt.segments:
        if segment.role == "assistant":
            replies.add(segment.path[1])
            if len(replies) == MANY_TURNS:
                break
    return len(replies)


def new_tail(prompt: Prompt) -> int:
    """The end of the prompt, or of what stands before a prefilled answer, which the next request will have replaced."""
    segments = prompt.segments
    end = len(segments) - 1
    if end >= 0 and segments[end].role == "assistant" and segments[end].kind == "text":
        while end >= 0 and segments[end].role == "assistant":
            end -= 1
    return end


def before_last_reply(prompt: Prompt) -> int:
    """The end of the previous request: what stands before the last reply of the model; -1 on a first request."""
    segments = prompt.segments
    end = new_tail(prompt)
    while end >= 0 and segments[end].role != "assistant":
        end -= 1
    while end >= 0 and segments[end].role == "assistant":
        end -= 1
    return end if end >= 0 and segments[end].level == "messages" else -1
