"""Markers that a framework sets and nobody reads: the plan says so in figures, and advice does."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentaccel import Policy, TurnRecord
from agentaccel.cache import planner
from agentaccel.report.advise.choose import advise
from agentaccel.report.advise.reading import talks_of_store
from agentaccel.report.advise.remedies import in_vain
from agentaccel.store.store import open_reader
from agentaccel.testing import ManualClock
from tests.driver import Driver, Json, assistant, body, prose, user
from tests.engine.test_arranging import START

MARK: Json = {"cache_control": {"type": "ephemeral"}}


def _marked(folder: Path, *, changes: bool, mode: str = "on") -> Driver:
    """Three sessions with a marker on the instructions and one on the last message, as a framework sets them. Where the
    instructions `change`, they do from their first word on."""
    one = Driver(folder, policy=Policy(strict=True, mode=mode), clock=ManualClock(now=START))  # type: ignore[arg-type]
    for number in range(3):
        messages = [user([{"type": "text", "text": prose(60)}])]
        with one.accel.session(f"s{number}", agent="x"):
            for turn in range(8):
                *before, last = messages
                rules = {"type": "text", "text": prose(1500, turn * 5 if changes else 0), **MARK}
                asked = user([{**last["content"][0], **MARK}])
                one.ask(body(*before, asked, system=[rules]))
                messages += [assistant(prose(30, turn)), user([{"type": "text", "text": prose(50, turn)}])]
        one.clock.advance(8000)
    return one


def _said(record: TurnRecord) -> list[str]:
    return [reason for reason in record.reasons if "hardly read again" in reason]


@pytest.mark.parametrize("mode", ["on", "observe"])
def test_markers_behind_what_changes_are_said_to_be_in_vain(mode: str, tmp_path: Path) -> None:
    """All of the prompt is written at 1.25 times its price in each request; without markers it costs 1: 20 % less."""
    said = _said(_marked(tmp_path, changes=True, mode=mode).records[-1])
    assert len(said) == 1
    assert "the request's own 2 marker(s)" in said[0]
    assert said[0].endswith("expected to cost 20% less")


def test_markers_that_are_read_are_not(tmp_path: Path) -> None:
    assert not any(map(_said, _marked(tmp_path, changes=False).records))


def test_without_the_comparison_every_marker_would_be_in_vain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: a first request pays for its writes as well, and they are worth it."""
    real = planner.in_vain
    monkeypatch.setattr(planner, "in_vain", lambda scene, cost: real(scene, float("inf")))
    assert _said(_marked(tmp_path, changes=False).records[0])


def test_advice_says_what_switching_them_off_saves(tmp_path: Path) -> None:
    """Of what was paid, 0.25 of 1.25: as a team sees it that only observes."""
    with open_reader(_marked(tmp_path / "changes", changes=True, mode="observe").store) as store:
        [found] = advise(talks_of_store(store), remedies=(in_vain,))
    assert found.kind == "markers in vain"
    assert found.share == pytest.approx(0.2, abs=0.02)
    with open_reader(_marked(tmp_path / "stays", changes=False, mode="observe").store) as store:
        assert not advise(talks_of_store(store), remedies=(in_vain,))
