"""Advice from logs, where only usage and times are known: labelled, and silent where they do not tell enough."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agentaccel.cache.ledger import Breakpoint
from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.report.advise.choose import advise
from agentaccel.report.advise.money import CostCounting, by_itself, replayed
from agentaccel.report.advise.nouns import Advice, RecordedSession
from agentaccel.report.advise.parts import each, with_marks
from agentaccel.report.advise.reading import talks_of_logs
from agentaccel.store.store import open_reader
from agentaccel.types import Usage
from benchmarks.workloads import Workload, billed, bundled, record, sessions, wall
from tests.report.talks import NOON

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


def told(session: str, minute: int, *usages: tuple[int, int]) -> list[TurnRecord]:
    """A session in a log, a request a minute: of so many tokens, of which so many were read; the rest it wrote."""
    return [
        TurnRecord(
            session=session,
            provider="anthropic",
            model="claude-sonnet-5",
            started=NOON + 60.0 * number,
            finished=NOON + 60.0 * number + 5,
            agent="made",
            mode="log",
            usage=Usage(input=tokens, read=read, write={"5m": tokens - read}),
        )
        for number, (tokens, read) in enumerate(usages, minute)
    ]


ALIKE = [
    *told("one", 0, (30_000, 20_000), (40_000, 30_000), (50_000, 40_000)),
    *told("other", 3, (25_000, 20_000), (26_000, 25_000)),
]
"""Both begin with the same 20,000 tokens, which other sessions wrote."""


def test_sessions_of_a_log_cost_by_themselves_what_they_cost_together() -> None:
    """They share the head, and no marker stands at its end: what one wrote, the other does not find. By hand, in
    tokens: everything is written at 1.25 but for what the session wrote itself, read at 0.1. One: 30,000 + 10,000 +
    10,000 written, 30,000 + 40,000 read: 69,500. The other: 25,000 + 1,000 written, 25,000 read: 35,000."""
    talks = talks_of_logs(ALIKE)
    prices = CostCounting(unit="tokens")
    assert talks[0].requests[0].step.prefix.hashes[0] == talks[1].requests[0].step.prefix.hashes[0]
    assert all(map(by_itself, talks))
    assert replayed(talks, prices) == [69_500, 35_000]
    assert [replayed([one], prices)[0] for one in talks] == [69_500, 35_000]


def test_a_session_that_reads_what_another_wrote_is_not_replayed_by_itself() -> None:
    """The twin: with a marker at the end of the head, the later session reads it, and would not by itself.
    By hand: 20,000 read and 5,000 written, then 25,000 read and 1,000 written: 12,000."""
    talks = [_marked_at_head(one) for one in talks_of_logs(ALIKE)]
    prices = CostCounting(unit="tokens")
    assert not any(map(by_itself, talks))
    assert replayed(talks, prices)[1] == 12_000
    assert replayed(talks[1:], prices) == [35_000]


def _marked_at_head(made: RecordedSession) -> RecordedSession:
    return each(made, lambda request, before: with_marks(request, (Breakpoint(0, "5m"), *request.step.marks)))


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
