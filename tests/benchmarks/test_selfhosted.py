"""The benchmark of servers of one's own, in small: its bars hold, and would not where nothing is moved."""

from __future__ import annotations

import pytest

from agentaccel.rewrite import arranging
from benchmarks.selfhosted import SITUATIONS, complaints, measured


@pytest.mark.slow
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.name)
def test_hardly_more_is_computed_than_if_it_were_arranged_by_hand(situation) -> None:
    assert complaints(situation, 6, measured(situation, 6)) == []


def test_where_there_is_nothing_to_win_nothing_is_changed() -> None:
    """To the token, in both sessions."""
    situation = SITUATIONS[-1]
    counted = {form: found.computed for form, found in measured(situation, 4).items()}
    assert len(set(counted.values())) == 1


@pytest.mark.slow
def test_the_bars_would_not_hold_where_nothing_is_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: with a clock in front, which breaks everything in each request."""
    monkeypatch.setattr(arranging, "unsaid", lambda *of: "not now")
    situation = SITUATIONS[0]
    assert len(complaints(situation, 6, measured(situation, 6))) == 2
