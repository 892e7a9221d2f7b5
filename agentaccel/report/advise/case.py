"""One workload as it was recorded, and how it is replayed: with its markers as sent, or planned anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentaccel.facts import lifetimes
from agentaccel.report.advise.money import Prices, as_written, off, recorded, replayed
from agentaccel.report.advise.nouns import Talks

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

    def of(self, talks: Talks) -> float:
        """The cost of `talks`, replayed in the same way."""
        return sum(replayed(talks, self.prices, planned=self.planned))


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
    return Case(talks=talks, cost=sum(costs), error=off(costs, bill), prices=prices, planned=planned)
