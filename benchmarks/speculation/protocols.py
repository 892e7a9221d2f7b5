"""Which runs are learned from, and which are judged: three protocols, each also with one run per task.

Runs of one task are near copies, so no protocol but `online` ever learns from a run of a task that it judges, and
`online` flatters whoever remembers: read it beside its variant with one run per task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha1
from typing import Literal

from benchmarks.speculation.read import Run

Protocol = Literal["split", "folds", "online"]

FOLDS = 5
TRAINING_SHARE = 0.7
"""Of all tasks, in `split`; the share of the development traces' own figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A model is made new, learns `learned`, and then judges `judged`."""

    learned: tuple[Run, ...]
    judged: tuple[Run, ...]


def in_training(task: str) -> bool:
    """Whether `split` learns from `task`: by the first 32 bits of its SHA-1."""
    return int(sha1(task.encode()).hexdigest()[:8], 16) / 0xFFFFFFFF < TRAINING_SHARE


def fold_of(task: str, folds: int = FOLDS, dealing: int = 0) -> int:
    """The fold of a task, from other bits of its SHA-1 than `in_training` takes, so that both can be combined.

    Which tasks are judged together is chance, and a figure that hangs on it says little: a `dealing` other than 0 deals
    them anew.
    """
    dealt = f"{dealing} {task}" if dealing else task
    return int(sha1(dealt.encode()).hexdigest()[8:16], 16) % folds


def split(runs: Sequence[Run]) -> list[Round]:
    """One round: some 70 % of the tasks are learned."""
    return [_round(runs, [run for run in runs if not in_training(run.task)])]


def by_folds(runs: Sequence[Run], folds: int = FOLDS, dealing: int = 0) -> list[Round]:
    """Every run is judged once, by what was learned from the tasks of the other folds; empty folds are left out."""
    parts = [[run for run in runs if fold_of(run.task, folds, dealing) == fold] for fold in range(folds)]
    return [_round(runs, part) for part in parts if part]


def one_per_task(runs: Sequence[Run]) -> tuple[Run, ...]:
    """The first run of each task."""
    first: dict[str, Run] = {}
    for run in runs:
        first.setdefault(run.task, run)
    return tuple(first.values())


def _round(runs: Sequence[Run], judged: Sequence[Run]) -> Round:
    tasks = {run.task for run in judged}
    return Round(learned=tuple(run for run in runs if run.task not in tasks), judged=tuple(judged))
