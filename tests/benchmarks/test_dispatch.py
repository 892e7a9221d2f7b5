"""The benchmark of dispatch measures what it says; whether bounds hold is for whoever runs it on a quiet machine."""

from __future__ import annotations

import pytest

from benchmarks import dispatch
from benchmarks.dispatch import measure


@pytest.mark.slow
def test_every_kind_of_tool_and_both_arms_of_the_lag_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """In short blocks here."""
    monkeypatch.setattr(dispatch, "CALLS", 20)
    monkeypatch.setattr(dispatch, "PASSES", 100)
    result = measure(rounds=1)
    times, lag = result.tables
    assert [row[0] for row in times.rows] == ["typed", "shell", "sql"]
    assert all(isinstance(row[3], float) and row[3] > 0 for row in times.rows)
    assert [row[0] for row in lag.rows] == ["early runs", "eight other tasks"]
