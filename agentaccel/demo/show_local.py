"""How the results of the demo on a real engine look: a table and both columns' replies, or JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentaccel.demo.local import BARE, COLUMNS, OURS, TURNS, LocalResult, LocalRun
from agentaccel.report.numbers import clean, share, shorten
from agentaccel.report.render import drawn, terminal


def local_as_json(results: Sequence[LocalResult]) -> dict[str, Any]:
    """Every figure, per form, column and run; tokens, and seconds by this process's clock."""
    return {
        "provider": "llama.cpp",
        "turns": TURNS,
        "forms": [
            {
                "form": result.form.name,
                "columns": {column: [_run(run) for run in runs] for column, runs in result.runs.items()},
                "complaints": result.complaints,
            }
            for result in results
        ],
        "ok": not any(result.complaints for result in results),
    }


def _run(run: LocalRun) -> dict[str, Any]:
    return {
        "prompt": run.prompt,
        "computed": run.computed,
        "seconds_to_first_token": run.first,
        "tokens_per_step": run.tokens_per_step,
        "consents": list(run.consents),
        "replies": [
            {"text": one.text, "prompt": one.prompt, "computed": one.computed, "first": one.first}
            for one in run.replies
        ],
    }


def render_local(results: Sequence[LocalResult], *, width: int = 80, color: bool = False) -> str:
    """The table, and what the model said in both columns; at most 80 columns wide."""
    from rich.table import Table

    runs = max(len(result.runs[BARE]) for result in results)
    table = Table(title=None, box=None, pad_edge=False, header_style="bold")
    table.add_column("the same desk on a real engine")
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for result in results:
        table.add_row(f"{result.form.name}\n[dim]{result.form.what}[/dim]", *(_cell(result, one) for one in COLUMNS))
    console = terminal(width, color=color, markup=True)
    console.print()
    console.print(f"Seconds to the first token over {TURNS} turns a session, and prompt tokens computed.")
    console.print("llama.cpp's server on this machine, SmolLM2-135M unless you gave weights." + _of(runs))
    console.print()
    console.print(table)
    console.print()
    for line in _sentences(results):
        console.print(line, style="bold", highlight=False)
    console.print()
    console.print("What the model said (moving text changes what it reads, so replies may differ):")
    for result in results:
        console.print(f"  {result.form.name}", style="dim")
        for number, pair in enumerate(zip(*(result.runs[one][0].replies for one in COLUMNS), strict=True), 1):
            for column, reply in zip(COLUMNS, pair, strict=True):
                said = shorten(clean(" ".join(reply.text.split())), width - 22)
                console.print(f"    {number:>2} {column:<11}  {said}", markup=False, highlight=False)
    return drawn(console)


def _of(runs: int) -> str:
    return "" if runs == 1 else f"\nSeconds are the median of {runs} runs of each."


def _cell(result: LocalResult, column: str) -> str:
    run = result.runs[column][0]
    tokens = f"{run.computed:,} of {run.prompt:,}"
    won = column == OURS and run.computed < result.runs[BARE][0].computed
    shown = f"[bold green]{tokens}[/bold green]" if won else tokens
    return f"{result.first(column):.1f} s\n{shown}\n[dim]{run.tokens_per_step:.2f} tokens a step[/dim]"


def _sentences(results: Sequence[LocalResult]) -> list[str]:
    """What agentaccel did in each form, a loss in plain words."""
    lines = []
    for result in results:
        bare, ours = (result.runs[column][0].computed for column in COLUMNS)
        used = ", ".join(f"{name}=True" for name in result.runs[OURS][0].consents)
        times = result.first(OURS) / result.first(BARE) if result.first(BARE) else 1.0
        lines.append(
            f"{result.form.name}: {share(ours / bare if bare else None)} of the tokens, {share(times)} of the seconds"
            + (f", with {used}" if used else ": nothing was changed")
        )
    return lines
