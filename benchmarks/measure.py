"""CPU time of several actions, measured in turns so that whatever else the machine does falls on all of them alike."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

ROUNDS = 41
"""Rounds that count; an odd number, so that the median is one of them."""
WARM_UP = 5
"""Rounds before those, which do not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Something to be timed."""

    run: Callable[[Any], object]
    prepare: Callable[[], Any] = lambda: None
    """Makes what `run` is given, afresh each time and outside the time that is measured."""


def alternated(actions: Mapping[str, Action], *, rounds: int = ROUNDS) -> dict[str, float]:
    """The median process CPU time of each action in seconds, over `rounds` in which each is run once.

    The garbage collector runs between actions and not in them.
    """
    times: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(WARM_UP + rounds):
        for name, action in actions.items():
            given = action.prepare()
            gc.collect(0)
            gc.disable()
            began = time.process_time()
            action.run(given)
            taken = time.process_time() - began
            gc.enable()
            if number >= WARM_UP:
                times[name].append(taken)
    return {name: statistics.median(values) for name, values in times.items()}
