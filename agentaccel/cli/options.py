"""What several commands ask for and print alike."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from agentaccel.cache.price import Override
from agentaccel.errors import TraceError
from agentaccel.policy import Policy

MIN_WIDTH = 60
"""Columns from which the text form is laid out well."""

format_option = click.option(
    "--format", "form", type=click.Choice(("text", "markdown", "json")), default="text", help="How to show it."
)
prices_option = click.option(
    "--prices",
    "price_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help='Your prices: JSON like {"MODEL": {"input": 3, "output": 15}}, USD per million tokens.',
)


def layout() -> tuple[int, bool]:
    """The width of the text form, and whether it may be in colour: as the terminal is, or a plain one of 80 columns.

    Whoever sets COLUMNS has asked for so many, wherever the text goes.
    """
    from rich.console import Console

    console = Console()  # knows the terminal's width, COLUMNS and NO_COLOR
    width = max(console.width, MIN_WIDTH) if console.is_terminal or "COLUMNS" in os.environ else 80
    return width, console.is_terminal and not console.no_color


def read_prices(path: Path | None) -> Override | None:
    """The user's prices, checked as a policy's are. Raises TraceError for a file that holds none."""
    if path is None:
        return None
    try:
        prices: Override = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise TraceError(f"{path} is not JSON: {error}") from error
    if not isinstance(prices, dict) or not all(isinstance(price, dict) for price in prices.values()):
        raise TraceError(f'{path} must hold prices by model, such as {{"MODEL": {{"input": 3, "output": 15}}}}')
    return Policy(prices=prices).prices
