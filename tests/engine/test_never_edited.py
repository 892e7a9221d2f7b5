"""What is never edited, however a history comes to look: by rewinds, by order, by what was said before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentaccel.facts import cache_facts
from agentaccel.wire import dialect
from agentaccel.wire.editing import cuts_of
from tests.driver import Json, assistant, prose, user
from tests.engine.test_editing import driver, history, notes, plain, request, talk, turn_of
from tests.engine.test_edits_by_functions import Later, short, started

# --- rewinds ----------------------------------------------------------------------------------------------------------


def test_results_that_are_among_the_last_again_are_whole_again(tmp_path: Path) -> None:
    """After a rewind; and they wait for an edit like all others, so that not every request makes a prefix anew."""
    one = driver(tmp_path)
    talk(one, 16)
    assert notes(one.sent) == list(range(7))
    one.ask(request([*history(6), assistant("Stop."), user("Another way.")]))
    assert notes(one.sent) == [0, 1, 2]
    for turn in range(7, 10):
        one.ask(request([*history(6), assistant("Stop."), user("Another way."), *history(turn)[13:]]))
        assert notes(one.sent) == [0, 1, 2]


def test_a_result_that_the_model_is_to_answer_again_is_whole_again(tmp_path: Path) -> None:
    """Also of many calls at once, and of what a function made."""
    later = Later()
    one = started(tmp_path, later, distil=short, distil_from=500, keep_results=1)
    for turn in range(16):
        one.ask(request(history(turn)))
        later.all()
    assert "In short" in json.dumps(plain(one.sent)["messages"][6])
    one.ask(request(history(3)))
    assert plain(one.sent)["messages"][6] == plain(request(history(3)))["messages"][6]


@pytest.mark.slow
def test_a_summary_that_would_stand_for_the_last_replies_is_taken_back(tmp_path: Path) -> None:
    """After a rewind to just behind it. It comes back once it pays again."""
    later = Later()
    one = started(tmp_path, later, summarise=lambda given: "It was about lamps.", summarise_from=3000, keep_results=4)
    for turn in range(30):
        one.ask(request(history(turn)))
        later.all()
    assert "about lamps" in json.dumps(one.sent)
    cut = len(history(29)) - len(plain(one.sent)["messages"]) + 1
    turns = cut // 2 + 2
    one.ask(request(history(turns)))
    assert plain(one.sent)["messages"] == plain(request(history(turns)))["messages"]


def test_a_result_like_one_that_was_cleared_is_another_one(tmp_path: Path) -> None:
    """An agent that polls gets the same answer many times; the last ones stay."""
    one = driver(tmp_path)
    messages: list[Json] = [user(prose(100))]
    for number in range(16):
        one.ask(request(messages))
        said, came = turn_of(number)
        came["content"][0]["content"] = prose(1200)
        said["content"][1]["input"] = {}
        messages += [said, came]
    assert notes(one.sent)
    assert max(notes(one.sent)) < 15 - 3


# --- summaries --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_results_of_pinned_tools_are_not_summed_up(tmp_path: Path) -> None:
    """`pinned_tools` are never touched, by no consent; what stands before them may be."""
    for name, most in (("read", 50), ("search", 0)):
        later, given = Later(), list[Any]()

        def summary(request: Any, given: list[Any] = given) -> str:
            given.append(request)
            return "It was about lamps."

        one = started(tmp_path / name, later, summarise=summary, summarise_from=2000, pinned_tools=(name,))
        for turn in range(36):
            messages = history(min(turn, 24))
            for number in range(24, turn):
                messages += turn_of(number, name="read")
            one.ask(request(messages))
            later.all()
        assert bool(given) == bool(most)
        assert all(len(one["messages"]) <= most for one in given)
        if given:
            assert "about lamps" in json.dumps(one.sent)
            assert plain(one.sent)["messages"][-22:] == plain(request(messages))["messages"][-22:]


def output(call: str) -> Json:
    return {"type": "function_call_output", "call_id": call, "output": "Found."}


def call(name: str) -> Json:
    return {"type": "function_call", "call_id": name, "name": "search", "arguments": "{}"}


REPLY = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "One moment."}]}
TEXT, CALL = {"type": "text", "text": "Hm."}, {"type": "tool_use", "id": "a", "name": "search", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "Found."}


@pytest.mark.parametrize(
    ("said", "cuts"),
    [
        ([user("Hi"), call("a"), call("b"), output("a"), REPLY, output("b"), call("c"), output("c")], (1, 6)),
        ([user("Hi"), call("a"), user("Well?"), output("a"), REPLY], (1, 4)),
        (
            [
                user("Hi"),
                {**call("a"), "type": "computer_call"},
                REPLY,
                {**output("a"), "type": "computer_call_output"},
            ],
            (1,),
        ),
        ([user("Hi"), call("a"), output("a"), REPLY, user("And?"), REPLY], (1, 3, 4, 5)),
        ([user("Hi"), assistant([CALL]), user("Wait."), user([RESULT]), assistant("So.")], (1, 4)),
        ([user("Hi"), assistant([TEXT, CALL]), user([RESULT]), assistant("So."), user("And?")], (1, 3, 4)),
    ],
)
def test_no_call_is_parted_from_its_result_wherever_that_stands(said: list[Json], cuts: tuple[int, ...]) -> None:
    """Contract line 2: a call without its result is refused, and so is a result without its call."""
    responses = any("type" in one for one in said)
    wire: Any = "responses" if responses else "messages"
    model = "gpt-5.2" if responses else "claude-sonnet-5"
    facts = cache_facts(model, provider="openai" if responses else "anthropic", wire=wire)
    made = {"model": model, "input" if responses else "messages": said}
    prompt = dialect(wire).decode(made, facts)
    assert cuts_of(made, prompt, wire) == cuts


# --- what is said -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_consent_is_said_where_its_use_is_in_the_request(tmp_path: Path) -> None:
    """Not where a summary stands for the results that were cleared."""
    later = Later()
    one = started(
        tmp_path, later, clear_results=True, summarise=lambda given: "It was about lamps.", summarise_from=3000
    )
    used = set()
    messages: list[Json] = [user(prose(100))]
    for turn in range(40):
        one.ask(request(messages))
        if turn > 20:
            later.all()
        said, came = turn_of(turn)
        said["content"][0]["text"] = prose(400, turn)
        messages = [*messages, said, came]
        record = one.records[-1]
        assert ("clear_results" in record.consents) == bool(notes(one.sent))
        assert ("summarise" in record.consents) == ("about lamps" in json.dumps(one.sent))
        used.add(record.consents)
    assert ("clear_results",) in used
    assert ("summarise",) in used
