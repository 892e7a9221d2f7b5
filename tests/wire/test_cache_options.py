"""The field that steers a provider's own breakpoint: what is no form of it is the provider's to refuse, as written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.testing import ManualClock
from agentaccel.turn import Finished, Reported, Started
from agentaccel.types import Usage
from tests.driver import Json


def ask(number: int, wire: str, **more: Any) -> Json:
    said = [{"role": "user", "content": f"{number} " + "x " * 4000}]
    return {"model": "gpt-6.1-sol", ("messages" if wire == "chat" else "input"): said, **more}


def one_shots(folder: Path, wire: str) -> Accel:
    """An `Accel` that has learned that nothing of these prompts comes back."""
    clock = ManualClock(now=1e9)
    accel = Accel(Policy(store=StorePolicy(path=folder / "trace.db"), strict=True), clock=clock, environ={})
    for number in range(8):
        turn = accel.turn(ask(number, wire), provider="openai")
        turn.handle(Started(0.0))
        turn.handle(Reported(usage=Usage(input=2000, read=0, write={}, output=1)))
        turn.handle(Finished(1.0))
        clock.advance(9)
    return accel


@pytest.mark.many(3)
@pytest.mark.parametrize("wire", ["chat", "responses"])
@pytest.mark.parametrize(
    "options", [5, 0, "x", "", [], [1], True, False, {"prewarm": True}, {"mode": 5}, {"mode": ""}, {"mode": "implicit"}]
)
def test_options_that_are_none_or_that_warm_are_left_alone(tmp_path: Path, options: Any, wire: str) -> None:
    """Chosen by us: nothing is put in the place of a value that we do not understand, or beside one that writes."""
    request = ask(99, wire, prompt_cache_options=options)
    with one_shots(tmp_path, wire) as accel:
        plan = accel.plan(request, provider="openai")
    assert plan.apply(request).get("prompt_cache_options") == options
    if not isinstance(options, dict):
        assert plan.apply(request) is request


@pytest.mark.parametrize("wire", ["chat", "responses"])
@pytest.mark.parametrize("options", [None, {}, {"ttl": "30m"}, {"comparison_response_id": "r"}])
def test_options_that_leave_it_open_are_joined(tmp_path: Path, options: Any, wire: str) -> None:
    """The twin: the same prompt gets the mode where its sender has not said one."""
    request = ask(99, wire, prompt_cache_options=options)
    with one_shots(tmp_path, wire) as accel:
        plan = accel.plan(request, provider="openai")
    assert plan.apply(request)["prompt_cache_options"] == {**(options or {}), "mode": "explicit"}
