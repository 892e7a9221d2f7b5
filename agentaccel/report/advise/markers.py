"""Remedies that only place markers otherwise: the cache that is off, the wrong lifetime, turns beyond the look-back."""

from __future__ import annotations

from collections.abc import Iterator

from agentaccel.cache.ledger import Mark
from agentaccel.cache.marks import both_ends
from agentaccel.facts import CacheFacts
from agentaccel.replay.placements import PLACEMENTS
from agentaccel.replay.runs import Step
from agentaccel.report.advise.nouns import Mended, Talk, Talks
from agentaccel.report.advise.parts import each, with_marks

_PLANNED = ("on", "holdout")
"""Modes in which agentaccel decides: a session without markers is then a decision, or a control."""


def cache_off(talks: Talks) -> Iterator[Mended]:
    """Sessions that no marker was sent in, with automatic caching."""
    if all(_asks(talk) for talk in talks):
        return
    automatic = PLACEMENTS["automatic"]

    def switched_on(talk: Talk) -> Talk:
        if _asks(talk):
            return talk
        return each(talk, lambda request, before: with_marks(request, automatic(request.step)))

    field = all(one.step.prefix.facts.top_level_marker for talk in talks for one in talk.requests)
    place = "every request" if field else "the last block of every request"
    yield Mended(
        kind="cache off",
        where="",
        todo=f'Turn prompt caching on: "cache_control": {{"type": "ephemeral"}} in {place}, '
        'or agentaccel\'s mode="on".',
        talks=tuple(map(switched_on, talks)),
    )


def _asks(talk: Talk) -> bool:
    """Whether the session asks for caching, leaves it to agentaccel, or does not tell: a log without counters."""
    if talk.inferred and not all(one.turn.usage.reported for one in talk.requests):
        return True
    return any(one.step.marks or one.turn.mode in _PLANNED for one in talk.requests)


def in_vain(talks: Talks) -> Iterator[Mended]:
    """Sessions whose markers are taken out: what changes in front of them leaves little to read."""
    if not any(one.step.marks for talk in talks for one in talk.requests) or any(talk.inferred for talk in talks):
        return
    yield Mended(
        kind="markers in vain",
        where="",
        todo="Switch off the caching that sets these markers, of the framework or your own, as long as what it writes "
        "is hardly read again.",
        talks=tuple(each(talk, lambda request, before: with_marks(request, ())) for talk in talks),
    )


def other_lifetime(talks: Talks) -> Iterator[Mended]:
    """All markers of one lifetime with another one that the provider offers."""
    used = sorted({mark.ttl for talk in talks for one in talk.requests for mark in one.step.marks})
    offered = dict.fromkeys(ttl.label for talk in talks for one in talk.requests for ttl in one.step.prefix.facts.ttls)
    for label in offered:
        if not used or used == [label]:
            continue
        yield Mended(
            kind="wrong TTL",
            where=f"markers that live for {' and '.join(used)}",
            todo=f"Give the markers the lifetime {label}.",
            talks=tuple(_living(talk, label) for talk in talks),
        )


def _living(talk: Talk, label: str) -> Talk:
    return each(
        talk,
        lambda request, before: with_marks(
            request, [mark if mark.ttl == label else Mark(mark.at, label, mark.own) for mark in request.step.marks]
        ),
    )


def beyond_lookback(talks: Talks) -> Iterator[Mended]:
    """One more marker where the request before ended, in requests whose own markers do not look back that far."""
    if not any(_bridge(request.step) for talk in talks for request in talk.requests):
        return
    yield Mended(
        kind="turn beyond the lookback",
        where="end of the previous request",
        todo="Put one more marker on the last block of the previous request, in front of the model's last reply, or "
        "let agentaccel place it.",
        talks=tuple(
            each(talk, lambda request, before: with_marks(request, (*request.step.marks, *_bridge(request.step))))
            for talk in talks
        ),
    )


def _bridge(step: Step) -> tuple[Mark, ...]:
    """The marker that is missing; none where some marker finds the end of the request before, or there is no room."""
    prefix, facts = step.prefix, step.prefix.facts
    end = both_ends(prefix.prompt)[1]
    later = [mark for mark in step.marks if mark.at >= end]
    if end < 0 or not later or len(step.marks) >= facts.max_markers:
        return ()
    if any(_positions(step, mark.at, end, facts) < facts.lookback for mark in later):
        return ()
    segments = prefix.prompt.segments
    at = next((i for i in range(end, -1, -1) if segments[i].markable), -1)
    return (Mark(at, later[0].ttl),) if at >= 0 else ()


def _positions(step: Step, at: int, end: int, facts: CacheFacts) -> int:
    """Positions by which segment `end` lies before segment `at`, counted up to the look-back."""
    count = 0
    while at > end and count < facts.lookback:
        at = step.prefix.previous(at, facts.positions)
        count += 1
    return count
