"""`agentaccel purge`."""

from __future__ import annotations

import re
import time
from pathlib import Path

import click

from agentaccel.errors import ConfigError, TraceError

_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}


def seconds_of(age: str) -> float:
    """An age such as "30d" in seconds; `ConfigError` for anything else.

    >>> seconds_of("36h"), seconds_of("2w")
    (129600.0, 1209600.0)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", age.strip())
    if match is None:
        raise ConfigError(f"--older-than is {age!r}; give a number and a unit: 90m, 36h, 30d or 2w")
    return float(match[1]) * _UNITS[match[2]]


@click.command("purge")
@click.argument("store", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--older-than", required=True, metavar="AGE", help="Such as 90m, 36h, 30d or 2w.")
def purge_command(store: Path | None, older_than: str) -> None:
    """Remove turns and tool calls that are older than AGE from the trace store."""
    import sqlite3

    from agentaccel.trace.database import store_path
    from agentaccel.trace.store import Store

    before = time.time() - seconds_of(older_than)
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
