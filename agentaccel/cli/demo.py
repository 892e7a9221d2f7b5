"""`agentaccel demo`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click


@click.command("demo")
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.option(
    "--store",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("agentaccel-demo.db"),
    show_default=True,
    help="Where to leave the trace store; what is there is replaced.",
)
@click.option(
    "--provider",
    type=click.Choice(["anthropic", "openai"]),
    default="anthropic",
    show_default=True,
    help="Whose SDK the desk is written with.",
)
def demo_command(as_json: bool, store: Path, provider: str) -> None:
    """Run a support desk in five forms: without caching, with automatic caching, with agentaccel.

    Everything runs on this machine, without a key. Exits with 1 if agentaccel is dearer in any form than no caching by
    over the write premiums of its first two prompts, or than automatic caching; where that is what the SDK does by
    itself, as OpenAI's does, than it by over those premiums.
    """
    from agentaccel.demo import show
    from agentaccel.demo.run import run_demo

    terminal = sys.stderr.isatty()

    def progress(what: str) -> None:
        if terminal:
            click.echo(f"\r\x1b[K{what} …", nl=False, err=True)

    results = run_demo(store, progress, provider=provider)
    if terminal:
        click.echo("\r\x1b[K", nl=False, err=True)
    figures = show.as_json(results, store)
    click.echo(
        json.dumps(figures, indent=2) if as_json else show.render(results, store, color=sys.stdout.isatty()), nl=as_json
    )
    sys.exit(0 if figures["ok"] else 1)
