"""What agentaccel costs beside the best that could be had, in situations that it does not know: clocks and memories,
tools that come and go, slow tools, pauses, ends, fan-out, edited histories.

Each situation is run with sessions of several lengths, by the rules of several platforms, from several seeds. The cost
of a session after five others of its workload is set beside the oracle's, which is told the future and may do the same
under the same consents; beside what the first session costs, and what five policies do that need no planner. Costs are
in uncached input tokens, requests of our own included. Where the oracle is a lower bound and no plan, the row says so,
and the ratio is too high rather than too low. Situations without chance are run once: every seed costs the same.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from benchmarks.parallel import spread
from benchmarks.registry import Cell as Shown
from benchmarks.registry import Result, Table, benchmark
from benchmarks.situations.bars import BARS, SHARE, Allowance, allowance, draws, kind_of, missed
from benchmarks.situations.form import Situation, grid, load
from benchmarks.situations.grid import Cell, cell

_QUICK = 8
"""Turns of the longest session of a quick run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one process works out at a time."""

    situation: Situation
    length: int
    platform: str
    seed: int

    def __call__(self) -> Cell:
        return cell(self.situation, self.length, self.platform, self.seed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One situation, length and platform, over all seeds."""

    situation: Situation
    length: int
    platform: str
    cells: Sequence[Cell]

    @property
    def name(self) -> str:
        return f"{self.situation.name}, {self.length} turns, {self.platform}"

    @property
    def ratio(self) -> float:
        return statistics.fmean(one.after / one.after_floor.cost for one in self.cells)

    @property
    def trivial(self) -> dict[str, float]:
        """The same for the policies that need no planner."""
        cells = self.cells
        return {
            name: statistics.fmean(one.trivial[name] / one.after_floor.cost for one in cells)
            for name in cells[0].trivial
        }

    @property
    def exact(self) -> float:
        """The share of the seeds whose oracle is exact."""
        return statistics.fmean(one.after_floor.exact for one in self.cells)

    @property
    def lost(self) -> list[float]:
        """By seed, of what a first session may cost more beside `SHARE`, how much it does."""
        return [(one.first - (1 + SHARE) * one.first_floor) / self._allowed(one).tokens for one in self.cells]

    def _allowed(self, one: Cell) -> Allowance:
        return allowance(self.situation, self.length, one.prompt)

    def broken(self) -> Iterator[str]:
        kind = kind_of(self.situation)
        yield from missed(self.name, self.ratio, kind, self.trivial)
        allowed = self._allowed(self.cells[0])
        worst, mean = max(self.lost), statistics.fmean(self.lost) * allowed.tokens / allowed.mean
        for what, figure in ((allowed.what, worst), (f"{allowed.what_mean} in the mean", mean)):
            if figure > 1:
                lost = f"{figure:.2f} times {what}"
                yield f"{self.name}: the first session loses {lost}, beside {SHARE:.0%}"
                break
        if any(one.hasty for one in self.cells):
            yield f"{self.name}: a request of our own before any long pause was seen to end"
        if any(one.after < one.after_floor.cost * (1 - 1e-9) for one in self.cells):
            yield f"{self.name}: agentaccel costs less than the oracle's bound, so that is wrong"


@benchmark()
@click.option(
    "--situations",
    "path",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A TOML file of situations in place of the bundled ones.",
)
@click.option("--seeds", default=20, show_default=True, type=click.IntRange(min=1), help="Of what is random.")
@click.option("--only", multiple=True, metavar="NAME", help="Situations whose name begins so; may be given again.")
@click.option("--length", "lengths", multiple=True, type=int, help="Only sessions of this length; may be given again.")
@click.option("--quick", is_flag=True, help="Few seeds and short sessions, to see that it runs.")
def run(path: Path | None, seeds: int, only: tuple[str, ...], lengths: tuple[int, ...], quick: bool) -> Result:
    chosen = [one for one in (load(path) if path else grid()) if not only or one.name.startswith(only)]
    if not chosen:
        raise click.UsageError("no situation is called so")
    rows = measured(chosen, min(seeds, 2) if quick else seeds, lambda n: n in lengths if lengths else True, quick)
    policies = _policies(rows)
    broken = [sentence for row in rows for sentence in row.broken()]
    if not only and not lengths and not quick:
        broken += [f"in the mean, {name!r} costs {other:.3f} times" for name, mine, other in policies if mine >= other]
    kinds = {kind: [row for row in rows if kind_of(row.situation) == kind] for kind in BARS}
    return Result(
        figure=f"agentaccel costs {statistics.fmean(row.ratio for row in rows):.3f}x the oracle in the mean over all "
        f"rows, {sum(not list(row.broken()) for row in rows)} of {len(rows)} of which hold.",
        inputs={
            "situations": path.name if path else "bundled",
            "of these": len(chosen),
            "seeds": 2 if quick else seeds,
            "sessions before": 5,
            **{f"mean, {kind}": statistics.fmean(row.ratio for row in some) for kind, some in kinds.items() if some},
        },
        n=sum(len(row.cells) for row in rows),
        tables=(_table(rows), _means(policies)),
        broken=tuple(broken),
    )


def measured(chosen: Sequence[Situation], seeds: int, wanted: Callable[[int], bool], quick: bool) -> list[Row]:
    """Every row of `chosen`, in their order, of the lengths that are `wanted`."""
    keys = [
        (one, length, platform)
        for one in chosen
        for length in one.lengths
        for platform in one.platforms
        if wanted(length) and (not quick or length <= _QUICK)
    ]
    jobs = [
        Job(situation=one, length=length, platform=platform, seed=seed)
        for one, length, platform in keys
        for seed in range(seeds if draws(one) else 1)
    ]
    found = dict(zip(jobs_keys(jobs), spread(_work, jobs, at_once=4), strict=True))
    return [
        Row(situation=one, length=length, platform=platform, cells=[
            found[one.name, length, platform, seed] for seed in range(seeds if draws(one) else 1)
        ])
        for one, length, platform in keys
    ]  # fmt: skip


def jobs_keys(jobs: Sequence[Job]) -> list[tuple[str, int, str, int]]:
    return [(job.situation.name, job.length, job.platform, job.seed) for job in jobs]


def _work(job: Job) -> Cell:
    return job()


def _policies(rows: Sequence[Row]) -> list[tuple[str, float, float]]:
    """Each policy that needs no planner: agentaccel's mean over the rows where it is legal, and its own."""
    names = dict.fromkeys(name for row in rows for name in row.trivial)
    found = []
    for name in names:
        there = [row for row in rows if name in row.trivial]
        mine = statistics.fmean(row.ratio for row in there)
        other = statistics.fmean(row.trivial[name] for row in there)
        found.append((name, mine, other))
    return found


def _table(rows: Sequence[Row]) -> Table:
    names = list(dict.fromkeys(name for row in rows for name in row.trivial))
    shown: list[tuple[Shown, ...]] = []
    for row in rows:
        kind, trivial = kind_of(row.situation), row.trivial
        oracle = "exact" if row.exact == 1 else "bound" if row.exact == 0 else f"{row.exact:.0%} exact"
        figures = (row.ratio, BARS[kind], "yes" if not list(row.broken()) else "NO", oracle)
        first = (statistics.fmean(one.first / one.first_floor for one in row.cells), max(row.lost))
        others = [trivial.get(name) for name in names]
        shown.append((row.situation.name, row.length, row.platform, kind, *figures, *first, *others))
    return Table(
        title="After five sessions, as a multiple of the oracle's cost",
        columns=("", "turns", "rules", "chance", "agentaccel", "bar", "met", "oracle", "first", "lost", *names),
        rows=tuple(shown),
        notes=(
            '"first" is the first session of a workload over its oracle',
            '"lost" is what that costs beyond 1.05 times the oracle, as a share of what it may, at the worst seed',
        ),
    )


def _means(policies: Sequence[tuple[str, float, float]]) -> Table:
    return Table(
        title="Means over the rows in which a policy is legal",
        columns=("", "agentaccel", "policy"),
        rows=tuple(policies),
    )
