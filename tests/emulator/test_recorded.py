"""The emulator beside recordings of real APIs: what was answered there is answered here, in events of the same make."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest
from openai_talk import OLD, ask, chat, emulator, message, responses

from agentaccel_emulator import Emulator
from tests.wire.recorded import events, exchanges, streamed

pytestmark = pytest.mark.traces

SAID = [
    {"type": "thinking", "thinking": "Hm."},
    {"type": "text", "text": "Let me see."},
    {"type": "tool_use", "name": "f", "input": {"n": 1}},
]


@pytest.mark.parametrize("file", ["openai_chat", "openai_responses", "compatible"])
def test_a_request_that_was_answered_there_is_not_refused_here(file):
    """Mandated: whatever a real API took; what goes on from server-held history cannot be asked again."""
    asked = 0
    for one in exchanges(file):
        path = "/v1/responses" if one["api"] == "openai-responses" else "/v1/chat/completions"
        held = any(one["request"].get(name) for name in ("previous_response_id", "conversation"))
        if one["status"] != 200 or one["method"] != "POST" or held or one["api"] == "anthropic-messages":
            continue
        body = {"model": "unnamed", **one["request"]}
        plain = emulator(platform="vllm") if file == "compatible" else emulator(aliases={body["model"]: OLD})
        answer = ask(plain, body, path=path)
        assert answer.status == 200, (one["id"], plain.log[-1].check, plain.log[-1].error)
        asked += 1
    assert asked > 100


def _recorded(file):
    found = (event for one in exchanges(file) if streamed(one) for _, event in events(one["response"]))
    return [event for event in found if isinstance(event, dict)]


def test_the_events_of_a_response_have_the_fields_that_were_recorded():
    """Each kind of event has been seen with exactly these fields."""
    seen = defaultdict(set)
    for event in _recorded("openai_responses"):
        seen[event.get("type")].add(tuple(sorted(event)))
    written = ask(emulator(script=[SAID]), responses(message("user", "q"), stream=True)).events
    assert {event["type"] for event in written if tuple(sorted(event)) not in seen[event["type"]]} == set()


def test_the_chunks_of_a_completion_have_the_fields_that_were_recorded():
    """With and without usage."""
    recorded = _recorded("openai_chat")
    seen = {tuple(sorted(event)) for event in recorded}
    deltas = {tuple(sorted(choice["delta"])) for event in recorded for choice in event.get("choices") or ()}
    for options in ({}, {"stream_options": {"include_usage": True}}):
        body = chat(message("user", "q"), stream=True, **options)
        for event in ask(Emulator(script=[SAID]), body).events:
            assert tuple(sorted(event)) in seen, json.dumps(event)
            assert all(tuple(sorted(choice["delta"])) in deltas for choice in event["choices"])


def test_usage_has_the_fields_that_were_recorded():
    """What newer types have besides, cache_write_tokens above all, was not recorded yet."""
    provider = emulator()
    usages = [
        ask(provider, body).json["usage"] for body in (chat(message("user", "q")), responses(message("user", "q")))
    ]
    seen = defaultdict(set)
    for file in ("openai_chat", "openai_responses"):
        for one in exchanges(file):
            usage = one["response"].get("usage") if isinstance(one["response"], dict) else None
            for name, value in (usage or {}).items():
                seen[name] |= set(value) if isinstance(value, dict) else set()
    for usage in usages:
        assert set(usage) <= set(seen)
        inner = {(name, key) for name, value in usage.items() if isinstance(value, dict) for key in value}
        new = {key for name, key in inner if key not in seen[name]}
        assert new <= {"cache_write_tokens", "cache_write_tokens_details"}
