"""What both models came to on one source: sums, and their differences with intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.speculation.guesses import Before
from benchmarks.speculation.judge import Judged, mean_threshold
from benchmarks.speculation.paired import Difference, Pair, difference
from benchmarks.speculation.read import Run
from benchmarks.speculation.scores import Launch, calibration, counted, one_step
from benchmarks.speculation.served import THEIR_MOST, THEIRS, Served, served, total

MEASURES = {
    "exact top-1": ("top1", "turns"),
    "exact top-3": ("top3", "turns"),
    "exact top-1, per call": ("call1", "calls"),
    "exact top-3, per call": ("call3", "calls"),
    "read-only in top-3": ("read3", "reads"),
    "served": ("served", "reads"),
    "next tool top-1": ("tool1", "calls"),
    "next tool top-3": ("tool3", "calls"),
    "resource rank 1": ("resource1", "resources"),
    "resource rank 3": ("resource3", "resources"),
    "resource rank 10": ("resource10", "resources"),
}
"""By name, what is counted and of what."""

POINTS = ((0.3, 1), (THEIRS, THEIR_MOST))
"""Probability and launches a turn, for the baseline's own figures of one step."""

SUREST = (50, 100, 200, 500)
"""Numbers of launches at which they are shown besides: two predictors that state different probabilities make different
numbers of launches at one threshold, and can be compared only at the same number."""

NEXT_TO_NOTHING = 0.05
"""Of turns: where the baseline's first guess is right in less, exact calls are not predictable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One measure of both."""

    ours: int
    theirs: int
    of: int
    by: Difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Launches for one step."""

    name: str
    launches: int
    hits: int
    within: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One source under one protocol."""

    source: str
    runs: int
    tasks: int
    measures: dict[str, Measured]
    """By name, without those of which there is nothing."""
    ours: Served
    theirs: Served
    always: int
    """Launches of a policy that launches its first guess that may be launched before every turn."""
    least: float | None
    """Our thresholds' mean."""
    errors: dict[str, tuple[float, float]]
    """Expected calibration errors, ours and the baseline's, by what they are of."""
    points: tuple[Point, ...]
    """The baseline's launches for one step at `POINTS`, and the `SUREST` of them."""

    @property
    def predictable(self) -> bool:
        """Whether exact calls can be told there, by the baseline: a matter of the calls, not of the source's name."""
        top = self.measures.get("exact top-1")
        return top is not None and top.theirs >= NEXT_TO_NOTHING * top.of


def outcome(source: str, judged: Sequence[Judged]) -> Outcome:
    """What `judged` came to."""
    ours, theirs = _by_task(judged, ours=True), _by_task(judged, ours=False)
    summed = sum(ours.values(), Counter[str]()), sum(theirs.values(), Counter[str]())
    measures = {}
    for name, (what, of) in MEASURES.items():
        if summed[0][of]:
            pairs = [Pair(ours[task][what], theirs[task][what], ours[task][of]) for task in ours]
            measures[name] = Measured(
                ours=summed[0][what], theirs=summed[1][what], of=summed[0][of], by=difference(pairs)
            )
    mine = [(one.run, one.ours) for one in judged]
    others = [(one.run, one.theirs) for one in judged]
    return Outcome(
        source=source,
        runs=len(judged),
        tasks=len(ours),
        measures=measures,
        ours=sum((served(one.run, one.ours, one.least) for one in judged), Served()),
        theirs=total(others, THEIRS, THEIR_MOST),
        always=total(mine, 0.0, 1).launches,
        least=mean_threshold(judged),
        errors={
            "first guess": (calibration(mine, 1)[0], calibration(others, 1)[0]),
            "all guesses": (calibration(mine)[0], calibration(others)[0]),
        },
        points=tuple(_points(others)),
    )


def _points(pairs: Sequence[tuple[Run, Sequence[Before]]]) -> Iterator[Point]:
    for least, most in POINTS:
        launches = [one for run, befores in pairs for one in one_step(run, befores, most)]
        launches.sort(key=lambda one: -one.probability)
        yield _point(f"p >= {least}, {most} a turn", [one for one in launches if one.probability >= least])
        for n in SUREST:
            if n <= len(launches):
                yield _point(f"the surest {n}, {most} a turn", launches[:n])


def _point(name: str, launches: Sequence[Launch]) -> Point:
    return Point(
        name=name,
        launches=len(launches),
        hits=sum(one.hit for one in launches),
        within=sum(one.within for one in launches),
    )


def _by_task(judged: Sequence[Judged], *, ours: bool) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for one in judged:
        befores = one.ours if ours else one.theirs
        launched = served(one.run, befores, one.least) if ours else served(one.run, befores, THEIRS, THEIR_MOST)
        found.setdefault(one.run.task, Counter()).update(_counted(one.run, befores, launched))
    return found


def _counted(run: Run, befores: Sequence[Before], launched: Served) -> Counter[str]:
    return counted(run, befores) + Counter({"served": launched.served})
