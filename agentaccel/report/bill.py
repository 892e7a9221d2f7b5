"""What one request cost, and what it would have cost otherwise; and the sums of such bills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from agentaccel.cache.bills import Cards, paid_for
from agentaccel.cache.price import PriceCard, input_cost
from agentaccel.facts import CacheFacts
from agentaccel.records import BATCH, TurnRecord
from agentaccel.types import Usage, prefilled

# --- Tokens and USD in all: sums, each with how many requests it is over ----------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Sums of what the provider reported; each over the requests that reported it."""

    input: int
    """All input tokens, inclusive of cache reads and writes."""
    known: int
    """The part of `input` in requests that also reported what the cache did: the base of the hit rate."""
    read: int
    write: Mapping[str, int]
    """Tokens written to the cache, by the label of the lifetime."""
    told: int
    """Requests that reported what they wrote. Where writing is free, nobody counts it."""
    uncached: int
    """Neither read nor said to be written."""
    output: int
    """As far as it was counted: at least so many where `partial` is not 0."""
    outputs: int
    """Requests that reported any count of their output."""
    partial: int
    """Requests whose output may be more than was counted: broken off, recorded by a log that does not tell how the
    reply ended, or without a count."""
    needed: int
    """What had to be written once: by how much each prompt outgrew the largest one before it in its session."""
    reusable: int
    """What a perfect cache would have read."""

    @property
    def written(self) -> int | None:
        """All tokens written; None where no request reported any count of them."""
        return sum(self.write.values()) if self.told else None

    @property
    def hit_rate(self) -> float | None:
        """Share of input tokens read from the cache; None where no request reported it."""
        return self.read / self.known if self.known else None

    @property
    def perfect_rate(self) -> float | None:
        """The hit rate of a perfect cache."""
        return self.reusable / self.known if self.known else None

    @property
    def rewrite(self) -> float | None:
        """Tokens written for each token that had to be written once; None where nothing was written."""
        return self.written / self.needed if self.written and self.needed else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """USD of input tokens; each over the same requests: those whose price and cache counters are known."""

    priced: int
    """How many requests the sums are over."""
    unpriced: int
    """Requests with usage that are in none of the sums: no price, or no cache counters."""
    modelled: int
    """Requests that we planned for and whose bill as the user wrote them is known."""
    unmodelled: int
    """Requests that we planned for and whose bill as written is not known: counted as if it had been the same."""
    paid: float | None
    as_written: float | None
    """What the same requests would have cost without us."""
    without: float | None
    """What they would have cost without any cache."""
    perfect: float | None
    """What they would have cost with a perfect cache: every token of an earlier prompt of the session read, nothing
    expired, no premium for writing."""
    output: float | None
    """USD of output tokens of replies that we saw to their end; None where there are none. What has been counted in the
    middle of one is less than was made, and logs often record that: it is not taken from them."""
    unended: int
    """Replies that were not read to their end, whose output is not in `output`."""
    output_at_least: float | None
    """USD of all output tokens that were counted, those of unfinished replies and of logs included; None where none
    were, or none has a known price."""
    output_partial: int
    """How many of `priced` may have had more output than that."""

    @property
    def total(self) -> float | None:
        """USD of input and output of the same requests: at least so much where `output_partial` is not 0."""
        return None if self.paid is None else self.paid + (self.output_at_least or 0.0)

    @property
    def saved(self) -> float | None:
        """What we took off the bill, negative where we made it dearer; None where nothing was modelled."""
        if not self.modelled or self.paid is None or self.as_written is None:
            return None
        return self.as_written - self.paid


@dataclass(slots=True)
class Bill:
    """One request in USD of input tokens. Like `Billed` nobody changes it; a frozen one would be made in twice the
    time, and a store has a million."""

    paid: float
    as_written: float | None
    """Without us; None where we planned the request and the bill without us is not known."""
    without: float
    """Without any cache."""
    perfect: float
    """With a perfect cache."""
    output: float | None
    """USD of its output; None where not known."""
    counted: float | None
    """USD of what was counted of its output; None without a count or a price."""


@dataclass(slots=True)
class Billed:
    """A request with everything about it that more than one sum needs, worked out once."""

    turn: TurnRecord
    usage: Usage
    """All that the reply was billed for: the answer, and what else it took."""
    whole: bool
    """True if its output is known, and not merely a part of it."""
    reported: bool
    """Whether the provider reported what the cache did."""
    uncached: int
    """Tokens neither read nor written; 0 where not reported."""
    counted: int | None
    """Tokens that count against the limit per minute; None where they or the rules are not known."""
    needed: int
    """Tokens by which the prompt outgrew the earlier ones of its session."""
    perfect_read: int
    """What a perfect cache would have read: never less than what this one did."""
    missed: float | None
    """USD of a missed token beyond reading it; None where there is no miss, or no price."""
    bill: Bill | None
    """None without a price or without cache counters."""
    prefill: tuple[float, int] | None
    """Seconds in which a server of the user's own computed so many tokens of the prompt; None at a provider's, and
    where that is not known."""
    unclear: tuple[str, ...]
    """Terms of which nobody knows what they do to the price."""


def billed(turn: TurnRecord, cards: Cards, facts: CacheFacts | None, needed: int) -> Billed:
    """`turn` with its bill."""
    answer, usage = turn.usage, turn.billed
    total, read = usage.input, usage.read
    reusable = turn.reusable or 0
    if facts is not None and reusable < facts.min_tokens:
        reusable = 0  # a prefix as short as that is kept by nobody
    perfect_read = min(answer.input or 0, max(reusable, answer.read or 0))
    besides = sum(one.usage.read or 0 for one in turn.besides) if turn.besides else 0
    counted = None
    if facts is not None and total is not None and read is not None and turn.mode != BATCH:  # it has limits of its own
        counted = total if facts.reads_count_to_rate_limit else total - read
    return Billed(
        turn,
        usage,
        _whole(turn, usage),
        total is not None and read is not None,
        usage.uncached or 0,
        counted,
        needed,
        perfect_read + besides,
        _missed(answer, cards.answer) if turn.misses and cards.answer is not None else None,
        _bill(turn, cards, perfect_read) if cards.known else None,
        _prefill(turn) if (turn.work is not None if facts is None else facts.self_hosted) else None,
        cards.unknown,
    )


def _prefill(turn: TurnRecord) -> tuple[float, int] | None:
    heard = turn.first_byte - turn.started if turn.first_byte is not None and turn.started else None
    return prefilled(turn.work, turn.usage, heard)


def _whole(turn: TurnRecord, usage: Usage) -> bool:
    """True if the reply, billed for `usage`, was counted to its end. What a log recorded is, where the log also tells
    how the reply ended: several write down what was counted when the reply began."""
    if usage.output is None or turn.outcome != "ok":
        return False
    return turn.mode != "log" or turn.stop is not None


def _missed(usage: Usage, card: PriceCard) -> float | None:
    """What a missed token cost beyond reading: such tokens paid this request's mix of writing and plain input."""
    unread = (usage.input or 0) - (usage.read or 0)
    if card.read is None or unread <= 0:
        return None
    cost = input_cost(card, Usage(input=unread, read=0, write=usage.write))
    return None if cost is None else cost / unread - card.read


def _bill(turn: TurnRecord, cards: Cards, perfect_read: int) -> Bill | None:
    paid = paid_for(turn, cards)
    if paid is None:
        return None
    as_written: float | None = paid
    if turn.mode == "on":
        as_written = None if turn.as_written is None else paid_for(turn, cards, turn.as_written)
    parts = [(cards.answer, turn.usage, perfect_read)]
    if turn.besides:  # what else was sampled had no prompt of ours to read: a perfect cache would have read no more
        others = zip(cards.besides, turn.besides, strict=True)
        parts += [(card, one.usage, one.usage.read or 0) for card, one in others]
    without = perfect = outputs = 0.0
    told = untold = 0
    for card, usage, read in parts:
        if card is None or usage.input is None:
            continue  # nothing of it was billed
        without += usage.input * card.input
        perfect += (usage.input - read) * card.input + read * (card.input if card.read is None else card.read)
        if usage.output is None or card.output is None:
            untold += 1
        else:
            told += 1
            outputs += usage.output * card.output
    counted = outputs if told else None
    output = None if turn.mode == "log" or turn.outcome != "ok" or untold else counted
    return Bill(paid, as_written, without, perfect, output, counted)


@dataclass(slots=True)
class Money:
    """Sums in USD, all over the same requests; a field each of `Costs`, which says what it means."""

    priced: int = 0
    unpriced: int = 0
    modelled: int = 0
    unmodelled: int = 0
    with_output: int = 0
    counted: int = 0
    output_partial: int = 0
    unended: int = 0
    paid: float = 0.0
    as_written: float = 0.0
    without: float = 0.0
    perfect: float = 0.0
    output: float = 0.0
    output_at_least: float = 0.0

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
        self.unended += billed.turn.outcome != "ok" and billed.turn.mode != "log"
        self.paid += bill.paid
        self.without += bill.without
        self.perfect += bill.perfect
        if bill.output is not None:
            self.output += bill.output
            self.with_output += 1
        self.output_partial += not billed.whole or bill.counted is None
        self._count(bill)

    def ours(self, bill: Bill) -> None:
        """A request of our own, which nobody wrote: it was paid."""
        self.paid += bill.paid
        self._count(bill)

    def _count(self, bill: Bill) -> None:
        if bill.counted is not None:
            self.counted += 1
            self.output_at_least += bill.counted

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
            unended=self.unended,
            output_at_least=self.output_at_least if known and self.counted else None,
            output_partial=self.output_partial,
        )
