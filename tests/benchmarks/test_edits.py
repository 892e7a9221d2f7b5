"""The benchmark of history edits, in small: its bar holds in first sessions, and would not without the rules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agentaccel.rewrite.edits import Weighed
from benchmarks.edits import FORMS, MODELS, Loop, cost, learn, measure, measured


@pytest.mark.slow
@pytest.mark.parametrize(("turns", "models"), [(12, MODELS[1:2]), pytest.param(60, MODELS, marks=pytest.mark.soak)])
def test_edits_are_never_dearer_than_the_better_of_the_two_by_more_than_two_percent(
    turns: int, models: Sequence[str]
) -> None:
    """Must show 6 for loops of 60 requests, and here also 12; the whole table is `python -m benchmarks edits`."""
    result = measure(turns=(turns,), results=(500,), models=models)
    assert result.broken == ()
    assert len(result.tables[0].rows) == 2 * len(models) * len(FORMS), "with and without a reminder"


@pytest.mark.soak
def test_without_the_wait_the_bar_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: an edit in every request in which one could be made."""
    monkeypatch.setattr(Weighed, "pays", property(lambda self: self.saved > 0))
    result = measure(turns=(16,), results=(500,), models=MODELS[1:2])
    assert result.broken


@pytest.mark.slow
def test_tokens_and_cost_are_those_that_the_emulator_bills(tmp_path: Path) -> None:
    loop = Loop(model=MODELS[0], turns=4, result=300)
    learn(loop, tmp_path)
    found = measured(loop, tmp_path)
    tokens, price = found["never"]
    assert found["first session"] == (tokens, price), "four requests are too few to edit"
    assert price < tokens
    assert cost([], MODELS[0]) == 0.0
