"""Advice from logs, where only usage and times are known: labelled, and silent where they do not tell enough."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.report.advise.choose import advise
from agentaccel.report.advise.nouns import Advice
from agentaccel.report.advise.reading import talks_of_logs
from agentaccel.trace.store import open_reader
from agentaccel.types import Usage
from benchmarks.workloads import Workload, billed, bundled, record, sessions, wall

WORKLOADS = {one.fault.kind if one.fault is not None else one.name: one for one in bundled()}
FROM_USAGE = ("cache off", "wrong TTL", "calls one after another", "slow tools")
"""What usage and times show."""


def logged(workload: Workload, folder: Path) -> list[TurnRecord | ToolRecord]:
    """What a log would have of the faulty workload."""
    record(workload.situation, sessions(workload, mended=False), folder / "t.db")
    with open_reader(folder / "t.db") as reader:
        turns = [replace(turn, mode="log", markers=(), drift=None, misses=()) for turn in reader.turns()]
        return [*turns, *reader.tools()]


def saved(workload: Workload) -> float:
    assert workload.fault is not None
    faulty, mended = (sessions(workload, mended=mended) for mended in (False, True))
    if workload.fault.unit == "seconds":
        return wall(faulty) - wall(mended)
    return billed(workload.situation, faulty) - billed(workload.situation, mended)


@pytest.mark.slow
@pytest.mark.many(4)
@pytest.mark.parametrize("kind", FROM_USAGE)
def test_what_usage_shows_is_found_in_logs(kind: str, tmp_path: Path) -> None:
    said: tuple[Advice, ...] = advise(talks_of_logs(logged(WORKLOADS[kind], tmp_path)))
    assert said[0].kind == kind
    assert said[0].saving == pytest.approx(saved(WORKLOADS[kind]), rel=0.1)
    assert said[0].sure == {"slow tools": "at most", "calls one after another": "computed"}.get(kind, "inferred")


@pytest.mark.many(12)
@pytest.mark.parametrize("name", sorted(WORKLOADS.keys() - set(FROM_USAGE)))
def test_what_usage_does_not_show_is_not_guessed(name: str, tmp_path: Path) -> None:
    """Neither on the healthy ones nor where the prompts would have to be known."""
    assert advise(talks_of_logs(logged(WORKLOADS[name], tmp_path))) == ()


@pytest.mark.slow
def test_logs_without_counters_get_no_advice_on_the_cache(tmp_path: Path) -> None:
    """n/a is not zero."""
    blind = [
        replace(one, usage=Usage(input=one.usage.input)) if isinstance(one, TurnRecord) else one
        for one in logged(WORKLOADS["cache off"], tmp_path)
    ]
    assert advise(talks_of_logs(blind)) == ()


@pytest.mark.soak
def test_logs_without_times_get_no_advice_on_time(tmp_path: Path) -> None:
    untimed = [
        replace(one, started=0.0, finished=None) for one in logged(WORKLOADS["calls one after another"], tmp_path)
    ]
    assert [one for one in advise(talks_of_logs(untimed)) if one.unit == "seconds"] == []
