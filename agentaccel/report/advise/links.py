"""Sessions that go on from a summary of another one: a shortened history looks like a new session, or conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from agentaccel.records import parts_of
from agentaccel.report.advise.nouns import Talk, Talks
from agentaccel.types import Segment

LEAST_KEPT = 2
"""Segments behind the summary that the other session ended with. One alone may be a phrase that many sessions hold."""


def linked(talks: Talks) -> list[Talk]:
    """`talks` in the order in which they began, each joined with the one whose last messages it begins with, or which
    ended before it under the same session's name, with the same tools and instructions.

    A session that begins with the first message of another one is a copy of it and no continuation.
    """
    done: list[Talk] = []
    ends: dict[bytes, int] = {}
    named: dict[str, list[int]] = {}
    for talk in sorted(talks, key=lambda one: one.requests[0].step.started):
        before, session = None, parts_of(talk.id)[0]
        if not talk.inferred:
            before = _before(talk, done, ends)
            if before is None:
                before = _named_alike(talk, done, named.get(session, ()))
        if before is None:
            done.append(talk)
            before = len(done) - 1
            named.setdefault(session, []).append(before)
        else:
            done[before] = _joined(done[before], talk)
        ends |= {segment.digest: before for segment in _history(done[before], -1)}
    return done


def _before(talk: Talk, done: Sequence[Talk], ends: dict[bytes, int]) -> int | None:
    """The place in `done` of the session that `talk` goes on from."""
    history = _history(talk, 0)
    owners = Counter(ends[segment.digest] for segment in history[1:] if segment.digest in ends)
    if not owners or history[0].digest in ends:
        return None
    (owner, count), *_ = owners.most_common(1)
    earlier = done[owner].requests[-1].step.started <= talk.requests[0].step.started
    return owner if count >= LEAST_KEPT and earlier else None


def _named_alike(talk: Talk, done: Sequence[Talk], named: Sequence[int]) -> int | None:
    """The place in `done` of the conversation under the same name that ended last before `talk` began."""
    begun, head = talk.requests[0].step.started, _head(talk)
    over = [place for place in named if done[place].requests[-1].step.started <= begun and _head(done[place]) == head]
    return max(over, key=lambda place: done[place].requests[-1].step.started, default=None)


def _head(talk: Talk) -> list[bytes]:
    prefix = talk.requests[0].step.prefix
    return [segment.digest for segment in prefix.prompt.segments[: prefix.starts[2]]]


def _history(talk: Talk, number: int) -> list[Segment]:
    prefix = talk.requests[number].step.prefix
    return list(prefix.prompt.segments[prefix.starts[2] :])


def _joined(one: Talk, other: Talk) -> Talk:
    return replace(one, requests=(*one.requests, *other.requests), tools=(*one.tools, *other.tools))
