"""`agentaccel purge`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from agentaccel.cli.options import seconds_of
from agentaccel.errors import ConfigError, TraceError


@click.command("purge")
@click.argument("store", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--older-than", required=True, metavar="AGE", help="Such as 90m, 36h, 30d or 2w.")
def purge_command(store: Path | None, older_than: str) -> None:
    """Remove turns and tool calls that are older than AGE from the trace store."""
    import sqlite3

    from agentaccel.trace.database import store_path
    from agentaccel.trace.store import Store

    age = seconds_of(older_than)
    if age is None:
        raise ConfigError(f"--older-than is {older_than!r}; give a number and a unit: 90m, 36h, 30d or 2w")
    before = time.time() - age
    path = store_path(store)
    if not path.exists():
        raise TraceError(f"there is no trace store at {path}")
    try:
        opened = Store(path)
        gone = opened.purge(before)
        opened.close()
    except sqlite3.Error as error:
        raise TraceError(f"{path} cannot be purged: {error}") from error
    click.echo(f"{gone} records removed from {path}")
