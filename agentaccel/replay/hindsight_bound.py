"""A lower bound on what any legal markers can cost, and the worth of having a prefix held.

*The relaxation.* Forget how many markers there are, how far they look back, and that what is read and what is written
each end at one place. Then every node is on its own. It is visited by the requests on whose path it lies. An entry may
be held *at* it, and something may be held *behind* it, each with a lifetime; a visit re-arms both. Per token, a visit

- that finds an entry at the node pays r; so does one that finds something behind it, unless the request leaves the
  paths of all earlier ones right here, so that nothing behind can lie on its own. What is held behind is from then on
  held for whatever lifetime a marker behind may have, free of charge; an entry at the node keeps its own, for a marker
  on what is held does not write;
- that finds neither pays 1, or the price w of some lifetime, and both are held for it from then on;
- that finds an entry which cannot be read yet pays 1 or w, as if there were none.

*It is a bound.* Take any legal plan. By induction over the requests, the node alone can pay no more than its tokens
did in the plan, and yet the entry at it, and what is held behind it, are held no shorter, no later and with no shorter
a lifetime than each entry of the plan at and behind it, on whatever path. Tokens read: an entry at the node or behind
it, on this request's path, was readable, so the node pays r; what the request re-arms or writes behind has a lifetime
that the node may choose, and at the node it writes nothing. Tokens written: the price is that of the longest lifetime
with a marker at or behind them, and so of each entry that the request adds there; the node may pay the same, for the
same. Tokens neither: no entry is added at or behind them, and none is re-armed. The node pays at most 1. (For
r <= 1 <= w, and w rising with the lifetime.)

The sender's own markers tighten it: what lies before one of them cannot stay uncached, what lies behind one of them
cannot be written for longer, and what lies behind the last possible marker is never read.

*Requests that may be left out*, which only keep what is held, are visits that need not be: one that is made finds the
node held, pays r and re-arms, and writes nothing. The plan that makes them makes them for all its tokens at once, the
node for itself, so the argument above holds for whichever the plan makes. Since it makes them for all, what one node
pays for one may as well be charged to another (a Lagrangian relaxation of "all or none"): any such shift is a bound.
With none, tokens that are new and short-lived are kept at a tenth while those before them last longer anyway; so part
of what old tokens would pay is charged to those that were new in the request repeated, and the best of a few shares is
taken (`SHIFTS`).

*Where each block has a lifetime of its own* nothing behind the node helps it: it is held for as long as it was written
for, from its last use. A plan's tokens are read only where that is so, hence the bound holds with less said.

*While unreadable* the bound is generous, because the exact state would be a set of entries: either none of the
requests that cannot read yet writes, or the first of them pays for writing and all of them re-arm.

A node's future alone decides what it is worth, and the nodes of a loop share their futures: request k+1 visits what
request k visited. So futures are built once, from the last request to the first, and the cost of a loop is linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentaccel.replay.hindsight_paths import CompiledStep, Duty, Held

SHIFTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares that are tried where requests may be left out."""

NONE = -1
"""In place of a lifetime: nothing is held."""


class Visit:
    """One visit to a node with all that follow: what they cost at least, per token, by the state it is found in."""

    __slots__ = ("after", "duty", "following", "now", "optional", "request", "rest", "writes")

    def __init__(self, request: CompiledStep, duty: Duty, following: Visit | None) -> None:
        self.request = request
        self.duty = duty
        self.following = following
        self.optional = request.step.optional
        self.rest: int = following.rest + 1 if following is not None else 0
        """Visits after this one."""
        self.writes = tuple(ttl.write for ttl in request.facts.ttls)
        lives = range(NONE, len(self.writes))
        until = [request.started + ttl.seconds for ttl in request.facts.ttls] + [0.0]
        self.after: list[list[float]] = [
            [_found(following, (at, until[at]), (behind, until[behind])) for behind in lives] for at in lives
        ]
        """By lifetime of the entry at the node and of what is behind it, each one up: the least cost after this visit
        if it leaves both readable at once."""
        self.now: list[list[float]] = [[self._least(at, behind) for behind in lives] for at in lives]
        """The same for this visit and those after it, if it finds such."""

    def _least(self, at: int, behind: int) -> float:
        request, duty = self.request, self.duty
        if duty.closed:
            return 1.0 + gone(self.following)
        if request.facts.ages == "blocks":
            behind = NONE
        options: list[float] = []
        readable = at > NONE or (behind > NONE and not duty.parts)
        if self.optional:
            # Made only where it finds something: else it is left out.
            return duty.keeps + self.after[at + 1][max(at, behind) + 1] if readable else gone(self.following)
        if readable:
            grows = duty.grows and request.facts.ages == "entries"
            longest = max((at, behind, *(duty.lives if grows else ())))
            options.append(request.facts.read + self.after[at + 1][longest + 1])
        elif duty.floor < 0:
            options.append(1.0 + self.after[0][behind + 1])
        for life in duty.lives:
            if readable and life > at:
                options.append(self.writes[life] + self.after[life + 1][max(life, behind) + 1])
            elif not readable and life >= duty.floor:
                until = request.started + request.facts.ttls[life].seconds
                fresh = Held(life, until, request.step.visible)
                older = Held(behind, request.started + request.facts.ttls[behind].seconds, request.step.visible)
                options.append(self.writes[life] + ahead(self.following, fresh, older if behind > life else fresh))
        return min(options)


def gone(visit: Visit | None) -> float:
    """The least cost from `visit` on if nothing is held by then."""
    while visit is not None and visit.optional:
        visit = visit.following
    return 0.0 if visit is None else visit.now[0][0]


def ahead(visit: Visit | None, at: Held | None, behind: Held | None) -> float:
    """The least cost from `visit` on, per token, if these are held at the node and behind it."""
    held = [one for one in (at, behind) if one is not None]
    if visit is None or not held:
        return gone(visit)
    here = (NONE, 0.0) if at is None else (at.life, at.expires)
    there = (NONE, 0.0) if behind is None else (behind.life, behind.expires)
    ready = min(one.ready for one in held)
    if ready <= visit.request.started:
        return _found(visit, here, there)
    quiet = _while_unreadable(visit, here, there, ready, rearm=False)
    return min(quiet, visit.writes[0] - 1.0 + _while_unreadable(visit, here, there, ready, rearm=True))


_Until = tuple[int, float]
"""A lifetime and when it ends."""


def _found(visit: Visit | None, at: _Until, behind: _Until) -> float:
    """The least cost from `visit` on if these are held and readable."""
    cost, least = 0.0, float("inf")
    while visit is not None and (visit.optional or visit.duty.closed):
        if not visit.optional:
            cost += 1.0
        elif not visit.duty.closed:
            least = min(least, cost + _now(visit, at, behind))
        visit = visit.following
    return min(least, cost if visit is None else cost + _now(visit, at, behind))


def _now(visit: Visit, at: _Until, behind: _Until) -> float:
    """The least cost from `visit` on if it finds these, as far as they are still held, and is made."""
    started = visit.request.started
    here = at[0] if started < at[1] else NONE
    return visit.now[here + 1][(behind[0] if started < behind[1] else NONE) + 1]


def _while_unreadable(visit: Visit | None, at: _Until, behind: _Until, ready: float, *, rearm: bool) -> float:
    """The least cost from `visit` on if nothing can be read before `ready`: generous, as the module says."""
    cost = 0.0
    while visit is not None and visit.request.started < ready:
        request, duty = visit.request, visit.duty
        if visit.optional:
            visit = visit.following
            continue
        cost += visit.writes[duty.floor] if duty.floor >= 0 else 1.0
        if not duty.closed and (rearm or duty.floor >= 0):
            life = max((at[0], behind[0], *duty.lives))
            until = max(at[1], behind[1], request.started + request.facts.ttls[life].seconds)
            at = behind = (life, until)
            ready = min(ready, request.step.visible)
        visit = visit.following
    return cost + _found(visit, at, behind)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Places of one request whose nodes have one and the same future."""

    visit: Visit
    first: int
    last: int
    """Inclusive."""


@dataclass(frozen=True, slots=True)
class Futures:
    """The relaxation of a set of requests."""

    stretches: Sequence[Sequence[Stretch]]
    """Per request, in order of the prompt; together they are its whole path."""
    bound: float
    """No legal plan costs less, in uncached tokens."""


def futures(requests: Sequence[CompiledStep]) -> Futures:
    """The relaxation of `requests`, which come in order of their start."""
    latest: dict[int, Visit] = {}
    known: dict[tuple[int, int, int], Visit] = {}
    weights: dict[int, list[int]] = {}
    stretches: list[list[Stretch]] = []
    bound = 0.0
    for request in reversed(requests):
        found: list[Stretch] = []
        before = 0
        for place, node in enumerate(request.nodes):
            following, duty = latest.get(node), request.duties[place]
            key = (id(following), request.index, id(duty))
            visit = known.get(key)
            if visit is None:
                visit = known[key] = Visit(request, duty, following)
            latest[node] = visit
            if found and found[-1].visit is visit:
                found[-1] = Stretch(visit, found[-1].first, place)
            else:
                found.append(Stretch(visit, place, place))
            if not visit.optional:
                weights.setdefault(node, []).append(request.tokens[place] - before)
            before = request.tokens[place]
        if not request.step.optional:
            bound += request.step.total - before
        stretches.append(found)
    reads = {node: visit.request.facts.read for node, visit in latest.items()}
    for node, visit in latest.items():
        # One prefix has one count; where a source's counts differ, the least bears the plan, the rest is read.
        least = min(weights[node])
        bound += least * gone(visit) + reads[node] * (sum(weights[node]) - least * len(weights[node]))
    stretches.reverse()
    return Futures(stretches, bound)
