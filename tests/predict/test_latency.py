"""How long tools take, and what of it a launch hides."""

from __future__ import annotations

import json
import math
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentaccel.predict.latency import MEMORY, MOST_TOOLS, Latencies, Sketch, runway

times = st.lists(st.floats(1e-3, 1e4), min_size=1, max_size=60)


@pytest.mark.slow
@given(times, st.floats(1e-3, 1e4))
@settings(max_examples=100)
def test_the_mean_of_what_fits_is_right_within_the_accuracy(seconds: list[float], limit: float) -> None:
    """E[min(L, R)], whatever the scale."""
    sketch = Sketch()
    for one in seconds:
        sketch.add(one)
    exact = statistics.mean(min(one, limit) for one in seconds)
    assert sketch.mean_min(limit) == pytest.approx(exact, rel=0.06)


@pytest.mark.slow
@given(times, st.floats(0.01, 1.0))
@settings(max_examples=100)
def test_quantiles_are_right_within_the_accuracy(seconds: list[float], share: float) -> None:
    """Of DDSketch: relative."""
    sketch = Sketch()
    for one in seconds:
        sketch.add(one)
    exact = sorted(seconds)[max(math.ceil(share * len(seconds) - 1e-9), 1) - 1]
    assert sketch.quantile(share) == pytest.approx(exact, rel=0.06)


def test_a_tool_that_becomes_slower_is_seen_to() -> None:
    """Old times count less."""
    sketch = Sketch()
    for seconds in [1.0] * 5000 + [4.0] * 1500:
        sketch.add(seconds)
    assert sketch.count <= MEMORY
    assert sketch.quantile(0.3) == pytest.approx(4.0, rel=0.06)


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan])
def test_what_is_no_time_is_not_counted(seconds: float) -> None:
    """Clocks may be wrong."""
    sketch = Sketch()
    sketch.add(seconds)
    assert sketch.count == 0


def test_a_tool_that_was_never_seen_is_taken_to_be_like_the_others() -> None:
    """And before any was seen, as it is stated."""
    known = Latencies()
    before = known.mean("new")
    for _ in range(40):
        known.saw("other", 20.0)
    assert 0.0 < before < known.mean("new")
    assert known.mean("new") == pytest.approx(20.0, rel=0.1)


def test_what_is_known_survives_the_process() -> None:
    """As numbers."""
    known = Latencies()
    for i in range(30):
        known.saw("a", 1.0 + i)
    again = Latencies.load(json.loads(json.dumps(known.dump())))
    assert again.overlap("a", (5.0, 10.0)) == known.overlap("a", (5.0, 10.0))
    assert again.quantile("a", 0.9) == known.quantile("a", 0.9)


def test_so_many_tools_are_kept() -> None:
    """The one that was not seen for longest goes."""
    known = Latencies()
    for i in range(MOST_TOOLS + 10):
        known.saw(f"tool {i}", 1.0)
    assert len(known.dump()) == MOST_TOOLS
    assert "tool 0" not in known.dump()


def test_what_is_left_of_a_reply_is_what_longer_ones_took() -> None:
    """Half of them take two seconds and half ten: after five it is one of the latter."""
    replies = Sketch()
    for seconds in [2.0, 10.0] * 20:
        replies.add(seconds)
    assert min(runway(replies, 1.0).next) == pytest.approx(2.0, rel=0.06)
    assert min(runway(replies, 1.0, elapsed=5.0).next) == pytest.approx(5.0, rel=0.11)
    assert set(runway(replies, 1.0, elapsed=60.0).next) == {0.0}
