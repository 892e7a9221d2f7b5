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
    """1,100 of 2,100 tokens in 6 s. As written it would have computed 1,000 + 1,090, which is 990 more. By the line
    through (1,000 tokens, 5 s) and (100, 1 s) another token takes 4 s / 900: 4.4 s. Missed tokens were computed at the
    speed of their request, 0.01 s each: 50 of them in 0.5 s."""
    found = report([FIRST, SECOND]).total
    engine = found.engine
    assert engine is not None
    assert (engine.requests, engine.input, engine.computed, engine.as_written) == (2, 2100, 1100, 2090)
    assert (engine.prefill, engine.saved) == (6.0, pytest.approx(4.4))
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
    assert "as you wrote it 2,090 agentaccel saved 990 tokens and 4.4 s" in lines
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


def test_what_any_request_takes_is_not_counted_as_saved() -> None:
    """Each takes 0.3 s and a millisecond a token. Of six prompts of 3,000 tokens all but the first are read but for 75;
    as written each would have been computed: 5 * 2,925 ms are saved, and not what 75 tokens took with their 0.3 s."""
    first = turn(0, 3000, 0, EngineWork(computed=3000, prefill=3.3), as_written=Usage(input=3000, read=0))
    later = turn(9, 3000, 2925, EngineWork(computed=75, prefill=0.375), as_written=Usage(input=3000, read=0))
    engine = report([first, *[replace(later, started=NOON + 9 * n) for n in range(1, 6)]]).total.engine
    assert engine is not None
    assert engine.saved == pytest.approx(5 * 2.925)


def test_what_cannot_be_is_believed_of_no_server() -> None:
    """More computed than the prompt has: what was not read counts. More accepted than drafted: no drafts are told."""
    odd = turn(0, 100, 40, EngineWork(computed=99_999, prefill=1.0, drafted=3, accepted=9))
    engine = report([odd]).total.engine
    assert engine is not None
    assert (engine.computed, engine.drafted, engine.tokens_per_step) == (60, None, None)
    nothing = report([turn(0, 100, 40, EngineWork(prefill=1.0, drafted=0, accepted=0))]).total.engine
    assert nothing is not None
    assert nothing.drafted is None


def test_a_reply_without_usage_has_no_share_in_it() -> None:
    """llama.cpp tells its timings in streams that were not asked for usage: of what prompt they are nobody knows."""
    untold = turn(0, 0, None, EngineWork(computed=500, prefill=1.0), mode="observe")
    found = report([replace(untold, usage=Usage()), FIRST])
    assert found.total.engine is not None
    assert found.total.engine.requests == 1
    assert "Over 1 of 2 requests: of the others that is not told." in render_text(found)
    assert report([replace(untold, usage=Usage())]).total.engine is None


def test_a_prompt_that_was_kept_whole_counts_as_well() -> None:
    engine = report([FIRST, turn(9, 1000, 1000, EngineWork(computed=0, prefill=0.1))]).total.engine
    assert engine is not None
    assert (engine.requests, engine.input, engine.computed) == (2, 2000, 1000)
