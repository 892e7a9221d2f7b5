"""Where the end of a prompt keeps changing, what stands before it lives longer only if it is written so at once."""

from __future__ import annotations

from statistics import fmean
from typing import Any

import pytest

from agentaccel.cache import lifetime as longevity
from agentaccel.cache.expectation import _unkept
from benchmarks.situations.form import grid
from benchmarks.situations.grid import cell


def over_the_oracle() -> float:
    """Of an agent that switches the choice of tools while people pause, after five sessions, over a few seeds."""
    [one] = [one for one in grid() if one.name == "tool choice switched, people pause"]
    cells = [cell(one, 8, "api", seed) for seed in range(8)]
    return fmean(one.after / one.after_floor.cost for one in cells)


@pytest.mark.slow
def test_what_stands_before_an_unstable_end_is_bought_for_longer() -> None:
    """A marker at the end, set later, would keep nothing."""
    assert over_the_oracle() <= 1.15


@pytest.mark.slow
def test_where_all_turns_to_come_do_not_count_it_is_bought_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    turns = longevity._turns

    def as_if_it_held(facts: Any, prospect: Any, added: float, premium: float) -> Any:
        return turns(facts, prospect._replace(unkept=0.0), added, premium)

    monkeypatch.setattr(longevity, "_turns", as_if_it_held)
    assert over_the_oracle() > 1.2


def test_what_is_replaced_each_turn_moves_along_and_is_no_unstable_part() -> None:
    """Of ten segments of a token each: the last two are replaced each turn; the sixth changes every other time."""
    replaced, changing = (8, 0.45), (5, 0.5)
    assert _unkept([(0, 0.9), replaced], float, 9, 8) == 0.0
    assert _unkept([(0, 1.0), changing, replaced], lambda i: i + 1.0, 9, 8) == pytest.approx(5 / 10 * 0.5)
    assert _unkept([(0, 1.0), changing], lambda i: i + 1.0, 9, 10) == pytest.approx(5 / 10 * 0.5)
