"""What changes once in a session stays as it is then, so what stands behind it is written at once: a mode or a model
that is switched, and the model of a side call that comes first."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import pytest

from agentaccel import Usage
from tests.driver import Driver, Json, assistant, body, prose, tool, user
from tests.mutants import Mutant, running, survives

TOOLS = [tool("search"), tool("fetch")]


def written(sent: int) -> Json:
    """A request after so many replies."""
    messages = [user(prose(300))]
    for turn in range(sent):
        messages += [assistant(prose(30, turn)), user(prose(200, turn))]
    return body(*messages, system=prose(1500), tools=TOOLS)


CHANGES: dict[str, Callable[[Json], Json]] = {
    "system prompt": lambda request: {**request, "system": prose(1500, 1)},
    "model": lambda request: {**request, "model": "claude-opus-4-8"},
    "effort": lambda request: {**request, "output_config": {"effort": "low"}},
    "thinking": lambda request: {**request, "thinking": {"type": "adaptive"}},
    "tools": lambda request: {**request, "tools": TOOLS[1:]},
}


def input_of(usage: Usage) -> int:
    assert usage.input is not None
    return usage.input


@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("what", CHANGES)
def test_what_was_switched_once_is_read_from_the_next_request_on(what: str, named: bool, tmp_path: Path) -> None:
    """In a first session: six requests as they were, and two that are otherwise."""
    driver = Driver(tmp_path)
    requests = [CHANGES[what](written(turn)) if turn >= 6 else written(turn) for turn in range(8)]
    with driver.accel.session("one") if named else nullcontext():
        usages = [driver.ask(request) for request in requests]
    assert (usages[6].read or 0) < (usages[5].read or 0), "of what was held some is of no use any more"
    assert (usages[7].read or 0) > 0.8 * input_of(usages[7])


@pytest.mark.parametrize("own", [True, False], ids=["own words", "same words"])
@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
def test_a_side_call_of_another_model_takes_nothing_from_what_follows(named: bool, own: bool, tmp_path: Path) -> None:
    """A title, or a question of a kind: to a small model, before the first request."""
    driver = Driver(tmp_path)
    first = user(prose(100, 5)) if own else written(0)["messages"][0]
    with driver.accel.session("one") if named else nullcontext():
        driver.ask(body(first, system="Find a title.", model="claude-haiku-4-5"))
        usages = [driver.ask(written(turn)) for turn in range(4)]
    for before, usage in pairwise(usages):
        assert (usage.read or 0) >= 0.9 * input_of(before)


@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
def test_a_first_request_to_another_model_takes_nothing_from_what_follows(named: bool, tmp_path: Path) -> None:
    """A router asks a small model first, and goes on with another: that is one conversation."""
    driver = Driver(tmp_path)
    with driver.accel.session("one") if named else nullcontext():
        driver.ask({**written(0), "model": "claude-haiku-4-5"})
        usages = [driver.ask(written(turn)) for turn in range(1, 5)]
    for before, usage in pairwise(usages):
        assert (usage.read or 0) >= 0.9 * input_of(before)


def test_what_changes_from_the_start_is_not_written(tmp_path: Path) -> None:
    """The twin: a clock would pay for a write in every request."""
    driver = Driver(tmp_path)
    with driver.accel.session("one"):
        usages = [driver.ask({**written(turn), "system": f"It is {turn}. {prose(1500)}"}) for turn in range(8)]
    assert all((usage.written or 0) < 0.5 * input_of(usage) for usage in usages[2:])


def test_what_keeps_changing_after_a_while_is_given_up_after_three_requests(tmp_path: Path) -> None:
    driver = Driver(tmp_path)

    def asked(turn: int) -> Json:
        return {**written(turn), "system": f"It is {max(turn - 5, 0)}. {prose(1500)}"}

    with driver.accel.session("one"):
        usages = [driver.ask(asked(turn)) for turn in range(14)]
    tried = [turn for turn in range(6, 14) if (usages[turn].written or 0) > 0.5 * input_of(usages[turn])]
    assert tried == [6, 7, 8]


GUARDS = (
    Mutant(
        guard="taking one change for many",
        at="agentaccel.cache.observe:_compared",
        old="        seen += _before_it_changed(state, broken)\n",
        new="",
    ),
    Mutant(
        guard="taking a model for a clock",
        at="agentaccel.cache.beliefs:Beliefs.stable",
        old="place.startswith((END_OF, PARAMETERS))",
        new="place.startswith(END_OF)",
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize("mutant", GUARDS, ids=lambda mutant: mutant.guard)
def test_the_tests_fail_without_the_guard(mutant: Mutant, tmp_path: Path) -> None:
    assert survives(mutant, tmp_path, [*running("tests/cache/test_changing_once.py"), "-m", "not soak"]) is None
