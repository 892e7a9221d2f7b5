"""The clairvoyant oracle: the cheapest legal markers for requests whose whole future is known.

It answers "how much of what could be had was had". It may do what the planner may do without anybody's consent: add
markers, within every rule of the provider, beside those that the sender had placed. Content, order and times stay.

Two figures come out: a plan that can be sent, with its cost, and a bound that no plan can pass. Where they meet, the
plan is the best there is. They meet for conversations that only grow, of any length, and for whatever is small enough
to be searched; elsewhere the distance between them is how much is not known.

Sources: the algorithm of the cache is the vendor's (see `agentaccel.cache.ledger`); the relaxation and its proof stand
in `hindsight_bound`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from agentaccel.cache.ledger import Breakpoint
from agentaccel.replay.hindsight_bound import SHIFTS, Futures, futures
from agentaccel.replay.hindsight_paths import OUT, Cache, CompiledStep, Placed, Served, compiled, guides, serve
from agentaccel.replay.hindsight_plan import planned
from agentaccel.replay.hindsight_search import improved, searched
from agentaccel.replay.runs import Step
from agentaccel.types import Usage

_NOISE = 1e-9
"""Costs that differ by less than this share are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The best plan that was found, and what no plan can do better than."""

    cost: float
    """Of the plan, for all requests together, in units of an uncached input token."""
    bound: float
    """No legal plan costs less; at most `cost`."""
    exact: bool
    """Whether no legal plan is cheaper: the bound is met, or every plan was looked at."""
    usages: tuple[Usage, ...]
    """What each request is billed for, in the order in which the steps were given; `output` is not known."""
    marks: tuple[tuple[Breakpoint, ...], ...]
    """What each is sent with, ascending: the sender's own markers and ours."""


def best(steps: Sequence[Step], *, ttls: Sequence[str] | None = None, searches: bool = True) -> Best:
    """The cheapest legal markers for `steps`, which share one cache that is empty at first.

    Those that are `optional` may be left out: they are then billed nothing. Without `searches`, a plan that does not
    meet the bound is not improved, which may take seconds.

    Steps are served in order of `started`, those of one moment as given. `ttls` restricts the lifetimes of the markers
    that are added, by label, as far as the sender's own leave it legal; None allows all that the provider has. Costs
    are multiples of an uncached input token. Steps that share no prefix are solved apart, so a source of many
    conversations is no harder than its hardest one.

    Two requests of one conversation, 2,000 tokens and 500 more: the first is written at 1.25 and read at 0.1 by the
    second, whose own 500 tokens nobody reads again.

    >>> from agentaccel.facts import cache_facts
    >>> from agentaccel.replay.synthetic import Piece, rendered
    >>> pieces = [Piece("messages", "user", 2_000, b"q"), Piece("messages", "assistant", 500, b"a")]
    >>> facts = cache_facts("claude-sonnet-5")
    >>> prompts = [rendered(pieces[:n], "claude-sonnet-5", facts, None) for n in (1, 2)]
    >>> steps = [Step(prefix=p, tokens=t, started=n, visible=n) for n, (p, t) in enumerate(prompts)]
    >>> found = best(steps)
    >>> found.cost == 1.25 * 2_000 + 0.1 * 2_000 + 500, found.exact, [mark.at for mark in found.marks[0]]
    (True, True, [0])
    """
    shifts = SHIFTS if any(step.optional for step in steps) else SHIFTS[:1]
    ways = [compiled(steps, ttls, shift=shift) for shift in shifts]
    requests = ways[0]
    apart: dict[int, list[list[CompiledStep]]] = {}
    for same in zip(*ways, strict=True):
        group = apart.setdefault(same[0].nodes[0] if same[0].nodes else -1, [[] for _ in ways])
        for some, request in zip(group, same, strict=True):
            some.append(request)
    plans: dict[int, Placed] = {}
    bound, exact = 0.0, True
    for group in apart.values():
        solved = _solve(group, searches=searches)
        plans.update({request.index: placed for request, placed in zip(group[0], solved.plans, strict=True)})
        bound += solved.bound
        exact = exact and solved.exact
    if any(map(_ambiguous, steps)):
        bound, exact = sum(step.total * step.prefix.facts.read for step in steps if not step.optional), False
    return _told(steps, requests, [plans[request.index] for request in requests], bound, exact)


def _ambiguous(step: Step) -> bool:
    """Whether the sender marked a prefix that two blocks end, as a server tool and the tool before it do.

    Our marker on the other one may then give it a longer life, which the search does not look at: the plan is legal,
    and nothing is proven but that every token costs at least a read.
    """
    if not step.marks:
        return False
    hashes = Counter(step.prefix.hashes[i] for i, one in enumerate(step.prefix.prompt.segments) if one.markable)
    twins = {hash_ for hash_, count in hashes.items() if count > 1}
    return any(step.prefix.hashes[mark.at] in twins for mark in step.marks)


@dataclass(frozen=True, slots=True)
class _Solved:
    plans: Sequence[Placed]
    bound: float
    exact: bool


def _solve(ways: Sequence[Sequence[CompiledStep]], *, searches: bool) -> _Solved:
    """The best plan for requests that share prefixes, given in each of the ways in which a bound looks at them."""
    requests = ways[0]
    futures_ = [futures(way) for way in ways]
    tried: list[Sequence[Placed]] = [planned(way, known) for way, known in zip(ways, futures_, strict=True)]
    plans = min(tried, key=lambda some: cost_of_plans(requests, some))
    cost, known = cost_of_plans(requests, plans), max(futures_, key=lambda one: one.bound)
    if searches and cost > known.bound * (1 + _NOISE):
        plans, cost = _improved(requests, known, plans)
    if cost <= known.bound * (1 + _NOISE):
        return _Solved(plans, min(known.bound, cost), True)
    found = searched(requests, known, plans, cost) if searches else None
    if found is None:
        return _Solved(plans, known.bound, False)
    plans, cost = found
    return _Solved(plans, cost, True)


def _improved(
    requests: Sequence[CompiledStep], known: Futures, plans: Sequence[Placed]
) -> tuple[Sequence[Placed], float]:
    """A better plan than `plans`, where one is found."""
    others = [planned(guide, futures(guide)) for guide in guides(requests)]
    plans = min([plans, *others], key=lambda some: cost_of_plans(requests, some))
    return improved(requests, known, plans)


def cost_of_plans(requests: Sequence[CompiledStep], plans: Sequence[Placed]) -> float:
    """What `requests` cost with our markers of `plans`."""
    return sum(one.cost for one in _served(requests, plans))


def _served(requests: Sequence[CompiledStep], plans: Sequence[Placed]) -> list[Served]:
    cache: Cache = {}
    done: list[Served] = []
    for request, placed in zip(requests, plans, strict=True):
        done.append(serve(request, placed, cache))
        cache = done[-1].cache
    return done


def _told(
    steps: Sequence[Step], requests: Sequence[CompiledStep], plans: Sequence[Placed], bound: float, exact: bool
) -> Best:
    """The result in the terms of a replay, in the order of `steps`."""
    served = _served(requests, plans)
    order = sorted(range(len(steps)), key=lambda i: steps[i].started)
    usages: dict[int, Usage] = {}
    marks: dict[int, tuple[Breakpoint, ...]] = {}
    for request, placed, one in zip(requests, plans, served, strict=True):
        given = order[request.index]
        if placed == OUT:
            marks[given], usages[given] = (), Usage(input=0, read=0, write={})
            continue
        labels = [ttl.label for ttl in request.facts.ttls]
        ours = (Breakpoint(request.segments[place], labels[life]) for place, life in placed)
        marks[given] = tuple(sorted((*request.step.marks, *ours), key=lambda mark: mark.at))
        write = {labels[life]: tokens for life, tokens in one.write.items()}
        usages[given] = Usage(input=request.step.total, read=one.read, write=write)
    cost = sum(one.cost for one in served)
    return Best(
        cost=cost,
        bound=min(bound, cost),
        exact=exact,
        usages=tuple(usages[i] for i in range(len(steps))),
        marks=tuple(marks[i] for i in range(len(steps))),
    )
