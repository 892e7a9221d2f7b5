"""Latencies that are injected: the same for all arms, by a seed that names the draw, the run and the call.

A tool's median is log-uniform between 0.5 and 5 seconds, its runs are log-normal around it (sigma 0.3); replies have a
median of 3 seconds (sigma 0.4). All tool times of a source are then scaled so that, without any acceleration, tools
take the wanted share of the wall time, parallel calls side by side.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentaccel.predict.experience import Experience
from benchmarks.latency.scenes import Call, Guess

REPLY_MEDIAN, REPLY_SIGMA = 3.0, 0.4
TOOL_LEAST, TOOL_MOST, TOOL_SIGMA = 0.5, 5.0, 0.3

_LEARNED = 20
_TABLE = 4093
_NORMAL = [random.Random(f"table {i}").gauss(0.0, 1.0) for i in range(_TABLE)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """What one draw gives to one run; tools before they are scaled."""

    replies: tuple[float, ...]
    calls: tuple[tuple[float, ...], ...]


class Draw:
    """One draw for one source."""

    __slots__ = ("_medians", "_number", "_source")

    def __init__(self, source: str, number: int) -> None:
        self._source, self._number = source, number
        self._medians: dict[str, float] = {}

    def median(self, tool: str) -> float:
        """Seconds, before scaling."""
        found = self._medians.get(tool)
        if found is None:
            at = random.Random(f"{self._source}/{self._number}/{tool}").random()
            found = self._medians[tool] = TOOL_LEAST * (TOOL_MOST / TOOL_LEAST) ** at
        return found

    def times(self, run: str, turns: Sequence[Sequence[Call]]) -> Times:
        """The times of a run whose replies ask for these calls."""
        noise = random.Random(f"{self._source}/{self._number}/{run}")
        replies, calls = [], []
        for turn in turns:
            replies.append(REPLY_MEDIAN * math.exp(REPLY_SIGMA * noise.gauss(0.0, 1.0)))
            calls.append(tuple(self.median(call.tool) * math.exp(TOOL_SIGMA * noise.gauss(0.0, 1.0)) for call in turn))
        return Times(replies=tuple(replies), calls=tuple(calls))

    def early(self, guess: Guess, times: Times, *, own: bool) -> float:
        """How long an early run takes: as long as the call that is the same, or by a draw of its own."""
        if guess.drawn_as is not None and not own:
            turn, place = guess.drawn_as
            return times.calls[turn][place]
        normal = _NORMAL[(guess.seed ^ (self._number * 2654435761)) % _TABLE]
        return self.median(guess.key.tool) * math.exp(TOOL_SIGMA * normal)

    def learned(self, tools: Mapping[str, int], scale: float) -> Experience:
        """What is known of latencies before the first session: some runs of each tool, of which so many were learned,
        and some replies."""
        experience = Experience()
        for tool, runs in tools.items():
            for i in range(min(runs, _LEARNED)):
                normal = _NORMAL[(i * 31 + self._number) % _TABLE]
                experience.latencies.saw(tool, scale * self.median(tool) * math.exp(TOOL_SIGMA * normal))
        for i in range(_LEARNED):
            experience.replied(REPLY_MEDIAN * math.exp(REPLY_SIGMA * _NORMAL[i]))
        return experience


def scale(times: Iterable[Times], share: float) -> float:
    """What tool times are multiplied with so that they take `share` of the wall time."""
    replies = tools = 0.0
    for one in times:
        replies += sum(one.replies)
        tools += sum(max(calls) for calls in one.calls if calls)
    return share / (1.0 - share) * replies / tools if tools else 0.0
