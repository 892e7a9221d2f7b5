"""Which tool comes next: the longest context of at most five symbols that was seen at least twice, backing off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from benchmarks.speculation.baseline.context import ORDER

SEEN = 2
"""Sightings from which on a context is believed."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What may come next."""

    probability: dict[str, float]
    """By symbol."""
    order: int
    """Symbols of the longest context that was believed."""
    sightings: int
    """Of that context."""


@dataclass(slots=True)
class Backoff:
    """Counts of symbols by context. Mutable: it learns.

    >>> model = Backoff()
    >>> for _ in range(2):
    ...     model.learn(["search"], ["read"])
    >>> model.outlook(["search"]).order
    1
    """

    counts: dict[tuple[str, ...], dict[str, int]] = field(default_factory=dict)

    def learn(self, symbols: Sequence[str], came: Sequence[str]) -> None:
        """After `symbols`, each of `came` has come at once."""
        for context in _contexts(symbols):
            counts = self.counts.setdefault(context, {})
            for symbol in came:
                counts[symbol] = counts.get(symbol, 0) + 1

    def outlook(self, symbols: Sequence[str]) -> Outlook:
        """Each longer context weighs as much against the shorter one as it was seen, by the estimate of Witten and
        Bell (1991): a new symbol is as likely as new symbols were."""
        probability: dict[str, float] = {}
        order = sightings = 0
        for context in _contexts(symbols):
            counts = self.counts.get(context, {})
            total = sum(counts.values())
            if total < SEEN and context:
                break
            order, sightings = len(context), total
            weight = len(counts)
            shorter = probability
            probability = {symbol: weight * p / (total + weight) for symbol, p in shorter.items()}
            for symbol, count in counts.items():
                probability[symbol] = probability.get(symbol, 0.0) + count / (total + weight)
        return Outlook(probability, order, sightings)


def _contexts(symbols: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """From none on, each one symbol longer."""
    last = tuple(symbols)[-ORDER:]
    for length in range(len(last) + 1):
        yield last[len(last) - length :]
