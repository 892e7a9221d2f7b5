"""A sum that is less than its parts, and counters that nobody understands: n/a and said, never 0 and never added up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.report.aggregate import report
from agentaccel.report.render import to_json
from agentaccel.store.store import open_reader
from agentaccel.testing import ManualClock
from agentaccel.types import BilledPart, Metered, Usage
from agentaccel.wire.anthropic import MessagesTap
from agentaccel.wire.anthropic.usage import metered as of_anthropic
from agentaccel.wire.openai.usage import metered as of_openai
from tests.wire.replies import Json, end, sse, start

BOTH = ("prompt_tokens", "completion_tokens", "total_tokens")
ANTHROPICS = ("input_tokens", "output_tokens", "total_tokens")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        # 90 + 10 are 100: with any less nobody knows which of the three is wrong; 0 is a figure like any other.
        ({"total_tokens": 50}, Metered(Usage(), (), BOTH)),
        ({"total_tokens": 99}, Metered(Usage(), (), BOTH)),
        ({"total_tokens": 0}, Metered(Usage(), (), BOTH)),
        ({"total_tokens": 100}, Metered(Usage(input=90, output=10))),
        ({"total_tokens": None}, Metered(Usage(input=90, output=10))),
        ({"total_tokens": 101}, Metered(Usage(input=90, output=10))),
        # 64 read and 26 not are the 90: the input is sure, and the output is not.
        (
            {"total_tokens": 95, "prompt_cache_hit_tokens": 64, "prompt_cache_miss_tokens": 26},
            Metered(Usage(input=90, read=64), (), BOTH),
        ),
        # 80 of text and 20 of sound are 100, of 90: a total of 110 says that 100 it is, one of 100 that it is 90.
        (
            {"prompt_tokens_details": {"text_tokens": 80, "audio_tokens": 20}},
            Metered(
                Usage(output=10),
                (),
                ("prompt_tokens", "prompt_tokens_details.text_tokens", "prompt_tokens_details.audio_tokens"),
            ),
        ),
        (
            {"total_tokens": 110, "prompt_tokens_details": {"text_tokens": 80, "image_tokens": 20}},
            Metered(Usage(input=100, output=10)),
        ),
        (
            {"total_tokens": 100, "prompt_tokens_details": {"text_tokens": 80, "audio_tokens": 20}},
            Metered(Usage(input=90, output=10)),
        ),
        # Sound beside the text, as the total says: 90 + 20 + 10.
        ({"total_tokens": 120, "prompt_tokens_details": {"audio_tokens": 20}}, Metered(Usage(input=110, output=10))),
        # 50 tokens of thought in an output of 10, unless the total says that they stand beside it: 90 + 10 + 50.
        (
            {"completion_tokens_details": {"reasoning_tokens": 50}},
            Metered(Usage(input=90), (), ("completion_tokens", "completion_tokens_details.reasoning_tokens")),
        ),
        (
            {"total_tokens": 150, "completion_tokens_details": {"reasoning_tokens": 50}},
            Metered(Usage(input=90, output=60)),
        ),
        # 60 read and 60 written of 90.
        (
            {"prompt_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 60}},
            Metered(
                Usage(input=90, output=10),
                (),
                ("prompt_tokens_details.cached_tokens", "prompt_tokens_details.cache_write_tokens"),
            ),
        ),
        ({"cache_write_tokens": 95}, Metered(Usage(input=90, output=10), (), ("cache_write_tokens",))),
    ],
)
def test_a_sum_of_openais_is_no_less_than_its_parts(raw: Json, expected: Metered) -> None:
    """Of a prompt of 90 tokens and a completion of 10: the one that fits the rest, else none, and which they are."""
    assert of_openai({"prompt_tokens": 90, "completion_tokens": 10, **raw}) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        # 10 + 1 are 11.
        ({"total_tokens": 5}, Metered(Usage(), (), ANTHROPICS)),
        ({"total_tokens": 11}, Metered(Usage(input=10, output=1))),
        # 10 + 5 + 20 + 1 are 36; 11 is the sum of somebody who did not know of the cache; 20 is neither.
        (
            {"cache_read_input_tokens": 5, "cache_creation_input_tokens": 20, "total_tokens": 36},
            Metered(Usage(input=35, read=5, write={"5m": 20}, output=1)),
        ),
        (
            {"cache_read_input_tokens": 5, "cache_creation_input_tokens": 20, "total_tokens": 11},
            Metered(Usage(input=35, read=5, write={"5m": 20}, output=1)),
        ),
        (
            {"cache_read_input_tokens": 5, "cache_creation_input_tokens": 20, "total_tokens": 20},
            Metered(Usage(read=5, write={"5m": 20}, output=1), (), ("input_tokens",)),
        ),
        (
            {"output_tokens_details": {"thinking_tokens": 40}},
            Metered(Usage(input=10), (), ("output_tokens", "output_tokens_details.thinking_tokens")),
        ),
        ({"output_tokens_details": {"thinking_tokens": 1}}, Metered(Usage(input=10, output=1))),
        # 15 for five minutes and 15 for an hour are 30, of 20.
        (
            {
                "cache_read_input_tokens": 5,
                "cache_creation_input_tokens": 20,
                "cache_creation": {"ephemeral_5m_input_tokens": 15, "ephemeral_1h_input_tokens": 15},
            },
            Metered(Usage(read=5, output=1), (), ("cache_creation_input_tokens", "cache_creation")),
        ),
    ],
)
def test_a_sum_of_anthropics_is_no_less_than_its_parts(raw: Json, expected: Metered) -> None:
    """Of 10 fresh tokens and an output of 1."""
    assert of_anthropic({"input_tokens": 10, "output_tokens": 1, **raw}) == expected


def sampled(top: int, *rounds: int) -> Json:
    """A reply of so many tokens of output in all, and in its samplings, of 100 tokens each."""
    cache = {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    of = [{"type": "message", "input_tokens": 100, "output_tokens": output, **cache} for output in rounds]
    return {"input_tokens": 100 * len(rounds), "output_tokens": top, **cache, "iterations": of}


def test_an_output_that_is_less_than_one_of_its_samplings_is_not_known() -> None:
    """Chosen by us: 3 tokens in all, of which the last sampling made 9. With 12 it is the last's 9, of 3 + 9."""
    before = BilledPart(kind="message", usage=Usage(input=100, read=0, write={}, output=3))
    whole = Usage(input=100, read=0, write={}, output=9)
    assert of_anthropic(sampled(12, 3, 9)) == Metered(whole, (before,))
    assert of_anthropic(sampled(9, 9)) == Metered(whole)
    told = of_anthropic(sampled(3, 9))
    assert told == Metered(Usage(input=100, read=0, write={}), (), ("output_tokens", "iterations"))


def test_a_sum_of_an_event_that_leaves_the_prompt_out_is_none_of_all() -> None:
    """Chosen by us: the last event counts 5 tokens of output and fills the prompt with zeros: 100 + 5, and not 5."""
    first = {"input_tokens": 100, "output_tokens": 1, "total_tokens": 101}
    last = {"input_tokens": 0, "output_tokens": 5, "total_tokens": 5}
    tap = MessagesTap(streamed=True)
    assert [*tap.feed(sse([start(first), *end("end_turn", **last)])), *tap.finish()] == []
    assert tap.metered == Metered(Usage(input=100, output=5))


@pytest.mark.parametrize("module", ["openai", "anthropic"])
def test_without_looking_at_the_sum_the_parts_are_believed(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr(f"agentaccel.wire.{module}.usage.below", lambda *_: False)
    assert of_openai({"prompt_tokens": 90, "completion_tokens": 10, "total_tokens": 50}).doubts == (
        () if module == "openai" else BOTH
    )
    assert of_anthropic({"input_tokens": 10, "output_tokens": 1, "total_tokens": 5}).doubts == (
        () if module == "anthropic" else ANTHROPICS
    )


@pytest.mark.parametrize(
    ("raw", "doubts"),
    [
        ({"promptTokens": 5, "completionTokens": 7}, ("promptTokens", "completionTokens")),
        ({"inputTokens": 5, "outputTokens": 0, "details": {"cacheReadInputTokens": 4}},
         ("inputTokens", "details.cacheReadInputTokens")),
        ({"in": 5, "out": 7, "seconds": 0.5, "tier": "flex"}, ("in", "out")),
        ({"prompt_tokens": "90"}, ("prompt_tokens",)),
        ({f"tokens_{n}": 1 for n in range(9)}, tuple(f"tokens_{n}" for n in range(5))),
        ({"tokens" * 99: 1}, (("tokens" * 99)[:64],)),
        # Nothing counts anything: nothing was reported.
        ({"promptTokens": 0, "cost": 0.1, "prompt_tokens": None, "service_tier": "flex"}, ()),
        ({}, ()),
    ],
)  # fmt: skip
def test_a_usage_of_which_nothing_is_understood_is_not_known_and_says_what_it_counts(raw: Json, doubts: Any) -> None:
    """Chosen by us, on every wire: at most five names of 64 characters are kept."""
    assert of_openai(raw) == of_anthropic(raw) == Metered(Usage(), (), doubts)


def test_what_the_cache_did_is_said_where_none_of_it_is_understood() -> None:
    """Chosen by us: whether 90 tokens hold the 60 that another name tells is not known, and so nothing is priced."""
    langchain = {"input_tokens": 90, "input_token_details": {"cache_read": 60}}
    assert of_openai(langchain) == Metered(Usage(input=90), (), ("input_token_details.cache_read",))
    assert of_anthropic({"input_tokens": 90, "cache_read_tokens": 60}).doubts == ("cache_read_tokens",)
    assert of_openai({"prompt_tokens": 90, "cached_tokens": 60, "cache_hits": 3}).doubts == ()
    assert of_openai({"prompt_tokens": 90, "prompt_cache_miss_tokens": 30}).doubts == ()


def test_a_sampling_of_which_nothing_is_understood_is_said() -> None:
    """Chosen by us: 180,000 tokens of a compaction under another name are in no figure."""
    rounds = [{"type": "compaction", "inputTokens": 180_000}, {"type": "message", "input_tokens": 90}]
    told = of_anthropic({"input_tokens": 90, "iterations": rounds})
    assert told == Metered(Usage(input=90), (BilledPart(kind="compaction", usage=Usage()),), ("inputTokens",))


@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_a_reply_whose_usage_nobody_understands_is_in_no_figure_and_named_once(wire: str, tmp_path: Path) -> None:
    """Two replies of the real SDK's: 2 requests, no tokens, no cost, and one note."""
    usage = {"promptTokens": 5000, "completionTokens": 7}
    body: dict[str, Any] = {"id": "c", "model": "gpt-6-sol", "usage": usage, "created": 1, "object": "chat.completion"}
    body |= {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}]}
    if wire == "responses":
        body = {"id": "r", "model": "gpt-6-sol", "object": "response", "status": "completed", "output": []}
        body |= {"usage": usage, "created_at": 1, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    http = httpx2.Client(
        transport=httpx2.MockTransport(lambda _: httpx2.Response(200, json=json.loads(json.dumps(body))))
    )
    policy = Policy(mode="observe", strict=True, store=StorePolicy(path=tmp_path / "t.db"))
    sdk = openai.OpenAI(api_key="k", http_client=http)
    with Accel(policy, clock=ManualClock(), environ={}) as accel, accel.wrap(sdk) as client:
        for _ in range(2):
            if wire == "chat":
                client.chat.completions.create(model="gpt-6-sol", messages=[{"role": "user", "content": "Hi."}])
            else:
                client.responses.create(model="gpt-6-sol", input="Hi.")
    with open_reader(tmp_path / "t.db") as store:
        found = report(store.turns())
    total: Any = to_json(found)["total"]
    assert (total["requests"], total["tokens"]["input"], total["costs"]["paid"]) == (2, None, None)
    assert [note for note in found.notes if "promptTokens" in note and "2 requests" in note]
    assert dict(found.total.doubted) == {"promptTokens": 2, "completionTokens": 2}


def test_without_looking_for_names_a_usage_that_nobody_understands_goes_unsaid(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    for module in ("openai", "anthropic"):
        monkeypatch.setattr(f"agentaccel.wire.{module}.usage.with_unread", lambda found, raw: found)
    assert of_openai({"promptTokens": 5}) == of_anthropic({"promptTokens": 5}) == Metered(Usage())
