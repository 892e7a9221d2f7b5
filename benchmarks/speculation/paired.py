"""The difference of two models on the same runs, and how sure it is: a bootstrap over tasks (Efron, 1979).

Runs of one task are no independent evidence, so whole tasks are drawn.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import NamedTuple

RESAMPLES = 2_000

LEVEL = 0.95


class Pair(NamedTuple):
    """What two models reached in one task."""

    ours: float
    theirs: float
    of: float
    """The denominator of both."""


class Difference(NamedTuple):
    """Ours less theirs, as a share, with an interval."""

    point: float
    low: float
    high: float


def difference(tasks: Sequence[Pair], resamples: int = RESAMPLES, seed: int = 0) -> Difference:
    """The percentile interval of the difference; the same for the same tasks and seed.

    >>> difference([Pair(3, 1, 4)] * 8)
    Difference(point=0.5, low=0.5, high=0.5)
    """
    more, of = [one.ours - one.theirs for one in tasks], [one.of for one in tasks]
    draws = _draws(len(tasks), resamples, seed)
    found = sorted(sum(map(more.__getitem__, draw)) / (sum(map(of.__getitem__, draw)) or 1) for draw in draws)
    cut = round((1 - LEVEL) / 2 * resamples)
    return Difference(sum(more) / (sum(of) or 1), found[cut], found[resamples - 1 - cut])


@functools.lru_cache(maxsize=2)
def _draws(tasks: int, resamples: int, seed: int) -> list[list[int]]:
    """The same for every measure of the same tasks."""
    draw = random.Random(seed)
    return [draw.choices(range(tasks), k=tasks) for _ in range(resamples)]
