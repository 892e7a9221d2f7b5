"""`agentaccel replay`: what recorded conversations cost, and what they would cost under other policies."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from agentaccel.cli.options import format_option, layout, prices_option, progress, read_prices, say, write
from agentaccel.errors import AgentAccelError, TraceError
from agentaccel.facts import lifetimes, platforms
from agentaccel.replay.compare import Column, Compared, Table, columns_of, compare
from agentaccel.replay.pace import pace, paces
from agentaccel.replay.read import read
from agentaccel.replay.source import PROVIDER, Rules
from agentaccel.report.aggregate import unused_prices
from agentaccel.report.numbers import NA, clean, plural, share, short, usd
from agentaccel.report.render import drawn, terminal
from agentaccel.sources.tally import ImportTally

# --- How a comparison of policies looks: on a terminal, and in Markdown -----------------------------------------------

HEADER = ("policy", "hit rate", "read", "written", "input, USD", "to none")
"""Columns of a table; the last is the cost in uncached input tokens as a multiple of what no caching costs."""

Row = tuple[str, ...]


def to_text(found: Sequence[Compared], notes: Sequence[str], width: int, *, color: bool) -> str:
    """Every comparison for a terminal of `width` columns."""
    from rich.table import Table as Grid

    console = terminal(width, color=color)
    for one in found:
        console.print(f"{clean(one.name)}: {_headline(one)}", style="bold")
        for table in one.tables:
            if table.pace is not None:
                console.print(f"  times drawn as {table.pace}", style="cyan")
            grid = Grid(box=None, padding=(0, 2, 0, 0), header_style="dim")
            for i, name in enumerate(HEADER):
                grid.add_column(f"  {name}" if i == 0 else name, justify="right" if i else "left", no_wrap=True)
            for row in _rows(one, table):
                grid.add_row(f"  {row[0]}", *row[1:])
            console.print(grid)
        for note in one.notes:
            console.print(_wrapped(f"note: {clean(note)}", width, "  "), style="yellow")
        console.print()
    for note in (*_pace_notes(found), *notes, _LEGEND):
        console.print(_wrapped(f"note: {clean(note)}", width, ""), style="yellow")
    return drawn(console)


def to_markdown(found: Sequence[Compared], notes: Sequence[str]) -> str:
    """Every comparison for a pull request or a page."""
    parts = ["# agentaccel replay"]
    for one in found:
        parts += [f"## {_plain(one.name)}", _plain(_headline(one))]
        for table in one.tables:
            if table.pace is not None:
                parts.append(f"Times drawn as {_plain(table.pace)}:")
            rule = ("---", *("--:" for _ in HEADER[1:]))
            rows = (HEADER, rule, *_rows(one, table))
            parts.append("\n".join(f"| {' | '.join(row)} |" for row in rows))
        if one.notes:
            parts.append("\n".join(f"- {_plain(note)}" for note in one.notes))
    parts.append("\n".join(f"- {_plain(note)}" for note in (*_pace_notes(found), *notes, _LEGEND)))
    return "\n\n".join(parts) + "\n"


_LEGEND = (
    "policies take the place of a request's own markers, agentaccel adds to them; input alone is priced, at the latest "
    "prices known of the models whose rules are applied; best is the cheapest plan that was found in hindsight, and "
    "after > stands what no plan can be cheaper than"
)


def _headline(one: Compared) -> str:
    models = ", ".join(f"{clean(name)} ({count:,})" for name, count in sorted(one.models.items()))
    parts = (plural(one.sessions, "session"), plural(one.requests, "request"), f"{short(one.tokens)} input tokens")
    return f"{', '.join(parts)}, {models}"


def _pace_notes(found: Sequence[Compared]) -> list[str]:
    """What stands behind the names of the paces that were used."""
    names = dict.fromkeys(table.pace for one in found for table in one.tables if table.pace is not None)
    return [f"{name}: {pace(name).why}" for name in names]


def _rows(one: Compared, table: Table) -> list[Row]:
    none = table.column("none").units
    return [_row(column, one.tokens, none) for column in table.columns]


def _row(column: Column, tokens: int, none: float | None) -> Row:
    rate = column.read / tokens if column.read is not None and tokens else None
    written = sum(column.write.values()) if column.write is not None else None
    return (column.name, share(rate), short(column.read), short(written), usd(column.usd), _to_none(column, none))


def _to_none(column: Column, none: float | None) -> str:
    if column.units is None or not none:
        return NA
    bound = f" >{column.bound / none:.3f}" if column.bound is not None else ""
    return f"{column.units / none:.3f}{bound}"


def _wrapped(text: str, width: int, indent: str) -> str:
    return textwrap.fill(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return "".join(f"\\{char}" if char in "\\`*_{}[]<>|#" else char for char in clean(text))


UNKNOWN = "in no format that a replay knows"
"""What is said of a file that holds no conversations that can be read."""


@click.command("replay")
@click.argument("traces", nargs=-1, required=True, metavar="TRACES...", type=click.Path(path_type=Path))
@click.option("--model", help="Replay under the rules of this model; by default of the recorded one.")
@click.option(
    "--platform",
    type=click.Choice(platforms(PROVIDER)),
    help="Replay under the rules of this platform; by default of the recorded one.",
)
@click.option(
    "--ttl",
    type=click.Choice(("auto", *lifetimes(PROVIDER))),
    default="auto",
    help="Lifetime that agentaccel asks for.",
)
@click.option(
    "--gaps",
    type=click.Choice([one.name for one in paces()]),
    help="Draw times that are not recorded from this stated pace; by default from each.",
)
@click.option("--seed", type=int, default=0, help="Seed of the drawn times.")
@format_option
@prices_option
def replay_command(
    traces: tuple[Path, ...],
    model: str | None,
    platform: str | None,
    ttl: str,
    gaps: str | None,
    seed: int,
    form: str,
    price_file: Path | None,
) -> None:
    """Show what recorded conversations cost, and what they would cost under other policies.

    TRACES are files and folders of agent runs, session logs or prefix traces, or trace stores. They are replayed in
    virtual time through the planner and a model of the provider's cache; nothing is sent.
    """
    try:
        rules, prices, tally = Rules(model=model, platform=platform), read_prices(price_file), ImportTally()
        chosen = [one for one in paces() if gaps in (None, one.name)]
        with progress() as told:
            sources = read(traces, rules, tally, lambda done, total: told("reading", done, total))
            if not sources:
                none = "there is no request in these files"
                raise TraceError("; ".join((*tally.notes(UNKNOWN), *rules.left_out())) or none)
            total, done = sum(columns_of(source, chosen) for source in sources), 0

            def tell() -> None:
                nonlocal done
                done += 1
                told("replaying", done, total)

            found = [compare(one, chosen, seed=seed, ttl=ttl, prices=prices, tell=tell) for one in sources]
        models = {name for one in found for name in one.models}
        notes = [*tally.notes(UNKNOWN), *unused_prices(prices or {}, models, models)]
    except AgentAccelError as error:
        say(f"agentaccel replay: {error}", err=True)
        sys.exit(2)
    write(_shown(found, notes, form))


def _shown(found: list[Compared], notes: list[str], form: str) -> str:
    if form == "json":
        return json.dumps({"sources": [asdict(one) for one in found], "notes": notes}, indent=2) + "\n"
    if form == "markdown":
        return to_markdown(found, notes)
    width, color = layout()
    return to_text(found, notes, width, color=color)
