"""Every arm over every draw and share of one source, without and with limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.latency.draws import Draw, Times, scale
from benchmarks.latency.foresight import MARKOV, OURS, PLACEBO, TEMPLATES, WRONG, Fold
from benchmarks.latency.play import off, one_step, play
from benchmarks.latency.setting import START, Arm, Outcome, Setting
from benchmarks.latency.tallies import Resampling, Sums

SHARES = (0.1, 0.2, 0.4, 0.6, 0.8)
"""Of the wall time, without any acceleration, that tools take."""
SLOTS = (1, 2, 4)
QUICK, THREADS = 0.02, None
"""Seconds until a cancelled run has given its slot back; a thread goes on to its end."""

OFF, ORACLE = Arm(name="off"), Arm(name="one-step oracle")
MEMO = Arm(name="memo only", memo=True)
EAGER = Arm(name="eager only", eager=True)
AGENTACCEL = Arm(name="agentaccel", memo=True, foreseen=OURS)
WITH_EAGER = Arm(name="agentaccel, with eager dispatch", memo=True, eager=True, foreseen=OURS)
STEPS = tuple(Arm(name=f"agentaccel, {steps} deep", memo=True, foreseen=OURS, depth=steps) for steps in (1, 2))
ALL_WRONG = Arm(name="all wrong", foreseen=WRONG)
RANDOM = Arm(name="random, as many launches", memo=True, foreseen=PLACEBO, decided=False)
ARMS = (
    MEMO,
    EAGER,
    Arm(name="first-order Markov", memo=True, foreseen=MARKOV),
    Arm(name="positional templates", memo=True, foreseen=TEMPLATES),
    ALL_WRONG,
    *STEPS,
    AGENTACCEL,
    RANDOM,
    WITH_EAGER,
)
"""Memo, eager dispatch and predictions of ours are what the product can do; `all wrong` has no memo, whose hits would
hide what it costs."""


class Limits(NamedTuple):
    """Slots that real and early runs share."""

    slots: int
    gives_back: float | None


@dataclass(slots=True, kw_only=True)
class Cell:
    """One source at one tool share."""

    arms: dict[str, Sums] = field(default_factory=dict)
    own: Sums = field(default_factory=Sums)
    """agentaccel where early runs take draws of their own."""
    limited: dict[tuple[Limits, str], Sums] = field(default_factory=dict)
    unhelped: dict[int, Sums] = field(default_factory=dict)
    """By slots, without any acceleration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One source."""

    name: str
    cells: dict[float, Cell]
    resampling: Resampling


def played(
    name: str, folds: Sequence[Fold], *, draws: int, start: float = START, done: Callable[[], object] = lambda: None
) -> Played:
    """Everything about one source; `done` is told of each draw."""
    cells = {share: Cell() for share in SHARES}
    for number in range(draws):
        draw = Draw(name, number)
        times = [[draw.times(one.id, [turn.calls for turn in one.turns]) for one in fold.sessions] for fold in folds]
        for share, cell in cells.items():
            factor = scale((one for fold in times for one in fold), share)
            if factor:
                for fold, of_fold in zip(folds, times, strict=True):
                    _Stage(fold, of_fold, draw, factor, start).all_arms(cell)
        done()
    tasks = {session.task for fold in folds for session in fold.sessions}
    return Played(name=name, cells=cells, resampling=Resampling(tasks))


@dataclass(frozen=True, slots=True)
class _Stage:
    """One fold at one draw and share."""

    fold: Fold
    times: Sequence[Times]
    draw: Draw
    scale: float
    start: float

    def all_arms(self, cell: Cell) -> None:
        self._bounds(cell)
        counts: Sequence[Sequence[int]] = ()
        for arm in ARMS:
            outcomes = self._sessions(arm, cell.arms.setdefault(arm.name, Sums()), counts if arm is RANDOM else ())
            if arm is AGENTACCEL:
                counts = [one.launched for one in outcomes]
        self._sessions(AGENTACCEL, cell.own, own=True)
        for slots in SLOTS:
            self._sessions(OFF, cell.unhelped.setdefault(slots, Sums()), limits=Limits(slots, QUICK))
            for limits in (Limits(slots, QUICK), Limits(slots, THREADS)):
                for arm in (AGENTACCEL, ALL_WRONG):
                    self._sessions(arm, cell.limited.setdefault((limits, arm.name), Sums()), limits=limits)

    def _bounds(self, cell: Cell) -> None:
        without, oracle = (cell.arms.setdefault(arm.name, Sums()) for arm in (OFF, ORACLE))
        for session, times in zip(self.fold.sessions, self.times, strict=True):
            without.took(session.task, off(times, self.scale))
            oracle.took(session.task, one_step(session, times, self.scale))

    def _sessions(
        self,
        arm: Arm,
        sums: Sums,
        counts: Sequence[Sequence[int]] = (),
        *,
        own: bool = False,
        limits: Limits | None = None,
    ) -> list[Outcome]:
        setting = Setting(
            draw=self.draw,
            scale=self.scale,
            experience=self.draw.learned(self.fold.training, self.scale),
            slots=limits.slots if limits else None,
            gives_back=limits.gives_back if limits else 0.0,
            own=own,
            start=self.start,
            needed=self.fold.needed,
        )
        outcomes = []
        for at, (session, times) in enumerate(zip(self.fold.sessions, self.times, strict=True)):
            outcomes.append(play(session, times, arm, setting, counts[at] if counts else ()))
            sums.add(session.task, outcomes[-1])
        return outcomes
