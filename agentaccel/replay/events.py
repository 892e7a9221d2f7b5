"""Recorded conversations as the events of agents' loops: what a predictor of tool calls learns from, and is judged by.

Read are files of agent runs, Claude Code's logs, and trace stores that keep content. Spans have no content here: what
was said to a model, and by it, is not taken from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentaccel.providers.values import items
from agentaccel.replay.read import Group, groups_of
from agentaccel.replay.talk import events_of
from agentaccel.replay.talk_log import talks_of
from agentaccel.replay.talk_store import kept_talks
from agentaccel.speculate.events import Asked, Event
from agentaccel.trace.importers.fields import text
from agentaccel.trace.importers.lines import Meter, parse, raw_lines, sizes
from agentaccel.trace.importers.order import in_order
from agentaccel.trace.soundness import explain_nothing
from agentaccel.trace.store import open_reader
from agentaccel.trace.tally import ImportTally, Progress

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One recorded conversation."""

    id: str
    task: str
    """Conversations about one task are near copies: what judges a predictor splits by it. The id where none is told."""
    workload: str
    """What statistics are learned for."""
    events: tuple[Event, ...]
    tools: tuple[Json, ...] = ()
    """As offered to the model, with `name` and mostly `description` and `input_schema`; empty where not recorded."""
    reads: frozenset[str] = field(default_factory=frozenset)
    """Tools of which the source says that they only read."""

    @property
    def calls(self) -> int:
        """How many calls were asked for."""
        return sum(len(event.calls) for event in self.events if isinstance(event, Asked))


def recorded(paths: Iterable[Path], tally: ImportTally, progress: Progress | None = None) -> Iterator[Recorded]:
    """Every conversation under `paths` in which something happened, source by source, each in its own order.

    `tally` is filled while reading. Raises TraceError at once for a path that does not exist, and for a store that
    cannot be read; a file of a format without content is noted in `tally.unrecognised`, and sessions of a store without
    it in `tally.contentless`.
    """
    groups = groups_of(paths, tally)
    meter = Meter(sizes(file for group in groups for file in group.files), progress)
    return (one for group in groups for one in _read(group, tally, meter) if one.events)


def _read(group: Group, tally: ImportTally, meter: Meter) -> Iterator[Recorded]:
    if group.kind == "runs":
        tally.files += 1
        yield from _of_runs(raw_lines(group.files[0], tally, meter), tally)
    elif group.kind == "logs":
        seen: set[int] = set()
        for path in in_order(group.files):
            tally.files += 1
            yield from _of_log(path, seen, tally, meter)
    elif group.kind == "store":
        yield from _of_store(group.files[0], tally)
        meter.finish(sizes(group.files))
    else:
        tally.unrecognised += map(str, group.files)
        meter.finish(sizes(group.files))


def _of_runs(lines: Iterable[bytes], tally: ImportTally) -> Iterator[Recorded]:
    seen: set[str] = set()
    for line in lines:
        tally.lines += 1
        entry: Json | None = parse(line, tally)
        if entry is None or not isinstance(entry.get("messages"), list):
            continue
        run = run_of(entry, f"run-{tally.lines}")
        if run.id in seen:
            tally.duplicates += 1
            continue
        seen.add(run.id)
        yield run


def run_of(entry: Json, name: str = "") -> Recorded:
    """One line of a file of agent runs; `name` stands in for an id that is missing."""
    tools = [one for one in items(entry.get("tools")) if isinstance(one, dict)]
    id_ = text(entry, "id") or text(entry, "task_id") or name
    return Recorded(
        id=id_,
        task=text(entry, "task_id") or id_,
        workload=f"agent {text(entry, 'domain') or text(entry, 'source') or ''}".rstrip(),
        events=tuple(events_of(one for one in items(entry["messages"]) if isinstance(one, dict))),
        tools=tuple({name: one[name] for name in _OFFERED if name in one} for one in tools),
        reads=frozenset(str(one.get("name")) for one in tools if one.get("read_only") is True),
    )


_OFFERED = ("name", "description", "input_schema")


def _of_log(path: Path, seen: set[int], tally: ImportTally, meter: Meter) -> Iterator[Recorded]:
    told = set(seen)
    for talk in talks_of(raw_lines(path, tally, meter), path.name.partition(".")[0], told, tally):
        seen.update(map(hash, talk.replies))
        if talk.replies:
            events = tuple(events_of(talk.messages))
            yield Recorded(id=talk.id, task=talk.id, workload=f"agent {talk.agent}", events=events)


def _of_store(path: Path, tally: ImportTally) -> Iterator[Recorded]:
    with open_reader(path) as store:
        tally.files += 1
        sessions = without = 0
        for kept in kept_talks(store):
            sessions += 1
            if kept.messages is None:
                without += 1
                continue
            events = tuple(events_of(kept.messages))
            yield Recorded(id=kept.id, task=kept.id, workload=kept.workload, events=events)
        if not sessions:
            explain_nothing(store)
    if without:
        tally.contentless.append(f"{path} ({without:,})")
