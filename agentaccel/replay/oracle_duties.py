"""What each place of a path leaves open: by the markers that the sender had placed, and those that fit beside."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from agentaccel.replay.oracle_paths import Request


class Duty(NamedTuple):
    """What the sender's own markers, the lifetimes allowed and the number of markers leave open for one place."""

    floor: int
    """A marker of the sender's stands here or behind: what is not read here is written for at least this lifetime; -1
    where there is none."""
    lives: tuple[int, ...]
    """Lifetimes that a marker here or behind may have, shortest first."""
    grows: bool
    """Whether a marker may stand behind this place."""
    closed: bool
    """Whether no marker may stand here or behind: nothing is read or written here."""
    parts: bool
    """Whether this is where the request leaves the paths of all before it: only an entry right here can be read."""
    keeps: float = 0.0
    """What a token here pays for a request that may be left out: see `oracle_bound`."""


def duties_of(request: Request, parts: range) -> list[Duty]:
    """What is open at each place: the same from one of the sender's markers to the next.

    `parts` are the places where the request leaves the paths of all before it.
    """
    order = {ttl.label: i for i, ttl in enumerate(request.facts.ttls)}
    before = [(mark.at, order.get(mark.ttl, 0)) for mark in request.step.marks]
    last_own = max((place for place, _ in request.own), default=-1)
    last = len(request.legal) - 1
    while last >= 0 and not request.legal[last]:
        last -= 1
    if not request.room or not request.lives:
        last = -1
    end, count = max(last, last_own), len(request.nodes)
    marked = {at for at, _ in before}
    after_marks = (place for place, segment in enumerate(request.segments) if marked and segment in marked)
    cuts = {0, last, last + 1, end, end + 1, parts.start, parts.stop, count}
    for place in after_marks:
        cuts |= {place, place + 1}
    starts = sorted(cut for cut in cuts if 0 <= cut <= count)
    duties: list[Duty] = []
    known: dict[Duty, Duty] = {}
    for start, stop in pairwise(starts):
        behind = [life for at, life in request.own if at >= start]
        ceiling = min((life for at, life in before if at < request.segments[start]), default=len(order))
        lives = {life for life in request.lives if life <= ceiling} if start <= last else set[int]()
        floor, allowed = max(behind, default=-1), tuple(sorted({*lives, *behind}))
        duty = Duty(floor, allowed, grows=start < end, closed=start > end, parts=start in parts)
        duties += [known.setdefault(duty, duty)] * (stop - start)
    return duties


def keeping(request: Request, duties: list[Duty], old: int, shift: float) -> list[Duty]:
    """`duties` with what each place pays if the request is made, `old` of which were there before the last one."""
    read = request.facts.read
    before, all_ = (request.tokens[old - 1] if old else 0), (request.tokens[-1] if request.tokens else 0)
    older, newer = (
        (read, read) if all_ == before else (read * (1 - shift), read * (1 + shift * before / (all_ - before)))
    )
    known: dict[tuple[int, bool], Duty] = {}
    priced: list[Duty] = []
    for place, duty in enumerate(duties):
        is_old = place < old
        key = (id(duty), is_old)
        priced.append(known.setdefault(key, duty._replace(keeps=older if is_old else newer)))
    return priced
