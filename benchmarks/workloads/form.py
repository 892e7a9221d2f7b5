"""What a workload file says, and the one reader of such files; `docs/reference/workloads.md` explains each key."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import click

from benchmarks.situations.amounts import Amount, read_amount
from benchmarks.situations.form import Situation, _situation

FOLDER = Path(__file__).parent

Unit = Literal["cost", "seconds"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is planted. A kind reads the parameters that concern it and leaves the others alone."""

    kind: str
    """As the advice calls it."""
    mend: str
    """What the mended workload does in its place, in words; the parameters say how much."""
    unit: Unit
    """What the saving is counted in."""
    place: str = "system"
    """Where volatile text stands: "system", or "first" for the first message."""
    inside: bool = False
    """Whether it stands inside the block that is there, before its text, and not in a block of its own."""
    tokens: Amount = 20
    """Volatile text, in tokens."""
    pad: float = 1.02
    """What text at the end of the system prompt brings tools and system to, in minimums of the model: the mend of a
    prompt that is too short."""
    ttl: str = "5m"
    """The lifetime of all markers with the fault."""
    every: int = 6
    """Requests between two summaries, or between two switches of the model."""
    summary: Amount = 600
    """Tokens of a summary."""
    asked: bool = True
    """Whether a summary is asked for by a request of its own, in the same session."""
    kept: int = 2
    """Messages at the end of the history that stay beside a summary."""
    model: str = "claude-haiku-4-5"
    """The other model."""
    seconds: Amount = 2
    """One tool call's time, where tools are what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Agents with one fault, or with none."""

    situation: Situation
    """The agents without the fault; their markers are those of the mended workload."""
    fault: Fault | None
    """None for a healthy one."""

    @property
    def name(self) -> str:
        return self.situation.name


def load(path: Path) -> Workload:
    """The workload of one TOML file. Raises click.UsageError naming the file and what is amiss."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        rows = data.pop("situation", None)
        fault = data.pop("fault", None)
        if data or not isinstance(rows, Sequence) or len(rows) != 1 or not isinstance(rows[0], Mapping):
            raise ValueError("must hold one [[situation]] table, a [fault] table where there is a fault, and no more")
        return Workload(situation=_situation(rows[0], "situation"), fault=None if fault is None else _fault(fault))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{path}: {error}") from error


def bundled() -> list[Workload]:
    """The workloads that come with this repository."""
    return [load(path) for path in sorted(FOLDER.glob("*.toml"))]


def _fault(row: Mapping[str, object]) -> Fault:
    known = {one.name: one for one in fields(Fault)}
    values: dict[str, Any] = {}
    for key, value in row.items():
        if key not in known:
            raise ValueError(f"fault: unknown key {key!r}; there are {', '.join(known)}")
        default = known[key].default
        if key in ("tokens", "summary", "seconds"):
            values[key] = read_amount(value)
        elif isinstance(value, str if default is MISSING else type(default)):
            values[key] = value
        else:
            raise ValueError(f"fault: {key} must be a {type(default).__name__}")
    missing = [one.name for one in known.values() if one.default is MISSING and one.name not in values]
    if missing:
        raise ValueError(f"fault: {', '.join(missing)} is missing")
    if values["unit"] not in ("cost", "seconds"):
        raise ValueError("fault: unit is 'cost' or 'seconds'")
    return Fault(**values)
