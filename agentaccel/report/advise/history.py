"""Histories that gave way to a summary, put together again: what the summaries cost, and what they save.

A summary shows in the hashes: most of the history is gone, the prompt has fewer segments, and the first of its segments
that is new stands for what has gone. The request before it asked for it if it called no tool and its reply is as long
as the summary; without the summary that request is not sent. What no prompt shows, because the summary swallowed it
right away, is taken to be as long as a turn of that session usually is.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from agentaccel.hashing import digest
from agentaccel.records import parts_of as parts_of_id
from agentaccel.report.advise.nouns import Mended, RecordedRequest, RecordedSession, Talks
from agentaccel.report.advise.parts import PromptPart, joined, parts_of
from agentaccel.types import Cause, Segment

# --- Sessions that go on from a summary of another one: a shortened history looks like a new session, or conversation -

LEAST_KEPT = 2
"""Segments behind the summary that the other session ended with. One alone may be a phrase that many sessions hold."""


def linked(talks: Talks) -> list[RecordedSession]:
    """`talks` in the order in which they began, each joined with the one whose last messages it begins with, or which
    ended before it under the same session's name, with the same tools and instructions.

    A session that begins with the first message of another one is a copy of it and no continuation.
    """
    done: list[RecordedSession] = []
    ends: dict[bytes, int] = {}
    named: dict[str, list[int]] = {}
    for talk in sorted(talks, key=lambda one: one.requests[0].step.started):
        before, session = None, parts_of_id(talk.id)[0]
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


def _before(talk: RecordedSession, done: Sequence[RecordedSession], ends: dict[bytes, int]) -> int | None:
    """The place in `done` of the session that `talk` goes on from."""
    history = _history(talk, 0)
    owners = Counter(ends[segment.digest] for segment in history[1:] if segment.digest in ends)
    if not owners or history[0].digest in ends:
        return None
    (owner, count), *_ = owners.most_common(1)
    earlier = done[owner].requests[-1].step.started <= talk.requests[0].step.started
    return owner if count >= LEAST_KEPT and earlier else None


def _named_alike(talk: RecordedSession, done: Sequence[RecordedSession], named: Sequence[int]) -> int | None:
    """The place in `done` of the conversation under the same name that ended last before `talk` began."""
    begun, head = talk.requests[0].step.started, _head(talk)
    over = [place for place in named if done[place].requests[-1].step.started <= begun and _head(done[place]) == head]
    return max(over, key=lambda place: done[place].requests[-1].step.started, default=None)


def _head(talk: RecordedSession) -> list[bytes]:
    prefix = talk.requests[0].step.prefix
    return [segment.digest for segment in prefix.prompt.segments[: prefix.starts[2]]]


def _history(talk: RecordedSession, number: int) -> list[Segment]:
    prefix = talk.requests[number].step.prefix
    return list(prefix.prompt.segments[prefix.starts[2] :])


def _joined(one: RecordedSession, other: RecordedSession) -> RecordedSession:
    return replace(one, requests=(*one.requests, *other.requests), tools=(*one.tools, *other.tools))


GONE = 0.5
"""Share of the history's tokens that must have gone where nothing behind the summary was kept."""

ALIKE = (0.5, 2.0)
"""Tokens of a reply as multiples of a summary's: it may have been thought about, or rendered otherwise."""

LONGEST = 200_000
"""Tokens that any model takes. A history that would be longer needs its summaries."""


def without_summaries(talks: Talks) -> Iterator[Mended]:
    """Every session with its whole history and without the requests for summaries."""
    sessions = linked(talks)
    mended = tuple(_whole(talk) for talk in sessions)
    if any(one is not talk for one, talk in zip(mended, sessions, strict=True)):
        yield Mended(
            kind="summaries",
            where="history",
            todo="Summarise the history less often, or not at all: reading it from the cache costs less than writing "
            "the summary and what follows it anew.",
            talks=mended,
        )


def _whole(talk: RecordedSession) -> RecordedSession:
    """`talk` as it would have been; itself where nothing was summarised, or where it could not have gone on."""
    if talk.inferred and not any(map(_says_so, talk.requests)):
        return talk
    telling = _Retelling(growth=_growth(talk))
    for request in talk.requests:
        telling.take(request, talk.inferred)
    if not telling.summaries or any(one.step.total > LONGEST for one in telling.done):
        return talk
    return replace(talk, requests=tuple(telling.done))


def _growth(talk: RecordedSession) -> int:
    """Tokens by which a prompt of the session usually outgrows the one before it."""
    totals = [one.step.total for one in talk.requests]
    grown = sorted(now - before for before, now in itertools.pairwise(totals) if now > before)
    return grown[len(grown) // 2] if grown else 0


@dataclass(slots=True, kw_only=True)
class _Retelling:
    """One session being told again. Mutable: it grows."""

    growth: int
    done: list[RecordedRequest] = field(default_factory=list)
    summaries: int = 0
    _early: float = 0.0
    """Seconds by which requests go out earlier, because the ones for summaries before them are not sent."""
    _seen: list[PromptPart] = field(default_factory=list)
    """The history of the last request as it was sent."""
    _whole: list[PromptPart] = field(default_factory=list)
    """As it would have been."""
    _last: RecordedRequest | None = None

    def take(self, request: RecordedRequest, inferred: bool) -> None:
        parts = parts_of(request.step)
        static = [part for part in parts if not part.history]
        now = [part for part in parts if part.history]
        same = _common(self._seen, now)
        summary = _summary(self._seen, now, same) if not inferred or _says_so(request) else None
        if summary is not None and self._last is not None:
            asked = _asked(self._last, summary, inferred)
            if asked or not _rewound(self._seen, now, same):
                self._go_on(request, now, summary, asked)
                self.summaries += 1
                self._add(request, static, now)
                return
        self._whole = [*self._whole[: len(self._whole) - (len(self._seen) - same)], *now[same:]]
        self._add(request, static, now)

    def _go_on(self, request: RecordedRequest, now: Sequence[PromptPart], summary: PromptPart, asked: bool) -> None:
        known = {part.segment.digest for part in self._seen}
        new = [part for part in now if part.segment.digest not in known and part is not summary]
        if asked and self._last is not None:
            self.done.pop()
            self._early += max(request.step.started - self._last.step.started, 0.0)
            last = self._whole[-1].segment
            if last.kind == "text" and all(part.segment.digest != last.digest for part in now):
                self._whole = self._whole[:-1]
        elif not new:
            new = [_unseen(summary, self.growth, self.summaries)]
        self._whole = [*self._whole, *new]

    def _add(self, request: RecordedRequest, static: Sequence[PromptPart], now: Sequence[PromptPart]) -> None:
        """The request with the whole history, and the markers that it had."""
        lifetimes = {part.segment.digest: part.lifetimes for part in now if part.lifetimes}
        whole = [
            part if part.lifetimes == own else part._replace(lifetimes=own)
            for part, own in ((part, lifetimes.get(part.segment.digest, ())) for part in self._whole)
        ]
        if now and whole and now[-1].lifetimes:
            whole[-1] = whole[-1]._replace(lifetimes=now[-1].lifetimes)
        self._whole, self._seen, self._last = whole, list(now), request
        step = request.step
        if self._early:
            step = replace(step, started=step.started - self._early, visible=step.visible - self._early)
            request = request.sent_as(step)
        self.done.append(joined(request, [*static, *whole], self.done[-1] if self.done else None))


def _says_so(request: RecordedRequest) -> bool:
    """Whether the log has a mark of a compaction there: prompts rebuilt from usage shrink for other reasons, too."""
    return any(miss.cause is Cause.COMPACTED for miss in request.turn.misses)


def _common(before: Sequence[PromptPart], now: Sequence[PromptPart]) -> int:
    pairs = zip(before, now, strict=False)
    return next(
        (i for i, (one, other) in enumerate(pairs) if one.segment.digest != other.segment.digest),
        min(len(before), len(now)),
    )


def _summary(before: Sequence[PromptPart], now: Sequence[PromptPart], same: int) -> PromptPart | None:
    """What stands for the history that has gone; None where none has.

    Where later parts of the history are kept behind it, their having moved up tells enough. Where nothing is kept, the
    history must have become much shorter.
    """
    left, known = {part.segment.digest for part in now}, {part.segment.digest for part in before}
    gone = [part for part in before if part.segment.digest not in left]
    kept = max((i for i, part in enumerate(now) if part.segment.digest in known), default=-1)
    if kept >= same:
        new = [part for part in now[: kept + 1] if part.segment.digest not in known]
        return new[0] if new and len(gone) > len(new) else None
    held = sum(part.tokens for part in before)
    if len(now) >= len(before) or sum(part.tokens for part in gone) < GONE * held:
        return None
    return next((part for part in now[same:] if part.segment.kind == "text"), None)


def _rewound(before: Sequence[PromptPart], now: Sequence[PromptPart], same: int) -> bool:
    """Whether what is left is only the beginning: somebody went back and wrote something else."""
    later = {part.segment.digest for part in before[same:]}
    return bool(same) and all(part.segment.digest not in later for part in now[same:])


def _asked(request: RecordedRequest, summary: PromptPart, inferred: bool) -> bool:
    """Whether `request` asked for `summary`. A log does not tell the length of replies."""
    turn = request.turn
    if inferred or turn.calls or turn.stop == "tool_use" or request.output is None:
        return False
    return ALIKE[0] * summary.tokens <= request.output <= ALIKE[1] * summary.tokens


def _unseen(summary: PromptPart, tokens: int, number: int) -> PromptPart:
    identity = digest(summary.segment.digest + b"unseen%d" % number)
    return PromptPart(summary.segment._replace(digest=identity), tokens)
