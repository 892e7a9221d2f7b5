"""The report's figures of servers that people run: in tokens computed and in seconds, and n/a where nobody tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentaccel.records import TurnRecord
from agentaccel.report import render_text, report, to_json
from agentaccel.types import Cause, EngineWork, Miss, Usage

NOON = 1_770_000_000.0


def turn(at: float, prompt: int, read: int | None, work: EngineWork | None, **fields: object) -> TurnRecord:
    usage = Usage(input=prompt, read=read, output=20)
    base = TurnRecord(
        session="s",
        provider="compatible",
        platform="llamacpp",
        model="qwen3",
        started=NOON + at,
        usage=usage,
        mode="on",
        work=work,
    )
    return replace(base, **fields)  # type: ignore[arg-type]


FIRST = turn(0, 1000, 0, EngineWork(computed=1000, prefill=5.0, decode=1.0), as_written=Usage(input=1000, read=0))
SECOND = turn(
    9,
    1100,
    1000,
    EngineWork(computed=100, prefill=1.0, decode=1.0, drafted=30, accepted=15),
    as_written=Usage(input=1100, read=10),
    misses=(Miss(cause=Cause.CHANGED, tokens=50),),
)


def test_what_a_server_computed_is_told_in_tokens_and_seconds() -> None:
    """1,100 of 2,100 tokens in 6 s. As written it would have computed 1,000 + 1,090, of which the second request had
    990 more than it did, at its own 0.01 s a token: 9.9 s. A missed token of it took as long: 50 of them 0.5 s."""
    found = report([FIRST, SECOND]).total
    engine = found.engine
    assert engine is not None
    assert (engine.requests, engine.input, engine.computed, engine.as_written) == (2, 2100, 1100, 2090)
    assert (engine.prefill, engine.saved) == (6.0, pytest.approx(9.9))
    [cause] = found.causes
    assert (cause.tokens, cause.seconds) == (50, pytest.approx(0.5))


def test_tokens_a_step_are_told_of_replies_with_drafts_alone() -> None:
    """20 tokens, of which 15 were drafted, take at least 5 passes: at most 4 tokens each. With the passes that a server
    tells, 8, it is 2.5. A draft that reaches beyond the end counts as accepted: a reply still takes one pass."""
    [bound] = [report([FIRST, SECOND]).total.engine]
    assert bound is not None
    assert (bound.tokens_per_step, bound.at_most, bound.drafted, bound.accepted) == (4.0, True, 30, 15)
    told = replace(SECOND, work=EngineWork(computed=100, prefill=1.0, steps=8, drafted=30, accepted=15))
    exact = report([FIRST, told]).total.engine
    assert exact is not None
    assert (exact.tokens_per_step, exact.at_most) == (2.5, False)
    beyond = report([replace(SECOND, work=EngineWork(computed=1, prefill=1.0, drafted=30, accepted=23))]).total.engine
    assert beyond is not None
    assert beyond.tokens_per_step == 20.0


def test_the_time_to_the_first_byte_stands_in_where_a_server_tells_none() -> None:
    """Of a stream: 400 tokens that were not read, in 2 s. A whole reply says nothing of that, nor does one whose server
    does not report what it had kept."""
    streamed = turn(0, 1000, 600, None, streamed=True, first_byte=NOON + 2.0)
    engine = report([streamed]).total.engine
    assert engine is not None
    assert (engine.computed, engine.prefill, engine.as_written, engine.drafted) == (400, 2.0, None, None)
    assert report([replace(streamed, first_byte=None)]).total.engine is None
    assert report([turn(0, 1000, None, None, first_byte=NOON + 2.0)]).total.engine is None


def test_at_a_provider_nothing_is_said_of_an_engine() -> None:
    cloud = turn(0, 1000, 600, None, platform="groq", first_byte=NOON + 2.0)
    found = report([cloud])
    assert found.total.engine is None
    assert "Engine" not in render_text(found)
    assert "seconds" not in render_text(found)


def test_the_text_says_what_was_saved_in_seconds_and_leaves_money_out() -> None:
    text = render_text(report([FIRST, SECOND], causes=True))
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "computed 1,100 of 2,100 tokens of prompts: 52.4 %" in lines
    assert "as you wrote it 2,090 agentaccel saved 990 tokens and 9.9 s" in lines
    assert "in 6.0 s 183 tokens a second" in lines
    assert "prompt changed 1 50 n/a 0.5" in lines
    assert "Cost (USD)" not in lines


def test_a_loss_is_said_as_one() -> None:
    dearer = replace(FIRST, as_written=Usage(input=1000, read=400))
    assert "agentaccel cost 400 tokens and 2.0 s" in render_text(report([dearer]))


def test_the_form_for_programs_has_the_same_figures() -> None:
    total = to_json(report([FIRST, SECOND]))["total"]
    assert isinstance(total, dict)
    engine = total["engine"]
    assert isinstance(engine, dict)
    assert (engine["computed"], engine["prefill"], engine["tokens_per_step"]) == (1100, 6.0, 4.0)
