"""What a reply was billed for: values, and what several of them come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from agentaccel.values import quickly_made


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the provider said it processed, in tokens; None where it said nothing."""

    input: int | None = None
    """All input tokens, inclusive of those read from and written to the cache."""
    read: int | None = None
    """Input tokens read from the cache."""
    write: Mapping[str, int] | None = None
    """Input tokens written to the cache, by the label of the lifetime."""
    output: int | None = None

    @property
    def written(self) -> int | None:
        """All tokens written to the cache; None where not reported."""
        return None if self.write is None else sum(self.write.values())

    @property
    def uncached(self) -> int | None:
        """Input tokens neither read nor said to be written; None where it was not reported what the cache did."""
        if self.input is None or self.read is None:
            return None
        return self.input - self.read - (sum(self.write.values()) if self.write else 0)

    @property
    def reported(self) -> bool:
        """Whether the provider reported what the cache did."""
        return self.input is not None and self.read is not None


NO_USAGE = Usage()
"""Of a reply that reports none."""

MOST_TOKENS = 2**40
"""A thousand times what a month of a large agent has: a larger number was no count, and sums of more could not be
stored."""


def sum_of(usages: Sequence[Usage]) -> Usage:
    """What `usages` come to; a count that one of them lacks is None.

    >>> sum_of([Usage(input=5, read=2, write={"5m": 1}), Usage(input=7, write={"5m": 2, "1h": 3})])
    Usage(input=12, read=None, write={'5m': 3, '1h': 3}, output=None)
    """
    write: dict[str, int] | None = None
    if all(one.write is not None for one in usages):
        write = {}
        for one in usages:
            for label, tokens in (one.write or {}).items():
                write[label] = write.get(label, 0) + tokens
    return Usage(
        input=_sum([one.input for one in usages]),
        read=_sum([one.read for one in usages]),
        write=write,
        output=_sum([one.output for one in usages]),
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    return None if None in counts else sum(count or 0 for count in counts)


UNSPLIT = "unsplit"
"""Stands for the label of a lifetime where tokens were written for several, and nobody says how many for which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledPart:
    """One sampling that a reply was billed for."""

    kind: str
    """The provider's name for it: "compaction", "advisor_message", "message", …"""
    usage: Usage
    model: str | None = None
    """The model that was sampled; None for the one that answered."""


class Metered(NamedTuple):
    """What a reply says that it is billed for."""

    usage: Usage
    """Of the sampling that answered."""
    besides: tuple[BilledPart, ...] = ()
    """As in `TurnRecord`."""
    doubts: tuple[str, ...] = ()
    """As in `TurnRecord`."""
    model: str | None = None
    """The model of the sampling that answered, where the usage names it."""
