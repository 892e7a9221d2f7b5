"""Sessions that go on from a summary of another one: without a name, a shortened history looks like a new session."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from agentaccel.report.advise.nouns import Talk, Talks
from agentaccel.types import Segment

LEAST_KEPT = 2
"""Segments behind the summary that the other session ended with. One alone may be a phrase that many sessions hold."""


def linked(talks: Talks) -> list[Talk]:
    """`talks` in the order in which they began, each joined with the one whose last messages it begins with.

    A session that begins with the first message of another one is a copy of it and no continuation.
    """
    done: list[Talk] = []
    ends: dict[bytes, int] = {}
    for talk in sorted(talks, key=lambda one: one.requests[0].step.started):
        before = None if talk.inferred else _before(talk, done, ends)
        if before is None:
            done.append(talk)
            before = len(done) - 1
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


def _history(talk: Talk, number: int) -> list[Segment]:
    prefix = talk.requests[number].step.prefix
    return list(prefix.prompt.segments[prefix.starts[2] :])


def _joined(one: Talk, other: Talk) -> Talk:
    return replace(one, requests=(*one.requests, *other.requests), tools=(*one.tools, *other.tools))
