"""What our own work costs, all of it: planning a turn, a wrapped call, an open session, a report on logs. Runs the
benchmarks `planner`, `overhead`, `memory` and `logs` one after another; the figures of README and documentation come
from here.
"""

from __future__ import annotations

import importlib
from dataclasses import replace

import click

from benchmarks.registry import Cell, Result, Table, benchmark

PARTS = ("planner", "overhead", "memory", "logs")


@benchmark()
@click.option("--quick", is_flag=True, help="Few rounds and small files: to see that it runs.")
def speed(quick: bool) -> Result:
    found = {name: _run(name, quick) for name in PARTS}
    rows: tuple[tuple[Cell, ...], ...] = tuple((name, result.n, result.figure) for name, result in found.items())
    tables = tuple(table for result in found.values() for table in result.tables)
    return Result(
        figure=" ".join(result.figure for result in found.values()),
        inputs={f"{name}, {what}": value for name, result in found.items() for what, value in result.inputs.items()},
        n=min(result.n for result in found.values()),
        tables=(*tables, Table(title="Figures", columns=("benchmark", "n", "figure"), rows=rows)),
        broken=tuple(sentence for result in found.values() for sentence in result.broken),
    )


def _run(name: str, quick: bool) -> Result:
    """One benchmark with its own defaults, or with the smallest of them."""
    measure = importlib.import_module(f"benchmarks.{name}").measure
    result = measure(quick=quick)
    assert isinstance(result, Result)
    return replace(result, broken=tuple(f"{name}: {sentence}" for sentence in result.broken))
