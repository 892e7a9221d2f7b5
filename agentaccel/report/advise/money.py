"""What a workload costs: as its replies reported it, and as a replay of it says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from agentaccel.cache.price import Override, PriceCard, input_cost, price_card
from agentaccel.replay.cost import cost_or_none
from agentaccel.replay.placements import as_recorded
from agentaccel.replay.simulate import Allowed, accelerate, simulate
from agentaccel.report.advise.nouns import Request, Talk, Talks, Unit
from agentaccel.types import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """How costs are counted, the same way for everything that is compared."""

    unit: Unit
    """USD where every request has a price, else uncached input tokens."""
    override: Override | None = None

    def of(self, request: Request, usage: Usage) -> float | None:
        """The cost of `request` had it been billed for `usage`; None where that cannot be told."""
        in_tokens = cost_or_none(usage, request.step.prefix.facts)
        if in_tokens is None or self.unit == "tokens":
            return in_tokens
        card = card_of(request, self.override)
        cost = input_cost(card, usage)
        if card is None or cost is None:
            return None
        return cost + (request.output or 0) * (card.output or 0.0)


def prices_for(talks: Iterable[Talk], override: Override | None) -> Prices:
    """How to count the costs of `talks`."""
    requests = [request for talk in talks for request in talk.requests]
    cards = [card_of(request, override) for request in requests]
    whole = all(
        card is not None
        and not card.unknown
        and card.read is not None
        and card.write.keys() >= {ttl.label for ttl in facts.ttls}
        for card, facts in zip(cards, (request.step.prefix.facts for request in requests), strict=True)
    )
    return Prices(unit="USD" if whole else "tokens", override=override)


def card_of(request: Request, override: Override | None) -> PriceCard | None:
    """The prices of `request` when it was sent."""
    turn = request.turn
    own = request.priced_as == (turn.known_as or turn.model)
    return price_card(
        turn.provider,
        turn.model if own else request.priced_as,
        input_tokens=request.step.total,
        platform=turn.platform,
        at=turn.started or None,
        aliases={turn.model: turn.known_as} if own and turn.known_as else None,
        override=override,
        terms=turn.terms,
    )


def replayed(talks: Talks, prices: Prices, *, planned: str = "") -> list[float]:
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


def by_itself(talk: Talk) -> bool:
    """True if no other session reads what this one writes, nor the other way round.

    Prompts that were rebuilt from usage share the head of their workload and nothing else, and markers stand behind it.
    """
    inferred = talk.inferred and all(one.step.prefix.facts.ages == "entries" for one in talk.requests)
    return inferred and all(mark.at >= one.step.prefix.starts[2] for one in talk.requests for mark in one.step.marks)


def as_written(talks: Talks) -> list[Talk]:
    """`talks` with the user's own markers alone: what agentaccel plans on top of."""
    return [replace(talk, requests=tuple(map(_as_written, talk.requests))) for talk in talks]


def _as_written(request: Request) -> Request:
    return request if request.own is None else replace(request, step=replace(request.step, marks=request.own))


def recorded(talks: Talks, prices: Prices) -> list[float | None]:
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


def _sum(talk: Talk, usages: Sequence[Usage], prices: Prices) -> float:
    cost: Callable[[Request, Usage], float | None] = prices.of
    return sum(cost(request, usage) or 0.0 for request, usage in zip(talk.requests, usages, strict=True))
