"""What is believed of pauses: those of people are long, and the next may be longer than all that were seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.cache.beliefs import Beliefs
from agentaccel.cache.pauses import ANY, EDGES, pause_seen, pauses
from agentaccel.facts import priors
from agentaccel.replay.simulate import accelerate
from benchmarks.situations import Situation, runs
from benchmarks.situations.form import Prompts, Times, Turns


def seen(*seconds: float) -> Beliefs:
    return Beliefs().after([one for pause in seconds for one in pause_seen(ANY, pause)])


@given(st.lists(st.floats(1, 80_000), min_size=1, max_size=30), st.sampled_from(EDGES[1:]))
def test_the_next_pause_may_outlast_all_that_were_seen(lengths: list[float], edge: float) -> None:
    """Of those that come to a step of time, one more than were seen there ends in it as stated, whatever they did."""
    step = EDGES.index(edge)
    left = pauses(seen(*lengths), ANY).left
    came = sum(length >= EDGES[step - 1] for length in lengths)
    assert left[step] >= left[step - 1] * (1.0 - priors().pause_ends[step]) / (came + 1.0) * (1 - 1e-9)


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from(EDGES))
def test_the_likelier_a_person_is_to_answer_the_longer_a_pause_may_be(one: float, other: float, seconds: float) -> None:
    fewer, more = (pauses(Beliefs(), ANY, people=share).longer(seconds) for share in sorted((one, other)))
    assert fewer <= more * (1 + 1e-9)


def talk(sessions: int, *, calls: int = 0, turns: int = 8) -> Situation:
    """Somebody who answers within a minute, or tools that do."""
    return Situation(
        name="talk",
        turns=turns,
        sessions=sessions,
        prompts=Prompts(tools=5_000, system=3_000, first=300),
        turn=Turns(text=100, calls=calls, call=50, result=100, user=100),
        times=Times(between=100_000, reply=5, tool=20, user=20),
    )


def lifetimes(situation: Situation) -> list[set[str]]:
    """What each session's prompts were written for."""
    return [
        {label for usage in session for label in usage.write or {}} for session in accelerate(runs(situation)).usages
    ]


@pytest.mark.parametrize("turns", [8, 30])
@pytest.mark.parametrize("calls", [0, 1])
def test_before_a_pause_has_outlasted_the_shorter_lifetime_no_longer_one_is_bought(calls: int, turns: int) -> None:
    """Neither where a person answers nor where a tool does."""
    assert lifetimes(talk(2, calls=calls, turns=turns)) == [{"5m"}] * 2
