"""Recorded agent runs in the normalised format (`id`, `task_id`, `tools`, `messages`) as events of an agent's loop.

What the format does not say is done so: a result whose call is not there is left out, a call without a result stays
one; several tool calls of one reply are one `Asked`; a marker of the client that the model never saw is no event.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from agentaccel.errors import TraceError
from agentaccel.speculate.events import Answered, Asked, Event, Returned, Said
from agentaccel.trace.importers.lines import SUFFIXES, ImportTally, Meter, parse, raw_lines
from agentaccel.types import ToolCall
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
    tools = [one for one in _list(entry.get("tools")) if isinstance(one, dict)]
    return Run(
        id=str(entry.get("id") or entry["task_id"]),
        task=str(entry["task_id"]),
        workload=str(entry.get("domain") or ""),
        tools=tuple(
            {name: one[name] for name in _OFFERED if name in one} for one in tools if one.get("origin") != "inferred"
        ),
        labels={str(one.get("name")): one.get("read_only") is True for one in tools},
        events=_events([one for one in _list(entry["messages"]) if isinstance(one, dict)]),
    )


_OFFERED = ("name", "description", "input_schema")


def _events(messages: Sequence[Json]) -> tuple[Event, ...]:
    events, calls = list[Event](), dict[str, ToolCall]()
    for message in messages:
        role, text = message.get("role"), _text(message.get("content"))
        if role == "user" and text and not message.get("compact_boundary"):
            events.append(Said(text))
        elif role == "assistant":
            asked = tuple(_call(one) for one in _list(message.get("tool_calls")) if isinstance(one, dict))
            calls.update((call.id, call) for call in asked if call.id)
            if asked or text:
                events.append(Asked(asked, text) if asked else Answered(text))
        elif role == "tool" and (call := calls.pop(str(message.get("tool_call_id")), None)) is not None:
            events.append(Returned(call, text, error=message.get("is_error") is True))
    return tuple(events)


def _call(raw: Json) -> ToolCall:
    function = raw.get("function")
    given = function if isinstance(function, dict) else {}
    try:
        arguments = orjson.loads(given.get("arguments") or b"{}")
    except ValueError:
        arguments = None
    return ToolCall(
        name=str(given.get("name") or ""),
        arguments=arguments if isinstance(arguments, dict) else {"arguments": given.get("arguments")},
        id=str(raw["id"]) if raw.get("id") else None,
    )


def _text(content: object) -> str:
    if isinstance(content, str):
        return content if content.strip() else ""
    return "\n".join(str(block["text"]) for block in _list(content) if isinstance(block, dict) and block.get("text"))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
