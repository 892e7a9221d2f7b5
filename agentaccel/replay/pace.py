"""Times for conversations that were recorded without them: drawn from stated distributions, the same in every process.

>>> [pace.name for pace in paces()]
['unattended', 'attended', 'occasional']
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

from agentaccel.errors import ConfigError
from agentaccel.facts import table
from agentaccel.replay.runs import Run, Step

_Z90 = 1.2815515655446004
"""The 90th percentile of the standard normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A log-normal distribution of seconds."""

    median: float
    p90: float

    def draw(self, chance: random.Random) -> float:
        return self.median * math.exp(chance.gauss(0.0, math.log(self.p90 / self.median) / _Z90))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """One stated situation; `facts/pace.toml` says what each figure means and why."""

    name: str
    after_tool: Gap
    after_user: Gap
    between: float
    """Mean seconds between the starts of two conversations."""
    why: str


@functools.cache
def paces() -> tuple[Pace, ...]:
    """All stated situations, fastest first."""
    return tuple(_pace(row) for row in table("pace")["pace"])


def _pace(row: dict[str, Any]) -> Pace:
    gaps = {name: Gap(**row[name]) for name in ("after_tool", "after_user")}
    return Pace(name=row["name"], between=row["between"], why=" ".join(row["why"].split()), **gaps)


def pace(name: str) -> Pace:
    """The stated situation called `name`. Raises ConfigError for another."""
    found = next((one for one in paces() if one.name == name), None)
    if found is None:
        raise ConfigError(f"{name!r} is not a stated pace; there are {', '.join(one.name for one in paces())}")
    return found


def first_byte_of(started: float, first_byte: float | None, finished: float | None) -> float:
    """When a reply began, for a request sent at `started`: as recorded, else the stated time after it.

    Never after `finished`, where that is recorded, and never before `started`.
    """
    began = started + float(table("pace")["first_byte"]) if first_byte is None else first_byte
    return max(started, began if finished is None else min(began, finished))


def placed(runs: Sequence[Run], untimed: AbstractSet[int], how: Pace, seed: int) -> tuple[Run, ...]:
    """`runs` with the times of the `untimed` ones, given by their place, drawn from `how`.

    They begin one after another, from the end of what is timed on. A gap depends on the seed, the pace, the run's id
    and the step alone: neither on the process nor on which other runs there are.
    """
    last = max((step.started for i, run in enumerate(runs) if i not in untimed for step in run.steps), default=0.0)
    begin, times = last, {}
    for i in sorted(untimed):
        chance = random.Random(f"{seed}/{how.name}/{runs[i].id}".encode("utf-8", "backslashreplace"))
        begin += chance.expovariate(1.0 / how.between)
        times[i] = _timed(runs[i], begin, how, chance)
    return tuple(times.get(i, run) for i, run in enumerate(runs))


def _timed(run: Run, begin: float, how: Pace, chance: random.Random) -> Run:
    steps: list[Step] = []
    now = begin
    for step in run.steps:
        if steps:  # what goes on from a reply is not sent before that has begun
            now = max(now + _gap(step, how).draw(chance), steps[-1].visible)
        steps.append(replace(step, started=now, visible=first_byte_of(now, None, None), finished=None))
    return replace(run, steps=tuple(steps))


def _gap(step: Step, how: Pace) -> Gap:
    segments = step.prefix.prompt.segments
    return how.after_tool if segments and segments[-1].kind == "tool_result" else how.after_user
