"""`agentaccel replay`: what recorded conversations cost, and what they would cost under other policies."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import click

from agentaccel.cli.bar import progress
from agentaccel.cli.options import format_option, layout, prices_option, read_prices, say, write
from agentaccel.cli.replay_text import to_markdown, to_text
from agentaccel.errors import AgentAccelError, TraceError
from agentaccel.facts import lifetimes, platforms
from agentaccel.replay.compare import Compared, columns_of, compare
from agentaccel.replay.pace import paces
from agentaccel.replay.read import read
from agentaccel.replay.source import PROVIDER, Rules
from agentaccel.report.aggregate import unused_prices
from agentaccel.trace.tally import ImportTally

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
