"""What a reply was billed for: several samplings of several models, and counters that contradict one another."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from agentaccel.types import BilledPart, Metered, Usage
from agentaccel.wire import json as values
from agentaccel.wire.anthropic import MessagesTap
from agentaccel.wire.anthropic.usage import metered
from agentaccel.wire.openai.chat import ChatTap
from agentaccel.wire.openai.usage import metered as metered_of_openai
from tests.wire.bodies import JSON
from tests.wire.replies import Json, end, sse, start

NOTHING = {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}


def counters(fresh: int, output: int, *, read: int = 0, written: int = 0, **more: Any) -> Json:
    cache = {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
    return {"input_tokens": fresh, "output_tokens": output, **cache, **more}


def usage(total: int, output: int, read: int = 0, **write: int) -> Usage:
    return Usage(input=total, read=read, write={label[1:]: tokens for label, tokens in write.items()}, output=output)


COMPACTION = counters(180_000, 3_500, type="compaction")
ADVICE = counters(9_000, 400, type="advisor_message", model="claude-opus-5")
DECLINED = counters(40_000, 0, type="message", model="claude-fable-5")
SAMPLED = counters(23_000, 1_000, type="assistant_message")
BROKEN_OFF = counters(40_000, 90, type="message", model="claude-fable-5")
SERVED = counters(40_000, 700, type="fallback_message", model="claude-opus-4-8")


@pytest.mark.parametrize(
    ("top", "rounds", "expected"),
    [
        # 23,000 answered, and 180,000 of the compaction stand nowhere else.
        (
            counters(23_000, 1_000),
            [COMPACTION, counters(23_000, 1_000, type="message")],
            Metered(usage(23_000, 1_000), (BilledPart(kind="compaction", usage=usage(180_000, 3_500)),)),
        ),
        # The usual case: one sampling, told twice. The split by lifetime stands beside it alone.
        (
            counters(10, 5, written=50, cache_creation={"ephemeral_1h_input_tokens": 50}),
            [counters(10, 5, written=50, type="message")],
            Metered(usage(60, 5, _1h=50)),
        ),
        # Rounds of a server's tool: 1,000 + (1,000 read, 200 fresh), counted together beside them. The prompt is 1,200.
        (
            counters(200, 30, read=1_000, written=1_000),
            [counters(0, 10, written=1_000, type="message"), counters(200, 20, read=1_000, type="message")],
            Metered(usage(1_200, 20, 1_000), (BilledPart(kind="message", usage=usage(1_000, 10, _5m=1_000)),)),
        ),
        # The adviser is another model, at its own price.
        (
            counters(5_000, 100),
            [counters(2_000, 40, type="message"), ADVICE, counters(3_000, 60, type="message")],
            Metered(
                usage(3_000, 60),
                (
                    BilledPart(kind="message", usage=usage(2_000, 40)),
                    BilledPart(kind="advisor_message", usage=usage(9_000, 400), model="claude-opus-5"),
                ),
            ),
        ),
        # Who declined before the first word is not billed; after it, he is.
        (counters(40_000, 700), [DECLINED, SERVED], Metered(usage(40_000, 700), (), (), "claude-opus-4-8")),
        (
            counters(40_000, 700),
            [BROKEN_OFF, SERVED],
            Metered(
                usage(40_000, 700),
                (BilledPart(kind="message", usage=usage(40_000, 90), model="claude-fable-5"),),
                (),
                "claude-opus-4-8",
            ),
        ),
        # A pause after the compaction: nothing has answered yet.
        (counters(0, 0), [COMPACTION], Metered(Usage(), (BilledPart(kind="compaction", usage=usage(180_000, 3_500)),))),
        # A gateway that has added the compaction up already: 203,000 in all, once.
        (
            counters(203_000, 4_500),
            [COMPACTION, counters(23_000, 1_000, type="message")],
            Metered(usage(23_000, 1_000), (BilledPart(kind="compaction", usage=usage(180_000, 3_500)),)),
        ),
        # 31,000 are neither the answer nor all of it: neither is believed.
        (
            counters(31_000, 1_000),
            [COMPACTION, counters(23_000, 1_000, type="message")],
            Metered(Usage(), (), ("iterations",)),
        ),
        # As the vendor's own sample has it: a sampling that says nothing of a cache that did nothing.
        (
            counters(23_000, 1_000),
            [
                {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
                {"type": "message", "input_tokens": 23_000, "output_tokens": 1_000},
            ],
            Metered(usage(23_000, 1_000), (BilledPart(kind="compaction", usage=usage(180_000, 3_500)),)),
        ),
        # A gateway that has added outputs up, and nothing else: 4,500 in all.
        (
            counters(23_000, 4_500),
            [COMPACTION, counters(23_000, 1_000, type="message")],
            Metered(usage(23_000, 1_000), (BilledPart(kind="compaction", usage=usage(180_000, 3_500)),)),
        ),
        (counters(10, 5), [], Metered(usage(10, 5))),
        (counters(10, 5), ["junk", {}, {"type": ""}, None], Metered(usage(10, 5))),
        # Of a kind that nobody listed it is the answer where the counters beside it are its own, and billed once.
        (counters(23_000, 1_000), [SAMPLED], Metered(usage(23_000, 1_000))),
        (
            counters(23_000, 1_000),
            [COMPACTION, SAMPLED],
            Metered(usage(23_000, 1_000), (BilledPart(kind="compaction", usage=usage(180_000, 3_500)),)),
        ),
        # 5,000 + 23,000 = 28,000 and, with the compaction, 208,000: added up, for whatever sum, once.
        (
            counters(28_000, 1_200),
            [COMPACTION, counters(5_000, 200, type="sampling"), SAMPLED],
            Metered(
                usage(23_000, 1_000),
                (
                    BilledPart(kind="compaction", usage=usage(180_000, 3_500)),
                    BilledPart(kind="sampling", usage=usage(5_000, 200)),
                ),
            ),
        ),
        (
            counters(203_000, 4_500),
            [COMPACTION, SAMPLED],
            Metered(usage(23_000, 1_000), (BilledPart(kind="compaction", usage=usage(180_000, 3_500)),)),
        ),
        # The sum of a compaction alone is of no answer.
        (
            counters(180_000, 3_500),
            [COMPACTION],
            Metered(Usage(), (BilledPart(kind="compaction", usage=usage(180_000, 3_500)),)),
        ),
        # An answer that is not listed stands beside what is.
        (
            counters(23_000, 1_000),
            [COMPACTION],
            Metered(usage(23_000, 1_000), (BilledPart(kind="compaction", usage=usage(180_000, 3_500)),)),
        ),
        # 31,000 are of nothing that is listed: whether they hold the 23,000, nobody says.
        (counters(31_000, 1_000), [SAMPLED], Metered(Usage(), (), ("iterations",))),
        # A sampling without a name is billed as any other.
        (
            counters(23_000, 1_000),
            [{**COMPACTION, "type": None}, counters(23_000, 1_000, type="message")],
            Metered(usage(23_000, 1_000), (BilledPart(kind="unknown", usage=usage(180_000, 3_500)),)),
        ),
        (
            counters(23_000, 1_000),
            [COMPACTION, counters(23_000, 1_000)],
            Metered(usage(23_000, 1_000), (BilledPart(kind="compaction", usage=usage(180_000, 3_500)),)),
        ),
        (
            counters(0, 0),
            [SAMPLED],
            Metered(Usage(), (BilledPart(kind="assistant_message", usage=usage(23_000, 1_000)),)),
        ),
        # Where the counters beside it cannot be, the sampling itself tells.
        (
            {**counters(23_000, 1_000), "cache_read_input_tokens": "0"},
            [counters(23_000, 1_000, type="message")],
            Metered(usage(23_000, 1_000)),
        ),
    ],
)
def test_a_reply_may_be_several_billed_samplings(top: Json, rounds: list[Any], expected: Metered) -> None:
    """Mandated by the provider (compaction guide, advisor tool, refusals and fallback): whole bodies and streams."""
    assert metered({**top, "iterations": rounds}) == expected
    tap = MessagesTap(streamed=True)
    first = {"input_tokens": top["input_tokens"], "output_tokens": 1, **NOTHING}
    for _ in tap.feed(sse([start(first), *end(**{**top, "iterations": rounds})])):
        pass
    assert tap.metered == expected


def test_a_stream_that_falls_back_names_the_model_that_serves() -> None:
    """Mandated by the provider; as the SDK's own accumulator has it."""
    block = {"type": "fallback", "from": {"model": "claude-fable-5"}, "to": {"model": "claude-opus-4-8"}}
    tap = MessagesTap(streamed=True)
    list(tap.feed(sse([start(), {"type": "content_block_start", "index": 0, "content_block": block}])))
    assert tap.model == "claude-opus-4-8"


@given(JSON)
def test_samplings_of_any_shape_raise_nothing(value: Any) -> None:
    """Chosen by us: what is junk was not reported."""
    metered({**counters(5, 1), "iterations": value})
    metered({**counters(5, 1), "iterations": [value, {"type": "message", "model": value, "input_tokens": value}]})


NO_COUNTS = ("90", -90, 2**62, True, 9.0, [90])
OURS = ("prompt_tokens_details.cached_tokens", "cache_read_input_tokens")


@pytest.mark.parametrize(
    ("raw", "total", "read", "doubts"),
    [
        # Named as OpenAI names it, so counted as OpenAI counts: the input holds what was read.
        ({"input_tokens": 100, "cache_read_input_tokens": 90, "prompt_tokens_details": {"cached_tokens": 90}},
         100, 90, ()),
        # ... unless the whole prompt has a name, too: 5 + 90 = 95.
        ({"input_tokens": 5, "cache_read_input_tokens": 90, "prompt_tokens": 95,
          "prompt_tokens_details": {"cached_tokens": 90}}, 95, 90, ()),
        # 5,000 cannot be inside 10, of which alone a whole is told.
        ({"prompt_tokens": 10, "completion_tokens": 5, "cache_read_input_tokens": 5000,
          "cache_creation_input_tokens": 0}, None, 5000, ("prompt_tokens",)),
        ({"input_tokens": None, "prompt_tokens": 50, "cached_tokens": 60}, None, 60, ("prompt_tokens",)),
        # 3,604 cannot be inside 3,602, nor stand beside it.
        ({"input_tokens": 3602, "cache_read_input_tokens": 3604, "prompt_tokens_details": {"cached_tokens": 3604}},
         None, 3604, ("input_tokens",)),
        # 0 contradicts 90 as any other count does; 190 = 100 + 90 tells which of them is right.
        ({"input_tokens": 100, "cache_read_input_tokens": 0, "prompt_tokens_details": {"cached_tokens": 90}},
         None, None, OURS),
        ({"input_tokens": 100, "cache_read_input_tokens": 0, "prompt_tokens": 190,
          "prompt_tokens_details": {"cached_tokens": 90}}, 190, 90, ()),
        ({"input_tokens": 100, "prompt_tokens": 200}, None, None, ("input_tokens",)),
        ({"input_tokens": 95, "cache_read_input_tokens": 90, "output_tokens": 3, "total_tokens": 98}, 95, 90, ()),
        ({"input_tokens": 5, "cache_read_input_tokens": 90, "output_tokens": 3, "total_tokens": 98}, 95, 90, ()),
        ({"input_tokens": 95, "cache_read_input_tokens": 90, "output_tokens": 3, "total_tokens": 500},
         None, 90, ("input_tokens",)),
        ({"input_tokens": 5, "cache_creation_input_tokens": 50, "cache_creation": {"ephemeral_5m_input_tokens": 60}},
         None, None, ("cache_creation_input_tokens", "cache_creation")),
        # What the cache did is told, and cannot be: 10 are not all of the input.
        *[({"input_tokens": 5, "cache_read_input_tokens": junk, "cache_creation_input_tokens": 5},
           None, None, ("cache_read_input_tokens",)) for junk in NO_COUNTS],
        *[({"input_tokens": 5, "cache_read_input_tokens": 5, "cache_creation_input_tokens": junk},
           None, 5, ("cache_creation_input_tokens",)) for junk in NO_COUNTS],
        *[({"input_tokens": 5, "cache_read_input_tokens": 5, "cache_creation": {"ephemeral_1h_input_tokens": junk}},
           None, 5, ("cache_creation",)) for junk in NO_COUNTS],
        # ... unless another name tells the same, or all of it: 5 + 90 + 5 = 100.
        ({"input_tokens": 5, "cache_read_input_tokens": "90", "cache_creation_input_tokens": 5, "prompt_tokens": 100},
         100, None, ("cache_read_input_tokens",)),
        ({"input_tokens": 5, "cache_read_input_tokens": 90, "cache_creation_input_tokens": "5",
          "cache_creation": {"ephemeral_5m_input_tokens": 5}}, 100, 90, ()),
        ({"input_tokens": 5, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 5,
          "cache_creation": {"ephemeral_1h_input_tokens": "5"}}, 100, 90, ()),
        ({"input_tokens": 5, "cache_read_input_tokens": None, "cache_creation": {"ephemeral_1h_input_tokens": None}},
         5, None, ()),
    ],
)  # fmt: skip
def test_counters_of_one_reply_that_contradict_one_another_are_not_believed(
    raw: Json, total: int | None, read: int | None, doubts: tuple[str, ...]
) -> None:
    """Chosen by us: the one that fits the rest is taken; else what they would tell is n/a, and said."""
    found = metered(raw)
    assert (found.usage.input, found.usage.read, found.doubts) == (total, read, doubts)


@pytest.mark.parametrize(
    ("raw", "total", "read", "output", "doubts"),
    [
        # DeepSeek's two halves tell which count is right: 64 + 36 = 100.
        ({"prompt_tokens": 100, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 36,
          "prompt_tokens_details": {"cached_tokens": 0}}, 100, 64, None, ()),
        ({"prompt_tokens": 100, "prompt_cache_hit_tokens": 64, "prompt_tokens_details": {"cached_tokens": 0}},
         100, None, None, ("prompt_tokens_details.cached_tokens", "prompt_cache_hit_tokens")),
        ({"prompt_tokens": 100, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 30},
         None, 64, None, ("prompt_tokens", "prompt_cache_hit_tokens + prompt_cache_miss_tokens")),
        # The total says that the prompt has 100, so one of its halves is wrong, whatever the first is called.
        ({"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105,
          "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 20},
         100, None, 5, ("prompt_cache_hit_tokens", "prompt_cache_miss_tokens")),
        ({"prompt_tokens": 100, "prompt_cache_miss_tokens": 20, "prompt_tokens_details": {"cached_tokens": 64}},
         100, None, None, ("prompt_tokens_details.cached_tokens", "prompt_cache_miss_tokens")),
        ({"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 89,
          "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 20}, 84, 64, 5, ()),
        # Both protocols' names in one object: 10 + 90 = 100.
        ({"prompt_tokens": 100, "input_tokens": 10, "cache_read_input_tokens": 90}, 100, 90, None, ()),
        ({"prompt_tokens": 100, "completion_tokens": 4, "output_tokens": 0, "total_tokens": 104}, 100, None, 4, ()),
        ({"prompt_tokens": 100, "completion_tokens": 4, "output_tokens": 0},
         100, None, None, ("completion_tokens", "output_tokens")),
        # The total says that what was read stands beside the input: 100 + 50 + 5 = 155.
        ({"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 155,
          "prompt_tokens_details": {"cached_tokens": 50}}, 150, 50, 5, ()),
        ({"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 500}},
         100, None, None, ("prompt_tokens_details.cached_tokens",)),
    ],
)  # fmt: skip
def test_the_same_holds_for_openais_names(
    raw: Json, total: int | None, read: int | None, output: int | None, doubts: tuple[str, ...]
) -> None:
    """Chosen by us, as above."""
    found = metered_of_openai(raw)
    assert (found.usage.input, found.usage.read, found.usage.output, found.doubts) == (total, read, output, doubts)


def test_without_looking_at_what_cannot_be_read_ten_of_a_hundred_are_taken_for_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The twin."""
    monkeypatch.setattr("agentaccel.wire.anthropic.usage._unread", lambda *of: ())
    assert metered({**counters(5, 1, written=5), "cache_read_input_tokens": "90"}).usage.input == 10


def test_without_looking_for_the_answer_a_sampling_of_an_unlisted_kind_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr("agentaccel.wire.anthropic.usage._answer", lambda usage, answers: None)
    found = metered(counters(23_000, 1_000, iterations=[COMPACTION, SAMPLED]))
    assert found.usage.input is not None
    assert found.usage.input + sum(part.usage.input or 0 for part in found.besides) == 23_000 + 203_000


def test_without_asking_whether_names_agree_the_first_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin of the two above."""
    for place in ("anthropic", "openai"):
        monkeypatch.setattr(
            f"agentaccel.wire.{place}.usage.agreed",
            lambda counts, fits=None: (next((one for one in counts.values() if one is not None), None), ()),
        )
    raw = {"prompt_tokens": 100, "prompt_cache_hit_tokens": 64, "prompt_tokens_details": {"cached_tokens": 0}}
    assert metered_of_openai(raw).usage.read == 0
    assert values.agreed({"a": 0, "b": 64}) == (None, ("a", "b"))


UNSURE = ("input_tokens",)


@pytest.mark.parametrize(
    ("first", "last", "total", "doubts"),
    [
        ({"input_tokens": 100}, {"cache_read_input_tokens": 90, "output_tokens": 9}, None, UNSURE),
        ({"input_tokens": 100}, {"cache_read_input_tokens": 0, "output_tokens": 9}, 100, ()),
        ({"input_tokens": 100}, {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 9}, 100, ()),
        # Zeros that are there from the start may stand for what is not known yet.
        ({"input_tokens": 3602, **NOTHING}, {"cache_read_input_tokens": 3604, "output_tokens": 9}, None, UNSURE),
        ({"input_tokens": 10, **NOTHING}, {"cache_read_input_tokens": 90, "output_tokens": 9}, None, UNSURE),
        ({"input_tokens": 10, **NOTHING}, {"cache_creation_input_tokens": 90, "output_tokens": 9}, None, UNSURE),
        ({"input_tokens": 10, **NOTHING}, {"cache_creation": {"ephemeral_1h_input_tokens": 9}}, None,
         ("cache_creation_input_tokens", "cache_creation")),
        ({"input_tokens": 10}, {"cache_creation": {"ephemeral_1h_input_tokens": 90}}, None, UNSURE),
        # What is told once more is no news: 10 + 90 = 100. A total says which of the two is so.
        ({"input_tokens": 10, "cache_read_input_tokens": 90}, {"cache_read_input_tokens": 90, "output_tokens": 9},
         100, ()),
        ({"input_tokens": 10, "cache_creation_input_tokens": 90},
         {"cache_creation": {"ephemeral_1h_input_tokens": 90}}, 100, ()),
        ({"input_tokens": 10, **NOTHING}, {"cache_read_input_tokens": 90, "prompt_tokens": 100}, 100, ()),
        ({"input_tokens": 10, **NOTHING}, {"input_tokens": 10, "cache_read_input_tokens": 90}, 100, ()),
    ],
)  # fmt: skip
def test_an_input_told_before_anything_of_the_cache_may_hold_it_or_not(
    first: Json, last: Json, total: int | None, doubts: tuple[str, ...]
) -> None:
    """Chosen by us: the API itself tells both at once; who tells one after the other may count either way."""
    assert (streamed(first, last).usage.input, streamed(first, last).doubts) == (total, doubts)


def streamed(first: Json, *later: Json) -> Metered:
    """What a stream of the Messages API with these usages is billed for."""
    tap = MessagesTap(streamed=True)
    list(tap.feed(sse([start(first), *({"type": "message_delta", "usage": one} for one in later)])))
    return tap.metered


def test_without_asking_what_the_cache_did_before_both_counts_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: 3,602 + 3,604."""
    monkeypatch.setattr("agentaccel.wire.anthropic.reply.cached", lambda usage: None)
    assert streamed({"input_tokens": 3602, **NOTHING}, {"cache_read_input_tokens": 3604}).usage.input == 7206


def chatted(*usages: Json) -> Metered:
    """The same of a chat completion, in one of whose chunks stands each of the usages."""
    tap = ChatTap(streamed=True)
    list(tap.feed(b"".join(b"data: %b\n\n" % json.dumps({"usage": one}).encode() for one in usages)))
    return tap.metered


ALL = {
    "prompt_tokens": 100,
    "completion_tokens": 5,
    "total_tokens": 105,
    "prompt_tokens_details": {"cached_tokens": 64},
}
NONE: Json = {
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "total_tokens": 0,
    "prompt_tokens_details": {"cached_tokens": 0},
}


@pytest.mark.parametrize(
    "usages",
    [
        [ALL],
        [ALL, {}],
        [ALL, NONE],
        [ALL, dict.fromkeys(ALL), {"prompt_tokens_details": {}}, {"prompt_tokens_details": {"cached_tokens": None}}],
        [NONE, ALL],
        [{"prompt_tokens": 100, "prompt_tokens_details": {"cached_tokens": 64}}, {"completion_tokens": 5}],
        [{"completion_tokens": 5}, {"prompt_tokens": 100}, {"prompt_tokens_details": {"cached_tokens": 64}}],
        # A sum holds no longer where a part of it was told since: 100 + 1 of 101, then 5.
        [{**ALL, "completion_tokens": 1, "total_tokens": 101}, {"completion_tokens": 5}],
        [{**ALL, "completion_tokens": 1, "total_tokens": 101}, ALL],
    ],
)
def test_what_events_of_a_stream_tell_of_usage_is_taken_together(usages: list[Json]) -> None:
    """Chosen by us: an event without a count takes none away, on both wires. The prompt has 100 tokens, 64 of them
    read, and the reply five."""
    assert chatted(*usages) == Metered(Usage(input=100, read=64, output=5))
    names = {"prompt_tokens": "input_tokens", "completion_tokens": "output_tokens"}
    first, *later = ({names.get(name, name): count for name, count in one.items()} for one in usages)
    assert streamed(first, *later) == Metered(Usage(input=100, read=64, output=5))


def test_an_output_of_nothing_is_told_all_the_same() -> None:
    """Chosen by us: a reply may have no output, and cannot have no input."""
    assert chatted(ALL, {"completion_tokens": 0}).usage.output == 0
    assert streamed(counters(10, 3), {"output_tokens": 0}).usage == usage(10, 0)
    assert chatted(NONE).usage.input == 0


def test_without_taking_them_together_the_last_event_is_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr("agentaccel.wire.openai.tap.merged", lambda before, told: told)
    assert chatted(ALL, NONE).usage.input == 0
    assert chatted(ALL, {}).usage == Usage()


ZEROS = {"input_tokens": 0, "output_tokens": 50, **NOTHING}


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [
        # 3,602 fresh and 5,000 read; the zeros fill fields that a translator's type requires.
        (counters(3602, 1, read=5000), ZEROS, usage(8602, 50, 5000)),
        ({"input_tokens": 3602}, {"input_tokens": 0, "output_tokens": 50}, Usage(input=3602, output=50)),
        (counters(100, 1, read=5000), {**ZEROS, "cache_read_input_tokens": 5000}, usage(5100, 50, 5000)),
        (counters(100, 1, written=40), ZEROS, usage(140, 50, _5m=40)),
        # Counted anew: what was taken for fresh was read.
        ({"input_tokens": 3602}, {**ZEROS, "cache_read_input_tokens": 3604}, usage(3604, 50, 3604)),
    ],
)
def test_a_later_zero_takes_nothing_from_the_prompt(first: Json, last: Json, expected: Usage) -> None:
    """Chosen by us: counters count as they go. A prompt shrinks to nothing only where an event counts
    more of another part of it."""
    assert streamed(first, last) == Metered(expected)


def test_the_same_holds_for_a_chunk_of_openais() -> None:
    """100 tokens, 64 of them read, as told first; the last chunk counts the output alone."""
    last = {**NONE, "completion_tokens": 5}
    assert chatted({**ALL, "completion_tokens": 1, "total_tokens": 101}, last).usage == Usage(
        input=100, read=64, output=5
    )


def test_without_asking_for_more_of_the_prompt_zeros_make_it_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: 8,602 tokens would cost nothing."""
    monkeypatch.setattr("agentaccel.wire.replies._counts_more", lambda before, told: True)
    assert streamed(counters(3602, 1, read=5000), ZEROS).usage.input == 0


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        # Qwen, with explicit caching: 1,605 of 2,000 written.
        ({"prompt_tokens": 2000, "prompt_tokens_details": {"cached_tokens": 0, "cache_creation_input_tokens": 1605,
          "cache_creation": {"ephemeral_5m_input_tokens": 1605}}}, Usage(input=2000, read=0, write={"5m": 1605})),
        # Kimi.
        ({"prompt_tokens": 10_000, "cached_tokens": 0, "cache_write_tokens": 9000},
         Usage(input=10_000, read=0, write={"5m": 9000})),
        # A split without its sum.
        ({"input_tokens": 90, "input_tokens_details": {"cached_tokens": 0,
          "cache_write_tokens_details": {"ttl_30m_tokens": 80}}}, Usage(input=90, read=0, write={"30m": 80})),
        # LiteLLM.
        ({"prompt_tokens": 90, "prompt_tokens_details": {"cached_tokens": 0, "cache_creation_tokens": 80}},
         Usage(input=90, read=0, write={"5m": 80})),
        # Of DeepSeek's counts of what was read, the one that fits: 64 + 36 = 100.
        ({"prompt_tokens": 100, "prompt_cache_hit_tokens": 0, "prompt_cache_miss_tokens": 36,
          "prompt_tokens_details": {"cached_tokens": 64}}, Usage(input=100, read=64)),
    ],
)  # fmt: skip
def test_what_was_written_is_read_under_every_name(raw: Json, expected: Usage) -> None:
    """Mandated by the providers and gateways that name it so."""
    assert metered_of_openai(raw) == Metered(expected)


def test_a_write_that_cannot_be_a_count_is_said() -> None:
    """Chosen by us: it is not known, and not nothing."""
    found = metered_of_openai({"prompt_tokens": 90, "prompt_tokens_details": {"cache_write_tokens": "80"}})
    assert (found.usage.write, found.doubts) == (None, ("prompt_tokens_details.cache_write_tokens",))


def test_a_split_that_cannot_be_read_tells_no_lifetime() -> None:
    """Chosen by us: 100 were written, nobody knows for how long; where the request says it, it is known."""
    raw = counters(5, 1, written=100, cache_creation={"ephemeral_5m_input_tokens": "0"})
    assert metered(raw).usage.write == {"unsplit": 100}
    assert metered(raw, "1h").usage.write == {"1h": 100}
