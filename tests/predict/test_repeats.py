"""Sessions that begin with the same words: what they share says little of sessions that begin otherwise."""

from __future__ import annotations

import json

from agentaccel.predict.events import Answered, Event, Said
from agentaccel.predict.knowledge import Knowledge
from agentaccel.predict.predictor import Predictor
from tests.predict.loops import arguments, call, learn, play, step

DAILY = "The daily report, please."


def daily(city: str = "Bern") -> list[Event]:
    return [Said(DAILY), *step((call("weather", city=city), "sunny")), Answered("It is sunny.")]


def other(number: int) -> list[Event]:
    return [Said(f"Question number {number}."), *step((call("search"), "found")), Answered("Found.")]


def taught(**knowledge: bytes) -> Predictor:
    """Forty times the same session, and six that are all different."""
    predictor = Predictor(Knowledge(**knowledge))  # type: ignore[arg-type]
    return learn(predictor, [*[daily()] * 40, *map(other, range(6))], tools={"weather": {}, "search": {}})


def test_what_one_session_did_many_times_tells_little_of_others() -> None:
    symbols = play(taught(), [Said("What else is there?")]).symbols()
    assert symbols["search"] > 2 * symbols["weather"]


def test_a_session_that_comes_again_and_again_is_foreseen() -> None:
    best = play(taught(), [Said(DAILY)]).predict()[0]
    assert best.call == call("weather", city="Bern")
    assert best.probability > 0.5


def test_a_constant_of_repeats_alone_is_offered_to_repeats_alone() -> None:
    predictor = taught()
    assert arguments(play(predictor, [Said(DAILY)]).predict(), "weather") == [{"city": "Bern"}]
    assert arguments(play(predictor, [Said("What else is there?")]).predict(), "weather") == []


def test_a_session_that_only_looks_is_none_that_others_repeat() -> None:
    knowledge = Knowledge()
    play(Predictor(knowledge), [Said(DAILY)]).predict()
    assert knowledge.openings == {}


def test_how_sessions_began_is_dumped_under_a_key_and_never_in_clear() -> None:
    dump = json.loads(json.dumps(taught(key=b"one").knowledge.dump()))
    assert DAILY not in json.dumps(dump)
    same, another = (Predictor(Knowledge.load(dump, key=key)) for key in (b"one", b"two"))
    assert play(same, [Said(DAILY)]).symbols()["weather"] > 0.5
    assert play(another, [Said(DAILY)]).symbols()["weather"] < 0.25


def test_a_dump_of_before_repeats_were_known_loads_with_its_constants() -> None:
    dump = json.loads(json.dumps(taught().knowledge.dump()))
    del dump["openings"], dump["again"]
    for table in dump["calls"]["weather"]["sources"].values():
        for stat in table.values():
            del stat["openings"]
    found = play(Predictor(Knowledge.load(dump)), [Said("What else is there?")]).predict()
    assert arguments(found, "weather") == [{"city": "Bern"}]


def test_a_page_named_by_a_tool_that_never_named_one_is_a_candidate() -> None:
    def reading(number: int, tool: str) -> list[Event]:
        text = [{"body": f"see www.page-{number}.com for more"}]
        look = step((call("open", url=f"www.page-{number}.com"), "a page"))
        return [Said(f"Read message {number}."), *step((call(tool), text)), *look, Answered("Read.")]

    predictor = learn(Predictor(), [reading(number, "inbox") for number in range(20)])
    learn(predictor, [[*reading(number, "chat")[:3], *step((call("open", url="x"), ""))] for number in range(60, 64)])
    found = play(predictor, reading(99, "chat")[:3]).predict()
    assert {"url": "www.page-99.com"} in arguments(found, "open")
