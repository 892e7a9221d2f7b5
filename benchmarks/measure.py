"""CPU time of several actions, measured in turns so that whatever else the machine does falls on all of them alike."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
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
    after: Callable[[Any], object] = lambda result: None
    """Is given what `run` came to, outside that time, too."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """What the actions took, round by round."""

    seconds: Mapping[str, Sequence[float]]
    """Process CPU time of each action in each round that counts."""

    def median(self, name: str) -> float:
        """Seconds that the action took, the median."""
        return statistics.median(self.seconds[name])

    def ratio(self, name: str, to: str) -> float:
        """How many times as long one action took as another, the median of the rounds.

        Of each round by itself: where a machine is fast for a while and then slow, the two medians may be of different
        whiles, and their ratio is then one of neither.

        >>> rounds = Rounds({"ours": [2.0, 2.0, 8.0], "theirs": [1.0, 4.0, 4.0]})
        >>> rounds.ratio("ours", to="theirs"), rounds.median("ours") / rounds.median("theirs")
        (2.0, 0.5)
        """
        return statistics.median([one / other for one, other in zip(self.seconds[name], self.seconds[to], strict=True)])

    def __add__(self, more: Rounds) -> Rounds:
        """These and `more` of the same actions."""
        return Rounds({name: [*seconds, *more.seconds[name]] for name, seconds in self.seconds.items()})


def alternated(actions: Mapping[str, Action], *, rounds: int = ROUNDS) -> Rounds:
    """What each action takes in `rounds` in which each is run once.

    The garbage collector runs between actions and not in them.
    """
    times: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(WARM_UP + rounds):
        for name, action in actions.items():
            given = action.prepare()
            gc.collect(0)
            gc.disable()
            began = time.process_time()
            result = action.run(given)
            taken = time.process_time() - began
            gc.enable()
            action.after(result)
            result = None  # else it is freed while the next action is timed
            if number >= WARM_UP:
                times[name].append(taken)
    return Rounds(times)


async def longest_pass(work: Callable[[], Awaitable[None]]) -> float:
    """The longest pass through the event loop while `work` goes on, in seconds."""
    clock, longest = time.perf_counter, 0.0
    doing = asyncio.ensure_future(work())
    while not doing.done():
        began = clock()
        await asyncio.sleep(0)
        longest = max(longest, clock() - began)
    await doing
    return longest
