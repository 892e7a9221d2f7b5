"""Our predictor and the baseline, side by side on the runs of one source under one protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from benchmarks.speculation.baseline.context import Context
from benchmarks.speculation.baseline.joint import Joint
from benchmarks.speculation.guesses import Before, Model
from benchmarks.speculation.ours import Ours
from benchmarks.speculation.protocols import Protocol, Round, by_folds, split
from benchmarks.speculation.read import Run
from benchmarks.speculation.served import THEIR_MOST, THEIRS, threshold, total

INNER_FOLDS = 3
"""Where all that is learned from is learned at once, the threshold is chosen on folds of it."""

GROWTH = 1.2
"""Online, the threshold is chosen anew whenever so many times the runs have been judged."""

Make = Callable[[], Model]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One run, as both models saw it come."""

    run: Run
    ours: tuple[Before, ...]
    theirs: tuple[Before, ...]
    least: float = THEIRS
    """Our threshold of launching, chosen without this run."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Makes both models anew for every round. What the baseline needs of a run is worked out once."""

    contexts: dict[str, tuple[Context, ...]] = field(default_factory=dict)
    recent: dict[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    ours: Make = Ours

    def theirs(self) -> Model:
        return Joint(self.contexts, self.recent)

    def judged(self, runs: Sequence[Run], protocol: Protocol, dealing: int = 0) -> tuple[Judged, ...]:
        """Every run that the protocol judges, in its order; `dealing` is of tasks into `folds`."""
        if protocol == "online":
            return tuple(self._online(runs))
        if protocol == "folds":
            parts = [self._round(one) for one in by_folds(runs, dealing=dealing)]
            return tuple(
                one
                for i, part in enumerate(parts)
                for one in _launched(part, [other for j, others in enumerate(parts) if j != i for other in others])
            )
        [whole] = split(runs)
        elsewhere = [one for inner in by_folds(whole.learned, INNER_FOLDS) for one in self._round(inner)]
        return _launched(self._round(whole), elsewhere)

    def _round(self, part: Round) -> tuple[Judged, ...]:
        ours, theirs = self.ours(), self.theirs()
        ours.learn(part.learned)
        theirs.learn(part.learned)
        return tuple(Judged(run=run, ours=ours.before(run), theirs=theirs.before(run)) for run in part.judged)

    def _online(self, runs: Sequence[Run]) -> Iterator[Judged]:
        ours, theirs = self.ours(), self.theirs()
        done, least, due = list[Judged](), THEIRS, 2.0
        for run in runs:
            one = Judged(run=run, ours=ours.before(run), theirs=theirs.before(run), least=least)
            yield one
            done.append(one)
            ours.learn([run])
            theirs.learn([run])
            if len(done) >= due:
                least, due = chosen(done), due * GROWTH


def chosen(elsewhere: Sequence[Judged]) -> float:
    """Our threshold: what serves most there without wasting more per hit than the baseline does there."""
    limit = total(((one.run, one.theirs) for one in elsewhere), THEIRS, THEIR_MOST).waste
    return threshold([(one.run, one.ours) for one in elsewhere], limit)


def _launched(part: Sequence[Judged], elsewhere: Sequence[Judged]) -> tuple[Judged, ...]:
    least = chosen(elsewhere)
    return tuple(Judged(run=one.run, ours=one.ours, theirs=one.theirs, least=least) for one in part)


def mean_threshold(judged: Sequence[Judged]) -> float | None:
    """For people; None where there is nothing."""
    return fmean(one.least for one in judged) if judged else None
