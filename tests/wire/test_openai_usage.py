"""Usage of the OpenAI wires, in the forms that providers, servers and gateways report it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from agentaccel.types import Usage
from agentaccel.wire.openai.usage import usage_of
from tests.wire.bodies import JSON
from tests.wire.openai_replies import (
    CHAT_END,
    CHAT_USAGE,
    RESPONSES_USAGE,
    USAGE,
    Json,
    chunk,
    delta,
    read,
    sse,
)


@given(JSON)
def test_usage_of_any_shape_raises_nothing(value: Any) -> None:
    """Chosen by us: what is junk was not reported."""
    names = [*CHAT_USAGE, *RESPONSES_USAGE, "cached_tokens", "cache_creation", "completion_tokens_details"]
    for name in names:
        usage_of({**CHAT_USAGE, name: value})
        usage_of({**RESPONSES_USAGE, name: value})


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": None}, "cached_tokens": 4},
         Usage(input=9, read=4)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 0}, "cached_tokens": 4}, Usage(input=9)),
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 3, "cached_tokens": 4}, Usage(input=9)),
        ({"prompt_tokens": 9, "num_cached_tokens": 0}, Usage(input=9, read=0)),
        ({"prompt_tokens": 9, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 5,
          "cache_creation": {"ephemeral_1h_input_tokens": 2}}, Usage(input=9, read=2, write={"1h": 2, "5m": 3})),
        ({"input_tokens": 9, "input_tokens_details": {"cache_write_tokens": 8,
          "cache_write_tokens_details": {"ttl_30m_tokens": 3, "ttl_12h_tokens": 5}}},
         Usage(input=9, write={"30m": 3, "12h": 5})),
        ({"prompt_tokens": 9, "cache_creation_input_tokens": 5}, Usage(input=9, write={"5m": 5})),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cache_write_tokens": 5, "cache_write_tokens_details":
          {"ttl_30m_tokens": 9}}}, Usage(input=9)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cache_write_tokens": 0}}, Usage(input=9, write={})),
        ({"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 15,
          "completion_tokens_details": {"reasoning_tokens": 5}}, Usage(input=9, output=6)),
        ({"prompt_tokens": 9, "completion_tokens": 6, "total_tokens": 15,
          "completion_tokens_details": {"reasoning_tokens": 5}}, Usage(input=9, output=6)),
        ({"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 15,
          "prompt_tokens_details": {"audio_tokens": 5}}, Usage(input=14, output=1)),
        ({"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 15}, Usage(input=9, output=1)),
        ({"prompt_tokens": "9", "completion_tokens": True, "prompt_tokens_details": {"cached_tokens": -1}}, Usage()),
        ({"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 5101,
          "prompt_tokens_details": {"cached_tokens": 5000}}, Usage(input=5100, read=5000, output=1)),
        ({"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101,
          "prompt_tokens_details": {"cached_tokens": 5000}}, Usage(input=100, output=1)),
        ({}, Usage()),
    ],
)  # fmt: skip
def test_usage_in_every_form(raw: Json, usage: Usage) -> None:
    """Mandated by the providers, as recorded: what is absent, null or junk is not reported; what is 0 is 0.

    Counters that cannot be inside the input stand beside it where the total says so, and else say nothing. Chosen by
    us: of two that contradict each other neither is believed.
    """
    assert usage_of(raw) == usage


def test_the_last_usage_counts() -> None:
    """Mandated by the providers: some report as they go, some with null at first, some in a field of their own."""
    first = {**CHAT_USAGE, "completion_tokens": 1}
    chunks = [chunk(delta(content="a"), usage=first), chunk(delta(), usage=None), CHAT_END]
    assert read("chat", [sse(chunks)]).usage == USAGE
    groq = chunk(delta(stop="stop"), x_groq={"usage": CHAT_USAGE})
    assert read("chat", [sse([groq])]).usage == USAGE
    assert read("chat", [sse([{**groq, "usage": first}])]).usage.output == 1
