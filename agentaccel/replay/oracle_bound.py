"""A lower bound on what any legal markers can cost, and the worth of having a prefix held.

*The relaxation.* Forget how many markers there are, how far they look back, and that what is read and what is written
each end at one place. Then every node is on its own. It is visited by the requests on whose path it lies, and it is
in one of two states: *gone*, or *held* with a lifetime, until a time, readable from a time on. Per token, a visit

- while gone pays 1, or the price w of some lifetime and is held for it from then on;
- while held and readable pays r, and is held from then on for its lifetime counted from this visit, or for a longer
  one if a marker may stand behind it in this request, free of charge;
- while held and not yet readable pays 1 or w, as when gone.

*It is a bound.* Take any legal plan, and call a node *covered* by the entries at it and behind it, on whatever path.
By induction over the requests, the node alone can pay no more than its tokens did in the plan and yet be held no
shorter, no later and with no shorter a lifetime than each entry that covers it. Tokens read: some entry that covers
the node was readable, so the node is held, and pays r; what the request re-arms or writes behind it has at most the
lifetime that the node may choose. Tokens written: the price is that of the longest lifetime with a marker at or
behind them, and so of each entry that the request adds there; the node pays the same, or r if it is held. Tokens
neither: no entry is added at or behind them, and none is re-armed. The node pays at most 1. (For r <= 1 <= w, and w
rising with the lifetime.)

The sender's own markers tighten it: what lies before one of them cannot stay uncached, what lies behind one of them
cannot be written for longer, and what lies behind the last possible marker is never read.

*While unreadable* the bound is generous, because the exact state would be a set of entries: either none of the
requests that cannot read yet writes, or the first of them pays for writing and all of them re-arm.

A node's future alone decides what it is worth, and the nodes of a loop share their futures: request k+1 visits what
request k visited. So futures are built once, from the last request to the first, and the cost of a loop is linear.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentaccel.replay.oracle_paths import Duty, Held, Request


class Visit:
    """One visit to a node with all that follow: what they cost at least, per token, by the state it is found in."""

    __slots__ = ("duty", "following", "gone", "held", "request", "rest", "writes")

    def __init__(self, request: Request, duty: Duty, following: Visit | None) -> None:
        self.request = request
        self.duty = duty
        self.following = following
        self.rest: int = following.rest + 1 if following is not None else 0
        """Visits after this one."""
        self.writes = tuple(ttl.write for ttl in request.facts.ttls)
        seconds = [ttl.seconds for ttl in request.facts.ttls]
        self.held: list[float] = [_found(following, life, request.started + long) for life, long in enumerate(seconds)]
        """By lifetime: the least cost after this visit if it leaves the node held for it, readable at once."""
        options = [] if duty.floor >= 0 else [1.0 + gone(following)]
        if not duty.closed:
            options += [
                self.writes[life] + ahead(following, Held(life, request.started + seconds[life], request.step.visible))
                for life in duty.lives
                if life >= duty.floor
            ]
        self.gone: float = min(options)
        """The least cost of this visit and those after it if the node is gone."""


def gone(visit: Visit | None) -> float:
    """The least cost from `visit` on if the node is gone by then."""
    return 0.0 if visit is None else visit.gone


def ahead(visit: Visit | None, held: Held | None) -> float:
    """The least cost from `visit` on, per token, if the node is `held`."""
    if held is None:
        return gone(visit)
    if visit is None or held.ready <= visit.request.started:
        return _found(visit, held.life, held.expires)
    return _unreadable(visit, held)


def _found(visit: Visit | None, life: int, expires: float) -> float:
    """The least cost from `visit` on if the node is held and readable until `expires`."""
    cost = 0.0
    while visit is not None and visit.duty.closed:
        cost += 1.0
        visit = visit.following
    if visit is None:
        return cost
    if visit.request.started >= expires:
        return cost + visit.gone
    read = visit.request.facts.read
    best = read + visit.held[life]
    for longer in visit.duty.lives:
        if longer > life:
            best = min(best, (read if visit.duty.grows else visit.writes[longer]) + visit.held[longer])
    return cost + best


def _unreadable(visit: Visit, held: Held) -> float:
    """The least cost from `visit` on if the node is held and cannot be read yet: generous, as the module says."""
    quiet = _while_unreadable(visit, held, rearm=False)
    return min(quiet, visit.writes[0] - 1.0 + _while_unreadable(visit, held, rearm=True))


def _while_unreadable(visit: Visit | None, held: Held, *, rearm: bool) -> float:
    cost, (life, expires, ready) = 0.0, held
    while visit is not None and visit.request.started < ready:
        request, duty = visit.request, visit.duty
        cost += visit.writes[duty.floor] if duty.floor >= 0 else 1.0
        if not duty.closed and (rearm or duty.floor >= 0):
            life = max((life, *duty.lives))
            expires = max(expires, request.started + request.facts.ttls[life].seconds)
            ready = min(ready, request.step.visible)
        visit = visit.following
    return cost + _found(visit, life, expires)


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


def futures(requests: Sequence[Request]) -> Futures:
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
            weights.setdefault(node, []).append(request.tokens[place] - before)
            before = request.tokens[place]
        bound += request.step.total - before
        stretches.append(found)
    reads = {node: visit.request.facts.read for node, visit in latest.items()}
    for node, visit in latest.items():
        # One prefix has one count; where a source's counts differ, the least bears the plan, the rest is read.
        least = min(weights[node])
        bound += least * visit.gone + reads[node] * (sum(weights[node]) - least * len(weights[node]))
    stretches.reverse()
    return Futures(stretches, bound)
