"""What holds for every body that is sent to the OpenAI side and to the clouds, and for every sequence of requests."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai_talk import MODEL, OLD, ask, chat, emulator, marked, message, part
from test_emulator_fuzz import json_values, places, replaced

from agentaccel_emulator import HttpRequest

pytestmark = pytest.mark.many(3)

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CHAT = {
    "model": MODEL,
    "stream": True,
    "stream_options": {"include_usage": True},
    "n": 2,
    "prompt_cache_key": "k",
    "prompt_cache_options": {"mode": "explicit", "ttl": "30m"},
    "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
    "messages": [
        {"role": "developer", "content": [marked(part(3))]},
        {"role": "user", "content": [part(3), {"type": "image_url", "image_url": {"url": "u", "detail": "low"}}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": [part(3)]},
    ],
}
RESPONSES = {
    "model": MODEL,
    "stream": True,
    "instructions": "Be brief.",
    "conversation": None,
    "prompt_cache_options": {"mode": "implicit", "ttl": "12h", "prewarm": False, "comparison_response_id": "resp_1"},
    "text": {"format": {"type": "text"}, "verbosity": "low"},
    "reasoning": {"effort": "low"},
    "tools": [{"type": "function", "name": "f", "parameters": {}}],
    "input": [
        {"type": "message", "role": "user", "content": [marked(part(3, wire="r"), "12h")]},
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "t"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": [part(3, wire="r")]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "t"}]},
    ],
}
GATEWAY = {**CHAT, "model": "anthropic/claude-sonnet-4.5", "cache_control": {"type": "ephemeral"}, "stop": ["s"]}
CLOUD = {
    "anthropic_version": "2026-10-21",
    "anthropic_beta": ["b"],
    "max_tokens": 9,
    "messages": [{"role": "user", "content": [{"type": "text", "text": "q", "cache_control": {"type": "ephemeral"}}]}],
}
PLACES = {
    "chat": ("/v1/chat/completions", "api", CHAT),
    "azure": ("/openai/deployments/gpt-6-sol/chat/completions?api-version=1", "api", CHAT),
    "responses": ("/v1/responses", "api", RESPONSES),
    "gateway": ("/api/v1/chat/completions", "api", GATEWAY),
    "gateway-openai": ("/api/v1/chat/completions", "api", {**CHAT, "model": "openai/gpt-6-sol"}),
    "vllm": ("/v1/chat/completions", "vllm", {**CHAT, "model": "m"}),
    "vllm-responses": ("/v1/responses", "vllm", {**RESPONSES, "model": "m"}),
    "bedrock": ("/model/anthropic.claude-sonnet-5/invoke-with-response-stream", "api", CLOUD),
    "vertex": ("/v1/projects/p/locations/l/publishers/anthropic/models/claude-sonnet-5:rawPredict", "api", CLOUD),
}


def post(path, platform, raw):
    """The status of one request."""
    sent = {"authorization": "Bearer k"}
    return emulator(platform=platform).handle(HttpRequest(method="POST", path=path, headers=sent, body=raw), 0.0).status


@pytest.mark.parametrize("place", PLACES)
def test_the_bodies_that_are_mutated_are_legal(place):
    """Ours: a fuzz of what is refused anyway would show nothing."""
    path, platform, body = PLACES[place]
    assert post(path, platform, json.dumps(body).encode()) == 200


@pytest.mark.parametrize("place", PLACES)
@given(data=st.data())
def test_no_body_makes_the_emulator_raise(place, data):
    """Ours: any value anywhere is answered or refused, never a crash."""
    path, platform, body = PLACES[place]
    for _ in range(data.draw(st.integers(1, 2))):
        where = data.draw(st.sampled_from(list(places(body))))
        body = replaced(body, where, data.draw(json_values))
    assert post(path, platform, json.dumps(body).encode()) in (200, 400, 404)


@pytest.mark.parametrize("place", PLACES)
@given(raw=st.binary(max_size=40))
def test_no_bytes_make_the_emulator_raise(place, raw):
    """Ours."""
    path, platform, _ = PLACES[place]
    assert post(path, platform, raw) in (400, 404)


class Plain:
    """The physics of breakpoints once more, as slowly and as literally as the reference page states them."""

    def __init__(self):
        self.entries = {}

    def request(self, texts, marks, explicit_mode, now):
        """Bill user messages of 600 tokens each, those numbered in `marks` marked."""
        ends = [tuple(texts[: number + 1]) for number in range(len(texts))]
        explicit = [ends[number] for number in marks]
        boundaries = [*explicit[:2], *explicit[-50:]]
        if not explicit_mode:
            boundaries += ends[-21:]
        live = []
        for end in boundaries:
            entry = self.entries.get(end)
            seen = entry is not None and entry["visible"] <= now <= entry["expires"]
            if seen and not (explicit_mode and entry["implicit"]):
                live.append(end)
        for end in live:
            self.entries[end]["expires"] = max(self.entries[end]["expires"], now + 1800)
        read = 600 * max(map(len, live), default=0)
        writes = explicit[-4:] if explicit_mode else [ends[-1], *[end for end in explicit if end != ends[-1]][-3:]]
        fresh = [end for end in writes if 600 * len(end) >= 1024 and 600 * len(end) > read]
        for end in fresh:
            old = self.entries.get(end)
            new = {"expires": now + 1800, "visible": now + 1.0, "implicit": end not in explicit}
            if old is not None and old["expires"] >= now:
                new["visible"] = min(old["visible"], new["visible"])
                new["expires"] = max(old["expires"], new["expires"])
                new["implicit"] = new["implicit"] and old["implicit"]
            self.entries[end] = new
        written = 600 * max(map(len, fresh), default=0)
        return read, max(0, written - read), 600 * len(texts) - max(read, written)


steps = st.lists(
    st.tuples(
        st.lists(st.integers(0, 1), min_size=1, max_size=30),
        st.lists(st.integers(0, 29), max_size=6, unique=True),
        st.booleans(),
        st.sampled_from([0.0, 1.0, 100.0, 1799.0, 1900.0]),
    ),
    min_size=1,
    max_size=6,
)


@given(steps)
def test_every_bill_is_the_one_that_the_reference_page_gives(sequence):
    """Mandated: a second, literal implementation agrees on every token of every request."""
    plain, provider, now = Plain(), emulator(), 0.0
    for texts, marks, explicit_mode, gap in sequence:
        now += gap
        where = sorted(mark for mark in marks if mark < len(texts))
        parts = [part(600, str(text)) for text in texts]
        for number in where:
            parts[number] = marked(parts[number])
        mode = {"prompt_cache_options": {"mode": "explicit" if explicit_mode else "implicit"}}
        bill = ask(provider, chat(*(message("user", one) for one in parts), **mode), now).usage
        assert bill == plain.request([str(text) for text in texts], where, explicit_mode, now)


@given(st.lists(st.tuples(st.text("ab", min_size=1, max_size=12), st.integers(0, 400)), min_size=1, max_size=8))
def test_an_automatic_cache_reads_the_longest_stretch_that_is_shared(sequence):
    """Mandated: whole steps of the longest common prefix with anything that was sent in the last ten minutes."""
    provider, now, sent = emulator(zero_retention=True), 0.0, []
    for letters, gap in sequence:
        now += gap + 1
        # All go to one machine: what is routed by is the same for all.
        whole = "r" * 300 + "".join(letter * 200 for letter in letters)
        alive = [other for other, used in sent if now - used[-1] <= 600]
        shared = max((_common(whole, other) for other in alive), default=0)
        steps_ = shared // 128 * 128
        expected = steps_ if steps_ >= 1024 else 0
        assert ask(provider, chat(message("user", whole), model=OLD), now).read == expected
        sent.append((whole, [now]))


def _common(one, other):
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
