"""Patterns that do not pay are given up, and tried again."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentaccel.predict.breaker import ALL, MOST_RULES, UNLIMITED, Breakers, stated
from agentaccel.predict.experience import Experience
from agentaccel.predict.launch import Load, decide
from agentaccel.types import Prediction, ToolCall
from tests.predict.test_decide import experience, guess


def launches(learned: Experience, *, used: bool, rounds: int, probability: float = 0.5, rules: int = 1) -> int:
    """How many of so many rounds launch, where every launch turns out so."""
    launched = 0
    for i in range(rounds):
        one = guess(probability, name=str(i), rule=f"rule {i % rules}")
        done = decide([one], experience=learned, runway=learned.runway(), load=Load(), now=float(i))
        for prediction in done.launch:
            launched += 1
            learned.launched(prediction, float(i))
            learned.settled(prediction, used=used, now=float(i))
    return launched


def test_a_pattern_that_is_never_right_is_given_up_within_a_dozen_launches() -> None:
    """Whatever was stated of it; one more is tried after each rest."""
    assert stated().breaker_launches <= launches(experience(), used=False, rounds=250) <= 14


def test_guesses_that_are_all_wrong_are_given_up_although_no_single_pattern_was_tried_often() -> None:
    """One breaker counts all of them."""
    assert launches(experience(), used=False, rounds=250, rules=50) <= 16


def test_a_pattern_that_is_right_is_never_given_up() -> None:
    """The twin: nothing is kept by launching nothing."""
    assert launches(experience(), used=True, rounds=250) == 250


def test_a_bad_pattern_is_given_up_while_good_ones_go_on() -> None:
    """Each has a breaker of its own."""
    learned, launched = experience(), {"good": 0, "bad": 0}
    for i in range(100):
        both = [guess(0.5, name=f"{rule} {i}", rule=rule) for rule in launched]
        for prediction in decide(both, experience=learned, runway=learned.runway(), load=Load(), now=float(i)).launch:
            launched[prediction.rule] += 1
            learned.launched(prediction, float(i))
            learned.settled(prediction, used=prediction.rule == "good", now=float(i))
    assert launched["good"] == 100
    assert launched["bad"] <= 14


def test_after_a_rest_one_launch_is_tried_and_a_use_closes_the_breaker() -> None:
    """Half-open."""
    learned = experience()
    launches(learned, used=False, rounds=20)
    two = [guess(0.9, name="a"), guess(0.9, name="b")]
    later = 20.0 + stated().rest
    done = decide(two, experience=learned, runway=learned.runway(), load=Load(), now=later)
    assert len(done.launch) == 1
    learned.launched(done.launch[0], later)
    assert not decide(two, experience=learned, runway=learned.runway(), load=Load(), now=later).launch
    learned.settled(done.launch[0], used=True, now=later)
    assert len(decide(two, experience=learned, runway=learned.runway(), load=Load(), now=later).launch) == 2


def test_what_was_launched_before_it_opened_does_not_close_it() -> None:
    """It counts, and the breaker rests: only the launch that is tried afterwards tells."""
    breakers = Breakers()
    for _ in range(40):
        breakers.launched("rule", 0.0)
    for _ in range(30):
        breakers.settled("rule", 0.5, used=False, now=40.0)
    breakers.settled("rule", 0.5, used=True, now=41.0)
    assert breakers.room("rule", 41.0) == 0
    assert breakers.trust("rule") < 0.5
    later = 40.0 + stated().rest
    breakers.launched("rule", later)
    breakers.settled("rule", 0.5, used=True, now=later)
    assert breakers.room("rule", later) > 1


def test_each_failed_trial_doubles_the_rest() -> None:
    """Until a day."""
    learned, rests, now = experience(), [], 0.0
    launches(learned, used=False, rounds=20)
    for _ in range(12):
        opened = now
        while not learned.breakers.room("rule 0", now):
            now += 60.0
        rests.append(now - opened)
        learned.breakers.launched("rule 0", now)
        learned.breakers.settled("rule 0", 0.5, used=False, now=now)
    assert rests[1] == pytest.approx(2 * stated().rest, rel=0.1)
    assert rests[-1] == pytest.approx(stated().most_rest, rel=0.1)


def test_probabilities_that_are_overstated_are_believed_less() -> None:
    """A tenth of what was stated comes true."""
    breakers = Breakers()
    for i in range(60):
        breakers.settled("rule", 0.8, used=i % 10 == 0, now=0.0)
    assert breakers.trust("rule") < 0.25
    assert breakers.trust("new") < 0.25, "a new pattern is believed as all of them are"


def test_a_guess_further_ahead_is_believed_as_others_so_far_ahead_are() -> None:
    """Chains that fail, each once, say something of the next chain, and nothing of the patterns they are made of."""
    breakers = Breakers()
    for i in range(40):
        breakers.settled("a", 0.8, used=i % 5 != 0, now=0.0)
        breakers.settled(f"a > {i}", 0.8, used=False, now=0.0)
    assert breakers.trust("a > new") < 0.1
    assert breakers.trust("a > 7") < 0.1, "one failure is no reason to believe it more than those that nobody tried"
    assert breakers.trust("a") > 0.8


def test_what_is_believed_never_exceeds_what_was_stated() -> None:
    """Good luck is no evidence for more."""
    breakers = Breakers()
    for _ in range(60):
        breakers.settled("rule", 0.1, used=True, now=0.0)
    assert breakers.trust("rule") == 1.0


def test_waste_makes_waste_dearer_and_hits_make_it_cheaper() -> None:
    """The controller rests where the share is as wanted."""
    learned = experience()
    prediction = Prediction(call=ToolCall(name="search", arguments={}), probability=0.1, soon=0.1, rule="r")
    for i in range(400):
        learned.settled(prediction, used=i % 20 == 0, now=0.0)
    dear = learned.surcharge
    for i in range(400):
        learned.settled(prediction, used=i % 2 == 0, now=0.0)
    assert dear > 0.5 > learned.surcharge


def test_what_was_learned_survives_the_process() -> None:
    """As JSON: after a restart the breaker is still open."""
    learned = experience()
    launches(learned, used=False, rounds=20)
    again = Experience.load(json.loads(json.dumps(learned.dump())))
    assert again.dump() == learned.dump()
    assert launches(again, used=False, rounds=20) == 0
    assert again.latencies.mean("search") == pytest.approx(learned.latencies.mean("search"))
    assert again.runway() == learned.runway()


def test_two_processes_learn_what_both_have_seen() -> None:
    """What one has given up stays given up, unless the other knows better."""
    bad, good, none = experience(1.0), experience(3.0), Experience()
    launches(bad, used=False, rounds=20)
    none.merge(bad)
    assert none.breakers.room("rule 0", 20.0) == 0
    assert none.latencies.mean("search") == pytest.approx(bad.latencies.mean("search"), rel=0.1)
    launches(good, used=True, rounds=60)
    bad.merge(good)
    assert bad.breakers.room("rule 0", 20.0) == UNLIMITED
    assert 1.2 < bad.latencies.mean("search") < 2.8


@pytest.mark.parametrize("data", [{}, {"tools": 1, "replies": [], "rules": {"a": 2}, "surcharge": "x"}])
def test_what_another_version_wrote_is_taken_as_far_as_it_is_understood(data: dict[str, Any]) -> None:
    """The rest was not learned."""
    assert Experience.load(data).dump() == Experience().dump()


@given(st.lists(st.tuples(st.sampled_from("ab"), st.booleans(), st.floats(0, 1)), max_size=80))
@settings(max_examples=50)
def test_records_stay_within_their_bounds(seen: list[tuple[str, bool, float]]) -> None:
    """Whatever happens."""
    breakers = Breakers()
    for at, (rule, used, probability) in enumerate(seen):
        breakers.launched(rule, float(at))
        breakers.settled(rule, probability, used=used, now=float(at))
        assert breakers.room(rule, float(at)) in (0, 1, UNLIMITED)
        assert 0.0 < breakers.trust(rule) <= 1.0


def test_so_many_patterns_are_kept_and_the_count_of_all_stays() -> None:
    """The one that was not launched for longest goes."""
    breakers = Breakers()
    for i in range(MOST_RULES + 50):
        breakers.settled(f"rule {i}", 0.5, used=False, now=0.0)
    kept = breakers.dump()
    assert len(kept) == MOST_RULES
    assert ALL in kept
    assert "rule 0" not in kept


def test_what_is_no_record_is_not_loaded() -> None:
    """A file of another version."""
    assert Breakers.load({"a": {"settled": 1}, "b": {}}).dump() == {}
