"""`agentaccel learn`: tool calls learned from recorded conversations."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Set
from dataclasses import asdict, replace
from pathlib import Path

import click

from agentaccel.cli.options import progress, sensitive_option, write
from agentaccel.cli.patterns import key_of, named, opened, store_option, workload_option
from agentaccel.errors import TraceError
from agentaccel.hashing import digest
from agentaccel.policy import StorePolicy
from agentaccel.predict.knowledge import Knowledge
from agentaccel.predict.merge import readable, shelved
from agentaccel.predict.redaction import FLEET, news_of
from agentaccel.replay.events import Recorded, recorded
from agentaccel.replay.learn import Learned, learn
from agentaccel.report.numbers import clean, plural
from agentaccel.sources.tally import ImportTally
from agentaccel.store.database import store_path
from agentaccel.store.patterns import add_to_shelf, known_lessons
from agentaccel.store.store import check_before_writing

UNKNOWN = "in no format that calls can be learned from"
"""What is said of a file that holds no conversations with their content."""


@click.command("learn")
@click.argument("traces", nargs=-1, required=True, metavar="TRACES...", type=click.Path(path_type=Path))
@workload_option
@store_option
@click.option("--values", is_flag=True, help="Keep values of arguments that calls have in common, too.")
@sensitive_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def learn_command(
    traces: tuple[Path, ...],
    workload: str | None,
    store: Path | None,
    values: bool,
    sensitive: tuple[str, ...],
    as_json: bool,
) -> None:
    """Learn tool calls from recorded conversations, and say how well the first of them tell the last.

    TRACES are files and folders of agent runs, Claude Code's logs (~/.claude/projects), or trace stores that keep
    content. Learned are counts and templates; a conversation that taught before is left out.
    """
    path, tally = store_path(store), ImportTally()
    check_before_writing(path, new=True)
    with progress() as told:
        # All is read before a store is made: what cannot be read leaves none behind.
        met = [run.id for run in recorded(traces, tally, lambda read, total: told("reading", read, total))]
        notes = tally.notes(UNKNOWN)
        if not met:
            raise TraceError("; ".join(notes) or "there is no conversation in these records")
        key = key_of(path)

        def lesson_of(id_: str) -> bytes:
            return digest(id_.encode("utf-8", "replace"), key)

        def fresh(before: Set[bytes]) -> Iterator[Recorded]:
            known = set(before)
            for run in recorded(traces, ImportTally()):
                lesson = lesson_of(run.id)
                if lesson not in known:
                    known.add(lesson)  # one that is there twice teaches once
                    yield run if workload is None else replace(run, workload=named(workload))

        done = 0

        def tell() -> None:
            nonlocal done
            done += 1
            told("learning", done, len(lessons))

        knowledge = Knowledge(sensitive=StorePolicy(sensitive=sensitive).is_sensitive, key=key)
        with opened(path, new=True) as into:
            before = known_lessons(into)
            lessons = [one for one in dict.fromkeys(map(lesson_of, met)) if one not in before]
            found = learn(fresh(before), len(lessons), knowledge, tell)
            if lessons:
                news = news_of(knowledge, key, values=values)
                add_to_shelf(into, news, now=time.time(), sensitive=knowledge.sensitive, lessons=lessons)
        patterns = len(readable(shelved({}, news_of(knowledge, key)))[FLEET]["rules"])
    write(_shown(found, patterns, notes, as_json))


def _shown(found: Learned, patterns: int, notes: list[str], as_json: bool) -> str:
    if as_json:
        return json.dumps({**asdict(found), "patterns": patterns, "notes": notes}, indent=2) + "\n"
    lines = [f"{plural(found.runs, 'run')}, {plural(found.calls, 'call')}, {plural(patterns, 'pattern')} learned"]
    if not found.runs:
        lines = ["nothing new: these conversations have taught before"]
    elif found.turns:
        first, among = (f"{count} of {found.turns}" for count in (found.first, found.among))
        lines.append(f"the last fifth, by what was learned before: {first} turns guessed at once, {among} in three")
    return "\n".join((*lines, *(f"note: {clean(one)}" for one in notes))) + "\n"
