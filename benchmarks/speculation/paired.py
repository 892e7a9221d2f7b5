"""The difference of two models on the same runs, and how sure it is: a bootstrap over tasks (Efron, 1979).

Runs of one task are no independent evidence, so whole tasks are drawn.
"""

from __future__ import annotations

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
    draw = random.Random(seed)
    found = sorted(_share(draw.choices(tasks, k=len(tasks))) for _ in range(resamples))
    cut = round((1 - LEVEL) / 2 * resamples)
    return Difference(_share(tasks), found[cut], found[resamples - 1 - cut])


def _share(tasks: Sequence[Pair]) -> float:
    return (sum(one.ours for one in tasks) - sum(one.theirs for one in tasks)) / (sum(one.of for one in tasks) or 1)
