"""The benchmark of dispatch measures what it says; whether bounds hold is for whoever runs it on a quiet machine."""

from __future__ import annotations

import asyncio

import pytest

from agentaccel.tools import permission as judging
from benchmarks import dispatch
from benchmarks.dispatch import measure


@pytest.mark.slow
def test_every_kind_of_tool_and_both_arms_of_the_lag_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """In short blocks here."""
    monkeypatch.setattr(dispatch, "CALLS", 20)
    monkeypatch.setattr(dispatch, "PASSES", 100)
    result = measure(rounds=1)
    times, lag, stalls = result.tables
    assert [row[0] for row in stalls.rows] == list(dispatch.LONG)
    assert [row[0] for row in times.rows] == ["typed", "shell", "sql"]
    assert all(isinstance(row[3], float) and row[3] > 0 for row in times.rows)
    assert [row[0] for row in lag.rows] == ["early runs", "eight other tasks"]


@pytest.mark.slow
async def test_a_judge_on_the_loop_makes_it_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the bound: ten statements of 4.9 KB, judged in one pass each, at some 10 µs a character."""
    monkeypatch.setattr(judging, "in_a_loop", lambda: False)
    monkeypatch.setattr(dispatch, "JUDGED", 3)
    with_us, alone = await asyncio.to_thread(lambda: asyncio.run(dispatch._stalls("a statement of 4.9 KB", 1)))
    assert with_us - alone > dispatch.STALL_BOUND
