"""What a lifetime learned from pauses is worth, on recorded prefixes and times of real sessions.

k-fold over sessions: what is known of pauses and of the ends of sessions is learned from the other folds alone, each
session of a fold starts from that, and learns only from itself. agentaccel may send requests of its own that keep
entries alive; their cost is counted. The end of a session is not known to it, unless the row says so.

Two readings of the vendor's documentation, named in the output: (a) each block ages by the lifetime that it was
written with; (b) one entry per marker, which keeps all that stands before it. The oracle is the lower bound of
`agentaccel.replay.hindsight.least`: no plan costs less, with as many requests of our own in every pause as can pay.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

import click

from agentaccel.cache.beliefs import Beliefs
from agentaccel.replay.compare import cost_of_kept, cost_of_steps
from agentaccel.replay.placements import PLACEMENTS
from agentaccel.replay.read import read
from agentaccel.replay.read_geometry import WORKLOAD
from agentaccel.replay.runs import Run
from agentaccel.replay.simulate import Allowed, accelerate, simulate
from agentaccel.replay.source import Rules
from agentaccel.sources.logs import ImportTally
from benchmarks.oracle.pauses import least, pauses_kept
from benchmarks.parallel import spread
from benchmarks.registry import Result, Table, benchmark

_FIXED = ("tools+system+tail 5m", "tools+system+tail 1h")
_READINGS: tuple[tuple[str, Literal["blocks", "entries"]], ...] = (
    ("(a) each block ages by its own lifetime", "blocks"),
    ("(b) one entry per marker", "entries"),
)
_BARS = {"blocks": (1.15, 1.02, 1.32), "entries": (1.08, 1.03, 1.12)}
"""At most this many times the oracle; and per session, against the better fixed lifetime, in the median and for nine of
ten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """All sessions under one policy."""

    name: str
    costs: Sequence[float]
    """Per session, in uncached input tokens."""
    kept: Sequence[float]
    """Of these, what requests of our own cost."""

    @property
    def total(self) -> float:
        return sum(self.costs)


@benchmark()
@click.option(
    "--traces",
    type=click.Path(exists=True, path_type=Path),
    envvar="AGENTACCEL_TRACES",
    required=True,
    help="A folder or file of prefix traces, or one that has a folder `geometry`; by default AGENTACCEL_TRACES.",
)
@click.option("--folds", default=5, show_default=True, help="Sessions are dealt to so many folds in turn.")
def run(traces: Path, folds: int) -> Result:
    inside = traces / "geometry"
    path = inside if inside.is_dir() else traces
    found = list(spread(partial(_reading, path, folds), _READINGS))
    count = found[0].sessions
    if count < folds:
        raise click.UsageError(f"{path} holds {count} sessions; give at least as many as folds ({folds})")
    asked = {"sessions": count, "requests": found[0].requests, "folds": folds}
    return Result(
        figure=f"agentaccel costs {' and '.join(one.figure for one in found)}.",
        inputs={**asked, "keep-alive": "consented, its cost counted"},
        n=count,
        tables=tuple(one.table for one in found),
        broken=tuple(chain(*(one.broken for one in found))),
    )


class Measured(NamedTuple):
    """What is found under one reading."""

    sessions: int
    requests: int
    table: Table
    broken: Sequence[str] = ()
    figure: str = ""


def _reading(path: Path, folds: int, reading: tuple[str, Literal["blocks", "entries"]]) -> Measured:
    title, ages = reading
    runs = [run for source in read([path], Rules(ages=ages), ImportTally()) for run in source.runs]
    requests = sum(len(run.steps) for run in runs)
    if len(runs) < folds:
        return Measured(len(runs), requests, Table(title=title, columns=(), rows=()))
    bound = [least(pauses_kept(run.steps)) for run in runs]
    fixed = [_fixed(name, runs) for name in _FIXED]
    better = [min(costs) for costs in zip(*(one.costs for one in fixed), strict=True)]
    ours = [
        _folded("agentaccel", runs, Allowed(keep_alive=True), folds),
        _folded("agentaccel, told of ends", runs, Allowed(keep_alive=True, ends_known=True), folds),
        _folded("agentaccel without keep-alive", runs, Allowed(), folds),
    ]
    rows, broken = [], list[str]()
    for one in (*fixed, *ours):
        over = sorted(cost / least_ for cost, least_ in zip(one.costs, better, strict=True))
        figures = one.total / sum(bound), statistics.median(over), over[min(round(0.9 * len(over)), len(over) - 1)]
        rows.append((one.name, round(one.total), *figures, over[-1], sum(one.kept) / one.total))
        if one in ours[:2]:
            broken += _missed(f"{title}, {one.name}", figures, _BARS[ages])
            broken += [f"{title}, {one.name}: dearer than {other.name}" for other in fixed if one.total > other.total]
    if ours[1].total > ours[0].total:
        broken.append(f"{title}: knowing the ends makes it dearer")
    columns = ("", "cost", "over oracle", "session median", "session p90", "session most", "keeping alive")
    notes = (
        '"session" figures are against the better of the two fixed lifetimes, chosen per session in hindsight',
        '"keeping alive" is the share of the cost that requests of our own are',
        f"the oracle's lower bound is {sum(bound):,.0f} uncached input tokens",
    )
    table = Table(title=title, columns=columns, rows=tuple(rows), notes=notes)
    figure = f"{ours[0].total / sum(bound):.3f}x the oracle under {title[:3]}"
    return Measured(len(runs), requests, table, broken, figure)


def _missed(name: str, figures: tuple[float, float, float], bars: tuple[float, float, float]) -> Iterator[str]:
    for what, figure, bar in zip(("over the oracle", "session median", "session p90"), figures, bars, strict=True):
        if figure > bar:
            yield f"{name}: {what} {figure:.3f} > {bar}"


def _fixed(name: str, runs: Sequence[Run]) -> Outcome:
    usages = [simulate([run], PLACEMENTS[name]).usages[0] for run in runs]
    costs = [cost_of_steps(run.steps, own) for run, own in zip(runs, usages, strict=True)]
    return Outcome(name=name, costs=costs, kept=[0.0] * len(runs))


def _folded(name: str, runs: Sequence[Run], allowed: Allowed, folds: int) -> Outcome:
    costs, kept = [0.0] * len(runs), [0.0] * len(runs)
    for fold in range(folds):
        others = [run for i, run in enumerate(runs) if i % folds != fold]
        learned = accelerate(others, allowed).learned.get(WORKLOAD, Beliefs())
        for i in range(fold, len(runs), folds):
            done = accelerate([runs[i]], allowed, learned=learned)
            kept[i] = cost_of_kept(runs[i], done.kept[0])
            costs[i] = cost_of_steps(runs[i].steps, done.usages[0]) + kept[i]
    return Outcome(name=name, costs=costs, kept=kept)
