"""The benchmarks of our own work run; what of them does not depend on the machine is held here."""

from __future__ import annotations

import pytest

from benchmarks import logs, memory, overhead, planner

pytestmark = pytest.mark.soak


def test_an_open_session_takes_at_most_600_bytes_a_block() -> None:
    result = memory.measure(sessions=2)
    assert not result.broken


def test_reading_logs_takes_little_memory() -> None:
    result = logs.measure(megabytes=20, rounds=3)
    assert [sentence for sentence in result.broken if " MB" in sentence] == []


@pytest.mark.parametrize("benchmark", [planner, overhead])
def test_what_takes_time_is_measured(benchmark: object) -> None:
    """How long it takes is for the benchmark to say, never for a test."""
    result = benchmark.measure(quick=True)  # type: ignore[attr-defined]
    assert result.tables
    assert result.n >= 3
