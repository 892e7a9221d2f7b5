"""Prompts taken apart and put together again: what every remedy that changes content does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, count, repeat
from operator import attrgetter, is_, sub
from typing import NamedTuple

from agentaccel.cache.ledger import Breakpoint
from agentaccel.facts import CacheFacts
from agentaccel.replay.runs import Step, grown
from agentaccel.report.advise.nouns import RecordedRequest, RecordedSession
from agentaccel.types import Segment


class PromptPart(NamedTuple):
    """One segment of a prompt, with what it counts for and the markers on it. A named tuple: every prompt of a session
    is taken apart, and they are made four times as fast."""

    segment: Segment
    tokens: int
    lifetimes: tuple[str, ...] = ()
    """Of the markers on it, by label."""

    @property
    def history(self) -> bool:
        return self.segment.level == "messages"


def parts_of(step: Step) -> list[PromptPart]:
    """The prompt of `step`; `joined` puts it together again."""
    lifetimes: dict[int, tuple[str, ...]] = {}
    for mark in step.marks:
        lifetimes[mark.at] = (*lifetimes.get(mark.at, ()), mark.ttl)
    tokens = map(sub, step.tokens, (0, *step.tokens))
    return list(map(PromptPart, step.prefix.prompt.segments, tokens, map(lifetimes.get, count(), repeat(()))))


def joined(
    request: RecordedRequest,
    parts: Sequence[PromptPart],
    before: RecordedRequest | None,
    facts: CacheFacts | None = None,
) -> RecordedRequest:
    """`request` with another prompt, which shares what it can with that of `before`; `facts` for another model's rules.

    `parts` are in wire order. Markers beyond what the model takes are left out, the earliest first.
    """
    step = request.step
    facts = facts or step.prefix.facts
    prompt = replace(step.prefix.prompt, segments=tuple(part.segment for part in parts))
    prefix = grown(prompt, facts, before.step if before is not None else None)
    marks = [Breakpoint(i, label) for i, part in enumerate(parts) if part.lifetimes for label in part.lifetimes]
    tokens = tuple(accumulate(part.tokens for part in parts))
    return request.sent_as(step.sent_as(prefix, tokens, tuple(marks[-facts.max_markers :])))


def each(
    talk: RecordedSession, change: Callable[[RecordedRequest, RecordedRequest | None], RecordedRequest]
) -> RecordedSession:
    """`talk` with every request changed; `change` is told the changed request before, too."""
    done: list[RecordedRequest] = []
    for request in talk.requests:
        done.append(change(request, done[-1] if done else None))
    return with_requests(talk, done)


def with_requests(talk: RecordedSession, requests: Sequence[RecordedRequest]) -> RecordedSession:
    """`talk` with these requests; itself where they are its own: what is not changed need not be replayed again."""
    if len(requests) == len(talk.requests) and all(map(is_, requests, talk.requests)):
        return talk
    return replace(talk, requests=tuple(requests))


def with_parts(talk: RecordedSession, change: Callable[[Step], Sequence[PromptPart]]) -> RecordedSession:
    """`talk` with the prompt of every request put together from what `change` makes of it."""
    return each(talk, lambda request, before: joined(request, change(request.step), before))


def with_marks(request: RecordedRequest, marks: Iterable[Breakpoint]) -> RecordedRequest:
    """`request` with these markers and no others; itself where it has these."""
    step, sent = request.step, tuple(sorted(marks, key=attrgetter("at")))
    return request if sent == step.marks else request.sent_as(step.sent_as(step.prefix, step.tokens, sent))
