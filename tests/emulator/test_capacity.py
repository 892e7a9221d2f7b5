"""Servers that people run have room for so much: slots with one chain each, or one room for a tree of prefixes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentaccel.errors import ConfigError
from agentaccel_emulator import Behaviour, Emulator, HttpRequest, Tokenizer

A, B, C = ("a" * 400, "b" * 400, "c" * 400)


def server(platform: str = "llamacpp", **more: Any) -> Emulator:
    """One that counts each byte of text as a token."""
    return Emulator(platform=platform, behaviour=Behaviour(tokenizer=Tokenizer(bytes_per_token=1.0), **more))


def read(emulator: Emulator, system: str, *said: str, wait: float = 10.0, **fields: str) -> int:
    """Tokens that a chat with these instructions and words reads."""
    roles = ("user", "assistant")
    messages = [{"role": "system", "content": system}]
    messages += [{"role": roles[at % 2], "content": text} for at, text in enumerate(said)]
    body = json.dumps({"model": "m", "messages": messages, **fields}).encode()
    headers = {"content-type": "application/json"}
    reply = emulator.handle(HttpRequest(method="POST", path="/v1/chat/completions", headers=headers, body=body))
    assert reply.status == 200, reply.body
    emulator.clock.advance(wait)  # type: ignore[attr-defined]
    return int(json.loads(reply.body)["usage"]["prompt_tokens_details"]["cached_tokens"])


def test_a_slot_holds_the_last_chain_alone() -> None:
    """A conversation goes on from all of it; once another one had the slot, from nothing."""
    emulator = server(slots=1)
    assert [read(emulator, A, "hi"), read(emulator, A, "hi", "ho", "hu"), read(emulator, B, "hi")] == [0, 402, 0]
    assert read(emulator, A, "hi", "ho", "hu") == 0


def test_as_many_conversations_as_slots_keep_theirs() -> None:
    """And one more takes that which was used longest ago."""
    emulator = server(slots=2)
    assert [read(emulator, one, "hi") for one in (A, B, A, B)] == [0, 0, 401, 401]
    assert [read(emulator, one, "hi") for one in (C, B, A)] == [0, 401, 0]


def test_conversations_that_begin_alike_share_a_slot_up_to_there() -> None:
    """The beginning is read; what the other one had behind it is not."""
    emulator = server(slots=1)
    assert [read(emulator, A, one * 100) for one in ("x", "y", "x")] == [0, 400, 400]


def test_a_slot_that_shares_less_than_a_tenth_is_no_reason_to_take_it() -> None:
    """A prompt of 800 of which 50 are in one slot goes to the free one, so the other conversation is still there."""
    emulator = server(slots=2)
    assert read(emulator, A, "x" * 400) == 0
    assert read(emulator, "a" * 50 + "b" * 350, "y" * 400) == 0
    assert read(emulator, A, "x" * 400) == 799


def test_a_slot_that_computes_is_nobody_elses() -> None:
    """Of two requests at once the second goes to the other slot, whatever the first one begins with; a third waits."""
    emulator = server(slots=2)
    assert [read(emulator, A, "hi", wait=0.0) for _ in range(2)] == [0, 0]
    assert read(emulator, A, "hi") == 401


def test_nobodys_prefixes_are_kept_apart() -> None:
    """llama.cpp knows no salt (engines.md, 3.2); vLLM does."""
    for platform, again in (("llamacpp", 401), ("vllm", 0)):
        emulator = server(platform=platform)
        assert read(emulator, A, "hi", cache_salt="a") == 0
        assert read(emulator, A, "hi", cache_salt="b") == again


def test_one_room_gives_up_what_was_used_longest_ago_from_its_end() -> None:
    """Room for 1,000: two conversations of 500 fit. A third takes the end of the first, whose beginning both others
    have, too: that stays."""
    emulator = server(capacity=1_000)
    assert [read(emulator, A, one * 100) for one in ("x", "y", "z")] == [0, 400, 400]
    assert read(emulator, A, "x" * 100) == 499
    assert read(emulator, B, "w" * 300) == 0  # 400 + 300 + 700: the ends go, in the order in which they were used
    assert read(emulator, A, "y" * 100) == 0


def test_without_a_bound_everything_is_kept() -> None:
    emulator = server()
    for system in (A, B, C):
        assert read(emulator, system, "hi") == 0
    assert [read(emulator, system, "hi") for system in (A, B, C)] == [401, 401, 401]


@pytest.mark.parametrize("wrong", [{"slots": 0}, {"capacity": 0}, {"slots": 2, "capacity": 9}])
def test_what_no_server_has_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        Behaviour(**wrong)
