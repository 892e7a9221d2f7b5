"""No call of the adversarial corpus is ever run early, and of ordinary reads at least 85 % of each kind could be.

Both corpora are the tests' own (`tests/effects`), over shell, SQL, HTTP and MCP. Beside them stands the share over all
shell calls of recorded sessions that look like reads, whatever follows in their line. Verdicts are about a folder in
which there is no repository, as our executors would run a call. The kinds that strangers found are judged each in a
folder where the pipe or the settings stand, beside a harmless twin. Must show: 0, 85 %; of these kinds 0, and 55 of 60
twins; the share over traces has no bar.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from agentaccel.effects.cases import judge
from agentaccel.effects.places import Surroundings
from agentaccel.sources.lines import SUFFIXES
from benchmarks.registry import Result, Table, benchmark
from tests.effects import sandbox
from tests.effects.corpora import KINDS, READ_LIKE, adversarial, commands_of, reads
from tests.effects.found import KINDS as FOUND
from tests.effects.found import found, verdicts

NOWHERE = Surroundings(cwd=Path("/nowhere/at/all"), home=Path("/nowhere/home"))
LEAST = 0.85
"""Share of ordinary reads, of each kind."""
LEAST_TWINS = 55 / 60


@benchmark()
@click.option(
    "--traces",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    envvar="AGENTACCEL_TRACES",
    help="A folder of recorded traces; by default AGENTACCEL_TRACES.",
)
@click.option(
    "--reasons", is_flag=True, help="Say on standard error which recorded lines that look like reads are not."
)
def run(traces: Path | None, reasons: bool) -> Result:
    hostile, ordinary = adversarial(), reads()
    rows, broken = list[tuple[str, int, int, int, int, float]](), list[str]()
    for kind in KINDS:
        bad = [judge(one.case, NOWHERE).launchable for one in hostile if one.case["kind"] == kind]
        good = [judge(one.case, NOWHERE).launchable for one in ordinary if one.case["kind"] == kind]
        leaked, useful = sum(one != "never" for one in bad), sum(one != "never" for one in good)
        rows.append((kind, len(bad), leaked, len(good), useful, useful / len(good)))
        broken += [f"{leaked} adversarial calls of {kind} could be run early"] if leaked else []
        broken += [f"only {useful} of {len(good)} reads of {kind} could be"] if useful < LEAST * len(good) else []
    columns = ("kind", "adversarial", "not never", "reads", "not never", "share")
    kinds = _found()
    broken += [f"{row[2]} cases of {row[0]} could be run early" for row in kinds if row[2]]
    broken += [f"only {row[3]} twins of {row[0]} could be" for row in kinds if row[3] < LEAST_TWINS * row[1]]
    tables = [
        Table(title="Verdicts", columns=columns, rows=tuple(rows)),
        Table(
            title="Kinds that strangers found", columns=("kind", "cases", "not never", "twins not never"), rows=kinds
        ),
    ]
    if traces is not None:
        of = ("source", "shell calls", "look like reads", "not never", "share")
        tables.append(Table(title="Shell calls of recorded sessions", columns=of, rows=_recorded(traces, reasons)))
    leaks, share = sum(row[2] for row in rows), sum(row[4] for row in rows) / len(ordinary)
    figure = f"{leaks} of {len(hostile):,} adversarial calls and {share:.1%} of {len(ordinary):,} reads could be early."
    cases, early, twins = sum(row[1] for row in kinds), sum(row[2] for row in kinds), sum(row[3] for row in kinds)
    figure += f" Of {cases} cases that strangers found, {early} could be, and {twins} of their twins."
    inputs = {"corpora": "tests/effects", "traces": str(traces) if traces is not None else None}
    return Result(
        figure=figure, inputs=inputs, n=len(hostile) + len(ordinary) + cases, tables=tuple(tables), broken=tuple(broken)
    )


def _found() -> tuple[tuple[str, int, int, int], ...]:
    with TemporaryDirectory() as folder:
        work, home = sandbox.furnished(Path(folder))
        judged = [(one.kind, *verdicts(one, work, home)) for one in found()]
    counted = []
    for name in FOUND:
        of = [(case.launchable != "never", twin.launchable != "never") for kind, case, twin in judged if kind == name]
        counted.append((name, len(of), sum(case for case, _ in of), sum(twin for _, twin in of)))
    return tuple(counted)


def _recorded(traces: Path, reasons: bool) -> tuple[tuple[str, int, int, int, float | None], ...]:
    rows, why = list[tuple[str, int, int, int, float | None]](), Counter[str]()
    for source in sorted(path for path in traces.iterdir() if path.name.endswith(SUFFIXES)):
        texts = commands_of(source)
        like = [text for text in texts if READ_LIKE.match(text)]
        verdicts = [judge({"kind": "shell", "input": {"command": text}}, NOWHERE) for text in like]
        useful = sum(one.launchable != "never" for one in verdicts)
        why.update(one.evidence[0].why for one in verdicts if one.launchable == "never")
        if texts:
            rows.append((source.name.partition(".")[0], len(texts), len(like), useful, useful / max(len(like), 1)))
    if reasons:
        sys.stderr.writelines(f"{count:>5}  {reason}\n" for reason, count in why.most_common(40))
    return tuple(rows)
