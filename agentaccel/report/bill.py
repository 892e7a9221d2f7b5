"""What one request cost, and what it would have cost otherwise; and the sums of such bills."""

from __future__ import annotations

from dataclasses import dataclass

from agentaccel.cache.price import PriceCard, input_cost
from agentaccel.facts import CacheFacts
from agentaccel.report.figures import Costs
from agentaccel.types import Miss, TurnRecord, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """One request in USD of input tokens."""

    paid: float
    as_written: float | None
    """Without us; None where we planned the request and the bill without us is not known."""
    without: float
    """Without any cache."""
    perfect: float
    """With a perfect cache."""
    output: float | None
    """USD of its output; None where not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Billed:
    """A request with everything about it that more than one sum needs, worked out once."""

    turn: TurnRecord
    card: PriceCard | None
    facts: CacheFacts | None
    needed: int
    """Tokens by which the prompt outgrew the earlier ones of its session."""
    perfect_read: int
    """What a perfect cache would have read: never less than what this one did."""
    bill: Bill | None
    """None without a price or without cache counters."""

    def miss_usd(self, miss: Miss) -> float | None:
        """What a miss cost beyond reading: missed tokens paid this request's mix of writing and plain input."""
        usage, card = self.turn.usage, self.card
        unread = (usage.input or 0) - (usage.read or 0)
        if card is None or card.read is None or unread <= 0:
            return None
        cost = input_cost(card, Usage(input=unread, read=0, write=usage.write))
        return None if cost is None else miss.tokens * (cost / unread - card.read)


def billed(turn: TurnRecord, card: PriceCard | None, facts: CacheFacts | None, needed: int) -> Billed:
    """`turn` with its bill."""
    usage = turn.usage
    perfect_read = min(usage.input or 0, max(turn.reusable or 0, usage.read or 0))
    return Billed(
        turn=turn,
        card=card,
        facts=facts,
        needed=needed,
        perfect_read=perfect_read,
        bill=None if card is None else _bill(turn, card, perfect_read),
    )


def _bill(turn: TurnRecord, card: PriceCard, perfect_read: int) -> Bill | None:
    usage = turn.usage
    paid = input_cost(card, usage)
    if paid is None or usage.input is None:
        return None
    as_written: float | None = paid
    if turn.mode == "on":
        as_written = None if turn.as_written is None else input_cost(card, turn.as_written)
    read = card.input if card.read is None else card.read
    # The output of imported replies is often that of an unfinished one.
    told = None if turn.mode == "log" else usage.output
    return Bill(
        paid=paid,
        as_written=as_written,
        without=usage.input * card.input,
        perfect=(usage.input - perfect_read) * card.input + perfect_read * read,
        output=None if told is None or card.output is None else told * card.output,
    )


class Money:
    """Sums in USD, all over the same requests."""

    def __init__(self) -> None:
        self._priced = self._unpriced = self._modelled = self._unmodelled = self._with_output = 0
        self._paid = self._as_written = self._without = self._perfect = self._output = 0.0

    def add(self, billed: Billed) -> None:
        """One request with usage."""
        bill = billed.bill
        if bill is None:
            self._unpriced += 1
            return
        if bill.as_written is None:
            self._unmodelled += 1
            self._as_written += bill.paid
        else:
            self._modelled += billed.turn.mode == "on"
            self._as_written += bill.as_written
        self._priced += 1
        self._paid += bill.paid
        self._without += bill.without
        self._perfect += bill.perfect
        if bill.output is not None:
            self._output += bill.output
            self._with_output += 1

    def costs(self) -> Costs:
        """The sums so far."""
        known = bool(self._priced)
        return Costs(
            priced=self._priced,
            unpriced=self._unpriced,
            modelled=self._modelled,
            unmodelled=self._unmodelled,
            paid=self._paid if known else None,
            as_written=self._as_written if known else None,
            without=self._without if known else None,
            perfect=self._perfect if known else None,
            output=self._output if self._with_output else None,
        )
