"""Where markers stand in a prompt: segments for paths, the ends worth marking, and how far a conversation has got."""

from __future__ import annotations

from collections.abc import Sequence

from agentaccel.cache.ledger import Mark, Tokens
from agentaccel.cache.prefix import Prefixes
from agentaccel.types import Marker, Prompt


def marks_of(prefix: Prefixes, markers: Sequence[Marker]) -> tuple[Mark, ...]:
    """`markers` of a request as the segments whose prefix they end, ascending; a nested one ends its block's.

    The top-level marker stands on the last block that can carry one; where none can, it does nothing.
    """
    segments = prefix.prompt.segments
    by_path = {segment.path: i for i, segment in enumerate(segments)}
    marks: list[Mark] = []
    for marker in markers:
        at = by_path.get(marker.path)
        if marker.path == ():
            at = next((i for i in reversed(range(len(segments))) if segments[i].markable), None)
        elif at is None:
            at = next(
                (by_path[marker.path[:n]] for n in range(len(marker.path), 0, -1) if marker.path[:n] in by_path), None
            )
        if at is not None:
            marks.append(Mark(at, marker.ttl))
    return tuple(sorted(marks, key=lambda mark: mark.at))


def reaching(tokens: Tokens, marks: Sequence[Mark], minimum: int) -> tuple[Mark, ...]:
    """The marks whose prefix reaches the model's minimum: the others are silently ignored by the provider."""
    return tuple(mark for mark in marks if tokens(mark.at) >= minimum)


def turn_of(prompt: Prompt) -> int:
    """How many replies the prompt holds: 0 for a first request, in whichever process it is made."""
    replies = {segment.path[1] for segment in prompt.segments if segment.role == "assistant"}
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
