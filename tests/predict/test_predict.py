"""What the predictor says after made-up sessions."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agentaccel.predict.context import MOST_PASSED, Context, Place
from agentaccel.predict.events import Answered, Asked, Event, Returned, Said
from agentaccel.predict.predictor import Predictor
from agentaccel.predict.tokens import REPLY
from agentaccel.types import ToolCall
from tests.predict.loops import arguments, call, learn, many, one_by_one, opening, order, person, play, step

NEW = 77
"""A session that nobody has learned from."""


def test_a_predictor_that_has_seen_nothing_predicts_nothing() -> None:
    history = play(Predictor(), opening(NEW), tools={"find_order": {}})
    assert history.predict() == ()
    assert history.resources() == ()


@pytest.mark.slow
def test_an_id_is_taken_from_what_the_user_said() -> None:
    predictor = learn(Predictor(), many(one_by_one))
    best = play(predictor, [Said(f"Good morning, {person(NEW)} here.")]).predict()[0]
    assert best.call == call("find_person", person=person(NEW))
    assert best.probability > 0.5
    assert best.rule == "find_person(person=user a_a_94, last)"
    assert any("right in" in words for words in best.evidence)


@pytest.mark.slow
def test_the_next_unused_element_of_a_list_comes_first() -> None:
    predictor = learn(Predictor(), many(one_by_one))
    history = play(predictor, opening(NEW))
    for at in range(4):
        best = history.predict()[0]
        assert best.call == call("find_order", order=order(NEW, at))
        assert best.probability > 0.5
        for event in step((best.call, {"state": "sent"})):
            history.take(event)
    assert history.symbols()[REPLY] > 0.5


def all_at_once(number: int) -> list[Event]:
    calls = [(call("find_order", order=order(number, at)), {"state": "sent"}) for at in range(4)]
    return [*opening(number), *step(*calls), Answered("Done.")]


def test_a_fan_out_has_a_candidate_for_each_element() -> None:
    predictor = learn(Predictor(), many(all_at_once))
    found = play(predictor, opening(NEW)).predict()
    assert {one["order"] for one in arguments(found, "find_order")[:4]} == {order(NEW, at) for at in range(4)}
    assert min(one.probability for one in found[:4]) > 0.4


def legs(number: int, chance: random.Random | None = None) -> list[Event]:
    """A trip of two flights, each looked up with number and day of the same flight, in any order."""
    chance = chance or random.Random(number)
    flights = [
        {"flight": f"HAT{100 + number * 7 + at}", "day": f"2024-05-{10 + at * 9 + number % 9}"} for at in range(2)
    ]
    first, second = chance.sample(flights, 2)
    trip = [Said("When do I fly?"), *step((call("find_trip"), {"flights": flights}))]
    looks = step(*((call("find_flight", **flight), {"state": "ok"}) for flight in (first, second)))
    return [*trip, *looks, Answered("On time.")]


def test_arguments_of_one_call_come_from_one_record() -> None:
    predictor = learn(Predictor(), many(legs, 30))
    whole = legs(NEW)
    flights = {tuple(sorted(one.arguments.items())) for one in whole[3].calls}  # type: ignore[union-attr]
    found = play(predictor, whole[:3]).predict()
    best = [tuple(sorted(one.call.arguments.items())) for one in found[:2]]
    assert set(best) == flights
    assert "one record of find_trip.flights[*] (day, flight)" in found[0].rule


def noted(number: int) -> list[Event]:
    text = f"note {random.Random(number).random()} about things"
    return [*opening(number), *step((call("note", person=person(number), text=text), "ok")), Answered("Noted.")]


def test_a_call_of_which_one_argument_is_not_known_is_not_predicted() -> None:
    predictor = learn(Predictor(), many(noted))
    history = play(predictor, opening(NEW))
    assert history.symbols()["note"] > 0.5
    assert arguments(history.predict(), "note") == []


def test_an_optional_argument_gives_a_call_with_and_one_without_it() -> None:
    def listing(number: int) -> list[Event]:
        given: dict[str, Any] = {"limit": 10} if number % 2 else {}
        return [Said("What is new?"), *step((call("list_mail", box="inbox", **given), "[]")), Answered("Nothing.")]

    found = play(learn(Predictor(), many(listing)), [Said("What is new?")]).predict()
    assert {tuple(sorted(one)) for one in arguments(found, "list_mail")} == {("box",), ("box", "limit")}


def test_a_call_is_made_again_after_a_write() -> None:
    def corrected(number: int) -> list[Event]:
        look = call("find_person", person=person(number))
        change = call("set_city", person=person(number), city=f"city of {random.Random(number).random()}")
        return [*opening(number), *step((change, "ok")), *step((look, "{}")), Answered("Done.")]

    predictor = learn(Predictor(), many(corrected), reads=lambda one: one.name != "set_city")
    history = play(predictor, corrected(NEW)[:5], reads=lambda one: one.name != "set_city")
    assert history.predict()[0].call == call("find_person", person=person(NEW))


def misspelt(number: int) -> list[Event]:
    """The user names it loosely; the tool does not know it so, and tells what it is called."""
    name = f"billing-{number}"
    loose = call("open_queue", queue=f"Billing No. {number}")
    failed = [Asked((loose,)), Returned(loose, f"no queue 'Billing No. {number}'. Did you mean `{name}`?", error=True)]
    return [
        Said(f"Open Billing No. {number}."),
        *failed,
        *step((call("open_queue", queue=name), "ok")),
        Answered("Done."),
    ]


def test_an_argument_is_taken_from_what_an_error_says() -> None:
    best = play(learn(Predictor(), many(misspelt)), misspelt(NEW)[:3]).predict()[0]
    assert best.call == call("open_queue", queue=f"billing-{NEW}")
    assert "result open_queue!" in best.rule


def test_what_an_error_says_is_not_among_what_results_have_alike() -> None:
    scene = Context()
    for failed, text in ((False, '{"id": "R1A"}'), (True, "no R2B here")):
        scene.returned("look!" if failed else "look", text, failed=failed)
    assert [one.values for one in scene.places[Place("result", "", "A191A1")]] == [("R1A",)]
    assert scene.places[Place("result", "look!", "~A191A1")][0].values == ("R2B",)


def between_two(number: int, chance: random.Random) -> tuple[list[Event], list[Event], ToolCall]:
    """The user names two, and the agent looks at one of them; then the other is named beside a new one, in any order,
    and the agent looks at the new one."""
    first, passed, new = (f"{name}_{1000 + number}" for name in chance.sample(["ann", "bea", "cho", "dov", "eli"], 3))
    both, again = chance.sample([first, passed], 2), chance.sample([passed, new], 2)
    before = [
        Said(f"Either {both[0]} or {both[1]}."),
        *step((call("look", at=first), "fine")),
        Answered("Done."),
        Said(f"Now {again[0]} or {again[1]}."),
    ]
    looked = call("look", at=new)
    return before, [*step((looked, "fine")), Answered("Done.")], looked


@pytest.mark.slow
def test_what_was_passed_over_before_comes_after_what_is_new() -> None:
    """The user names both in one sentence, so that nothing else tells them apart."""
    chance, predictor, right = random.Random(0), Predictor(), 0
    for number in range(120):
        before, after, looked = between_two(number, chance)
        history = play(predictor, before)
        right += number >= 60 and history.predict()[0].call == looked
        for event in after:
            history.take(event)
        history.close()
    assert right >= 57


def test_of_so_many_calls_it_is_remembered_that_they_were_passed_over() -> None:
    scene = Context()
    for number in range(2 * MOST_PASSED):
        scene.expected(["one", f"two {number}"])
    assert scene.passed["one"] == 2 * MOST_PASSED
    assert len(scene.passed) == MOST_PASSED


def test_a_tool_that_is_not_there_is_not_predicted() -> None:
    predictor = learn(Predictor(), many(one_by_one))
    assert arguments(play(predictor, opening(NEW)).predict(), "find_order")
    assert arguments(play(predictor, opening(NEW), tools={"find_person": {}}).predict(), "find_order") == []


@pytest.mark.slow
def test_the_order_of_the_tool_table_changes_nothing() -> None:
    tables: list[dict[str, dict[str, Any]]] = [
        {"find_person": {}, "find_order": {}},
        {"find_order": {}, "find_person": {}},
    ]
    told = []
    for tools in tables:
        predictor = learn(Predictor(), many(one_by_one), tools=tools)
        told.append(play(predictor, opening(NEW), tools=tools).predict())
    assert told[0] == told[1] != ()


def test_only_what_is_admitted_is_told() -> None:
    predictor = learn(Predictor(), many(all_at_once))
    found = play(predictor, opening(NEW)).predict(3, lambda one: one.arguments.get("order") != order(NEW, 0))
    assert {one.call.arguments["order"] for one in found} == {order(NEW, at) for at in (1, 2, 3)}


@pytest.mark.slow
def test_soon_is_told_from_calls_that_come_before_anything_is_written() -> None:
    predictor = learn(Predictor(), many(one_by_one, 30))
    told = {
        one.call.arguments["order"]: one
        for one in play(predictor, opening(NEW)).predict()
        if one.call.name == "find_order"
    }
    assert told[order(NEW, 1)].probability < 0.2
    assert told[order(NEW, 1)].soon > 0.6
    assert all(one.soon >= one.probability for one in told.values())
    careful = learn(Predictor(), many(one_by_one, 30), reads=lambda one: False)
    later = play(careful, opening(NEW), reads=lambda one: False).predict()
    assert all(one.soon < 0.3 for one in later if one.call.arguments.get("order") == order(NEW, 1))


@pytest.mark.slow
def test_a_supposition_goes_on_and_leaves_no_trace() -> None:
    predictor = learn(Predictor(), many(one_by_one))
    history = play(predictor, [Said(f"{person(NEW)} here.")])
    before, learned = history.predict(), predictor.knowledge.dump()
    look, found = opening(NEW)[1:]
    assert isinstance(look, Asked)
    assert isinstance(found, Returned)
    deeper = history.supposing(look.calls[0], found.result)
    for at in range(3):
        best = deeper.predict()[0]
        assert best.call == call("find_order", order=order(NEW, at))
        deeper = deeper.supposing(best.call, '{"state": "sent"}')
    deeper.close()
    assert history.predict() == before
    assert predictor.knowledge.dump() == learned


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learned", "asked", "within"), [(60, 100, 0.09), pytest.param(150, 250, 0.07, marks=pytest.mark.soak)]
)
def test_stated_probabilities_come_true_as_often_as_they_say(learned: int, asked: int, within: float) -> None:
    """Agents that now and then do something else: over all that is said, three classes of probability."""
    chance = random.Random(5)

    def moody(number: int) -> list[Event]:
        events = opening(number)
        if chance.random() < 0.6:
            events += step((call("find_order", order=order(number, chance.randrange(2))), "{}"))
        return [*events, Answered("Well.")]

    predictor = learn(Predictor(), many(moody, learned))
    said: list[tuple[float, bool]] = []
    for number in range(learned, learned + asked):
        events = moody(number)
        history = predictor.session("loop", reads=lambda one: True)
        for event in events:
            if isinstance(event, Asked | Answered):
                calls = event.calls if isinstance(event, Asked) else ()
                said += [(one.probability, one.call in calls) for one in history.predict()]
            history.take(event)
        history.close()
    for low, high in ((0.0, 0.1), (0.1, 0.5), (0.5, 1.01)):
        here = [(p, right) for p, right in said if low <= p < high]
        assert len(here) > 0.4 * asked
        mean = sum(p for p, _ in here) / len(here)
        assert mean == pytest.approx(sum(right for _, right in here) / len(here), abs=within)


def test_a_constant_of_one_session_is_not_offered_in_another() -> None:
    def pin(number: int) -> list[Event]:
        return [Said("Unlock."), *step((call("unlock", pin="4711-0815"), "ok")), Answered("Open.")]

    once = learn(Predictor(), [pin(0)])
    assert arguments(play(once, [Said("Unlock.")]).predict(), "unlock") == []
    twice = learn(Predictor(), [pin(0), pin(1), pin(2)])
    assert arguments(play(twice, [Said("Unlock.")]).predict(), "unlock") == [{"pin": "4711-0815"}]


def test_workloads_share_a_predictor() -> None:
    predictor = Predictor()
    learn(predictor, many(one_by_one))
    other = predictor.session("another")
    for event in opening(NEW):
        other.take(event)
    assert other.predict()[0].call == call("find_order", order=order(NEW, 0))


def recorded(number: int) -> list[Event]:
    """Three arguments: two of a record, and words that nobody can guess."""
    row = {"id": f"R{number}A", "owner": f"o_{number}"}
    words = f"words {random.Random(number).random()}"
    use = step((call("comment", id=row["id"], owner=row["owner"], words=words), "ok"))
    return [Said("Comment."), *step((call("look"), {"rows": [row]})), *use, Answered("Done.")]


def test_a_record_does_not_make_up_for_an_argument_that_is_not_known() -> None:
    predictor = learn(Predictor(), many(recorded))
    history = play(predictor, recorded(NEW)[:3])
    assert history.symbols()["comment"] > 0.5
    assert arguments(history.predict(), "comment") == []


@pytest.mark.slow
def test_sessions_of_several_threads_learn_side_by_side() -> None:
    predictor = Predictor()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: play(predictor, one_by_one(number)).close(), range(40)))
    counts = predictor.knowledge.fleet.root.counts
    assert counts == {"find_person": 40, "find_order": 160, REPLY: 40}
    assert play(predictor, opening(NEW)).predict()[0].call == call("find_order", order=order(NEW, 0))
