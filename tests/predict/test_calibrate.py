"""Calibration: what was stated is worth what came true, and less while little is known."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.predict.calibrate import Calibration

STATED = st.floats(0, 1)


@given(st.lists(st.tuples(STATED, st.booleans()), max_size=200))
def test_what_was_stated_higher_is_never_worth_less(outcomes: list[tuple[float, bool]]) -> None:
    calibration = Calibration()
    for stated, right in outcomes:
        calibration.learn(stated, right)
    worth = [calibration.of(at / 50) for at in range(51)]
    assert worth == sorted(worth)
    assert 0.0 <= worth[0] <= worth[-1] <= 1.0


@pytest.mark.parametrize("stated", [0.1, 0.3, 0.6, 0.9])
def test_without_evidence_it_is_worth_less_than_stated(stated: float) -> None:
    calibration = Calibration()
    assert calibration.of(stated) < stated
    before = calibration.of(stated)
    chance = random.Random(3)
    for _ in range(500):
        calibration.learn(stated, chance.random() < stated)
    assert before < calibration.of(stated) == pytest.approx(stated, abs=0.1)


def test_what_never_came_true_is_worth_nothing() -> None:
    calibration = Calibration()
    worth = []
    for _ in range(4000):
        calibration.learn(0.7, False)
        worth.append(calibration.of(0.7))
    assert worth[500] < 0.15
    assert worth[-1] < 0.03


def test_what_is_stated_apart_stays_apart() -> None:
    calibration = Calibration()
    chance = random.Random(3)
    for _ in range(2000):
        stated = chance.random()
        calibration.learn(stated, chance.random() < stated)
    worth = [calibration.of(at / 200) for at in range(20, 180)]
    assert len(set(worth)) > 0.9 * len(worth)  # a step for each bin would leave 24 values
