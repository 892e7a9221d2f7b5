"""What should hold of the predictor under folds by task, each as a sentence where it does not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from benchmarks.speculation.outcome import Outcome

BETTER = ("exact top-1", "exact top-3", "served")
"""Measures by which ours is to be better than the baseline."""

SHARE = 2 / 3
"""Of the sources whose calls are predictable: in so many an interval lies above zero."""

MOST_LAUNCHES = 0.01
"""Where calls are not predictable: launches as a share of always launching, unless resources are foretold better."""


def broken(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """A sentence for everything that does not hold."""
    predictable = [one for one in outcomes if one.predictable]
    for name in BETTER:
        found = {one.source: one.measures[name].by for one in predictable if name in one.measures}
        above = [source for source, by in found.items() if by.low > 0]
        needed = math.ceil(SHARE * len(found))
        if len(above) < needed:
            yield f"{name}: surely better than the baseline on {len(above)} of {len(found)} sources, {needed} needed"
        for source, by in found.items():
            if by.high < 0:
                yield f"{name}: surely worse than the baseline on {source}, by {-100 * by.point:.1f} points"
    for one in outcomes:
        if one not in predictable and one.ours.launches > MOST_LAUNCHES * one.always and not _foretells(one):
            yield (
                f"{one.source}: {one.ours.launches} launches where always launching makes {one.always}, "
                "and resources are not surely foretold better than by recency"
            )


def _foretells(one: Outcome) -> bool:
    return any(name.startswith("resource") and found.by.low > 0 for name, found in one.measures.items())
