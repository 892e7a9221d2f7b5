"""What sessions came to, summed by task, and intervals by resampling tasks."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import mul

from benchmarks.latency.setting import Outcome

RESAMPLES = 1000


@dataclass(slots=True, kw_only=True)
class Sums:
    """All sessions of one arm over all draws. Seconds, and counts of launches on predictions."""

    by_task: dict[str, float] = field(default_factory=dict)
    """Seconds of its sessions."""
    sessions: list[float] = field(default_factory=list)
    launched: int = 0
    served: int = 0
    joined: int = 0
    hidden: float = 0.0
    wasted: float = 0.0
    deep_launched: int = 0
    deep_served: int = 0

    def add(self, task: str, outcome: Outcome) -> None:
        """One more session."""
        self.took(task, outcome.seconds)
        predicted, total = outcome.ledger.predicted, outcome.ledger.total
        self.launched += predicted.launched
        self.served += predicted.served
        self.joined += predicted.joined
        self.hidden += total.hidden
        self.wasted += total.wasted
        self.deep_launched += outcome.deep[0]
        self.deep_served += outcome.deep[1]

    def took(self, task: str, seconds: float) -> None:
        """One more session, of which only the time is known."""
        self.by_task[task] = self.by_task.get(task, 0.0) + seconds
        self.sessions.append(seconds)

    @property
    def seconds(self) -> float:
        return sum(self.by_task.values())

    @property
    def waste_per_hit(self) -> float | None:
        """Launches that were not served for each that was; None where nothing was launched."""
        if not self.launched:
            return None
        return (self.launched - self.served) / max(self.served, 1)

    def percentile(self, share: float) -> float:
        """The time of a session that `share` of them do not exceed."""
        return sorted(self.sessions)[min(int(share * len(self.sessions)), len(self.sessions) - 1)]


class Resampling:
    """Draws of tasks with replacement, the same for all that is compared."""

    def __init__(self, tasks: Iterable[str], resamples: int = RESAMPLES) -> None:
        self._tasks = sorted(tasks)
        chance = random.Random(f"{len(self._tasks)} tasks")
        self._weights: list[list[int]] = []
        for _ in range(resamples):
            drawn = Counter(chance.choices(range(len(self._tasks)), k=len(self._tasks)))
            self._weights.append([drawn[i] for i in range(len(self._tasks))])

    def interval(self, of: Callable[[Sequence[float]], float], *columns: Mapping[str, float]) -> tuple[float, float]:
        """The 95 % interval of a figure that is worked out of the sums of `columns`, each a value by task."""
        values = [[column.get(task, 0.0) for task in self._tasks] for column in columns]
        found = sorted(of([sum(map(mul, weights, column)) for column in values]) for weights in self._weights)
        return found[int(0.025 * len(found))], found[min(int(0.975 * len(found)), len(found) - 1)]


def slowdown(sums: Sequence[float]) -> float:
    """By which share the first of two times exceeds the second.

    >>> slowdown((1.5, 1.0))
    0.5
    """
    return sums[0] / sums[1] - 1.0 if sums[1] else 0.0


def share_of_saving(sums: Sequence[float]) -> float:
    """What part of the oracle's saving an arm saves: of the times of the arm, of the oracle, and without either.

    >>> share_of_saving((8.0, 6.0, 10.0))
    0.5
    """
    arm, oracle, off = sums
    return (off - arm) / (off - oracle) if off > oracle else 0.0
