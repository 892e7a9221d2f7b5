"""How often the next tool call is guessed exactly, and how many read-only calls guesses would have served.

On recorded runs in the normalised format, against a joint baseline that is rebuilt here (`baseline/`), paired, with
intervals by a bootstrap over tasks. Folds by task learn from four fifths of the tasks and judge the rest; `split` is
one such round; `online` learns each run after judging it. Beside each stands the same with one run per task, since
runs of one task are near copies.

A call is exact if its tool and all its arguments are, but for those that do not change what it returns (`calls.toml`).
Results are served with persistence: a launched result is kept until the next call of the run that may write. Our
threshold of launching is chosen on other folds, at no more waste per hit than the baseline has there. Folds are dealt
several times where calls can be guessed at all: the first dealing is shown by itself, and what should hold is asked of
the means over all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from agentaccel.errors import TraceError
from benchmarks.registry import Cell, Result, Table, benchmark
from benchmarks.speculation.judge import Judge
from benchmarks.speculation.outcome import Outcome, outcome
from benchmarks.speculation.protocols import Protocol, one_per_task
from benchmarks.speculation.read import Source, read_sources
from benchmarks.speculation.statements import BETTER, broken

WHOLE, SINGLE = "all runs", "one run per task"

DEALINGS = 3
"""Which tasks share a fold moves what is served by several points, more than its interval says."""


@benchmark()
@click.option(
    "--traces",
    type=click.Path(path_type=Path),
    envvar="AGENTACCEL_TRACES",
    required=True,
    help="A folder of recorded runs, or one file of them; by default AGENTACCEL_TRACES.",
)
@click.option(
    "--protocol",
    type=click.Choice(["split", "online", "folds"]),
    default="folds",
    show_default=True,
    help="What is learned and what is judged.",
)
@click.option(
    "--dealings",
    type=click.IntRange(min=1),
    default=DEALINGS,
    show_default=True,
    help="So many times folds are dealt where calls can be guessed at all; what came of all is shown beside the first.",
)
@click.option("--only", multiple=True, metavar="SOURCE", help="Only this source; may be given more than once.")
def run(traces: Path, protocol: Protocol, dealings: int, only: tuple[str, ...]) -> Result:
    try:
        sources = read_sources(traces)
    except TraceError as error:
        raise click.UsageError(str(error)) from None
    unknown = set(only) - {source.name for source in sources}
    if unknown:
        names = ", ".join(source.name for source in sources)
        raise click.UsageError(f"{traces} has no source {', '.join(sorted(unknown))}; it has {names}")
    chosen = [source for source in sources if not only or source.name in only]
    whole, single, dealt = list[Outcome](), list[Outcome](), list[Outcome]()
    for source in chosen:
        judge = Judge()
        click.echo(f"{source.name}: {len(source.runs)} runs, {protocol} …", err=True)
        judged = judge.judged(source.runs, protocol)
        if not judged:
            tasks = len(one_per_task(source.runs))
            raise click.UsageError(f"{source.name}: {protocol} leaves nothing to judge of {tasks} tasks")
        whole.append(outcome(source.name, judged))
        single.append(_single(source, judge, protocol, whole[-1]))
        further = range(1, dealings) if protocol == "folds" and whole[-1].predictable else ()
        again = [one for dealing in further for one in judge.judged(source.runs, protocol, dealing)]
        dealt.append(outcome(source.name, [*judged, *again]) if again else whole[-1])
    return Result(
        figure=_figure(whole),
        inputs={"protocol": protocol, "sources": len(chosen), "tasks": sum(one.tasks for one in whole)},
        n=sum(one.runs for one in whole),
        tables=(
            *(_exact(title, found) for title, found in ((WHOLE, whole), (SINGLE, single))),
            *(_served(title, found) for title, found in ((WHOLE, whole), (SINGLE, single))),
            *((_dealt(often, dealings),) if (often := [one for one in dealt if one not in whole]) else ()),
            _points(whole),
            _calibration(whole),
        ),
        broken=tuple(broken(dealt)) if protocol == "folds" else (),
    )


def _single(source: Source, judge: Judge, protocol: Protocol, whole: Outcome) -> Outcome:
    runs = one_per_task(source.runs)
    return whole if len(runs) == len(source.runs) else outcome(source.name, judge.judged(runs, protocol))


def _figure(outcomes: Sequence[Outcome]) -> str:
    told = [
        f"{one.source} {100 * top.ours / top.of:.1f} % (baseline {100 * top.theirs / top.of:.1f} %)"
        for one in outcomes
        if one.predictable
        for top in [one.measures["exact top-1"]]
    ]
    return f"The first guess is exactly the next call in {', '.join(told) or 'no source to speak of'} of turns."


def _exact(title: str, outcomes: Sequence[Outcome]) -> Table:
    rows = list[tuple[Cell, ...]]()
    for one in outcomes:
        for name, found in one.measures.items():
            shares = (100 * found.ours / found.of, 100 * found.theirs / found.of)
            rows.append((one.source, name, found.of, found.ours, found.theirs, *shares, *(100 * x for x in found.by)))
    return Table(
        title=f"Guesses, {title}",
        columns=("", "measure", "of", "ours", "baseline", "ours %", "baseline %", "difference", "low", "high"),
        rows=tuple(rows),
        notes=(
            "exact: a turn with calls counts as hit if one of its calls is among the guesses; per call beside it",
            "difference in points, with the 95 % interval of a bootstrap over tasks",
            "resource: the path or address that a read-only call names; the baseline guesses those named last",
        ),
    )


def _served(title: str, outcomes: Sequence[Outcome]) -> Table:
    rows = list[tuple[Cell, ...]]()
    for one in outcomes:
        ours, theirs = one.ours, one.theirs
        share = 100 * ours.launches / one.always if one.always else None
        shown = (one.least, ours.launches, ours.served, ours.waste)
        rows.append((one.source, ours.reads, *shown, theirs.launches, theirs.served, theirs.waste, one.always, share))
    return Table(
        title=f"Read-only calls served with persistence, {title}",
        columns=(
            *("", "calls", "our threshold", "launches", "served", "waste per hit"),
            *("baseline's launches", "served", "waste per hit", "always-launch", "ours % of that"),
        ),
        rows=tuple(rows),
        notes=(
            "the baseline launches at most three calls a turn, from a probability of 0.1 on; we have no such limit",
            "ours launches by p / (p + 1 - soon): what launching now rather than a turn later gains, against its waste",
            "the product knows latencies and prices, too, and weighs seconds: see agentaccel.predict.launch",
            "always-launch: how often a policy would launch that launches its first guess before every turn",
        ),
    )


def _dealt(outcomes: Sequence[Outcome], dealings: int) -> Table:
    rows = list[tuple[Cell, ...]]()
    for one in outcomes:
        for name in BETTER:
            if (found := one.measures.get(name)) is not None:
                means = [round(count / dealings, 1) for count in (found.of, found.ours, found.theirs)]
                waste = (one.ours.waste, one.theirs.waste) if name == "served" else (None, None)
                rows.append((one.source, name, *means, *(100 * x for x in found.by), *waste))
    return Table(
        title=f"Means over {dealings} dealings of the tasks into folds, {WHOLE}",
        columns=(
            "",
            "measure",
            "of",
            "ours",
            "baseline",
            "difference",
            "low",
            "high",
            "our waste per hit",
            "baseline's",
        ),
        rows=tuple(rows),
        notes=(
            "the bootstrap draws tasks, each with what came of it in every dealing",
            "what should hold is asked of these means",
        ),
    )


def _points(outcomes: Sequence[Outcome]) -> Table:
    rows = list[tuple[Cell, ...]]()
    for one in outcomes:
        for found in one.points:
            n, reads = found.launches, one.theirs.reads
            shares = [100 * came / n if n else None for came in (found.hits, found.within)]
            covered = 100 * found.hits / reads if reads else None
            rows.append((one.source, found.name, n, found.hits, *shares, reads, covered))
    return Table(
        title="The baseline's launches for the next turn alone",
        columns=("", "point", "launches", "hits", "hit %", "within 5 %", "calls", "covered %"),
        rows=tuple(rows),
        notes=(
            "a turn that ends in text is one in which every launch misses",
            "predictors that state different probabilities are compared at the same number of launches: the surest n",
        ),
    )


def _calibration(outcomes: Sequence[Outcome]) -> Table:
    return Table(
        title="Expected calibration error of stated probabilities, ten bins",
        columns=("", "of", "ours", "baseline"),
        rows=tuple((one.source, of, *errors) for one in outcomes for of, errors in one.errors.items()),
    )
