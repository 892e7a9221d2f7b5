"""Recorded conversations as tokens: what the model read, and what it said."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.errors import ConfigError, TraceError
from agentaccel.predict.events import Answered, Asked, Returned, Said
from agentaccel.replay.events import Recorded
from agentaccel.replay.talks import tokenised, tokenised_run
from agentaccel.selfhost.tokens import FIRST_MARK, ByRule, ByServer
from agentaccel.types import ToolCall
from tests.selfhost.serving import Answer, Loopback, serving

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


def test_a_server_is_asked_for_its_tokens_a_part_of_a_long_text_at_a_time() -> None:
    """llama.cpp reads one field and vLLM another; nothing of the text is lost between two parts."""

    def cut(asked: Any) -> Answer:
        assert asked.body["content"] == asked.body["prompt"]
        assert (asked.body["add_special"], asked.body["add_special_tokens"]) == (False, False)
        return Answer({"tokens": [ord(letter) for letter in asked.body["prompt"]]})

    for text in ("word " * 7_000, "x" * 31_000, "", "über\ud800"):
        server = Loopback({"/tokenize": cut})
        with serving(server):
            tokens = ByServer(server.url).encode(text)
        assert "".join(map(chr, tokens)) == text.replace("\ud800", "?")
        assert all(len(asked.body["prompt"]) <= 30_000 for asked in server.asked)
        assert len(server.asked) == -(-len(text) // 30_000)


@pytest.mark.parametrize(
    "answer",
    [
        Answer({"tokens": [1, -1]}),
        Answer({"tokens": [1, FIRST_MARK]}),
        Answer({"tokens": [True]}),
        Answer({"tokens": ["a"]}),
        Answer({"tokens": 5}),
        Answer([1]),
        Answer(b"{"),
        Answer(b"[" * 100_000),
        Answer({"tokens": [1]}, status=500),
        Answer({"tokens": []}),
        Answer(b" " * 1_000_001),
        Answer(hangs=True),
    ],
    ids=str,
)
def test_a_server_that_says_what_cannot_be_is_refused(answer: Answer) -> None:
    server = Loopback({"/tokenize": answer})
    with serving(server), pytest.raises(TraceError, match="give the URL of"):
        ByServer(server.url, timeout=0.05 if answer.hangs else 5.0).encode("words")


def test_signs_that_a_vocabulary_leaves_out_are_no_tokens() -> None:
    server = Loopback({"/tokenize": Answer({"tokens": []})})
    with serving(server):
        assert ByServer(server.url).encode("\u200b") == []


def test_a_tokenizer_that_is_no_url_is_refused() -> None:
    with pytest.raises(ConfigError, match="give the http URL"):
        ByServer("tokenizer.json")
