"""Volatile text early in the prompt, with that text moved behind the last marker.

A place is volatile where it keeps changing from one request of a session to the next, while something behind it stays.
A block that holds a clock, a date, an id or a counter changes as a whole as far as its hash tells. How much of it
changes the recorded drift tells: that is moved, and the rest stays unless it is short. Where it does not tell, only a
stamp is taken to change if the drift says that there is one, all versions of the block in a session are of about one
size, and nothing else that stays can be what the agent is told there: volatile text in a block of its own stands
beside that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from agentaccel.hashing import digest
from agentaccel.replay.runs import Step
from agentaccel.report.advise.nouns import Mended, RecordedRequest, RecordedSession, Talks
from agentaccel.report.advise.parts import PromptPart, parts_of, with_parts
from agentaccel.types import Path, Segment, show_path

STAMPS = ("clock", "date", "id", "counter")
"""What drift calls text that is short by its nature."""

STAMP_BYTES = 16
"""By how much the versions of a block with a stamp may differ in size: by the digits of a number, no more."""

STAMP_SENTENCE = 64
"""Bytes of the block that a stamp becomes at the end of the prompt: the stamp, a few words around it and the JSON."""

STAMP_PIECES = 128
"""Bytes that the drift calls changed where it is a stamp that changed: two pieces, if it lies across their border."""

LEAST_LEFT = 256
"""Bytes of a block that do not change, from which it is worth leaving them where they are."""

_OFTEN = 2
"""Changes within one session from which a place is volatile; an edit changes it once."""


@dataclass(slots=True)
class _Seen:
    """What became of one place. Mutable: it counts."""

    changes: Counter[str] = field(default_factory=Counter)
    """By session."""
    pairs: int = 0
    """Requests that had the place, as had the request before them."""
    sizes: dict[str, list[int]] = field(default_factory=dict)
    """Of its versions, by session."""

    def volatile(self, stamped: bool) -> bool:
        """Whether it keeps changing; of what looks like a stamp, changes in different sessions tell enough."""
        often = max(self.changes.values(), default=0) >= _OFTEN
        total = self.changes.total()
        return often or (total >= _OFTEN and (2 * total >= self.pairs or (stamped and self.steady)))

    @property
    def steady(self) -> bool:
        """Whether all versions of a session are of about one size."""
        return all(max(sizes) - min(sizes) <= STAMP_BYTES for sizes in self.sizes.values())


def volatile_early(talks: Talks) -> Iterator[Mended]:
    """All volatile places at once: as long as one stays, the others cost nothing more."""
    if any(talk.inferred for talk in talks):
        return
    stamped = {level for talk in talks for one in talk.requests for level in _stamped(one)}
    seen = {place: one for place, one in _places(talks).items() if one.volatile(place[0] in stamped)}
    volatile = _volatile(talks, seen, stamped)
    if not volatile.stamps and not volatile.stays:
        return
    where = ", ".join(sorted(map(_named, {*volatile.stamps, *volatile.stays})))
    yield Mended(
        kind="volatile text early",
        where=where,
        todo=f"Move what changes in {where} to the end of the last message, behind the last marker.",
        talks=tuple(with_parts(talk, partial(_moved, talk, volatile)) for talk in talks),
    )


def _stamped(request: RecordedRequest) -> Iterator[str]:
    drift = request.turn.drift
    if drift is not None and drift.likely in STAMPS:
        yield drift.level


# --- finding places ---------------------------------------------------------------------------------------------------


def _places(talks: Talks) -> Mapping[Path, _Seen]:
    seen: dict[Path, _Seen] = {}
    for talk in talks:
        before: _Places = {}
        for request in talk.requests:
            now = _by_place(request.step)
            _compare(talk.id, before, now, seen)
            before = now
    return seen


_Places = Mapping[Path, Segment]


def _by_place(step: Step) -> _Places:
    """The segments of a prompt by what is the same place in the next: a tool by its name, others by their path."""
    return {("tools", one.name) if one.level == "tools" else one.path: one for one in step.prefix.prompt.segments}


def _compare(
    session: str, before: Mapping[Path, Segment], now: Mapping[Path, Segment], seen: dict[Path, _Seen]
) -> None:
    """Count the places of `now` that changed although something behind them stayed."""
    both = [place for place in now if place in before]
    stayed = max((i for i, place in enumerate(both) if now[place].digest == before[place].digest), default=-1)
    for place in both[:stayed]:
        one = seen.setdefault(place, _Seen())
        one.pairs += 1
        sizes = one.sizes.setdefault(session, [])
        sizes.append(now[place].size)
        if now[place].digest != before[place].digest:
            one.changes[session] += 1
            sizes.append(before[place].size)


def _told(talks: Talks, seen: Mapping[Path, _Seen]) -> set[Path]:
    """The places of `seen` beside which the agent is told what stays: a larger system block, or any in that message."""
    found: set[Path] = set()
    for request in (talk.requests[-1] for talk in talks):
        now = _by_place(request.step)
        stable = [(place, one) for place, one in now.items() if place not in seen and place[0] != "tools"]
        for place in seen.keys() & now.keys():
            beside = [one.size for other, one in stable if other[:-1] == place[:-1]]
            if any(size > now[place].size or place[0] == "messages" for size in beside):
                found.add(place)
    return found


def _named(place: Path) -> str:
    return f"tool {place[1]}" if place[0] == "tools" else show_path(place)


# --- how much of a place changes --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Left:
    """The bytes of a place that stay. Sessions may tell the agent more or less there, so each has its own."""

    mostly: int
    """Where a session does not tell."""
    sessions: Mapping[str, int]

    def of(self, session: str) -> int:
        """In `session`; 0 where it is not worth leaving them."""
        left = self.sessions.get(session, self.mostly)
        return left if left >= LEAST_LEFT else 0


@dataclass(frozen=True, slots=True)
class _Volatile:
    """The places to mend."""

    stamps: frozenset[Path]
    """Of which a stamp moves."""
    stays: Mapping[Path, _Left]
    """Of which more moves, with what stays."""


def _volatile(talks: Talks, seen: Mapping[Path, _Seen], stamped: set[str]) -> _Volatile:
    told, known = _told(talks, seen), _known(talks)
    stamps, stays = set[Path](), dict[Path, _Left]()
    for place, one in seen.items():
        sessions = known.get(place, {})
        drifts = [drift for drifts in sessions.values() for drift in drifts]
        stamp = not drifts and place not in told
        if drifts:
            stamp = median(changed for changed, _ in drifts) <= STAMP_PIECES
        if stamp and place[0] in stamped and one.steady:
            stamps.add(place)
        elif place[0] != "tools":
            stays[place] = _Left(_left(drifts), {session: _left(drifts) for session, drifts in sessions.items()})
    return _Volatile(frozenset(stamps), stays)


def _left(drifts: Sequence[tuple[int, int]]) -> int:
    return round(median(size - changed for changed, size in drifts)) if drifts else 0


def _known(talks: Talks) -> dict[Path, dict[str, list[tuple[int, int]]]]:
    """Of places by the drifts in them, by session: how many bytes changed, and how many there were."""
    told: dict[Path, dict[str, list[tuple[int, int]]]] = {}
    for session, request in ((talk.id, one) for talk in talks for one in talk.requests):
        drift = request.turn.drift
        if drift is None or drift.bytes is None or not (found := _PLACE.match(drift.where)):
            continue
        level, number, block = found[1], int(found[2] or 0), int(found[3] or 0)
        place: Path = (level, number) if level == "system" else (level, number, "content", block)
        segment = _by_place(request.step).get(place)
        if segment is not None:
            told.setdefault(place, {}).setdefault(session, []).append((drift.bytes, segment.size))
    return told


_PLACE = re.compile(r"(system|messages)(?:\[(\d+)\])?(?:\.content(?:\[(\d+)\])?)?")
"""A block as the drift names it; content and a system prompt that are strings are one block."""


# --- moving what changes ----------------------------------------------------------------------------------------------


def _moved(talk: RecordedSession, volatile: _Volatile, step: Step) -> list[PromptPart]:
    stay: list[PromptPart] = []
    last: list[PromptPart] = []
    rate = step.total / max(step.prefix.size, 1)
    for place, part in zip(_places_of(step), parts_of(step), strict=True):
        known = volatile.stays.get(place)
        left = known.of(talk.id) if known is not None else None
        if place in volatile.stamps:
            # It leaves the block about as long as it was: words that point to it take its place.
            stay.append(_kept(part, place, talk, str(part.segment.size // STAMP_BYTES)))
            last.append(_at_the_end(part.segment, min(round(STAMP_SENTENCE * rate), part.tokens)))
        elif left:
            tokens = min(round(left * rate), part.tokens)
            stay.append(_kept(part, place, talk)._replace(tokens=tokens))
            last.append(_at_the_end(part.segment, part.tokens - tokens))
        elif left is not None:
            if stay and part.lifetimes:
                stay[-1] = stay[-1]._replace(lifetimes=(*stay[-1].lifetimes, *part.lifetimes)[:1])
            last.append(_at_the_end(part.segment, part.tokens))
        else:
            stay.append(part)
    return [*stay, *_behind(stay, last)]


def _places_of(step: Step) -> Sequence[Path]:
    segments = step.prefix.prompt.segments
    return [("tools", one.name) if one.level == "tools" else one.path for one in segments]


def _kept(part: PromptPart, place: Path, talk: RecordedSession, version: str = "") -> PromptPart:
    """`part` with the identity of what stays of it, which sessions are taken to share outside the messages."""
    scope = talk.id if part.segment.level == "messages" else talk.workload
    return part._replace(segment=part.segment._replace(digest=digest(f"{scope}/{_named(place)}/{version}".encode())))


def _behind(stay: Sequence[PromptPart], last: Sequence[PromptPart]) -> Iterator[PromptPart]:
    """`last` as further blocks of the last message."""
    end = stay[-1].segment.path if stay else ("messages", 0, "content", -1)
    for number, part in enumerate(last, 1):
        path = ("messages", end[1], "content", int(end[3]) + number) if len(end) > 3 else end
        yield part._replace(segment=part.segment._replace(path=path))


def _at_the_end(segment: Segment, tokens: int) -> PromptPart:
    return PromptPart(segment._replace(level="messages", kind="text", role="user", name=""), tokens)
