"""What a request cost, for people who watch live; by the same prices as the report."""

from __future__ import annotations

from typing import NamedTuple

from agentaccel.cache.bills import cards_of, paid_for
from agentaccel.cache.price import price_card
from agentaccel.policy import Policy
from agentaccel.records import TurnRecord


class Cost(NamedTuple):
    """USD of the input of one request."""

    paid: float | None = None
    saved: float | None = None
    """Against the request as it was written; negative for a loss, None where we changed nothing or cannot tell."""


class SpanPrices:
    """The prices that hold for one `Accel`."""

    def __init__(self, policy: Policy) -> None:
        self._aliases, self._prices = policy.aliases, policy.prices
        price_card("openai", "", input_tokens=0)  # loads the price list here and not within the first reply

    def cost(self, turn: TurnRecord) -> Cost:
        """What the input of `turn` cost, as far as that is known."""
        if turn.billed.input is None:
            return Cost()
        cards = cards_of(turn, self._aliases, self._prices)
        paid = paid_for(turn, cards)
        if paid is None or turn.mode != "on" or turn.as_written is None:
            return Cost(paid)
        as_written = paid_for(turn, cards, turn.as_written)
        return Cost(paid, None if as_written is None else as_written - paid)
