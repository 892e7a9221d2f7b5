"""Looking further where the plan that follows from the relaxation does not meet the bound.

`searched` looks at every plan of a small instance that the bound does not rule out; `improved` changes one request's
markers at a time for as long as that helps and its effort lasts. Both are deterministic: effort is counted, not timed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, combinations_with_replacement

from agentaccel.replay.hindsight_bound import Futures, Visit, ahead, gone
from agentaccel.replay.hindsight_paths import OUT, Cache, CompiledStep, Held, Placed, Served, serve

_NOISE = 1e-9
_MOST_CHOICES = 1_500
"""Sets of markers of one request up to which an instance is small enough to be searched."""
_MOST_OPENED = 4_000
"""Requests, each in some state of the cache, whose every set of markers is looked at before the search gives up."""
_EFFORT = 1_000_000
"""Places passed while serving requests again, before the improvement of a plan ends."""


def choices(request: CompiledStep, places: Sequence[int]) -> Iterator[Placed]:
    """Every legal set of our markers on `places`, the empty one first; before that, leaving out what may be."""
    if request.step.optional:
        yield OUT
    longest_first = sorted(request.lives, reverse=True)
    for size in range(min(request.room, len(places)) + 1):
        for chosen in combinations(places, size):
            for lives in combinations_with_replacement(longest_first, size):
                placed = tuple(zip(chosen, lives, strict=True))
                if request.allows(placed):
                    yield placed


def _count(request: CompiledStep) -> int:
    """How many sets of markers there are, the sender's own left out of account."""
    places, total, ways = sum(request.legal), 0, 1
    for size in range(min(request.room, places) + 1):
        total += ways * (size + 1 if len(request.lives) > 1 else 1)
        ways = ways * (places - size) // (size + 1)
    return total


# --- everything -------------------------------------------------------------------------------------------------------


def searched(
    requests: Sequence[CompiledStep], known: Futures, plans: Sequence[Placed], cost: float
) -> tuple[Sequence[Placed], float] | None:
    """The best plan and its cost, at most that of `plans`; None if there were too many to look at."""
    if any(_count(request) > _MOST_CHOICES for request in requests):
        return None
    search = _Search(requests, _Outlook(requests, known), list(plans), cost)
    if not search.look(0, {}, 0.0, ()):
        return None
    return search.plans, search.cost


@dataclass(slots=True)
class _Search:
    """Depth first, the most promising first. Mutable: it remembers the best plan and what has been looked at."""

    requests: Sequence[CompiledStep]
    outlook: _Outlook
    plans: Sequence[Placed]
    cost: float
    opened: int = 0
    _seen: dict[tuple[int, frozenset[tuple[int, Held]]], float] = field(default_factory=dict)

    def look(self, index: int, cache: Cache, spent: float, path: tuple[Placed, ...]) -> bool:
        """Look at every plan that goes on from here; False once too much has been looked at."""
        if index == len(self.requests):
            if spent < self.cost * (1 - _NOISE):
                self.plans, self.cost = path, spent
            return True
        state = (index, frozenset(cache.items()))
        if self._seen.get(state, float("inf")) <= spent:
            return True
        self._seen[state] = spent
        self.opened += 1
        if self.opened > _MOST_OPENED:
            return False
        for least, placed, served in self._ways(index, cache):
            if spent + least >= self.cost * (1 - _NOISE):
                break
            if not self.look(index + 1, served.cache, spent + served.cost, (*path, placed)):
                return False
        return True

    def _ways(self, index: int, cache: Cache) -> list[tuple[float, Placed, Served]]:
        """What the request can do, each way with the least that it can lead to, the least first."""
        request = self.requests[index]
        places = [place for place, legal in enumerate(request.legal) if legal]
        ways: dict[tuple[float, frozenset[tuple[int, Held]]], tuple[float, Placed, Served]] = {}
        for placed in choices(request, places):
            served = serve(request, placed, cache)
            if served.cost == math.inf:
                continue
            key = (served.cost, frozenset(served.cache.items()))
            if key not in ways:
                ways[key] = (served.cost + self.outlook.least(index + 1, served.cache), placed, served)
        return sorted(ways.values(), key=lambda way: way[0])


class _Outlook:
    """The relaxation from a request on, for any state of the cache."""

    def __init__(self, requests: Sequence[CompiledStep], known: Futures) -> None:
        self._above: dict[int, tuple[int, ...]] = {}
        self._weights: dict[int, int] = {}
        """Tokens of each node; the least, where requests differ."""
        self._next: list[dict[int, Visit]] = [{}]
        self._all_gone = [0.0]
        """By request: the least cost from it on if nothing is held, tokens that cannot be marked left out."""
        for request, stretches in zip(reversed(requests), reversed(known.stretches), strict=True):
            visits = dict(self._next[-1])
            for stretch in stretches:
                visits.update(dict.fromkeys(request.nodes[stretch.first : stretch.last + 1], stretch.visit))
            for place, node in enumerate(request.nodes):
                self._above[node] = tuple(request.nodes[: place + 1])
                weight = request.weight(place, place)
                self._weights[node] = min(self._weights.get(node, weight), weight)
            self._next.append(visits)
        self._next.reverse()
        self._all_gone = [sum(self._weights[node] * gone(visit) for node, visit in one.items()) for one in self._next]
        self._fixed = [0.0] * (len(requests) + 1)
        for index in range(len(requests) - 1, -1, -1):
            request = requests[index]
            marked = request.tokens[-1] if request.tokens else 0
            fixed = 0 if request.step.optional else request.step.total - marked
            self._fixed[index] = self._fixed[index + 1] + fixed

    def least(self, index: int, cache: Cache) -> float:
        """No way to go on from request `index` costs less."""
        visits, behind = self._next[index], dict[int, Held]()
        touched = set[int]()
        for node, entry in cache.items():
            *above, _ = self._above[node]
            touched.update(self._above[node])
            for one in above:
                behind[one] = _both(behind.get(one), entry)
        cost = self._all_gone[index] + self._fixed[index]
        for node in touched:
            visit = visits.get(node)
            if visit is not None:
                cost += self._weights[node] * (ahead(visit, cache.get(node), behind.get(node)) - gone(visit))
        return cost


def _both(one: Held | None, other: Held) -> Held:
    """What is as good as either entry in every respect."""
    if one is None:
        return other
    return Held(max(one.life, other.life), max(one.expires, other.expires), min(one.ready, other.ready))


# --- one request at a time --------------------------------------------------------------------------------------------


def improved(requests: Sequence[CompiledStep], known: Futures, plans: Sequence[Placed]) -> tuple[list[Placed], float]:
    """`plans` with single requests' markers changed for the better, and the cost."""
    walk = _Walk(requests, list(plans))
    walk.restart(0)
    better = True
    while better and walk.effort < _EFFORT:
        better = False
        for index, (request, stretches) in enumerate(zip(requests, known.stretches, strict=True)):
            ends = [place for stretch in stretches for place in (stretch.first, stretch.last) if request.legal[place]]
            for placed in _changes(request, walk.plans[index], list(dict.fromkeys(ends))):
                if walk.effort >= _EFFORT:
                    return walk.plans, walk.costs[-1]
                better = walk.attempt(index, placed) or better
    return walk.plans, walk.costs[-1]


def _changes(request: CompiledStep, placed: Placed, places: Sequence[int]) -> Iterator[Placed]:
    """Sets of markers that differ from `placed` by one that is gone, added, moved, or of another lifetime."""
    if request.step.optional:
        kept = [((place, life),) for place in places for life in request.lives[:1]]
        yield from (one for one in (OUT, *kept) if one != placed and (one == OUT or request.allows(one)))
        return
    marked = dict(placed)
    without = [{place: life for place, life in placed if place != gone_} for gone_ in marked]
    for base in (marked, *without):
        found: list[Mapping[int, int]] = [] if base is marked else [base]
        found += [{**base, place: life} for place in places if place not in base for life in request.lives]
        found += [{**base, place: life} for place in base for life in request.lives if base is marked]
        for one in found:
            changed = tuple(sorted(one.items()))
            if changed != placed and request.allows(changed):
                yield changed


@dataclass(slots=True)
class _Walk:
    """A plan with the state of the cache before each request. Mutable: it takes what is better."""

    requests: Sequence[CompiledStep]
    plans: list[Placed]
    effort: int = 0
    caches: list[Cache] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    """Of everything before each request, and last of all."""

    def restart(self, index: int) -> None:
        """Serve again from `index` on."""
        del self.caches[index:], self.costs[index:]
        cache: Cache = {}
        spent = 0.0
        if index:
            served = serve(self.requests[index - 1], self.plans[index - 1], self.caches[-1])
            cache, spent = served.cache, self.costs[-1] + served.cost
        for request, placed in zip(self.requests[index:], self.plans[index:], strict=True):
            self.caches.append(cache)
            self.costs.append(spent)
            served = serve(request, placed, cache)
            cache, spent = served.cache, spent + served.cost
        self.costs.append(spent)

    def attempt(self, index: int, placed: Placed) -> bool:
        """Take `placed` for request `index` if that makes everything cheaper."""
        cache, spent = self.caches[index], self.costs[index]
        for number in range(index, len(self.requests)):
            request = self.requests[number]
            served = serve(request, placed if number == index else self.plans[number], cache)
            self.effort += len(request.nodes) + 8
            cache, spent = served.cache, spent + served.cost
            behind = number + 1
            if behind < len(self.requests) and cache == self.caches[behind]:
                spent += self.costs[-1] - self.costs[behind]
                break
        if spent >= self.costs[-1] * (1 - _NOISE):
            return False
        self.plans[index] = placed
        self.restart(index)
        return True
