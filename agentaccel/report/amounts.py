"""Tokens and USD in all: sums, each with how many requests it is over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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
