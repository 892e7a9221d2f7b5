"""What running tools early does to the time of whole runs, in virtual time with injected latencies.

On recorded runs (`--traces`), held-out folds by task, by the product's own decision, buffer and memo, as a part of what
a one-step oracle saves: against nothing, memo only, eager dispatch only, two simple predictors, as many random
launches, and guesses that are all wrong; also where early runs take draws of their own, and where real and early runs
share a few slots.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean

import click

from benchmarks.latency import tables
from benchmarks.latency.experiment import AGENTACCEL, OFF, ORACLE, QUICK, SHARES, Limits, Played, played
from benchmarks.latency.foresight import foresee
from benchmarks.latency.setting import START
from benchmarks.latency.tallies import share_of_saving, slowdown
from benchmarks.registry import Result, benchmark
from benchmarks.speculation.protocols import FOLDS
from benchmarks.speculation.read import Source, read_sources

BARS = {0.1: 0.60, 0.2: 0.60, 0.4: 0.70, 0.6: 0.80, 0.8: 0.95}
"""At each tool share, the least part of the oracle's saving, as the mean over the sources that count."""
MOST_WASTE = 3.0
"""Wasted launches for each that is served, on each of those sources."""
MOST_SLOWDOWN = 0.005
"""The upper end of every interval, on every source, with few slots, also where all guesses are wrong."""


@benchmark()
@click.option(
    "--traces",
    type=click.Path(exists=True, path_type=Path),
    envvar="AGENTACCEL_TRACES",
    required=True,
    help="A folder or file of recorded runs; by default AGENTACCEL_TRACES.",
)
@click.option("--draws", default=20, show_default=True, help="Draws of all latencies.")
@click.option("--folds", default=FOLDS, show_default=True, help="Folds by task.")
@click.option("--only", multiple=True, metavar="SOURCE", help="Only this source; may be given several times.")
@click.option(
    "--domains",
    default="customer-service,office",
    show_default=True,
    help="Domains, up to their slash, whose sources count for the bars: typed tools, no shell or browser.",
)
@click.option("--start", default=START, show_default=True, help="Seconds of CPU that each launch is charged.")
@click.option("--quick", is_flag=True, help="Two draws and two folds, to see that it runs.")
def run(traces: Path, draws: int, folds: int, only: tuple[str, ...], domains: str, start: float, quick: bool) -> Result:
    draws, folds = (2, 2) if quick else (draws, folds)
    sources = [one for one in read_sources(traces) if not only or one.name in only]
    if not sources:
        raise click.UsageError(f"{traces} holds no source called {', '.join(only)}")
    all_played = [_played(source, folds, draws, start) for source in sources]
    counted = {source.name for source in sources if _counts(source, domains.split(","))}
    counting = [one for one in all_played if one.name in counted and _can_save(one)]
    broken = [*_missed(counting), *_wasteful(counting), *_slower(all_played), *_no_saving(counting)]
    return Result(
        figure=_figure(counting),
        inputs={
            "sources": ", ".join(one.name for one in sources),
            "that count": ", ".join(one.name for one in counting) or "none",
            "draws": draws,
            "folds": folds,
            "CPU of a launch, ms": 1000 * start,
        },
        n=sum(len(source.runs) for source in sources) * draws * len(SHARES),
        tables=tables.all_of(all_played, counting),
        broken=tuple(broken),
    )


def _played(source: Source, folds: int, draws: int, start: float) -> Played:
    def done() -> None:
        print(".", end="", file=sys.stderr, flush=True)

    print(source.name, end=" ", file=sys.stderr, flush=True)
    found = played(source.name, foresee(source, folds, done), draws=draws, start=start, done=done)
    print(file=sys.stderr)
    return found


def _counts(source: Source, domains: Sequence[str]) -> bool:
    return all(run.workload.partition("/")[0] in domains for run in source.runs)


def _can_save(one: Played) -> bool:
    """Whether the oracle saves anything: a source without reads says nothing."""
    return all(
        cell.arms and cell.arms[ORACLE.name].seconds < cell.arms[OFF.name].seconds for cell in one.cells.values()
    )


def _mean_share(counting: Sequence[Played], share: float, arm: str = AGENTACCEL.name) -> float:
    found = []
    for one in counting:
        arms = one.cells[share].arms
        found.append(share_of_saving((arms[arm].seconds, arms[ORACLE.name].seconds, arms[OFF.name].seconds)))
    return mean(found) if found else 0.0


def _figure(counting: Sequence[Played]) -> str:
    if not counting:
        return "No source counts for the bars."
    reached = ", ".join(f"{_mean_share(counting, share):.2f} at {share}" for share in SHARES)
    return f"Of the one-step oracle's saving agentaccel reaches, by the tools' share of the wall time: {reached}."


def _missed(counting: Sequence[Played]) -> Iterator[str]:
    for share, bar in BARS.items():
        reached = _mean_share(counting, share)
        if counting and reached < bar:
            yield f"at a tool share of {share}, {reached:.2f} of the oracle's saving is reached, not {bar}"


def _wasteful(counting: Sequence[Played]) -> Iterator[str]:
    for one in counting:
        for share, cell in one.cells.items():
            waste = cell.arms[AGENTACCEL.name].waste_per_hit or 0.0
            if waste > MOST_WASTE:
                yield f"{one.name}: at a tool share of {share}, {waste:.1f} launches are wasted for each one served"


def _slower(all_played: Sequence[Played]) -> Iterator[str]:
    for one in all_played:
        for share, cell in one.cells.items():
            for (limits, arm), sums in cell.limited.items():
                without = cell.unhelped[limits.slots].by_task
                _, most = one.resampling.interval(slowdown, sums.by_task, without)
                if most >= MOST_SLOWDOWN:
                    yield f"{one.name}, {arm}, {tables.named(limits)}, tool share {share}: up to {most:.2%} slower"


def _no_saving(counting: Sequence[Played]) -> Iterator[str]:
    limits = Limits(1, QUICK)
    for share in SHARES:
        saving = 0
        for one in counting:
            cell = one.cells[share]
            own, without = cell.limited[limits, AGENTACCEL.name].by_task, cell.unhelped[limits.slots].by_task
            saving += one.resampling.interval(slowdown, own, without)[1] < 0.0
        if counting and saving < min(2, len(counting)):
            yield f"with one slot at a tool share of {share}, only {saving} of {len(counting)} sources save anything"
