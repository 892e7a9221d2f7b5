"""Recorded conversations as tokens: what the model read, and what it said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.errors import ConfigError
from agentaccel.predict.events import Answered, Asked, Returned, Said
from agentaccel.replay.events import Recorded
from agentaccel.replay.talks import tokenised, tokenised_run
from agentaccel.selfhost.tokens import FIRST_MARK, ByRule, ByServer
from agentaccel.types import ToolCall

CALL = ToolCall(name="look", arguments={"path": "a.py"}, id="1")


def run(id_: str = "r", task: str = "t", workload: str = "agent") -> Recorded:
    events = (Said("Look into a.py"), Asked((CALL,), "I look."), Returned(CALL, "x = 1"), Answered("x is 1"))
    tools = ({"name": "look"},)
    return Recorded(id=id_, task=task, workload=workload, events=events, system="Be brief.", tools=tools)


def text_of(tokens: object, rule: ByRule) -> str:
    words = {number: piece for piece, number in rule._numbers.items()}
    return "".join(words.get(token, "|") for token in tokens)  # type: ignore[attr-defined]


def test_a_conversation_reads_as_the_model_read_it() -> None:
    """What the model says ends with the end of its message: that is a token that it has to say, too."""
    rule = ByRule()
    talk = tokenised_run(run(), rule)
    assert talk.site == "agent"
    assert [(text_of(passage.tokens, rule), passage.said) for passage in talk.passages] == [
        ('{"name": "look"}\nBe brief.', False),
        ("|Look into a.py|", False),
        ("|", False),
        ('I look.{"name": "look", "arguments": {"path": "a.py"}}|', True),
        ("|x = 1|", False),
        ("|", False),
        ("x is 1|", True),
    ]


def test_of_conversations_about_one_task_the_first_counts() -> None:
    """Trials of one task are near copies; the same name in another workload is another task."""
    runs = [run("1"), run("2"), run("3", task="u"), run("4", workload="other")]
    assert [talk.site for talk in tokenised(runs, ByRule())] == ["agent", "agent", "other"]


@given(text=st.text())
def test_a_rule_loses_nothing_of_a_text(text: str) -> None:
    rule = ByRule()
    tokens = rule.encode(text)
    assert text_of(tokens, rule) == text
    assert tokens == rule.encode(text)
    assert all(0 <= token < FIRST_MARK for token in tokens)


def test_a_rule_cuts_text_up_about_as_large_vocabularies_do() -> None:
    rule = ByRule()
    text = 'def read(path):\n    return open(path).read()  # 12345 and "words"\n'
    assert 15 <= len(rule.encode(text)) <= 30


def test_a_tokenizer_that_is_no_url_is_refused() -> None:
    with pytest.raises(ConfigError, match="give the http URL"):
        ByServer("tokenizer.json")
