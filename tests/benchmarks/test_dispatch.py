"""The benchmark of dispatch measures what it says; whether bounds hold is for whoever runs it on a quiet machine."""

from __future__ import annotations

from benchmarks.dispatch import measure


def test_every_kind_of_tool_and_both_arms_of_the_lag_are_measured() -> None:
    result = measure(rounds=1)
    times, lag = result.tables
    assert [row[0] for row in times.rows] == ["typed", "shell", "sql"]
    assert all(isinstance(row[3], float) and row[3] > 0 for row in times.rows)
    assert [row[0] for row in lag.rows] == ["early runs", "eight other tasks"]
