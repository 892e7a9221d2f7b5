"""What is never edited, however a history comes to look: by rewinds, by order, by what was said before."""

from __future__ import annotations

from typing import Any

import pytest

from agentaccel.facts import cache_facts
from agentaccel.providers import dialect
from agentaccel.providers.history import cuts_of
from tests.driver import Json, assistant, user


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
