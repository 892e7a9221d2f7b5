"""What makes a module of this package a benchmark, and how its result is shown.

A benchmark is a module with one function that is decorated by `benchmark`; nothing else registers it. Its docstring's
first sentence is its claim. The function returns a `Result`; with `--json` that is printed as one JSON object.

    @benchmark()
    @click.option("--rounds", default=41)
    def run(rounds: int) -> Result: ...
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import click

Cell = str | int | float | None
"""None is shown as n/a."""

_LIBRARIES = ("orjson", "click", "rich", "genai-prices", "anthropic", "openai")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Figures of one kind."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    """What one has to know to read it; sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a benchmark found."""

    figure: str
    """The result in one sentence."""
    inputs: Mapping[str, Cell]
    """What it was measured on."""
    n: int
    """How many cases, requests or rounds stand behind the figure."""
    tables: tuple[Table, ...] = ()
    broken: tuple[str, ...] = ()
    """What should hold and does not, a sentence each; with any, the benchmark exits with 1."""
    stamp: Mapping[str, str] = field(default_factory=lambda: stamp())
    """When and with which versions it was measured."""


def stamp() -> dict[str, str]:
    """The date and the versions of Python, agentaccel and what it stands on."""
    found = {"date": datetime.now(UTC).date().isoformat(), "python": platform.python_version()}
    for name in ("agentaccel", *_LIBRARIES):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def benchmark() -> Callable[[Callable[..., Result]], click.Command]:
    """Make the command of this module's benchmark of a function; its options are click's, `--json` is added."""

    def decorate(function: Callable[..., Result]) -> click.Command:
        module = sys.modules[function.__module__]

        def callback(as_json: bool, **options: object) -> None:
            result = function(**options)
            click.echo(json.dumps(asdict(result), indent=2) if as_json else shown(result))
            if result.broken:
                sys.exit(1)

        parameters: Sequence[click.Parameter] = getattr(function, "__click_params__", [])
        option = click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object.")
        return click.Command(
            name=_name_of(function.__module__),
            callback=callback,
            params=[*reversed(parameters), option],
            help=module.__doc__,
            short_help=claim_of(module.__doc__ or ""),
        )

    return decorate


def _name_of(module: str) -> str:
    return module.removesuffix(_PACKAGED).rpartition(".")[2]


_PACKAGED = ".run"
"""The module of a package that is its benchmark."""


def claim_of(docstring: str) -> str:
    """The first sentence of a benchmark's docstring."""
    first = " ".join(docstring.strip().partition("\n\n")[0].split())
    return first.partition(". ")[0].removesuffix(".") + "."


class Benchmarks(click.Group):
    """Every benchmark of this package, found by looking."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        folder = str(Path(__file__).parent)
        names = sorted(one.name for one in pkgutil.iter_modules([folder]) if not one.name.startswith("_"))
        return [name for name in names if self.get_command(ctx, name) is not None]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        folder = Path(__file__).parent
        if not cmd_name.isidentifier():
            return None
        if (folder / cmd_name / "run.py").exists():
            module = importlib.import_module(f"benchmarks.{cmd_name}{_PACKAGED}")
        elif (folder / f"{cmd_name}.py").exists():
            module = importlib.import_module(f"benchmarks.{cmd_name}")
        else:
            return None
        return next((one for one in vars(module).values() if _is_its_own(one, cmd_name)), None)

    def listing(self, context: click.Context) -> str:
        """One line for each benchmark: its name and its claim."""
        commands = {name: self.get_command(context, name) for name in self.list_commands(context)}
        width = max(map(len, commands), default=0)
        return "\n".join(
            f"{name:<{width}}  {command.short_help}" for name, command in commands.items() if command is not None
        )


def _is_its_own(value: object, name: str) -> bool:
    return isinstance(value, click.Command) and value.name == name


def shown(result: Result) -> str:
    """A result as people read it."""
    parts = [_table(table) for table in result.tables]
    parts.append(f"{result.figure}\n")
    parts.append(f"n = {result.n:,}; " + ", ".join(f"{name}: {_cell(value)}" for name, value in result.inputs.items()))
    parts.append(", ".join(f"{name} {version}" for name, version in result.stamp.items()))
    parts += [f"DOES NOT HOLD: {sentence}" for sentence in result.broken]
    return "\n".join(parts)


def _table(table: Table) -> str:
    rows = [table.columns, *(tuple(map(_cell, row)) for row in table.rows)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.columns))]
    lines = [
        "  ".join(f"{cell:<{width}}" if not i else f"{cell:>{width}}" for i, (cell, width) in enumerate(pairs)).rstrip()
        for pairs in (list(zip(row, widths, strict=True)) for row in rows)
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join([f"{table.title}\n", *lines, *(f"* {note}" for note in table.notes), ""])


def _cell(value: Cell) -> str:
    if value is None:
        return "n/a"
    if isinstance(value, float):
        return f"{value:,.3f}"
    return f"{value:,}" if isinstance(value, int) else value
