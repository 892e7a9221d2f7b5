"""A legal plan that makes good on the bound where that can be done: request by request, with the future's worth known.

Each request reads the longest prefix that it can. Behind that, every stretch of its prompt is written for the lifetime
that the relaxation (`hindsight_bound`) finds cheapest from here on, or left alone; a longer lifetime must come before a
shorter, and one that is written here extends what was read, which counts in its favour. Markers that are left go to
where a later request parts from this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from agentaccel.replay.hindsight_bound import NONE, Futures, Stretch, Visit, ahead, gone
from agentaccel.replay.hindsight_paths import OUT, Cache, CompiledStep, Held, Placed, merged, serve

_LEFT = -1
"""In place of a lifetime: neither read nor written."""


_Cover = tuple[Held | None, Held | None]
"""The entry at the end of a stretch, and the best of those behind it."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Places behind what is read that are written, or not, as one; the last of them may carry a marker."""

    last: int
    gains: tuple[float, ...]
    """By lifetime: what writing them saves in all, against leaving them."""
    floor: int
    lives: frozenset[int]
    visit: Visit
    """The future of the last place."""


def planned(requests: Sequence[CompiledStep], known: Futures) -> list[Placed]:
    """Our markers for each of `requests`."""
    cache: Cache = {}
    plans: list[Placed] = []
    for request, stretches in zip(requests, known.stretches, strict=True):
        placed = (_keep if request.step.optional else _place)(request, stretches, cache)
        plans.append(placed)
        cache = serve(request, placed, cache).cache
    return plans


def _place(request: CompiledStep, stretches: Sequence[Stretch], cache: Cache) -> Placed:
    """The markers of one request."""
    if not request.room or not request.lives or not request.nodes:
        return ()
    hit, stretches, covers = _covers(request, stretches, cache)
    parts = _parts(request, stretches, covers, hit)
    bonus = _bonus(request, stretches, covers, hit)
    for switches in range(min(len(request.facts.ttls), request.room), -1, -1):
        ends = _ends(parts, bonus, switches, len(request.facts.ttls))
        placed = _with_reading(request, cache, ends, hit)
        if placed is not None:
            return _with_branches(request, placed, parts)
    return ()


def _keep(request: CompiledStep, stretches: Sequence[Stretch], cache: Cache) -> Placed:
    """The one marker of a request that only keeps what is held; `OUT` where that is expected to save nothing."""
    hit, stretches, covers = _covers(request, stretches, cache)
    if hit < 0 or not request.legal[hit] or not request.room or not request.lives:
        return OUT
    saved = 0.0
    for stretch, (at, behind) in zip(stretches, covers, strict=True):
        if stretch.first > hit:
            break
        following, weight = stretch.visit.following, request.weight(stretch.first, min(stretch.last, hit))
        left = ahead(following, at, behind)
        made = ahead(following, _rearmed(at, request), _rearmed(behind, request))
        saved += weight * (left - made - request.facts.read)
    placed = ((hit, request.lives[0]),)
    spent = request.step.total - request.tokens[hit]
    return placed if saved > spent and request.allows(placed) else OUT


def _rearmed(held: Held | None, request: CompiledStep) -> Held | None:
    if held is None or not held.live(request.started):
        return held
    return held._replace(expires=request.started + request.facts.ttls[held.life].seconds)


def _covers(
    request: CompiledStep, stretches: Sequence[Stretch], cache: Cache
) -> tuple[int, list[Stretch], list[_Cover]]:
    """The last place that is held and readable; `stretches`, parted behind every entry; what covers each."""
    held = [
        (place, entry)
        for place, node in enumerate(request.nodes)
        if (entry := cache.get(node)) is not None and entry.expires > request.started
    ]
    hit = max((place for place, entry in held if entry.live(request.started)), default=-1)
    parted: list[Stretch] = []
    entries = iter([*(place for place, _ in held), len(request.nodes)])
    end = next(entries)
    for stretch in stretches:
        first = stretch.first
        while end < stretch.last:
            if end >= first:
                parted.append(Stretch(stretch.visit, first, end))
                first = end + 1
            end = next(entries)
        parted.append(Stretch(stretch.visit, first, stretch.last))
    best: Held | None = None
    covers: list[_Cover] = []
    for stretch in reversed(parted):
        at = held.pop()[1] if held and held[-1][0] == stretch.last else None
        covers.append((at, best))
        if at is not None:
            best = _later(best, at)
    covers.reverse()
    return hit, parted, covers


def _parts(request: CompiledStep, stretches: Sequence[Stretch], covers: Sequence[_Cover], hit: int) -> list[_Part]:
    """What lies behind `hit`; the first place that can be marked is a part of its own, since it can extend the rest."""
    parts: list[_Part] = []
    lives = range(len(request.facts.ttls))
    gains = [0.0] * len(lives)
    start = hit + 1
    for stretch, cover in zip(stretches, covers, strict=True):
        if stretch.last <= hit:
            continue
        legal = [place for place in range(max(stretch.first, start), stretch.last + 1) if request.legal[place]]
        ends = [legal[0], legal[-1]] if legal and not parts else legal[-1:]
        visit, begin = stretch.visit, max(stretch.first, start)
        each = _gains(request, visit, cover)
        for end in dict.fromkeys(ends):
            weight = request.weight(begin, end)
            parts.append(
                _Part(
                    last=end,
                    gains=tuple(gains[life] + weight * each[life] for life in lives),
                    floor=visit.duty.floor,
                    lives=frozenset(visit.duty.lives),
                    visit=visit,
                )
            )
            gains, begin = [0.0] * len(lives), end + 1
        if begin <= stretch.last:
            weight = request.weight(begin, stretch.last)
            gains = [gain + weight * each[life] for life, gain in enumerate(gains)]
    return parts


def _gains(request: CompiledStep, visit: Visit, cover: _Cover) -> list[float]:
    """By lifetime: what writing a token saves in all, against leaving it."""
    at, behind = cover
    left = 1.0 + ahead(visit.following, at, behind)
    gains = []
    for life, ttl in enumerate(request.facts.ttls):
        fresh = Held(life, request.started + ttl.seconds, request.step.visible)
        gains.append(left - ttl.write - ahead(visit.following, _later(at, fresh), _later(behind, fresh)))
    return gains


def _later(old: Held | None, fresh: Held) -> Held:
    return fresh if old is None else merged(old, fresh)


def _bonus(request: CompiledStep, stretches: Sequence[Stretch], covers: Sequence[_Cover], hit: int) -> list[float]:
    """By lifetime: what it saves in all to extend everything up to `hit` by it."""
    lives = len(request.facts.ttls)
    bonus = [0.0] * lives
    for stretch, (at, behind) in zip(stretches, covers, strict=True):
        if stretch.first > hit:
            break
        own, deep = (NONE if one is None else one.life for one in (at, behind))
        deep = max(own, deep)
        after, weight = stretch.visit.after[own + 1], request.weight(stretch.first, min(stretch.last, hit))
        for life in range(deep + 1, lives):
            bonus[life] += weight * max(after[deep + 1] - after[life + 1], 0.0)
    return bonus


def _ends(parts: Sequence[_Part], bonus: Sequence[float], switches: int, lives: int) -> Placed:
    """The cheapest way to write `parts`, as the markers that it takes: at most `switches`, lifetimes never rising."""
    none = (0.0, ())
    # By (lifetime that is being written, markers so far): the best gain, and where each lifetime ended.
    states: dict[tuple[int, int], tuple[float, Placed]] = {(lives, 0): none}
    for number, part in enumerate(parts):
        following: dict[tuple[int, int], tuple[float, Placed]] = {}
        for (level, used), (gain, placed) in states.items():
            options = [life for life in part.lives if part.floor <= life <= level] if level != _LEFT else []
            if part.floor < 0:
                options.append(_LEFT)
            for life in options:
                new = int(life not in (level, _LEFT))
                if used + new > switches:
                    continue
                more = 0.0 if life == _LEFT else part.gains[life] + (bonus[life] if number == 0 else 0.0)
                where = placed if life == _LEFT else (*(placed if new else placed[:-1]), (part.last, life))
                key = (life, used + new)
                if key not in following or gain + more > following[key][0]:
                    following[key] = (gain + more, where)
        states = following or states
    return max(states.values(), key=lambda state: state[0], default=none)[1]


def _with_reading(request: CompiledStep, cache: Cache, ends: Placed, hit: int) -> Placed | None:
    """`ends` with what it takes to read up to `hit`; None if that is more than may be placed."""
    own = {place for place, _ in request.own}
    placed = tuple(one for one in ends if one[0] not in own)
    tried = [placed]
    if hit >= 0 and request.legal[hit]:
        longest = max((life for _, life in placed), default=0)
        tried += [tuple(sorted({*placed, (hit, max(life, longest))})) for life in request.duties[hit].lives]
    wanted = request.tokens[hit] if hit >= 0 else 0
    for one in tried:
        if request.allows(one) and serve(request, one, cache).read >= wanted:
            return one
    return None


def _with_branches(request: CompiledStep, placed: Placed, parts: Sequence[_Part]) -> Placed:
    """`placed` with markers where later requests part from this one, as long as there is room."""
    if not placed:
        return placed
    end = placed[-1][0]
    branches: list[tuple[int, int]] = []
    for part, child in pairwise(parts):
        life = next((life for place, life in placed if place >= part.last), _LEFT)
        if part.last < end and life != _LEFT and _parting(part.visit, child.visit, life):
            branches.append((part.last, life))
    while branches and len(placed) < request.room:
        taken = [place for place, _ in placed]

        def alone(one: tuple[int, int], taken: Sequence[int] = taken) -> int:
            below = max((place for place in taken if place < one[0]), default=-1)
            return request.tokens[one[0]] - (request.tokens[below] if below >= 0 else 0)

        best = max(branches, key=alone)
        branches.remove(best)
        longer = tuple(sorted((*placed, best)))
        if best[0] not in taken and request.allows(longer):
            placed = longer
    return placed


def _parting(visit: Visit, child: Visit, life: int) -> bool:
    """Whether a later request visits the one and not the other, while the first is still held for `life`."""
    if visit.rest == child.rest:
        return False
    seconds = visit.request.facts.ttls[life].seconds
    last, one, other = visit.request.started, visit.following, child.following
    while one is not None:
        if one.request.started >= last + seconds or gone(one) <= 0.0:
            return False
        if other is None or other.request is not one.request:
            return True
        last, one, other = one.request.started, one.following, other.following
    return False
