"""Files and folders of recorded conversations, told apart by their content, as sources for a replay.

A file of agent runs is a source by itself. Session logs and prefix traces come one conversation a file, so those of one
folder are one source: the folders right below the one that was named, or this one itself. A trace store is a source.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import orjson

from agentaccel.cache.breakpoints import marks_of
from agentaccel.errors import TraceError
from agentaccel.records import BATCH, OURS, TurnRecord, key_of
from agentaccel.replay.pace import first_byte_of
from agentaccel.replay.read_geometry import is_geometry, runs_of_session
from agentaccel.replay.read_runs import read_runs
from agentaccel.replay.runs import Run, Step, counted, grown
from agentaccel.replay.source import PROVIDER, Rules, Source
from agentaccel.replay.usage_only import by_session, runs_from_usage
from agentaccel.sources.claude_code import is_session_line
from agentaccel.sources.lines import Meter, parse, raw_lines, sizes
from agentaccel.sources.logs import read_logs as records_of
from agentaccel.sources.tally import ImportTally, Progress
from agentaccel.store.database import is_sqlite
from agentaccel.store.files import open_file, real
from agentaccel.store.prompts import StoredTurn, kept_turns
from agentaccel.store.store import Store, explain_nothing, open_reader
from agentaccel.types import Usage

# --- Claude Code's session logs as runs: from usage, because the logs hold no prompts; a sub-agent is a run of its own


def read_logs(files: Sequence[Path], name: str, rules: Rules, tally: ImportTally, progress: Progress | None) -> Source:
    """The conversations in `files`, which are one source called `name`; every reply counts once."""
    before, passed = rules.replaced.copy(), rules.passed.copy()
    turns = (one for one in records_of(files, progress=progress, tally=tally) if isinstance(one, TurnRecord))
    runs = tuple(runs_from_usage(by_session(turns), rules))
    return Source(
        name=name,
        runs=runs,
        untimed=frozenset(i for i, run in enumerate(runs) if not all(step.started for step in run.steps)),
        models=tuple(rules.replaced - before),
        notes=rules.left_out(passed),
    )


# --- The trace store as runs: every session with the prompts that it sent, so that a replay needs no content ----------
# `trace.prompts` says what cannot be told from a store. Left out are turns that were not answered, those whose
# history the provider held, and those of other providers than Anthropic. The markers of a step are the user's own:
# what agentaccel added is what a replay decides.

_OUR_OWN = (
    "requests of our own, which wrote or kept entries",
    "a replay decides on these itself; what was recorded cost more by them",
)
_BATCH = ("requests of batches", "nothing but their results is known")
_HELD = ("requests whose history the provider held", "their prompts are not known")


def runs_of_store(store: Store, rules: Rules | None = None) -> Iterator[Run]:
    """The sessions of `store` in the order in which they began, each conversation of one by itself.

    Raises TraceError where it cannot be read.
    """
    chosen = rules if rules is not None else Rules()
    sessions: dict[str, list[Step]] = {}
    first: dict[str, StoredTurn] = {}
    for kept in kept_turns(store):
        key = key_of(kept.record.session, kept.record.thread)
        before = sessions.get(key)
        step = step_of(kept, before[-1] if before else None, chosen)
        if step is not None:
            sessions.setdefault(key, []).append(step)
            first.setdefault(key, kept)
    for name, steps in sessions.items():
        workload = store.workload_of(name)
        if workload is None:
            workload = f"agent {first[name].record.agent or ''}"
        yield Run(id=name, workload=workload, steps=tuple(steps))


def step_of(kept: StoredTurn, last: Step | None, rules: Rules) -> Step | None:
    """The request as a step, after the one before it in its session; None for one that is to be left out."""
    record = kept.record
    answered = record.outcome == "ok" or record.usage.input is not None
    if not answered:
        return None
    if record.mode in OURS:
        rules.passed[_OUR_OWN] += 1
        return None
    if record.mode == BATCH:
        rules.passed[_BATCH] += 1
        return None
    if record.held or not kept.segments:
        rules.passed[_HELD] += 1
        return None
    if record.provider != PROVIDER:
        rules.passed[f"requests to {record.provider}", "only Claude's cache is modelled"] += 1
        return None
    model, facts = rules.of(record.known_as or record.model, record.platform)
    prompt = kept.prompt(model, facts)
    prefix = grown(prompt, facts, last)
    return Step(
        prefix=prefix,
        tokens=counted(prefix, last, record.usage.input),
        started=record.started,
        visible=first_byte_of(record.started, record.first_byte, record.finished),
        finished=record.finished,
        marks=marks_of(prefix, prompt.markers),
        recorded=record.usage if record.usage != Usage() else None,
        turn=record,
    )


Kind = Literal["store", "runs", "logs", "geometry"]

_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz")
"""What is taken from a folder; a file that is named itself may be called anything."""

_PEEK = 200
"""Lines looked at, at most, to tell a file's format."""

_MOST_BYTES = 256 << 20
"""Unpacked size up to which a file that is one JSON value is read."""


def read(paths: Iterable[Path], rules: Rules, tally: ImportTally, progress: Progress | None = None) -> list[Source]:
    """Every source under `paths`, in the order of their names in each; those without a request are left out.

    `tally` is filled while reading. Raises TraceError for a path that does not exist and for a store that is none; a
    file of an unknown format is noted in `tally` and the others are read.
    """
    groups = groups_of(paths, tally)
    meter = Meter(sizes(file for group in groups for file in group.files), progress)
    sources = [_source(group, rules, tally, meter) for group in groups]
    return [source for source in sources if source.runs]


@dataclass(slots=True)
class SourceFiles:
    """Files that are one source."""

    name: str
    kind: Kind
    files: list[Path] = field(default_factory=list)


def groups_of(paths: Iterable[Path], tally: ImportTally) -> list[SourceFiles]:
    """The sources under `paths`, unread, in the order of their names. Raises TraceError for a path that is missing."""
    groups: dict[tuple[Path, Kind], SourceFiles] = {}
    seen: set[str] = set()
    for path, place in _files(paths):
        if real(path) in seen:
            continue
        seen.add(real(path))
        kind = _kind(path)
        if kind is None:
            if sizes([path]):
                tally.unrecognised.append(str(path))
            else:
                tally.empty += 1
            continue
        alone = kind in ("runs", "store")
        group = groups.setdefault((path if alone else place, kind), SourceFiles(_stem(path if alone else place), kind))
        group.files.append(path)
    return list(groups.values())


def _files(paths: Iterable[Path]) -> Iterator[tuple[Path, Path]]:
    """Every file, and the folder or file whose name it is grouped under."""
    for given in paths:
        if given.is_dir():
            inside = sorted(path for path in given.rglob("*") if path.name.endswith(_SUFFIXES) and path.is_file())
            for path in inside:
                below = path.relative_to(given).parts
                yield path, given / below[0] if len(below) > 1 else given
        elif given.exists():
            yield given, given
        else:
            raise TraceError(f"no such file or folder: {given}")


def _stem(path: Path) -> str:
    name = Path(real(path)).name
    return next(
        (name.removesuffix(end) for end in sorted(_SUFFIXES, key=len, reverse=True) if name.endswith(end)), name
    )


def _kind(path: Path) -> Kind | None:
    """What a file is, by its content; None where that is not known."""
    if is_sqlite(path):
        return "store"
    lines = raw_lines(path, ImportTally(), Meter(0, None))
    for _, line in zip(range(_PEEK), lines, strict=False):
        entry = parse(line, ImportTally())
        if entry is None:
            continue
        if isinstance(entry.get("messages"), list) and not isinstance(entry.get("type"), str):
            return "runs"
        if is_session_line(entry):
            return "logs"
    return "geometry" if path.name.endswith((".json", ".json.gz")) and is_geometry(_value(path)) else None


def _value(path: Path) -> object:
    """The one JSON value that a file holds; None where it holds none, or one that is too large."""
    try:
        with open_file(path) as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            with gzip.GzipFile(fileobj=raw) if packed else io.BufferedReader(raw) as file:
                data = file.read(_MOST_BYTES + 1)
        return orjson.loads(data) if len(data) <= _MOST_BYTES else None
    except (OSError, EOFError, ValueError):
        return None


def _source(group: SourceFiles, rules: Rules, tally: ImportTally, meter: Meter) -> Source:
    if group.kind == "runs":
        tally.files += 1
        return read_runs(raw_lines(group.files[0], tally, meter), group.name, rules, tally)
    if group.kind == "logs":
        done, total = meter.done, meter.total

        def told(read: int, _: int) -> None:
            if meter.progress is not None:
                meter.progress(done + read, max(total, done + read))

        source = read_logs(group.files, group.name, rules, tally, told)
        meter.finish(sizes(group.files))
        return source
    before, passed = rules.replaced.copy(), rules.passed.copy()
    skipped = 0
    if group.kind == "store":
        runs, skipped = _from_store(group.files[0], rules)
    else:
        runs = _geometry(group.files, rules, tally)
    meter.finish(sizes(group.files))
    notes = (f"rows of the store that could not be read, and were skipped: {skipped:,}",) * bool(skipped)
    return Source(
        name=group.name, runs=runs, models=tuple(rules.replaced - before), notes=(*notes, *rules.left_out(passed))
    )


def _from_store(path: Path, rules: Rules) -> tuple[tuple[Run, ...], int]:
    with open_reader(path) as store:
        runs = tuple(runs_of_store(store, rules))
        if not runs:
            explain_nothing(store)
        return runs, store.skipped


def _geometry(files: Sequence[Path], rules: Rules, tally: ImportTally) -> tuple[Run, ...]:
    """One session after the other, because they do not say when they began."""
    runs: list[Run] = []
    begin = 0.0
    for path in files:
        value = _value(path)
        assert isinstance(value, dict)
        try:
            session = list(runs_of_session(value, begin, rules))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            tally.unreadable.append(f"{path}: {error}")
            continue
        tally.files += 1
        runs += session
        begin = max((step.visible for run in session for step in run.steps), default=begin)
    return tuple(runs)
