"""What a workload costs: as its replies reported it, and as a replay of it says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from agentaccel.cache.bills import as_of, cards_of, paid_for
from agentaccel.cache.price import Override, input_cost
from agentaccel.replay.compare import cost_or_none
from agentaccel.replay.placements import as_recorded
from agentaccel.replay.simulate import Allowed, accelerate, simulate
from agentaccel.report.advise.nouns import RecordedRequest, RecordedSession, Talks, Unit
from agentaccel.types import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class CostCounting:
    """How costs are counted, the same way for everything that is compared."""

    unit: Unit
    """USD where every request has a price, else uncached input tokens."""
    override: Override | None = None

    def of(self, request: RecordedRequest, usage: Usage) -> float | None:
        """The cost of `request` had it been billed for `usage`; None where that cannot be told."""
        facts = request.step.prefix.facts
        in_tokens = cost_or_none(usage, facts)
        if in_tokens is None:
            return None
        turn = as_of(request.turn, request.priced_as)
        if self.unit == "tokens":
            return in_tokens + sum(cost_or_none(one.usage, facts) or 0.0 for one in turn.besides)
        cards = cards_of(turn, None, self.override, usage.input)
        cost = paid_for(turn, cards, usage)
        if cost is None or request.output is None:
            return cost
        outputs = (request.output, *(one.usage.output for one in turn.besides))
        made = zip((cards.answer, *cards.besides), outputs, strict=True)
        return cost + sum((output or 0) * (card.output or 0.0) for card, output in made if card is not None)


def prices_for(talks: Iterable[RecordedSession], override: Override | None) -> CostCounting:
    """How to count the costs of `talks`."""
    whole = all(_priced(request, override) for talk in talks for request in talk.requests)
    return CostCounting(unit="USD" if whole else "tokens", override=override)


def _priced(request: RecordedRequest, override: Override | None) -> bool:
    """True if whatever `request` might be billed for has a price, and what else its reply took."""
    turn = as_of(request.turn, request.priced_as)
    cards = cards_of(turn, None, override, request.step.total)
    card, labels = cards.answer, {ttl.label for ttl in request.step.prefix.facts.ttls}
    if card is None or cards.unknown or card.read is None or not card.write.keys() >= labels:
        return False
    return all(input_cost(other, one.usage) is not None for other, one in zip(cards.besides, turn.besides, strict=True))


def replayed(talks: Talks, prices: CostCounting, *, planned: str = "") -> list[float]:
    """The cost of each of `talks`, sent with its markers against one cache that is empty at first.

    With `planned`, a policy's choice of lifetime, agentaccel plans anew where it did when they were recorded, on top of
    these markers.
    """
    runs = [talk.run for talk in talks]
    if planned:
        usages = accelerate(
            runs, Allowed(ttl=planned), planned=lambda run, number: talks[run].requests[number].own is not None
        ).usages
    else:
        usages = simulate(runs, as_recorded).usages
    return [_sum(talk, own, prices) for talk, own in zip(talks, usages, strict=True)]


def by_itself(talk: RecordedSession) -> bool:
    """True if no other session reads what this one writes, nor the other way round.

    Prompts that were rebuilt from usage share the head of their workload and nothing else, and markers stand behind it.
    """
    inferred = talk.inferred and all(one.step.prefix.facts.ages == "entries" for one in talk.requests)
    return inferred and all(mark.at >= one.step.prefix.starts[2] for one in talk.requests for mark in one.step.marks)


def as_written(talks: Talks) -> list[RecordedSession]:
    """`talks` with the user's own markers alone: what agentaccel plans on top of."""
    return [replace(talk, requests=tuple(map(_as_written, talk.requests))) for talk in talks]


def _as_written(request: RecordedRequest) -> RecordedRequest:
    return request if request.own is None else replace(request, step=replace(request.step, marks=request.own))


def recorded(talks: Talks, prices: CostCounting) -> list[float | None]:
    """What each of `talks` was billed for; None where some reply does not say what its cache did."""
    costs: list[float | None] = []
    for talk in talks:
        own = [prices.of(one, one.step.recorded) if one.step.recorded else None for one in talk.requests]
        costs.append(None if None in own else sum(cost or 0.0 for cost in own))
    return costs


def off(replay: Sequence[float], bill: Sequence[float | None]) -> float | None:
    """By how much a replay misses the bill, session by session; None where nothing was billed that can be compared."""
    differences = [abs(cost - paid) for cost, paid in zip(replay, bill, strict=True) if paid is not None]
    if not differences:
        return None
    return sum(differences) * len(replay) / len(differences)


def _sum(talk: RecordedSession, usages: Sequence[Usage], prices: CostCounting) -> float:
    cost: Callable[[RecordedRequest, Usage], float | None] = prices.of
    return sum(cost(request, usage) or 0.0 for request, usage in zip(talk.requests, usages, strict=True))
