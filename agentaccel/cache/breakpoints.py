"""Where markers stand in a prompt: segments for paths, the ends worth marking, and how far a conversation has got."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from agentaccel.cache.ledger import Breakpoint, Tokens, endings
from agentaccel.cache.pauses import TOOL, USER
from agentaccel.cache.prefix import Prefixes
from agentaccel.facts import CacheFacts
from agentaccel.types import UNSPLIT, Marker, Path, Prompt, Segment, path_of


def marks_of(prefix: Prefixes, markers: Sequence[Marker]) -> tuple[Breakpoint, ...]:
    """`markers` of a request as the segments whose prefix they end, ascending; a nested one ends its block's.

    The top-level marker stands on the last block that can carry one; where none can, it does nothing. A provider's own
    breakpoint stands at the last ending of a message; one that keeps everything marks the end of every request.
    """
    facts, prompt = prefix.facts, prefix.prompt
    if facts.physics == "automatic":
        label = next((marker.ttl for marker in markers if not marker.path), facts.ttls[0].label)
        # All of it is kept, and what this request alone has at its end is not looked for again.
        return (Breakpoint(len(prompt.lasting) - 1, label, own=True),) if prompt.lasting else ()
    marks: list[Breakpoint] = []
    for marker in markers:
        own = not marker.path and facts.physics == "breakpoints"
        at = next(iter(endings(prompt, 1)), None) if own else segment_at(prompt, marker.path)
        if at is not None:
            marks.append(Breakpoint(at, marker.ttl, own))
    marks.sort(key=_at)
    return tuple(marks)


_at = attrgetter("at")


def lifetime_written(prompt: Prompt, markers: Sequence[Marker], facts: CacheFacts | None) -> str:
    """The label of the lifetime that a request with these `markers` writes for, where its reply does not say.

    `UNSPLIT` where it may be several; empty where nobody knows. Anthropic sets a marker of the shortest lifetime behind
    the results of its own tools (Tool use with prompt caching, 2026-08-22).
    """
    labels = {marker.ttl for marker in markers} - {""}
    default = facts.ttls[0].label if facts is not None else ""
    if default and labels and _SERVER_TOOLS in prompt.parameters:
        labels.add(default)
    return labels.pop() if len(labels) == 1 else UNSPLIT if labels else default


_SERVER_TOOLS = "tools.system"
"""The parameter of a request that has such tools."""


def written_marks(prefix: Prefixes, prompt: Prompt, *, arranged: bool) -> tuple[Breakpoint, ...]:
    """The marks of `prompt` as its user wrote it.

    Where the provider keeps every prefix and another prompt was `arranged` and sent, those in front of the conversation
    are told one by one: what of them came back, the provider would have found.
    """
    marks = marks_of(prefix, prompt.markers)
    if not arranged or prefix.facts.physics != "automatic" or not marks:
        return marks
    _, system, messages = prefix.starts
    ends = (*([system - 1] if system else ()), *range(system, messages))[:_MOST_STATIC]
    return (*[Breakpoint(at, marks[0].ttl, own=True) for at in ends], *marks)


_MOST_STATIC = 8
"""Places in front of a conversation that are told one by one."""


def segment_at(prompt: Prompt, path: Path) -> int | None:
    """The segment that stands at `path` or holds what does; the empty path is the last that can carry a marker."""
    segments = prompt.segments
    if not path:
        return next((i for i in reversed(range(len(segments))) if segments[i].markable), None)
    if segments and segments[-1].path == path:
        return len(segments) - 1  # where most stand that move on
    start = prompt.starts[2]
    i = bisect_right(segments, path, lo=start, key=path_of) - 1
    if i >= start and segments[i].path == path[: len(segments[i].path)]:
        return i
    before = list(map(path_of, segments[:start]))  # in any order: a replay may have sorted the tools
    if path in before:
        return before.index(path)
    return next((i for i, one in enumerate(before) if one == path[: len(one)]), None)


def reaching(tokens: Tokens, marks: Sequence[Breakpoint], minimum: int) -> tuple[Breakpoint, ...]:
    """The marks whose prefix reaches the model's minimum: the others are silently ignored by the provider."""
    return tuple(mark for mark in marks if tokens(mark.at) >= minimum)


def awaited(prompt: Prompt) -> str:
    """What the pause before this request was for: a tool, whose result it brings, or a person who wrote."""
    for segment in reversed(prompt.segments):
        if segment.role == "assistant":
            break
        if segment.kind == "tool_result" or segment.role == "tool":
            return TOOL
    return USER


def loop_start(segments: Sequence[Segment], messages: int) -> int:
    """The first segment behind the last words of a person, where the messages start at segment `messages`: that of the
    model's reply to them, be it a call of a tool or an answer."""
    at = len(segments)
    while at > messages and (segments[at - 1].role != "user" or segments[at - 1].kind == "tool_result"):
        at -= 1
    return at


def both_ends(prompt: Prompt) -> tuple[int, int]:
    """The end of the prompt, or of what stands before a prefilled answer, which the next request will have replaced;
    and the end of the previous request: what stands before the last reply of the model, -1 on a first request."""
    segments = prompt.segments
    at = len(segments) - 1 - prompt.ephemeral
    if at >= 0 and segments[at].role == "assistant" and segments[at].kind in _TEXT and not prompt.ephemeral:
        while at >= 0 and segments[at].role == "assistant":
            at -= 1
    tail = at
    while at >= 0 and segments[at].role != "assistant":  # what follows the reply
        at -= 1
    while at >= 0 and segments[at].role == "assistant":
        at -= 1
    return tail, at if at >= 0 and segments[at].level == "messages" else -1


_TEXT = frozenset({"text", "output_text"})


def markable_up_to(prompt: Prompt, end: int) -> int:
    """The last segment up to `end`, inclusive, that may carry a marker; -1 where none may, and of -1."""
    segments, at = prompt.segments, end
    while at >= 0 and not segments[at].markable:
        at -= 1
    return at
