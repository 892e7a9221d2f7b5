"""What agentaccel's markers cost, as a multiple of the best that a clairvoyant could have sent.

For every bundled situation and every source of recorded traces: what the input costs with agentaccel, with five
policies that need no planner, and with the oracle's plan, all against the same simulated provider. Costs are shown as
multiples of the oracle's. Where the oracle's plan is not proven to be the cheapest, the column "proven" says how much
of its cost the lower bound reaches: a cheaper plan saves at most the rest.

Sources are all that `--traces` holds and that are conversations; single exchanges (`wire/`) are left out, since a
workload of one request has nothing to read again. Conversations without times are placed in time at each of the
stated paces. No policy may cost less than the bound, and over its paces no recorded source may cost more with
agentaccel than with the cheapest of the five policies at each, chosen in hindsight: the benchmark then exits with 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

import click

from agentaccel.replay.compare import cost_of_steps
from agentaccel.replay.hindsight import Best, best
from agentaccel.replay.pace import paces, placed
from agentaccel.replay.placements import PLACEMENTS, as_recorded
from agentaccel.replay.read import read
from agentaccel.replay.runs import Run, Step
from agentaccel.replay.simulate import Simulated, accelerate, in_order, simulate
from agentaccel.replay.source import Rules, Source
from agentaccel.sources.logs import ImportTally
from agentaccel.types import Usage
from benchmarks.registry import Cell, Result, Table, benchmark
from benchmarks.situations import bundled, load, runs

NOT_WORKLOADS = ("wire",)
"""Folders of a trace collection that hold no conversations."""

OURS, WRITTEN, SHORTEST = "agentaccel", "as written", "oracle 5m"

_NOISE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One source or situation under every policy."""

    name: str
    pace: str
    """Where its times come from: "recorded", "stated" by a situation, or the name of a pace."""
    sessions: int
    requests: int
    tokens: int
    hits: Mapping[str, float]
    """By policy, the share of input tokens that were read; "best" is the oracle's."""
    costs: Mapping[str, float]
    """By policy, in uncached input tokens."""
    bound: float
    exact: bool

    @property
    def over(self) -> float:
        """The cost of agentaccel as a multiple of the oracle's."""
        return self.costs[OURS] / self.costs["best"] if self.costs["best"] else 1.0

    @property
    def simple(self) -> float:
        """The cost of the cheapest policy that needs no planner, chosen in hindsight."""
        return min(self.costs[name] for name in PLACEMENTS)

    def beaten(self) -> Iterator[str]:
        """Policies below the bound; those that take the author's markers away are no plan of the oracle's."""
        kept = {OURS, WRITTEN} if WRITTEN in self.costs else set(self.costs)
        for name in sorted(kept):
            if self.costs[name] < self.bound * (1 - _NOISE):
                yield f"{name} costs {self.costs[name]:,.0f} in {self.name!r}, less than the bound {self.bound:,.0f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A recorded source at all of its paces, in uncached input tokens."""

    name: str
    at: tuple[Outcome, ...]
    """One for each pace, or the one that was recorded."""

    @property
    def ours(self) -> float:
        """With agentaccel."""
        return sum(one.costs[OURS] for one in self.at)

    @property
    def simple(self) -> float:
        """With the cheapest policy of each pace that needs no planner."""
        return sum(one.simple for one in self.at)

    @property
    def dearest(self) -> Outcome:
        """The pace at which agentaccel does worst beside that policy."""
        return max(self.at, key=lambda one: one.costs[OURS] - one.simple)

    def dearer(self) -> Iterator[str]:
        """That a policy which needs no planner would have done as well for less."""
        if self.ours > self.simple * (1 + _NOISE):
            yield f"agentaccel costs {self.ours:,.0f} in {self.name!r}, and simple policies {self.simple:,.0f}"


def outcome(name: str, pace: str, given: Sequence[Run]) -> Outcome:
    """Every policy on `given`."""
    sessions = [_forward(run) for run in given]
    steps = [step for run in sessions for step in run.steps]
    usages = {policy: _flat(simulate(sessions, placement)) for policy, placement in PLACEMENTS.items()}
    if any(step.marks for step in steps):
        usages[WRITTEN] = _flat(simulate(sessions, as_recorded))
    usages[OURS] = _flat(accelerate(sessions))
    found = _best(sessions)
    usages["best"] = found.usages
    usages[SHORTEST] = _best(sessions, shortest=True).usages
    total = sum(step.total for step in steps)
    return Outcome(
        name=name,
        pace=pace,
        sessions=len(sessions),
        requests=len(steps),
        tokens=total,
        hits={policy: sum(usage.read or 0 for usage in all_) / max(total, 1) for policy, all_ in usages.items()},
        costs={policy: cost_of_steps(steps, all_) for policy, all_ in usages.items()},
        bound=found.bound,
        exact=found.exact,
    )


def _best(sessions: Sequence[Run], *, shortest: bool = False) -> Best:
    """The oracle, told requests in the order in which they are served; its usages in the order of the sessions.

    With `shortest`, its markers have the shortest lifetime only.
    """
    order = list(in_order(sessions))
    steps = [sessions[run].steps[number] for run, number in order]
    ttls = sorted({step.prefix.facts.ttls[0].label for step in steps}) if shortest else None
    found = best(steps, ttls=ttls)
    by_place = {place: i for i, place in enumerate(order)}
    places = [(run, number) for run, session in enumerate(sessions) for number in range(len(session.steps))]
    return replace(found, usages=tuple(found.usages[by_place[place]] for place in places))


def _forward(run: Run) -> Run:
    """`run` with times that never go back: a session's requests are served in their order."""
    steps: list[Step] = []
    for step in run.steps:
        started = max(step.started, steps[-1].started) if steps else step.started
        steps.append(replace(step, started=started, visible=max(step.visible, started)))
    return replace(run, steps=tuple(steps))


def _flat(simulated: Simulated) -> tuple[Usage, ...]:
    return tuple(usage for run in simulated.usages for usage in run)


def of_source(source: Source) -> Iterator[Outcome]:
    """A recorded source as it was, or at each of the stated paces."""
    if not source.untimed:
        yield outcome(source.name, "recorded", source.runs)
        return
    for pace in paces():
        yield outcome(source.name, pace.name, placed(source.runs, source.untimed, pace, seed=0))


@benchmark()
@click.option(
    "--traces",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    envvar="AGENTACCEL_TRACES",
    help="A folder of recorded traces; by default AGENTACCEL_TRACES.",
)
@click.option(
    "--situations",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A TOML file of situations in place of the bundled ones.",
)
def run(traces: Path | None, situations: Path | None) -> Result:
    chosen = load(situations) if situations else bundled()
    synthetic = [outcome(one.name, "stated", runs(one)) for one in chosen]
    tally = ImportTally()
    inside = sorted(path for path in traces.iterdir() if path.name not in NOT_WORKLOADS) if traces else []
    inside = [path for path in inside if path.is_dir() or ".json" in path.name]
    recorded = [one for source in read(inside, Rules(), tally) for one in of_source(source)]
    whole = [Whole(name=name, at=tuple(at)) for name, at in groupby(recorded, key=lambda one: one.name)]
    everything = [*synthetic, *recorded]
    worst = max(everything, key=lambda one: one.over)
    return Result(
        figure=f"agentaccel costs {_mean(synthetic):.3f}x the oracle over the situations"
        + (f", {_mean(recorded):.3f}x over the traces" if recorded else "")
        + f" (geometric means); the most is {worst.over:.3f}x in {worst.name!r}.",
        inputs={
            "situations": str(situations.name) if situations else "bundled",
            "traces": "given" if traces else None,
            "left out": ", ".join(NOT_WORKLOADS) + " (single exchanges)",
            "requests per policy": sum(one.requests for one in everything),
        },
        n=len(everything),
        tables=(
            *(
                table
                for title, rows in (("Situations", synthetic), ("Recorded traces", recorded))
                if rows
                for table in (_multiples(title, rows), _hits(title, rows))
            ),
            *([_sources(whole)] if whole else []),
        ),
        broken=(
            *(sentence for one in everything for sentence in one.beaten()),
            *(sentence for one in whole for sentence in one.dearer()),
        ),
    )


def _mean(outcomes: Sequence[Outcome]) -> float:
    """The geometric mean of what agentaccel costs over the oracle."""
    product = 1.0
    for one in outcomes:
        product *= one.over ** (1 / len(outcomes))
    return product


def _multiples(title: str, outcomes: Sequence[Outcome]) -> Table:
    shown = [*PLACEMENTS, WRITTEN, OURS, SHORTEST]
    rows = []
    for one in outcomes:
        least = one.costs["best"] or 1.0
        costs: list[Cell] = [one.costs[name] / least if name in one.costs else None for name in shown]
        rows.append((one.name, one.pace, one.requests, round(least), *costs, one.bound / least))
    return Table(
        title=f"{title}: input cost as a multiple of the oracle's",
        columns=("", "times", "requests", "oracle", *shown, "proven"),
        rows=tuple(rows),
        notes=(
            '"oracle" is in uncached input tokens; "proven" is the lower bound as a share of it',
            '"oracle 5m" may use the shortest lifetime only: what lies between it and 1 takes the longer one',
            '"as written" are the author\'s own markers, which the oracle and agentaccel keep and the others take away',
        ),
    )


def _sources(sources: Sequence[Whole]) -> Table:
    rows = []
    for one in sources:
        worst = one.dearest
        share = one.ours / one.simple if one.simple else 1.0
        more = round(worst.costs[OURS] - worst.simple)
        rows.append((one.name, len(one.at), round(one.simple), round(one.ours), share, worst.pace, more))
    return Table(
        title="Recorded traces: input cost of a source over its paces, in uncached tokens",
        columns=("", "paces", "simple", "agentaccel", "times", "at worst", "by"),
        rows=tuple(rows),
        notes=(
            '"simple" is the cheapest of the five policies at each pace, chosen in hindsight',
            '"at worst" is the pace at which agentaccel does worst beside it, "by" how many tokens it costs more there',
        ),
    )


def _hits(title: str, outcomes: Sequence[Outcome]) -> Table:
    shown = [*(name for name in PLACEMENTS if name != "none"), WRITTEN, OURS, "best"]
    return Table(
        title=f"{title}: share of input tokens read from the cache",
        columns=("", "times", "sessions", "tokens", *shown),
        rows=tuple(
            (one.name, one.pace, one.sessions, one.tokens, *(one.hits.get(name) for name in shown)) for one in outcomes
        ),
    )
