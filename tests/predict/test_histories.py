"""Whatever an agent does, it sees what it would have seen: random histories, run with agentaccel and without."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from agentaccel.policy import ToolPolicy
from tests.predict.histories import STALLS, TAKES, Action, Seen, histories, play

FEW = settings(
    max_examples=60,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
MANY = settings(FEW, max_examples=20_000, derandomize=False)


def check(history: list[Action]) -> Seen:
    """Run `history` both ways and compare; returns what it came to with agentaccel."""
    off, on = play(history, off=True), play(history)
    assert (on.state, on.files) == (off.state, off.files)
    assert on.left_behind == 0
    answered = Counter[int]()
    for here, there in zip(on.answers, off.answers, strict=True):
        if here.given_up or there.given_up:
            continue
        beside = off.disturbed(here.call, there.began, there.ended) or on.disturbed(here.call, here.began, here.ended)
        if not beside:  # else the two may fall into either order: also where a write begins as a read ends
            assert here.value == there.value, here
        assert here.seconds <= 2.2 * TAKES, f"{here} took longer than a fresh run and the wait for one"
        if here.run is not None and here.run >= 0 and on.runs[here.run][2]:
            answered[here.run] += here.run not in on.own
            assert not on.disturbed(here.call, on.runs[here.run][1], here.ended), f"{here} was served although stale"
    assert max(answered.values(), default=1) <= 1, "one early result was served twice"
    return on


def search(shape: settings) -> tuple[int, int, int]:
    """How many histories there were, how many with a result served early, and with one refused as stale."""
    counts = Counter[str]()

    @shape
    @given(histories())
    def histories_agree(history: list[Action]) -> None:
        seen = check(history)
        counts["all"] += 1
        counts["served"] += seen.total.served > 0
        counts["stale"] += seen.total.stale > 0

    histories_agree()
    return counts["all"], counts["served"], counts["stale"]


@pytest.mark.slow
def test_random_histories_see_the_same_and_are_served_early() -> None:
    """Doing nothing fails as well: a third of the histories have a result that was served early."""
    every, served, stale = search(FEW)
    assert served >= 0.3 * every, (served, every)
    assert stale >= 0.05 * every, (stale, every)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_twenty_thousand_random_histories_see_the_same() -> None:
    every, served, stale = search(MANY)
    assert every >= 20_000
    assert served >= 0.3 * every, (served, every)
    assert stale >= 0.05 * every, (stale, every)


def test_a_history_in_which_all_guesses_stall_is_no_slower_than_one_more_run() -> None:
    history: list[Action] = [("send", [("look", STALLS)]), ("sleep", 0.4), ("begin", ("look", STALLS)), ("wait",)]
    seen = check(history)
    assert TAKES < seen.answers[0].seconds <= 2.2 * TAKES


def test_switched_off_tier_by_tier_nothing_is_begun() -> None:
    history: list[Action] = [
        ("send", [("look", "a")]),
        ("hear", ("peek", "a")),
        ("sleep", 2.5),
        ("begin", ("look", "a")),
    ]
    assert play(history).total.launched == 2
    assert play(history, tools=ToolPolicy(eager=False)).total.launched == 1
    assert play(history, tools=ToolPolicy(speculate=False)).total.launched == 1
    assert play(history, tools=ToolPolicy(speculate=False, eager=False, cache_results=False)).total.launched == 0
