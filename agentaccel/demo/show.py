"""How the demo's results look: a table for people, JSON for programs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentaccel.demo.desk import TURNS
from agentaccel.demo.run import COLUMNS, OURS, DemoRun, FormResult
from agentaccel.report.render import drawn, terminal
from agentaccel.types import Usage


def hit_rate(run: DemoRun) -> float:
    """Cache reads over all input tokens."""
    return (run.usage.read or 0) / (run.usage.input or 1)


def as_json(results: Sequence[FormResult], store: Path) -> dict[str, Any]:
    """Every figure of the demo, per form and column; costs in USD of input."""
    return {
        "model": results[0].vendor.model,
        "provider": "emulator",
        "sdk": results[0].vendor.provider,
        "turns": TURNS,
        "store": str(store),
        "forms": [
            {
                "form": result.form.name,
                "columns": {
                    column: {
                        "cost": run.cost,
                        "hit_rate": hit_rate(run),
                        **_tokens(run.usage),
                        "first_two_premium": run.first_two_premium,
                        "earlier": [_tokens(usage) for usage in run.earlier],
                    }
                    for column, run in result.runs.items()
                },
                "consents": list(result.runs[OURS].consents),
                "complaints": result.complaints,
            }
            for result in results
        ],
        "dearer_than_none": {column: dearer_than_none(results, column) for column in COLUMNS[1:]},
        "ok": not any(result.complaints for result in results),
    }


def dearer_than_none(results: Sequence[FormResult], column: str) -> list[str]:
    """The forms in which `column` costs more than no caching: what it writes is not read."""
    costs = {result.form.name: (result.runs[column].cost, result.runs[COLUMNS[0]].cost) for result in results}
    return [name for name, (cost, none) in costs.items() if cost > none * (1 + 1e-9)]


def verdict(results: Sequence[FormResult]) -> str:
    """What the table shows, in one sentence."""
    automatic, ours = (len(dearer_than_none(results, column)) for column in COLUMNS[1:])
    return (
        f"Automatic caching costs more than no caching in {automatic or 'none'} of {len(results)}, "
        f"{OURS} in {ours or 'none'}."
    )


def _tokens(usage: Usage) -> dict[str, int | None]:
    return {"input": usage.input, "read": usage.read, "write": usage.written, "uncached": usage.uncached}


def render(results: Sequence[FormResult], store: Path, *, width: int = 80, color: bool = False) -> str:
    """The table, at most 80 columns wide."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=None, box=None, pad_edge=False, header_style="bold")
    table.add_column("the same desk, in five forms")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for result in results:
        best = min(run.cost for run in result.runs.values())
        cells = [_cell(result.runs[column], best) for column in COLUMNS]
        table.add_row(f"{result.form.name}\n[dim]{result.form.what}[/dim]", *cells)
    console = terminal(width, color=color, markup=True)
    console.print()
    console.print(f"Input cost in US cents and cache hit rate, {TURNS} turns each.")
    console.print(f"{results[0].vendor.model} at list price; provider: the bundled emulator.")
    console.print("Every column did exactly the same work.")
    console.print()
    console.print(table)
    console.print()
    console.print(verdict(results), style="bold")
    console.print()
    for line in _consents(results):
        console.print(line)
    for complaint in (one for result in results for one in result.complaints):
        console.print(f"[red]not as promised:[/red] {escape(complaint)}")
    console.print("Why each token was read or not:")
    console.print(f"  {escape(_command())} report {escape(str(store))} --causes", soft_wrap=True)
    return drawn(console)


def _command() -> str:
    """How `agentaccel` is started here: by its name, or by where it lies."""
    here, beside = Path.cwd(), Path(sys.executable).with_name("agentaccel")
    if shutil.which("agentaccel") is not None or not beside.exists():
        return "agentaccel"
    return str(beside.relative_to(here) if beside.is_relative_to(here) else beside)


def _consents(results: Sequence[FormResult]) -> list[str]:
    """Which consents were used, and where; nothing where none was."""
    forms: dict[str, list[str]] = {}
    for result in results:
        for name in result.runs[OURS].consents:
            forms.setdefault(name, []).append(result.form.name)
    if not forms:
        return []
    used = [f"  {name}=True for {', '.join(where)}" for name, where in forms.items()]
    return [f"Consents that {OURS} used (CachePolicy):", *used, ""]


def _cell(run: DemoRun, best: float) -> str:
    cost = f"{run.cost * 100:.2f} ¢"
    style = "bold green" if run.cost <= best * (1 + 1e-9) else ""
    shown = f"[{style}]{cost}[/{style}]" if style else cost
    return f"{shown}\n[dim]{hit_rate(run):.1%} hits[/dim]"
