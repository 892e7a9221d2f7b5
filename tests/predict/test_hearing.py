"""What requests tell of what has happened, on every wire, and each thing once."""

from __future__ import annotations

from typing import Any

import pytest

from agentaccel.predict.events import Answered, Asked, Returned, Said
from agentaccel.tools.transcript import Hearing
from agentaccel.types import ToolCall

LOOK = ToolCall(name="look", arguments={"key": "a"}, id="c1")
Json = dict[str, Any]

HISTORIES: dict[Any, list[Json]] = {
    "messages": [
        {"role": "user", "content": "Hello."},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "c1", "name": "look", "input": {"key": "a"}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "found"}]}],
        },
        {"role": "assistant", "content": "It is there."},
        {"role": "user", "content": [{"type": "text", "text": "Thanks."}]},
    ],
    "chat": [
        {"role": "user", "content": "Hello."},
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"key": "a"}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
        {"role": "assistant", "content": "It is there."},
        {"role": "user", "content": "Thanks."},
    ],
    "responses": [
        {"role": "user", "content": "Hello."},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"key": "a"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "found"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is there."}]},
        {"role": "user", "content": "Thanks."},
    ],
}
EVENTS = [
    Said("Hello."),
    Asked((LOOK,), "Let me see."),
    Returned(LOOK, "found"),
    Answered("It is there."),
    Said("Thanks."),
]
WIRES: list[Any] = list(HISTORIES)


def body(wire: str, messages: list[Json]) -> Json:
    return {"input" if wire == "responses" else "messages": messages}


@pytest.mark.parametrize("wire", WIRES)
def test_a_whole_conversation_is_heard_in_order(wire: Any) -> None:
    assert Hearing().request(body(wire, HISTORIES[wire]), wire) == EVENTS


@pytest.mark.parametrize("wire", WIRES)
def test_heard_request_by_request_it_is_the_same_and_nothing_twice(wire: Any) -> None:
    hearing, history, heard = Hearing(), HISTORIES[wire], list[Any]()
    ends = [at for at, one in enumerate(history, start=1) if one.get("role") in ("user", "tool") or "output" in one]
    for end in ends:
        heard += hearing.request(body(wire, history[:end]), wire)
        assert hearing.request(body(wire, history[:end]), wire) == [], "a retry says nothing new"
    assert heard == EVENTS


@pytest.mark.parametrize("wire", WIRES)
def test_of_a_history_that_was_rewritten_only_the_end_is_new(wire: Any) -> None:
    hearing, history = Hearing(), HISTORIES[wire]
    hearing.request(body(wire, history[:-2]), wire)
    summed_up = [{"role": "user", "content": "A summary."}, *history[-2:]]
    assert hearing.request(body(wire, summed_up), wire) == EVENTS[-2:]


def test_where_the_provider_holds_the_history_replies_are_heard_as_they_come() -> None:
    hearing = Hearing()
    assert hearing.request({"input": "Hello."}, "responses", held=True) == [Said("Hello.")]
    assert hearing.reply((LOOK,)) == Asked((LOOK,))
    result = {"type": "function_call_output", "call_id": "c1", "output": "found"}
    assert hearing.request({"input": [result]}, "responses", held=True) == [Returned(LOOK, "found")]
    assert hearing.reply(()) == Answered("")


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "odd",
    [
        {"role": "assistant", "content": 7, "tool_calls": [{"function": {"name": 3, "arguments": "no"}}, 4, None]},
        {"type": "function_call", "call_id": [], "name": "look", "arguments": '{"a": NaN}'},
        {"type": "function_call_output", "call_id": {}, "output": {"a": 1}},
        {"role": "user", "content": [{"type": "tool_result"}, 5, {"type": "text", "text": 3}]},
        {"role": ["user"]},
        "text",
        None,
    ],
)
def test_what_is_not_of_the_expected_form_is_nothing_and_never_raises(wire: Any, odd: Any) -> None:
    assert Hearing().request(body(wire, [odd]), wire) == []


def test_an_error_of_a_tool_is_told_as_one() -> None:
    block = {"type": "tool_result", "tool_use_id": "c1", "content": "no such key", "is_error": True}
    history = [*HISTORIES["messages"][:2], {"role": "user", "content": [block]}]
    assert Hearing().request({"messages": history}, "messages")[-1] == Returned(LOOK, "no such key", error=True)
