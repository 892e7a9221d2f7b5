"""One workload as it was recorded, and how it is replayed: with its markers as sent, or planned anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agentaccel.facts import lifetimes
from agentaccel.report.advise.money import Prices, as_written, by_itself, off, recorded, replayed
from agentaccel.report.advise.nouns import Talk, Talks

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
    prices: Prices
    planned: str = ""
    """With which choice of lifetime agentaccel plans anew in a replay, on top of the markers in `talks`: the user's
    own. Empty where markers are sent as they were."""

    known: dict[int, tuple[Talk, float]] = field(default_factory=dict, compare=False)
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


def case_of(talks: Talks, prices: Prices) -> Case:
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


def _replayed(talks: Talks, prices: Prices, bill: Sequence[float | None], planned: str = "") -> Case:
    costs = replayed(talks, prices, planned=planned)
    known = {} if planned else {id(one): (one, cost) for one, cost in zip(talks, costs, strict=True) if by_itself(one)}
    return Case(talks=talks, cost=sum(costs), error=off(costs, bill), prices=prices, planned=planned, known=known)
