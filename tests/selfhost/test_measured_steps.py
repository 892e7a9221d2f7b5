"""What a user has measured of an engine, as it is given in a file."""

from __future__ import annotations

from typing import Any

import pytest

from agentaccel.errors import ConfigError
from agentaccel.selfhost.candidates import Head, of_head
from agentaccel.selfhost.measured_steps import read_measurements
from agentaccel.selfhost.step_time import assumed

NONE: list[dict[str, Any]] = [
    {"method": "none", "requests": 1, "step": 10.0},
    {"method": "none", "requests": 11, "step": 20.0},
]


def test_costs_are_steps_with_a_method_in_steps_without() -> None:
    """Between two numbers of requests, of those without on their line."""
    row = {"method": "suffix", "step": 18.0, "tokens_per_step": 2, "drafted_per_token": 1.0}
    rows = [*NONE, *({**row, "requests": requests} for requests in (1, 6))]
    [candidate] = read_measurements(rows).candidates
    assert candidate.costs == ((1, 1.8), (6, 1.2))
    assert (candidate.rates.tokens_per_step, candidate.rates.known) == (2.0, "measured")


def test_tokens_a_step_follow_from_what_was_accepted() -> None:
    """N / (N - A); and of several windows as if they were one."""
    row = {"method": "suffix", "requests": 1, "acceptance": 0.5, "drafted_per_token": 1.0}
    [candidate] = read_measurements([row]).candidates
    assert (candidate.rates.tokens_per_step, candidate.costs) == (2.0, ())
    other = {"method": "suffix", "requests": 4, "tokens_per_step": 4.0, "drafted_per_token": 2.0}
    [candidate] = read_measurements([row, other]).candidates
    assert candidate.rates.tokens_per_step == pytest.approx(8 / 3)
    assert candidate.rates.drafted_per_token == 1.5


def test_a_cost_without_rates_is_of_what_is_replayed_or_stated() -> None:
    rows = [*NONE, {"method": "eagle3", "tokens": 3, "requests": 1, "step": 15.0}]
    measured = read_measurements(rows)
    assert measured.candidates == ()
    head = of_head(Head(method="eagle3", acceptance=0.6), 1, assumed("gpu", 8))
    assert head.tokens != 3
    assert measured.applied(head).costs == ()
    rows[-1]["tokens"] = head.tokens
    assert read_measurements(rows).applied(head).costs == ((1, 1.5),)
    del rows[-1]["tokens"]
    assert read_measurements(rows).applied(head).costs == ((1, 1.5),)


def test_a_cost_of_another_load_than_was_measured_without_is_none() -> None:
    rows = [*NONE, {"method": "suffix", "requests": 64, "step": 1.0, "tokens_per_step": 2, "drafted_per_token": 1}]
    assert read_measurements(rows).candidates[0].costs == ()


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({}, "a list of objects"),
        ([], "a list of objects"),
        ([1], "an object with a method"),
        ([{"requests": 1}], "an object with a method"),
        ([{"method": "none", "requests": 0, "step": 1}], "of 1 or more"),
        ([{"method": "none", "requests": True, "step": 1}], "of 1 or more"),
        ([{"method": "none", "requests": 1, "step": 0}], "step of none is 0"),
        ([{"method": "none", "requests": 1, "step": float("nan")}], "above 0"),
        ([{"method": "suffix", "requests": 1, "steps": 1}], "known are"),
        ([{"method": "suffix", "requests": 1, "acceptance": 1.5}], "at most 1"),
        ([{"method": "suffix", "requests": 1, "tokens_per_step": 0.5}], "at least 1"),
        ([{"method": "suffix", "requests": 1, "settings": 3}], "an object by their names"),
        ([{"method": "suffix", "requests": 1, "acceptance": 1.0, "drafted_per_token": 1.0}], "of one window"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_give(value: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_measurements(value)
