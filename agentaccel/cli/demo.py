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
    type=click.Path(path_type=Path),
    default=Path("agentaccel-demo.db"),
    show_default=True,
    help="Where to leave the trace store; that of an earlier demo is replaced.",
)
@click.option(
    "--provider",
    type=click.Choice(["anthropic", "openai"]),
    default="anthropic",
    show_default=True,
    help="Whose SDK the desk is written with.",
)
@click.option("--without-consent", is_flag=True, help="Let agentaccel set markers only, and move nothing.")
def demo_command(as_json: bool, store: Path, provider: str, without_consent: bool) -> None:
    """Run a support desk in five forms: without caching, with automatic caching, with agentaccel.

    With agentaccel also means with consent to move a clock out of the system prompt and to keep tools in their first
    order; below the table it says where that was used. Everything runs on this machine, without a key. Exits with 1 if
    agentaccel is dearer in any form than no caching by over the write premiums of its first two prompts, or than
    automatic caching; where that is what the SDK does by itself, as OpenAI's does, than it by over those premiums.
    """
    from agentaccel.cli.options import progress_line, say, write
    from agentaccel.demo import show
    from agentaccel.demo.run import CONSENT, run_demo
    from agentaccel.errors import ConfigError, TraceError
    from agentaccel.policy import CachePolicy

    cache = CachePolicy() if without_consent else CONSENT
    try:
        results = run_demo(store, lambda what: progress_line(f"{what} …"), provider=provider, cache=cache)
    except (ConfigError, TraceError) as error:
        say(f"agentaccel demo: {error}", err=True)
        sys.exit(2)
    progress_line()
    figures = show.as_json(results, store)
    write(json.dumps(figures, indent=2) + "\n" if as_json else show.render(results, store, color=sys.stdout.isatty()))
    sys.exit(0 if figures["ok"] else 1)
