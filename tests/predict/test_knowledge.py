"""What was learned outlasts the process, adds up, and keeps what is private out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentaccel.predict import knowledge as knowledge_module
from agentaccel.predict.events import Answered, Event, Said
from agentaccel.predict.knowledge import Knowledge
from agentaccel.predict.predictor import Predictor
from agentaccel.predict.tables import MOST_ARGUMENTS
from tests.anything import CHARACTERS
from tests.predict.loops import call, learn, many, one_by_one, opening, order, person, play, step

NEW = 77


def reloaded(predictor: Predictor) -> Predictor:
    return Predictor(Knowledge.load(json.loads(json.dumps(predictor.knowledge.dump()))))


@pytest.mark.slow
def test_what_was_dumped_and_loaded_predicts_the_same() -> None:
    predictor = learn(Predictor(), many(one_by_one))
    told = [play(one, opening(NEW)).predict() for one in (predictor, reloaded(predictor))]
    assert len(told[0]) >= 4
    for ours, theirs in zip(*told, strict=True):
        assert (ours.call, ours.rule) == (theirs.call, theirs.rule)
        assert ours.probability == pytest.approx(theirs.probability, abs=0.05)
        assert ours.soon == pytest.approx(theirs.soon, abs=0.05)


def test_loading_twice_is_loading_once() -> None:
    predictor = learn(Predictor(), many(one_by_one, 5))
    once = reloaded(predictor)
    assert shown(once.knowledge.dump()) == shown(reloaded(once).knowledge.dump())


def shown(dump: Any) -> Any:
    """A dump with what rounding leaves of its numbers, without empty objects."""
    if isinstance(dump, dict):
        parts = {name: shown(one) for name, one in dump.items()}
        return {name: one for name, one in parts.items() if one != {}}
    return round(dump, 6) if isinstance(dump, float) else dump


@pytest.mark.slow
def test_two_processes_add_up_to_one_that_saw_both() -> None:
    sessions = list(many(one_by_one, 20))
    both = learn(Predictor(), sessions).knowledge
    first, second = (learn(Predictor(), part).knowledge for part in (sessions[:10], sessions[10:]))
    first.merge(json.loads(json.dumps(second.dump())))
    assert first.fleet.root.counts == both.fleet.root.counts
    assert first.tables.known["find_order"].forms == both.tables.known["find_order"].forms
    seen = [one.tables.known["find_order"].again.seen for one in (first, both)]
    assert seen[0] == seen[1]
    assert play(Predictor(first), opening(NEW)).predict()[0].call == call("find_order", order=order(NEW, 0))


def test_what_both_began_with_is_counted_once() -> None:
    sessions = list(many(one_by_one, 20))
    begun = learn(Predictor(), sessions[:10]).knowledge.dump()
    here, there = (learn(Predictor(Knowledge.load(begun)), sessions[10:15]).knowledge for _ in range(2))
    here.merge(there.dump(), less=begun)
    assert sum(here.fleet.root.counts.values()) == 20 * sum(begun["fleet"]["nodes"]["[]"]["counts"].values()) / 10


def test_a_session_that_is_open_learns_on_in_what_was_merged() -> None:
    predictor = learn(Predictor(), many(one_by_one, 4))
    history = play(predictor, opening(NEW))
    predictor.knowledge.merge(learn(Predictor(), many(one_by_one, 20)).knowledge.dump())
    assert history.predict()[0].call == call("find_order", order=order(NEW, 0))


def texts(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def test_what_one_session_said_is_not_in_a_dump() -> None:
    told = texts(learn(Predictor(), many(one_by_one)).knowledge.dump())
    assert "find_order" in told
    assert not [
        one for number in range(24) for one in (person(number), order(number, 0), "Hello", "sent") if one in told
    ]


def pinned(number: int) -> list[Event]:
    look = step((call("unlock", pin="4711-0815", door="front"), "ok"))
    return [Said(f"Unlock, {number}."), *look, Answered("Open.")]


def test_a_sensitive_constant_is_neither_kept_nor_offered() -> None:
    def sensitive(tool: str, argument: str) -> bool:
        return (tool, argument) == ("unlock", "pin")

    careful = learn(Predictor(Knowledge(sensitive=sensitive)), many(pinned))
    free = learn(Predictor(), many(pinned))
    assert "front" in texts(careful.knowledge.dump())
    assert "4711-0815" not in texts(careful.knowledge.dump())
    assert play(careful, [Said("Unlock.")]).predict() == ()
    assert "4711-0815" in texts(free.knowledge.dump())
    assert play(free, [Said("Unlock.")]).predict()[0].call == call("unlock", pin="4711-0815", door="front")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(CHARACTERS, max_size=6),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(CHARACTERS, max_size=6), one, max_size=3),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=2 * settings.default.max_examples)
@given(JSON, st.lists(st.integers(0, 40), max_size=6))
def test_what_cannot_be_read_is_left_out(odd: Any, path: list[int]) -> None:
    """Anything may stand anywhere in a dump."""
    dump = json.loads(json.dumps(_DUMP))
    place, at = dump, "fleet"
    for number in path:
        names = sorted(place)
        at = names[number % len(names)] if names else at
        if not isinstance(place.get(at), dict) or not place[at]:
            break
        place, at = place[at], sorted(place[at])[0]
    place[at] = odd
    history = play(Predictor(Knowledge.load(dump)), opening(NEW))
    history.predict()
    history.close()


@given(JSON)
def test_anything_can_be_loaded(odd: Any) -> None:
    fresh = play(Predictor(), opening(NEW)).predict()
    assert play(Predictor(Knowledge.load(odd)), opening(NEW)).predict() == fresh


_DUMP = learn(Predictor(), many(one_by_one, 3)).knowledge.dump()


def test_patterns_are_told_in_words() -> None:
    best = learn(Predictor(), many(one_by_one)).knowledge.patterns(2)
    assert "find_order(order=result find_person.orders[*], fresh)" in [one.words for one in best]
    assert all(one.met >= one.right > 0 for one in best)
    assert all(one.soon >= one.right for one in best)


@pytest.mark.slow
def test_tables_stay_within_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knowledge_module, "MOST_RULES", 50)
    predictor = Predictor()
    for number in range(150):
        wide = call(f"wide_{number}", **{f"a{at}": f"v{number}" for at in range(40)})
        tool = f"find_{number % 70}"
        events = [
            Said(f"I am {person(number)}."),
            *step((call(tool, person=person(number)), {"v": number})),
            *step((wide, "ok")),
        ]
        play(predictor, events, workload=f"w{number % 20}").close()
    known = predictor.knowledge.tables.known
    assert sum(len(one.sources) for one in known.values()) <= MOST_ARGUMENTS
    assert "wide_149" in known
    assert 20 < len(predictor.knowledge.rules) <= 50
    assert len(predictor.knowledge.workloads) <= knowledge_module.MOST_WORKLOADS


@pytest.mark.slow
@settings(max_examples=2 * settings.default.max_examples)
@given(st.lists(st.tuples(st.text(CHARACTERS, max_size=40), JSON, st.text(CHARACTERS, max_size=80)), max_size=4))
def test_nothing_that_comes_from_outside_raises(odd: list[tuple[str, Any, str]]) -> None:
    predictor = Predictor()
    for _ in range(2):
        history = predictor.session("odd", reads=lambda one: True)
        for name, value, text in odd:
            history.take(Said(text))
            history.predict()
            held = value if isinstance(value, dict) else {name: value}
            for event in step((call(name, **{str(key): one for key, one in held.items() if str(key) != "name"}), text)):
                history.take(event)
            history.take(Answered(text))
            history.resources()
        history.close()
    json.dumps(predictor.knowledge.dump())


@pytest.mark.parametrize(
    "result",
    ["[" * 100_000, "{" * 5000, '{"a":' * 3000 + "1" + "}" * 3000, "\ud800 \x00", "- " * 9000, " : \n" * 9000,
     "9" * 5000, "x/" * 9000, "'" * 9000, "<" * 9000, "a" * 200_000, "1," * 9000, "-\n" * 9000],
    ids=lambda one: one[:4].encode("unicode_escape").decode(),
)  # fmt: skip
def test_a_monstrous_result_is_taken_in(result: str) -> None:
    predictor = learn(Predictor(), many(one_by_one, 3))
    history = play(
        predictor, [Said("Look."), *step((call("look"), result), (call("find_order", order=result), result))]
    )
    history.predict()
    history.take(Answered(result))
    assert history.resources(3) is not None


@pytest.mark.slow
def test_what_is_predicted_does_not_hang_on_the_seed_of_hashes() -> None:
    code = (
        "from tests.predict.loops import *; from agentaccel.predict.predictor import Predictor\n"
        "import json; p = learn(Predictor(), many(one_by_one, 8)); h = play(p, opening(77))\n"
        "print(h.predict(), h.resources(), json.dumps(p.knowledge.dump()))"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert "Q77Z0X" in told[0]
