"""What several commands ask for and print alike."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, tzinfo
from datetime import time as midnight
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from zoneinfo import ZoneInfo

import click

from agentaccel.cache.price import Override
from agentaccel.errors import ConfigError, TraceError
from agentaccel.report.numbers import clean, clean_lines
from agentaccel.report.period import Period, days_of, time_of
from agentaccel.store import files

MIN_WIDTH = 60
"""Columns from which the text form is laid out well."""

format_option = click.option(
    "--format", "form", type=click.Choice(("text", "markdown", "json")), default="text", help="How to show it."
)
prices_option = click.option(
    "--prices",
    "price_file",
    type=click.Path(path_type=Path),
    help='Your prices: JSON like {"MODEL": {"input": 3, "output": 15}}, USD per million tokens.',
)


_STYLE = re.compile(r"(\x1b\[[0-9;]*m)")
"""An escape sequence that changes how text looks, and nothing else."""


def say(*lines: str, err: bool = False) -> None:
    """Print lines: what comes from outside and stands in one is harmless there, and makes no second one."""
    for line in lines:
        click.echo(clean(line), err=err)


def write(text: str) -> None:
    """Print what is laid out already: nothing in it but its styles reaches a terminal as an escape sequence."""
    click.echo("".join(part if i % 2 else clean_lines(part) for i, part in enumerate(_STYLE.split(text))), nl=False)


def refuse(command: str, why: str) -> NoReturn:
    """Say why a command of `agentaccel selfhost` does nothing, and end it with 2."""
    say(*f"agentaccel selfhost {command}: {why}".split("\n"), err=True)
    sys.exit(2)


def options(*several: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Options of click's as one decorator, in their order."""

    def added(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(several):
            command = option(command)
        return command

    return added


def pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    """What an option says as NAME=VALUE, each. Raises `ConfigError` for anything else."""
    if wrong := [pair for pair in given if not pair.partition("=")[0] or "=" not in pair]:
        raise ConfigError(f"{option} is {wrong[0]!r}; give NAME=VALUE")
    return {name: value for name, _, value in (pair.partition("=") for pair in given)}


sensitive_option = click.option(
    "--sensitive",
    multiple=True,
    metavar="TOOL.ARGUMENT",
    help="An argument whose values are not to be kept, as in StorePolicy; * stands for anything.",
)


def value_of(text: str) -> str | int | float | bool:
    """A number, true or false as in JSON; else the text itself.

    >>> value_of("0.5"), value_of("true"), value_of("fly")
    (0.5, True, 'fly')
    """
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, bool | int | float) else text


def confirm(question: str) -> None:
    """Ask on the terminal whether to go on, and end the command if not."""
    click.confirm(clean(question), abort=True)


def progress_line(what: str = "") -> None:
    """Say on standard error what is being done, in place of what was said there before, where that is a terminal."""
    if sys.stderr.isatty():
        click.echo(f"\r\x1b[K{clean(what)}", nl=False, err=True)


def layout() -> tuple[int, bool]:
    """The width of the text form, and whether it may be in colour: as the terminal is, or a plain one of 80 columns.

    Whoever sets COLUMNS has asked for so many, wherever the text goes.
    """
    from rich.console import Console

    console = Console()  # knows the terminal's width, COLUMNS and NO_COLOR
    width = max(console.width, MIN_WIDTH) if console.is_terminal or "COLUMNS" in os.environ else 80
    return width, console.is_terminal and not console.no_color


def read_text(path: Path) -> str:
    """The text of a file that the user names; of standard input for "-". Raises TraceError, with one sentence."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else files.read_bytes(path)
        return data.decode("utf-8")
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"{path} is no text: byte {error.start} is not UTF-8") from error


def read_json(path: Path) -> Any:
    """The JSON value in a file that the user names, as `read_text` reads it. Raises TraceError, with one sentence."""
    text = read_text(path)
    if not text.strip():
        raise TraceError(f"{path} is empty")
    try:
        return json.loads(text)
    except ValueError as error:
        raise TraceError(f"{path} is not JSON: {error}") from error
    except RecursionError:
        raise TraceError(f"{path} is nested too deeply to be read") from None


def read_prices(path: Path | None) -> Override | None:
    """The user's prices, checked as a policy's are. Raises TraceError for a file that holds none."""
    if path is None:
        return None
    prices: Override = read_json(path)
    if not isinstance(prices, dict) or not all(isinstance(price, dict) for price in prices.values()):
        raise TraceError(f'{path} must hold prices by model, such as {{"MODEL": {{"input": 3, "output": 15}}}}')
    from agentaccel.policy import Policy  # much to load for a command that is given no prices

    return Policy(prices=prices).prices


_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}


def seconds_of(age: str) -> float | None:
    """An age such as "30d" in seconds; None for what is none.

    >>> seconds_of("36h"), seconds_of("2w"), seconds_of("soon")
    (129600.0, 1209600.0, None)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", age.strip())
    return None if match is None else float(match[1]) * _UNITS[match[2]]


class Bounds(NamedTuple):
    """What `period_options` were given, as typed."""

    since: str | None
    until: str | None
    zone: str


def period_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--since`, `--until` and `--tz`; its parameter `bounds` is what `read_period` takes."""

    def bounded(*, since: str | None, until: str | None, zone: str, **options: Any) -> None:
        command(bounds=Bounds(since, until, zone), **options)

    bounded.__doc__, bounded.__name__ = command.__doc__, command.__name__
    bounded.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]  # click's own
    zone = click.option("--tz", "zone", default="UTC", metavar="ZONE", help="Zone of days and times: Europe/Berlin.")
    until = click.option("--until", metavar="WHEN", help="Only what was before: the same forms; a date is a whole day.")
    since = click.option(
        "--since", metavar="WHEN", help="Only what was since: 7d, 36h, 2026-02-01, 2026-W06, 2026-02, 2026-02-01T12:00."
    )
    return since(until(zone(bounded)))


def read_period(bounds: Bounds, now: float | None = None) -> Period:
    """The period that `bounds` name, at the time `now`. Raises ConfigError for what is no time or no zone."""
    zone = _zone(bounds.zone)
    now = time.time() if now is None else now
    since = None if bounds.since is None else _instant("--since", bounds.since, zone, now)
    until = None if bounds.until is None else _instant("--until", bounds.until, zone, now)
    if since is not None and until is not None and since >= until:
        raise ConfigError(f"nothing is --since {bounds.since} and --until {bounds.until}: the one is before the other")
    return Period(since=since, until=until, zone=zone)


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # also for a path, and for a folder of zones
        raise ConfigError(
            f"--tz is {name!r}; give the name of a zone, such as Europe/Berlin or UTC (where this system lists "
            "none, `pip install tzdata` brings them)"
        ) from None


def _instant(option: str, said: str, zone: tzinfo, now: float) -> float:
    """Seconds since the epoch. A date, a week or a month is its first moment in `zone`, and after --until the first
    after it."""
    text, ago = said.strip(), seconds_of(said)
    if ago is not None:
        return now - ago
    try:
        first, after = days_of(text)
        return datetime.combine(after if option == "--until" else first, midnight(), zone).timestamp()
    except (ValueError, OverflowError):
        pass
    try:
        at = time_of(text)
        return (at if at.tzinfo is not None else at.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError):
        raise ConfigError(
            f"{option} is {said!r}; give an age (7d, 36h, 90m, 2w), a date (2026-02-01), a week (2026-W06), a month "
            "(2026-02) or a time (2026-02-01T12:00)"
        ) from None


# --- A bar on standard error for what takes a while -------------------------------------------------------------------

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is, and how much there is."""


@contextlib.contextmanager
def progress(*, in_bytes: bool = False) -> Iterator[Progress]:
    """A bar on standard error, where that is a terminal; it goes away when it is done. It shows the share that is done,
    or, `in_bytes`, how many of how many."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    amount = DownloadColumn() if in_bytes else TaskProgressColumn()
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), amount, TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda what, done, total: bar.update(task, description=clean(what), completed=done, total=total)
