"""Read-only calls that a launched result would have served, if results are kept until the next call that may write.

The threshold of launching is chosen where it is not judged: on other folds, or on what came before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from benchmarks.speculation.calls import Key
from benchmarks.speculation.guesses import Before
from benchmarks.speculation.read import Run

THEIRS, THEIR_MOST = 0.1, 3
"""The baseline's operating point: probability and launches a turn."""

MOST_WASTE = 3.0
"""Wasted launches per hit that we allow ourselves where the baseline serves nothing and so sets no measure."""

NEVER = 2.0
"""A threshold that no probability reaches."""

THRESHOLDS = tuple(round(0.006 * 1.06**i, 5) for i in range(88))
"""From 0.006 to 0.95."""

BESIDE = 3
"""Thresholds on either side that one is judged together with: what came of a single one is largely chance."""


class Served(NamedTuple):
    """What launching came to."""

    launches: int = 0
    served: int = 0
    reads: int = 0
    """Read-only calls that there were."""

    def __add__(self, other: object) -> Served:
        assert isinstance(other, Served)
        return Served(self.launches + other.launches, self.served + other.served, self.reads + other.reads)

    @property
    def waste(self) -> float | None:
        """Launches that served nothing, for each that served; None where none did."""
        return (self.launches - self.served) / self.served if self.served else None


def served(run: Run, befores: Sequence[Before], least: float, most: int | None = None) -> Served:
    """Launch before every turn what will come soon at a probability of `least`, at most `most` of it.

    A call is launched if it reads, was not made since the last write, and no result of it waits. A result serves one
    call, and none behind the next call that may write.
    """
    launches = hits = reads = 0
    waiting, made = set[Key](), set[Key]()
    for turn, before in zip(run.turns, befores, strict=True):
        chosen = (
            guess.key
            for guess in before.guesses
            if guess.soon >= least and guess.reads and guess.key not in waiting and guess.key not in made
        )
        new = set(islice(chosen, most))
        launches += len(new)
        waiting |= new
        for key, only_reads in zip(turn.keys, turn.reads, strict=True):
            if not only_reads:
                waiting.clear()
                made.clear()
                continue
            reads += 1
            hits += key in waiting
            waiting.discard(key)
            made.add(key)
    return Served(launches, hits, reads)


def total(pairs: Iterable[tuple[Run, Sequence[Before]]], least: float, most: int | None = None) -> Served:
    """Over several runs."""
    return sum((served(run, befores, least, most) for run, befores in pairs), Served())


def threshold(pairs: Sequence[tuple[Run, Sequence[Before]]], limit: float | None) -> float:
    """The one that serves most at no more than `limit` wasted launches per hit; `NEVER` where all waste more.

    Each is judged by the sums over its neighbours, too: whoever takes the luckiest of many thresholds wastes more
    elsewhere than where it was chosen.
    """
    found = [total(pairs, least) for least in THRESHOLDS]
    best, chosen = 0.0, NEVER
    for at in reversed(range(len(found))):
        near = found[max(at - BESIDE, 0) : at + BESIDE + 1]
        mean = sum(near, Served())
        within = mean.waste is not None and mean.waste <= (MOST_WASTE if limit is None else limit)
        if within and mean.served / len(near) > best:
            best, chosen = mean.served / len(near), THRESHOLDS[at]
    return chosen
