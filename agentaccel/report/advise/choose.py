"""The few things to change first: every remedy is tried, the best is kept, and the others are tried again on top."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from agentaccel.cache.price import Override
from agentaccel.facts import lifetimes
from agentaccel.report.advise.history import without_summaries
from agentaccel.report.advise.money import CostCounting, as_written, by_itself, off, prices_for, recorded, replayed
from agentaccel.report.advise.nouns import Advice, Mended, RecordedSession, Sure, Talks, called
from agentaccel.report.advise.remedies import (
    beyond_lookback,
    cache_off,
    in_vain,
    one_model,
    other_lifetime,
    too_short,
    tool_order,
)
from agentaccel.report.advise.seconds import seconds, time_at_work
from agentaccel.report.advise.volatile import volatile_early

# --- One workload as it was recorded, and how it is replayed: with its markers as sent, or planned anew ---------------

REPRODUCED = 0.05
"""Share of the bill that planning anew may miss it by; where it misses more, the requests are replayed as sent."""


_CHOICES = ("auto", *lifetimes())
"""What a policy may say of lifetimes; a record does not tell which it said, but what was billed does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One workload as it was recorded."""

    talks: Talks
    cost: float
    """Of a replay as recorded."""
    error: float | None
    """By how much that misses the bill."""
    prices: CostCounting
    planned: str = ""
    """With which choice of lifetime agentaccel plans anew in a replay, on top of the markers in `talks`: the user's
    own. Empty where markers are sent as they were."""

    known: dict[int, tuple[RecordedSession, float]] = field(default_factory=dict, compare=False)
    """What sessions cost, by the identity of those that are replayed by themselves."""

    def of(self, talks: Talks, *, keep: bool = False) -> float:
        """The cost of `talks`, replayed in the same way. A session that was kept before is not replayed again; `keep`
        keeps these."""
        together = [talk for talk in talks if self.planned or not by_itself(talk)]
        costs = dict(zip(map(id, together), replayed(together, self.prices, planned=self.planned), strict=True))
        for talk in talks:
            if id(talk) in costs:
                continue
            known = self.known.get(id(talk))
            costs[id(talk)] = known[1] if known is not None else replayed([talk], self.prices)[0]
            if keep:
                self.known[id(talk)] = talk, costs[id(talk)]
        return sum(costs[id(talk)] for talk in talks)


def case_of(talks: Talks, prices: CostCounting) -> Case:
    """The workload with agentaccel planning anew, where it planned and that gives the bill; else as it was sent.

    What was planned for a faulty prompt says little of the mended one: behind a clock, nothing is marked.
    """
    bill = recorded(talks, prices)
    if any(one.own is not None for talk in talks for one in talk.requests):
        written = as_written(talks)
        for ttl in _CHOICES:
            case = _replayed(written, prices, bill, ttl)
            if case.error is not None and case.error <= REPRODUCED * case.cost:
                return case
    return _replayed(talks, prices, bill)


def _replayed(talks: Talks, prices: CostCounting, bill: Sequence[float | None], planned: str = "") -> Case:
    costs = replayed(talks, prices, planned=planned)
    known = {} if planned else {id(one): (one, cost) for one, cost in zip(talks, costs, strict=True) if by_itself(one)}
    return Case(talks=talks, cost=sum(costs), error=off(costs, bill), prices=prices, planned=planned, known=known)


LEAST_SHARE = 0.02
"""Of the bill, or of the time at work: what saves less is not worth a change, and the reader's attention."""

CLEAR = 2.0
"""Errors that an inferred saving must be worth: the replay of an inferred prompt may miss the bill by luck."""

MOST = 5
"""Pieces of advice; more would not be *the few things to change first*."""

Remedy = Callable[[Talks], Iterator[Mended]]

REMEDIES: tuple[Remedy, ...] = (
    cache_off,
    volatile_early,
    too_short,
    other_lifetime,
    without_summaries,
    tool_order,
    one_model,
    beyond_lookback,
    in_vain,
)
"""What is tried on every workload; each offers what it can mend, in one way or several. In the order in which they are
mended together: markers first, so that what changes is moved behind them."""

HIDING: tuple[Remedy, ...] = (cache_off, volatile_early, tool_order)
"""Faults that hide each other in threes: as long as one stands, mending the others saves nothing."""


def advise(
    talks: Sequence[RecordedSession],
    *,
    prices: Override | None = None,
    remedies: Sequence[Remedy] = REMEDIES,
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Advice, ...]:
    """What to change first in the recorded `talks`; empty where nothing is worth it. `tell` is told
    again and again how many of the changes that there may be have been tried, and how many these are."""
    listed = [talk for talk in talks if talk.listed]
    counted = prices_for(listed, prices)
    cases = [case_of(own, counted) for own in _workloads(listed)]
    total = sum(case.cost for case in cases)
    most = len(remedies) * (len(remedies) + 1) // 2  # each by itself, and two together
    found = list[Advice]()
    for number, case in enumerate(cases):
        tried = partial(_tell, tell, number * most, most, len(cases) * most)
        found += _costs(case, total, remedies, tried)
    at_work = sum(time_at_work(talk) for talk in talks)
    found += [advice for own in _workloads(talks) for advice in seconds(own, at_work, LEAST_SHARE)]
    return tuple(sorted(found, key=rank))[:MOST]


def _tell(tell: Callable[[int, int], None], before: int, most: int, total: int, tried: int) -> None:
    tell(before + min(tried, most), total)


def rank(one: Advice) -> tuple[bool, bool, float]:
    """What advice is sorted by: the largest saving first; time after money, and what no change can pass comes last."""
    return one.unit == "seconds", one.sure == "at most", -one.saving


def _workloads(talks: Iterable[RecordedSession]) -> Iterable[Talks]:
    found: dict[str, list[RecordedSession]] = {}
    for talk in talks:
        if talk.requests:
            found.setdefault(talk.workload, []).append(talk)
    return found.values()


def _costs(case: Case, total: float, remedies: Sequence[Remedy], tried: Callable[[int], None]) -> Iterator[Advice]:
    """What lowers the bill of one workload, the best first, each on top of those before it. `tried` is told how many
    changes have been.

    Faults that hide each other, so that mending one saves nothing, share alike in what mending all of them saves.
    """
    talks, cost, seen, count = case.talks, case.cost, set[str](), itertools.count(1)
    sure = _sure(case.talks)
    least = max(LEAST_SHARE * total, (case.error or 0.0) * (CLEAR if sure == "inferred" else 1.0))
    while True:
        for chains in _tried(talks, remedies, seen):
            less, best = cost, _Chain()
            for chain in chains:
                now = case.of(chain[-1].talks, keep=len(chain) == 1)
                if not best or now < less:
                    less, best = now, chain
                tried(next(count))
            if best and cost - less > len(best) * least:
                break
        else:
            return
        for mended in best:
            yield Advice(
                kind=mended.kind,
                workload=called(case.talks),
                where=mended.where,
                todo=mended.todo,
                unit=case.prices.unit,
                saving=(cost - less) / len(best),
                share=(cost - less) / len(best) / total,
                error=case.error,
                sure=sure,
            )
            seen.add(mended.kind)
        talks, cost = best[-1].talks, less


_Chain = tuple[Mended, ...]
"""Faults mended together, each on top of those before it."""


def _tried(talks: Talks, remedies: Sequence[Remedy], seen: set[str]) -> Iterator[Iterable[_Chain]]:
    """What to try at once: every remedy by itself; where none helps, two together, and then all of `HIDING`."""
    alone = {remedy: [one for one in remedy(talks) if one.kind not in seen] for remedy in remedies}
    yield ((one,) for found in alone.values() for one in found)
    yield (
        (one, *rest)
        for first, second in itertools.combinations(remedies, 2)
        for one in alone[first]
        for rest in _chains(one.talks, (second,), seen)
    )
    if set(HIDING) <= set(remedies):
        yield ((one, *rest) for one in alone[HIDING[0]] for rest in _chains(one.talks, HIDING[1:], seen))


def _chains(talks: Talks, chosen: Sequence[Remedy], seen: set[str]) -> Iterator[_Chain]:
    """All of `chosen`, each on top of those before it; nothing where one of them finds nothing to mend."""
    if not chosen:
        yield ()
        return
    for mended in chosen[0](talks):
        if mended.kind not in seen:
            yield from ((mended, *rest) for rest in _chains(mended.talks, chosen[1:], seen))


def _sure(talks: Talks) -> Sure:
    return "inferred" if any(talk.inferred for talk in talks) else "computed"
