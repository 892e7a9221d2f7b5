"""Whether a request of our own that writes a prefix ahead of the request that needs it is worth what it costs.

By cost alone it never is: what it writes now need not be written then, but is read then, and is lost where that request
does not come. What it buys is time, because a prefix that is read need not be computed. So it is sent where

    p · seconds · second_costs  >  bill - p · (write - read)

with p the probability that the request comes in time and begins as announced, `bill` what ours costs, and
`write - read` what that one saves by reading what ours wrote.

>>> from agentaccel.cache.price import price_card
>>> card = price_card("anthropic", "claude-sonnet-5", input_tokens=50_000)
>>> sent = Expected(read=0, write={"5m": 50_000}, uncached=10)
>>> likely, unlikely = (prewarming(sent, card, comes=p, seconds=4.5) for p in (0.95, 0.7))
>>> likely.pays(second_costs=0.01), unlikely.pays(second_costs=0.01), likely.pays(second_costs=0.001)
(True, False, False)
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from agentaccel.cache.beliefs import Beliefs, Observation
from agentaccel.cache.price import PriceCard, expected_cost
from agentaccel.facts import priors
from agentaccel.types import Expected

_ANNOUNCED = "announced"
SENT, CAME = Observation(_ANNOUNCED, 0.0), Observation(_ANNOUNCED, 1.0, 0.0)
"""That a prefix was written ahead, and that its request came and read it: the same occasion."""


class Prewarming(NamedTuple):
    """What it costs to write a prefix ahead, and what it wins."""

    bill: float
    """USD that the request of our own is billed for."""
    cost: float
    """USD that it is expected to cost in all, once what the announced request saves is taken off."""
    seconds: float
    """Expected to be won."""

    def pays(self, *, second_costs: float) -> bool:
        return self.seconds * second_costs > self.cost


def prewarming(expected: Expected, card: PriceCard, *, comes: float, seconds: float) -> Prewarming | None:
    """What is to be had by a request with the bill `expected`, if the announced one `comes` with that probability.

    `seconds` is what it then waits less. None where there is nothing to write, or no price is known.
    """
    bill = expected_cost(card, expected)
    if bill is None or card.read is None or not sum(expected.write.values()):
        return None
    saved = sum(tokens * (card.write[label] - card.read) for label, tokens in expected.write.items() if tokens)
    return Prewarming(bill, bill - comes * saved, comes * seconds)


def comes_as_announced(beliefs: Beliefs) -> float:
    """The probability that a request which the agent announces comes in time, and begins so.

    >>> comes_as_announced(Beliefs()), round(comes_as_announced(Beliefs().after([SENT, SENT])), 2)
    (0.95, 0.79)
    """
    stated = priors()
    return beliefs.probability(_ANNOUNCED, stated.announced, stated.announced_weight)


def with_held(expected: Expected, tokens: float) -> Expected:
    """`expected` where so many tokens are known to be held: what of them was to be written is read.

    >>> with_held(Expected(read=0, write={"5m": 100.0}, uncached=5), 60.0)
    Expected(read=60.0, write={'5m': 40.0}, uncached=5)
    """
    written = sum(expected.write.values())
    there = min(tokens - expected.read, written)
    if there <= 0:
        return expected
    left = {label: count * (1.0 - there / written) for label, count in expected.write.items()}
    return replace(expected, read=expected.read + there, write=left)
