"""How likely the prefixes of a prompt come back: a step down at each place that has been seen to change."""

from __future__ import annotations

from collections.abc import Sequence

from agentaccel.cache.beliefs import LOOP, TAIL, Beliefs
from agentaccel.cache.marks import loop_start
from agentaccel.cache.places import find
from agentaccel.cache.prefix import Prefixes


def survival(prefix: Prefixes, beliefs: Beliefs, cut: int) -> tuple[tuple[int, float], ...]:
    """The probability that prefixes come back, as ascending steps at the places that have been seen to change.

    `cut` segments at the end are expected to be replaced.
    """
    steps: list[tuple[int, float]] = [(0, beliefs.stable("any"))]
    for name in beliefs.unstable_places():
        place = find(prefix, name)
        if place is not None:
            steps.append((place.index, beliefs.stable(name)))
    if beliefs.leaves_out:
        steps.append((loop_start(prefix.prompt.segments, prefix.starts[2]), beliefs.stable(LOOP)))
    if cut:
        steps.append((max(len(prefix.prompt.lasting) - cut, 0), beliefs.stable(TAIL)))
    steps.sort()
    value, product = 1.0, []
    for start, probability in steps:
        value *= probability
        product.append((start, value))
    return tuple(product)


def survives(survival: Sequence[tuple[int, float]], i: int) -> float:
    """The probability that the prefix up to i comes back, by the steps of `survival`."""
    value = 1.0
    for start, probability in survival:
        if start > i:
            break
        value = probability
    return value
