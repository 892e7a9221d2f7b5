"""The few things to change first: every remedy is tried, the best is kept, and the others are tried again on top."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from agentaccel.cache.price import Override
from agentaccel.report.advise.contents import too_short, tool_order
from agentaccel.report.advise.history import without_summaries
from agentaccel.report.advise.markers import beyond_lookback, cache_off, other_lifetime
from agentaccel.report.advise.models import one_model
from agentaccel.report.advise.money import Prices, off, prices_for, recorded, replayed
from agentaccel.report.advise.nouns import Advice, Mended, Sure, Talk, Talks
from agentaccel.report.advise.seconds import seconds, time_at_work
from agentaccel.report.advise.volatile import volatile_early
from agentaccel.report.advise.words import called

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
)
"""What is tried on every workload; each offers what it can mend, in one way or several."""


def advise(
    talks: Sequence[Talk], *, prices: Override | None = None, remedies: Sequence[Remedy] = REMEDIES
) -> tuple[Advice, ...]:
    """What to change first in the recorded `talks`; empty where nothing is worth it."""
    listed = [talk for talk in talks if talk.listed]
    counted = prices_for(listed, prices)
    cases = [_case(own, counted) for own in _workloads(listed)]
    total = sum(case.cost for case in cases)
    found = [advice for case in cases for advice in _costs(case, total, counted, remedies)]
    at_work = sum(time_at_work(talk) for talk in talks)
    found += [advice for own in _workloads(talks) for advice in seconds(own, at_work, LEAST_SHARE)]
    return tuple(sorted(found, key=lambda one: (one.sure == "at most", -one.share)))[:MOST]


def _workloads(talks: Iterable[Talk]) -> Iterable[Talks]:
    found: dict[str, list[Talk]] = {}
    for talk in talks:
        if talk.requests:
            found.setdefault(talk.workload, []).append(talk)
    return found.values()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One workload as it was recorded."""

    talks: Talks
    cost: float
    """Of a replay as recorded."""
    error: float | None
    """By how much that misses the bill."""


def _case(talks: Talks, prices: Prices) -> _Case:
    costs = replayed(talks, prices)
    return _Case(talks=talks, cost=sum(costs), error=off(costs, recorded(talks, prices)))


def _costs(case: _Case, total: float, prices: Prices, remedies: Sequence[Remedy]) -> Iterator[Advice]:
    """What lowers the bill of one workload, the best first, each on top of those before it."""
    talks, cost, seen = case.talks, case.cost, set[str]()
    sure = _sure(case.talks)
    least = max(LEAST_SHARE * total, (case.error or 0.0) * (CLEAR if sure == "inferred" else 1.0))
    while True:
        tried = [
            (sum(replayed(mended.talks, prices)), mended)
            for remedy in remedies
            for mended in remedy(talks)
            if mended.kind not in seen
        ]
        if not tried:
            return
        less, best = min(tried, key=lambda pair: pair[0])
        if cost - less <= least:
            return
        yield Advice(
            kind=best.kind,
            workload=called(case.talks),
            where=best.where,
            todo=best.todo,
            unit=prices.unit,
            saving=cost - less,
            share=(cost - less) / total,
            error=case.error,
            sure=sure,
        )
        talks, cost = best.talks, less
        seen.add(best.kind)


def _sure(talks: Talks) -> Sure:
    return "inferred" if any(talk.inferred for talk in talks) else "computed"
