"""What our own work costs, all of it: planning a turn, a wrapped call, an open session, a report on logs. Runs the
benchmarks `planner`, `overhead`, `memory` and `logs` one after another; the figures of README and documentation come
from here.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace

import click

from benchmarks.registry import Cell, Result, Table, benchmark

PARTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "planner": ("planner", {}),
    "overhead": ("overhead", {}),
    "overhead openai": ("overhead", {"provider": "openai"}),
    "memory": ("memory", {}),
    "logs": ("logs", {}),
}
"""Benchmarks by what they are called here, each with its module and what it is asked for."""


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
    module, asked = PARTS[name]
    result = importlib.import_module(f"benchmarks.{module}").measure(quick=quick, **asked)
    assert isinstance(result, Result)
    return replace(result, broken=tuple(f"{name}: {sentence}" for sentence in result.broken))
