"""Recorded agent runs in the normalised format (`id`, `task_id`, `tools`, `messages`) as events of an agent's loop."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentaccel.errors import TraceError
from agentaccel.predict.events import Answered, Asked, Event
from agentaccel.replay.events import events_of
from agentaccel.sources.lines import SUFFIXES, Meter, parse, raw_lines
from agentaccel.sources.tally import ImportTally
from agentaccel.types import ToolCall
from agentaccel.wire.json import items
from benchmarks.speculation.calls import Key, key_of, only_reads

Json = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Run:
    """One recorded run. Not slotted: what follows from the fields is worked out once."""

    id: str
    task: str
    """Runs of one task are near copies: split and resample by it."""
    workload: str
    """What statistics are learned for; the domain of the source stands in for the agent's name."""
    tools: tuple[Json, ...]
    """As offered to the model: `name`, `description`, `input_schema`. Those that the source inferred from what happened
    are left out: they would tell the future."""
    labels: Mapping[str, bool]
    """By tool, whether the source says that it only reads."""
    events: tuple[Event, ...]

    @functools.cached_property
    def turns(self) -> tuple[Turn, ...]:
        """The replies of the model, in order."""
        return tuple(self._turn(i, event) for i, event in enumerate(self.events) if isinstance(event, Asked | Answered))

    def _turn(self, at: int, event: Asked | Answered) -> Turn:
        calls = event.calls if isinstance(event, Asked) else ()
        return Turn(
            at=at, keys=tuple(key_of(call) for call in calls), reads=tuple(self.only_reads(call) for call in calls)
        )

    def only_reads(self, call: ToolCall) -> bool:
        """Whether nothing that was read before is in doubt after `call`, by the labels of this run."""
        return only_reads(call, self.labels)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One reply of the model, as a predictor is judged by it."""

    at: int
    """Where its event stands in the run: what stands before was known when the model was asked."""
    keys: tuple[Key, ...]
    """The calls that it asks for; none where it answers in text."""
    reads: tuple[bool, ...]
    """For each of them, whether it only reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The runs of one file, in its order."""

    name: str
    runs: tuple[Run, ...]


def read_sources(path: Path) -> list[Source]:
    """Every file of runs right below `path`, or `path` itself, by name; files in other formats are left out.

    Raises TraceError where there is no such path, where a file breaks off, and where no file holds a run.
    """
    if not path.exists():
        raise TraceError(f"no such file or folder: {path}")
    files = sorted(one for one in path.iterdir() if one.name.endswith(SUFFIXES)) if path.is_dir() else [path]
    sources = [Source(name=file.name.partition(".")[0], runs=tuple(_runs(file))) for file in files]
    found = [source for source in sources if source.runs]
    if not found:
        raise TraceError(f"{path} holds no runs: a run is a line of JSON with id, task_id, tools and messages")
    return found


def _runs(file: Path) -> list[Run]:
    tally, runs = ImportTally(), dict[str, Run]()
    for line in raw_lines(file, tally, Meter(0, None)):
        entry = parse(line, tally)
        if entry is not None and isinstance(entry.get("messages"), list) and isinstance(entry.get("task_id"), str):
            run = run_of(entry)
            runs.setdefault(run.id, run)
    if tally.unreadable:
        raise TraceError(tally.unreadable[0])
    return list(runs.values())


def run_of(entry: Json) -> Run:
    """One line of a file."""
    tools = [one for one in items(entry.get("tools")) if isinstance(one, dict)]
    return Run(
        id=str(entry.get("id") or entry["task_id"]),
        task=str(entry["task_id"]),
        workload=str(entry.get("domain") or ""),
        tools=tuple(
            {name: one[name] for name in _OFFERED if name in one} for one in tools if one.get("origin") != "inferred"
        ),
        labels={str(one.get("name")): one.get("read_only") is True for one in tools},
        events=tuple(events_of(one for one in items(entry["messages"]) if isinstance(one, dict))),
    )


_OFFERED = ("name", "description", "input_schema")
