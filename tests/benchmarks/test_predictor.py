"""The benchmark of the predictor runs, and what of it does not depend on the machine holds."""

from __future__ import annotations

import pytest

from agentaccel.predict.tree import MOST_NODES
from benchmarks import predictor


@pytest.mark.soak
def test_what_takes_time_is_measured() -> None:
    """How long it takes is for the benchmark to say, never for a test."""
    result = predictor.measure(quick=True)
    assert {row[0] for row in result.tables[0].rows} >= {"update 40", "predict 300", "bind and rank", "learn"}
    assert not result.broken


def test_a_tree_fed_noise_stays_within_its_bound() -> None:
    noise = predictor.Noise(500)
    assert 250 < noise.nodes <= 500 < MOST_NODES
