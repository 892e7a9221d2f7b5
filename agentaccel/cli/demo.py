"""`agentaccel demo`."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import NoReturn

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
@click.option("--local", is_flag=True, help="Run it on a real engine with a small open model (126 MB, once).")
@click.option("--all", "all_forms", is_flag=True, help="With --local: all forms, in some ten minutes.")
@click.option("--runs", type=click.IntRange(1), default=1, help="With --local: so many runs of each column, in turn.")
@click.option("--model", type=click.Path(path_type=Path), help="With --local: other weights, a GGUF file.")
def demo_command(
    as_json: bool,
    store: Path,
    provider: str,
    without_consent: bool,
    local: bool,
    all_forms: bool,
    runs: int,
    model: Path | None,
) -> None:
    """Run a support desk in five forms: without caching, with automatic caching, with agentaccel.

    With agentaccel also means with consent to move a clock out of the system prompt and to keep tools in their first
    order; below the table it says where that was used. Everything runs on this machine, without a key. Exits with 1 if
    agentaccel is dearer in any form than no caching by over the write premiums of its first two prompts, or than
    automatic caching; where that is what the SDK does by itself, as OpenAI's does, than it by over those premiums.

    With --local the desk runs on llama.cpp's server, which is started here, as written and with agentaccel; the seconds
    are measured. Exits with 1 if agentaccel has the engine compute more tokens in any form.
    """
    if local:
        _local(as_json, without_consent, all_forms, runs, model)
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


def _local(as_json: bool, without_consent: bool, all_forms: bool, runs: int, model: Path | None) -> NoReturn:
    """The desk on a real engine; ends the process."""
    from agentaccel.cli.options import progress_line, say, write
    from agentaccel.demo.local import CONSENT, FORMS, run_local
    from agentaccel.demo.show_local import local_as_json, render_local
    from agentaccel.errors import AgentAccelError
    from agentaccel.policy import Policy
    from agentaccel.selfhost.tiny import launch_tiny, prepare

    def tell(what: str) -> None:
        if sys.stderr.isatty():
            progress_line(f"{what} …")
        else:
            say(f"{what} …", err=True)

    forms = [form for form in FORMS if form.quick or all_forms]
    try:
        tiny = prepare(model=model, say=tell)
        policy = Policy(strict=True) if without_consent else CONSENT
        start = partial(launch_tiny, tiny)
        results = run_local(start, forms, tell, runs=runs, policy=policy)
    except AgentAccelError as error:
        say(f"agentaccel demo: {error}", err=True)
        sys.exit(2)
    progress_line()
    figures = local_as_json(results)
    write(json.dumps(figures, indent=2) + "\n" if as_json else render_local(results, color=sys.stdout.isatty()))
    sys.exit(0 if figures["ok"] else 1)
