"""What a user has measured of an engine, as it is given in a file."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agentaccel.errors import ConfigError
from agentaccel.selfhost.candidates import Head, of_head, of_replay
from agentaccel.selfhost.draft_replay import Drafted
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


def test_of_several_measurements_those_count_that_say_most_of_a_candidate() -> None:
    step = {"method": "suffix", "requests": 1}
    likelier = {"suffix_decoding_min_token_prob": 0.5}
    rows = [*NONE, {**step, "step": 11.0, "tokens": 16, "settings": {}}, {**step, "step": 13.0}]
    measured = read_measurements([*rows, {**step, "step": 12.0, "settings": likelier}])
    plain = of_replay({"method": "suffix", "tokens": 16}, Drafted())
    assert measured.applied(plain).costs == ((1, 1.1),)
    assert measured.applied(replace(plain, settings=likelier)).costs == ((1, 1.2),)
    assert measured.applied(replace(plain, tokens=8)).costs == ((1, 1.3),)


def test_what_was_measured_twice_counts_as_its_mean() -> None:
    rows = [*NONE, {"method": "none", "requests": 1, "step": 30.0}]
    row = {"method": "suffix", "requests": 1, "tokens_per_step": 2, "drafted_per_token": 1.0}
    measured = read_measurements([*rows, {**row, "step": 20.0}, {**row, "step": 60.0}])
    assert measured.base == ((1, 20.0), (11, 20.0))
    assert measured.candidates[0].costs == ((1, 2.0),)


def test_what_was_measured_and_does_not_count_is_said() -> None:
    head = of_head(Head(method="eagle3", acceptance=0.6), 1, assumed("gpu", 8))

    def unused(*rows: dict[str, Any]) -> list[str]:
        return list(read_measurements(list(rows)).unused([head]))

    step = {"method": "eagle3", "requests": 1, "step": 15.0}
    assert unused(*NONE) == unused(*NONE, step) == unused(*NONE, {**step, "tokens": head.tokens}) == []
    assert unused(NONE[0], step) == []  # that one step tells what this one costs
    assert "two numbers of requests at once" in unused(NONE[0])[0]
    assert "two numbers of requests at once" in unused(NONE[0], {**NONE[1], "step": 5.0}, step)[0]
    assert "warp: it is no candidate here" in unused(*NONE, {**step, "method": "warp"})[0]
    other = unused(*NONE, {**step, "tokens": 99})
    assert len(other) == 1
    assert f"are those of none of {head.label}" in other[0]
    assert "without speculation there, too" in unused(*NONE, {**step, "requests": 64})[0]
    assert "without speculation there, too" in unused(step)[0]


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
        ([{"method": "none", "requests": 1}], "none says nothing: give its step"),
        ([{"method": "suffix", "requests": 1, "tokens": 3}], "suffix says nothing: give its step"),
        ([{"method": "suffix", "requests": 1, "tokens_per_step": 3}], "give drafted_per_token with it"),
        ([{"method": "suffix", "requests": 1, "step": 1, "acceptance": 0.5}], "give drafted_per_token with it"),
        (
            [{"method": "suffix", "requests": 1, "tokens_per_step": 3, "drafted_per_token": 0.5}],
            "3 tokens a step cannot come from 0.5 drafted",
        ),
        ([{"method": "suffix", "requests": 1, "acceptance": 1.5}], "at most 1"),
        ([{"method": "suffix", "requests": 1, "tokens_per_step": 0.5}], "at least 1"),
        ([{"method": "suffix", "requests": 1, "step": 1, "model": 3}], "give its name"),
        ([{"method": "suffix", "requests": 1, "settings": 3}], "an object by their names"),
        ([{"method": "suffix", "requests": 1, "acceptance": 1.0, "drafted_per_token": 1.0}], "of one window"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_give(value: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_measurements(value)
