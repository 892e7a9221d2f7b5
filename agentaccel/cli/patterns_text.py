"""How learned patterns look on a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from agentaccel.report.numbers import clean
from agentaccel.report.terminal import drawn, terminal
from agentaccel.speculate.show import Shown

NOTHING = "nothing was learned yet: agents teach while they run, and `agentaccel learn TRACES...` takes recorded runs\n"


def to_text(shown: Shown, width: int, *, color: bool) -> str:
    """The patterns for a terminal of `width` columns."""
    from rich.table import Table

    if not shown.steps and not shown.patterns:
        return NOTHING
    console = terminal(width, color=color)

    def table(title: str, rows: Iterable[tuple[str, ...]]) -> None:
        grid = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        for row in rows:
            grid.add_row(*(f"  {clean(row[0])}", *map(clean, row[1:])))
        if grid.row_count:
            console.print(title, style="bold")
            console.print(grid)

    table("workloads", ((name.removeprefix("agent "),) for name in shown.workloads))
    table("what comes next", ((one.after, one.then, f"{one.times} of {one.of}") for one in shown.steps))
    table(
        "calls, and where their arguments come from",
        ((f"{one.right} of {one.met}", one.words) for one in shown.patterns),
    )
    table(
        "values that are kept",
        ((f"{one.tool}.{one.argument}", repr(one.value), f"{one.sessions} sessions") for one in shown.values),
    )
    return drawn(console)
