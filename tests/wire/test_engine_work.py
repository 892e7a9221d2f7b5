"""What servers that people run say of their work: seconds, tokens and drafts as they say them, else n/a."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentaccel.types import EngineWork
from agentaccel.wire import dialect

LLAMACPP = {
    "usage": {"prompt_tokens": 185, "completion_tokens": 96, "prompt_tokens_details": {"cached_tokens": 122}},
    "timings": {"cache_n": 122, "prompt_n": 63, "prompt_ms": 9.5, "predicted_n": 96, "predicted_ms": 53.0},
}
DRAFTED = {"timings": {**LLAMACPP["timings"], "draft_n": 85, "draft_n_accepted": 73}}
VLLM = {
    "usage": {"prompt_tokens": 100, "completion_tokens": 23},
    "metrics": {
        "time_to_first_token_ms": 35.5,
        "generation_time_ms": 58.0,
        "queue_time_ms": 0.5,
        "speculative_decoding": {"num_spec_steps": 6, "num_draft_tokens": 14, "num_accepted_draft_tokens": 6},
    },
}
DYNAMO = {"nvext": {"timing": {"prefill_wait_time_ms": 1.5, "prefill_time_ms": 22.0, "ttft_ms": 23.5}}}
SAID = {
    "llama.cpp": (LLAMACPP, EngineWork(computed=63, prefill=0.0095, decode=0.053)),
    "llama.cpp that drafts": (DRAFTED, EngineWork(computed=63, prefill=0.0095, decode=0.053, drafted=85, accepted=73)),
    "vLLM": (VLLM, EngineWork(prefill=0.035, decode=0.058, queued=0.0005, steps=6, drafted=14, accepted=6)),
    "Dynamo": (DYNAMO, EngineWork(prefill=0.022, queued=0.0015)),
    "a plain server": ({"usage": {"prompt_tokens": 5, "completion_tokens": 1}}, None),
    "nothing in them": ({"timings": {}, "metrics": None, "nvext": {"timing": None}}, None),
    "a queue that took longer than all": (
        {"metrics": {"time_to_first_token_ms": 1.0, "queue_time_ms": 2.0}},
        EngineWork(queued=0.002),
    ),
    "what no clock tells": ({"timings": {"prompt_ms": -1.0, "predicted_ms": True, "prompt_n": "63"}}, None),
}
"""Replies as these servers gave them (2026-11), and what they say in seconds: a thousandth of the milliseconds, and of
vLLM's time to the first token what was not spent in the queue."""


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("name", SAID)
def test_the_work_of_a_server_is_read_as_it_says_it(name: str, streamed: bool) -> None:
    """In a whole reply, and in the last chunk of a stream."""
    said, expected = SAID[name]
    tap = dialect("chat").reply_tap(streamed)
    assert list(tap.feed(_bytes(said, streamed))) == []
    assert list(tap.finish()) == []
    assert (tap.work, tap.complete) == (_near(expected), True)


def _bytes(said: dict[str, Any], streamed: bool) -> bytes:
    if not streamed:
        choice = {"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}
        return json.dumps({"id": "1", "choices": [choice], **said}).encode()
    first = {"id": "1", "choices": [{"index": 0, "delta": {"content": "Yes."}, "finish_reason": "stop"}]}
    events = (json.dumps(first), json.dumps({"id": "1", "choices": [], **said}), "[DONE]")
    return "".join(f"data: {one}\n\n" for one in events).encode()


def _near(work: EngineWork | None) -> object:
    """Equal but for what floats round."""
    return work if work is None else _Near(work)


class _Near:
    def __init__(self, work: EngineWork) -> None:
        self.work = work

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EngineWork) and all(
            getattr(other, name) == pytest.approx(getattr(self.work, name)) for name in EngineWork.__slots__
        )

    def __repr__(self) -> str:
        return repr(self.work)
