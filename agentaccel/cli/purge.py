"""`agentaccel purge`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from agentaccel.cli.options import say, seconds_of
from agentaccel.errors import ConfigError


@click.command("purge")
@click.argument("store", required=False, type=click.Path(path_type=Path))
@click.option("--older-than", required=True, metavar="AGE", help="Such as 90m, 36h, 30d or 2w.")
def purge_command(store: Path | None, older_than: str) -> None:
    """Remove turns and tool calls that are older than AGE from the trace store."""
    from agentaccel.cli.patterns import opened
    from agentaccel.store.database import store_path

    age = seconds_of(older_than)
    if age is None:
        raise ConfigError(f"--older-than is {older_than!r}; give a number and a unit: 90m, 36h, 30d or 2w")
    before = time.time() - age
    path = store_path(store)
    with opened(path) as into:
        gone = into.purge(before)
    say(f"{gone} records removed from {path}")
