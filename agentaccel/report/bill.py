"""What one request cost, and what it would have cost otherwise; and the sums of such bills."""

from __future__ import annotations

from dataclasses import dataclass

from agentaccel.cache.price import PriceCard, input_cost
from agentaccel.facts import CacheFacts
from agentaccel.records import TurnRecord
from agentaccel.report.figures import Costs
from agentaccel.types import Miss, Usage


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


@dataclass(slots=True)
class Money:
    """Sums in USD, all over the same requests; a field each of `Costs`, which says what it means."""

    priced: int = 0
    unpriced: int = 0
    modelled: int = 0
    unmodelled: int = 0
    with_output: int = 0
    paid: float = 0.0
    as_written: float = 0.0
    without: float = 0.0
    perfect: float = 0.0
    output: float = 0.0

    def add(self, billed: Billed) -> None:
        """One request with usage."""
        bill = billed.bill
        if bill is None:
            self.unpriced += 1
            return
        if bill.as_written is None:
            self.unmodelled += 1
            self.as_written += bill.paid
        else:
            self.modelled += billed.turn.mode == "on"
            self.as_written += bill.as_written
        self.priced += 1
        self.paid += bill.paid
        self.without += bill.without
        self.perfect += bill.perfect
        if bill.output is not None:
            self.output += bill.output
            self.with_output += 1

    def costs(self) -> Costs:
        """The sums so far."""
        known = bool(self.priced)
        return Costs(
            priced=self.priced,
            unpriced=self.unpriced,
            modelled=self.modelled,
            unmodelled=self.unmodelled,
            paid=self.paid if known else None,
            as_written=self.as_written if known else None,
            without=self.without if known else None,
            perfect=self.perfect if known else None,
            output=self.output if self.with_output else None,
        )
