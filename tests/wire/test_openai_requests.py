"""Requests of both OpenAI wires: read, marked and unmarked again, over all that the SDK's types allow and more."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentaccel.cache.prefix import prefixes
from agentaccel.facts import Wire, cache_facts
from agentaccel.rewrite.drift import imprint
from agentaccel.types import CachePlan, Marker, Prompt, Request
from agentaccel.wire import dialect
from agentaccel.wire.openai.edit import encode, strip
from tests.wire.openai_bodies import FACTS, JSON, MARK, WIRES, Json, lossless, mangled, planned, requests

Encode = Callable[[Request, CachePlan], Request]

quick = settings(max_examples=settings.default.max_examples // 2, suppress_health_check=list(HealthCheck))
long = settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))
wires = st.sampled_from(WIRES)


def decode(body: Json, wire: Wire) -> Prompt:
    return dialect(wire).decode(body, FACTS[wire])


def shown(prompt: Prompt) -> list[Any]:
    """All of the segments but where they stand, which changes where a string becomes one part."""
    return [(one.level, one.kind, one.role, one.name, one.digest, one.size, one.markable) for one in prompt.segments]


def check_round_trip(body: Json, plan: CachePlan, encode: Encode = encode, strip: Encode = strip) -> None:
    """Everything that the contract says of a plan that was written into a request."""
    before, text = copy.deepcopy(body), json.dumps(body)
    sent = encode(body, plan)
    assert body == before
    assert json.dumps(body) == text, "the sender's own object was changed"
    assert json.dumps(strip(sent, plan)) == json.dumps(lossless(body, plan)), "taking ours away gives another request"
    was, now = decode(body, plan.wire), decode(sent, plan.wire)
    assert shown(now) == shown(was), "the content changed"
    assert {name: value for name, value in now.parameters.items() if name not in plan.options} == {
        name: value for name, value in was.parameters.items() if name not in plan.options
    }
    stand, stood = ([marker for marker in one.markers if marker.path] for one in (now, was))
    assert len(stand) == len(stood) + len(plan.markers)
    assert (sent is body) == plan.empty


@pytest.mark.slow
@quick
@given(st.data())
def test_an_empty_plan_gives_back_the_very_object(data: st.DataObject) -> None:
    """Chosen by us: the bytes on the wire are then the sender's own, key order and all."""
    body = data.draw(requests(data.draw(wires)))
    text = json.dumps(body)
    assert encode(body, CachePlan(wire="chat", mark=MARK, reasons=("none",))) is body
    assert json.dumps(body) == text


@quick
@given(st.data())
def test_taking_our_fields_away_gives_the_senders_request(data: st.DataObject) -> None:
    """Chosen by us: markers and options are all that a plan adds, up to the lossless form."""
    check_round_trip(*data.draw(planned(data.draw(wires))))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@long
@given(st.data())
def test_taking_our_fields_away_gives_the_senders_request_at_length(data: st.DataObject) -> None:
    """As the test before, many times."""
    check_round_trip(*data.draw(planned(data.draw(wires))))


@quick
@given(st.data())
def test_what_was_read_stands_where_its_path_says(data: st.DataObject) -> None:
    """Chosen by us: the content of a segment is looked up there, to keep it or to tell what changed in it."""
    wire = data.draw(wires)
    body = data.draw(requests(wire))
    prompt = decode(body, wire)
    assert len(imprint(prompt, body).checks) == len(prompt.segments)


EXAMPLE: Json = {
    "model": "gpt-6-sol",
    "user": None,
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hello."}]},
    ],
}
PLACES = (("messages", 0, "content"), ("messages", 1, "content", 0))
PLAN = CachePlan(markers=tuple(Marker(path=path, ttl="30m", ours=True) for path in PLACES), wire="chat", mark=MARK)


def _in_place(body: Request, plan: CachePlan) -> Request:
    body["messages"][1]["content"][0][MARK] = {"mode": "explicit"}
    return encode(body, CachePlan(markers=plan.markers[:1], wire="chat", mark=MARK))


def _reordered(body: Request, plan: CachePlan) -> Request:
    return dict(sorted(encode(body, plan).items()))


def _trimmed(body: Request, plan: CachePlan) -> Request:
    sent = copy.deepcopy(dict(encode(body, plan)))
    sent["messages"][0]["content"][0]["text"] = "Be brief"
    return sent


def _without_nulls(body: Request, plan: CachePlan) -> Request:
    return {name: value for name, value in encode(body, plan).items() if value is not None}


@pytest.mark.parametrize("broken", [_in_place, _reordered, _trimmed, _without_nulls])
def test_the_round_trip_check_bites(broken: Encode) -> None:
    """The twin of the property: an encoder that mutates, reorders, edits or drops does not pass it."""
    check_round_trip(copy.deepcopy(EXAMPLE), PLAN)
    with pytest.raises(AssertionError):
        check_round_trip(copy.deepcopy(EXAMPLE), PLAN, encode=broken)


def check_reads(body: Any, wire: Wire) -> None:
    for facts in (FACTS[wire], cache_facts("gpt-4o", provider="openai", wire=wire), None):
        prompt = dialect(wire).decode(body, facts)
        assert all(segment.size >= 0 for segment in prompt.segments)
        if facts is not None:
            assert len(prefixes(prompt, facts).hashes) == len(prompt.segments)


FIELDS = ["model", "messages", "input", "instructions", "tools", "functions", "prompt_cache_options", "conversation"]


@quick
@given(st.data())
def test_reading_never_raises(data: st.DataObject) -> None:
    """Chosen by us: a malformed request is the provider's to reject."""
    wire = data.draw(wires)
    check_reads(data.draw(st.one_of(mangled(wire), st.dictionaries(st.sampled_from(FIELDS), JSON))), wire)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@long
@given(st.data())
def test_reading_never_raises_at_length(data: st.DataObject) -> None:
    """As the test before, many times."""
    wire = data.draw(wires)
    check_reads(data.draw(st.one_of(mangled(wire), st.dictionaries(st.sampled_from(FIELDS), JSON))), wire)


JUNK: list[Any] = [
    {},
    None,
    5,
    {"role": "user"},
    [None, 5, [], "words", {"role": []}, {"role": {}, "content": [None, 7, [], {"type": {}}]}],
    [{"role": [], "content": "x"}, {"type": [], "output": 5}, {"type": {}, "role": "user"}],
    [{"role": "\ud800", "content": "x", "\ud800": 1}],
    [{"role": "user", "content": [{"type": "image_url", "image_url": 5}, {"type": "file", "file": {"file_data": {}}}]}],
    [{"role": "user", "content": [{"type": "text", "text": "x", MARK: {"ttl": ["a"]}}, {"type": "text", MARK: 5}]}],
    [{"role": "assistant", "tool_calls": [5, None, {"type": "function", "function": []}, {"type": [], "custom": 1}]}],
    [{"role": "assistant", "tool_calls": {"a": 1}, "function_call": 5, "content": {"a": 1}}],
    [{"type": "function_call_output", "output": [[[{MARK: 1}]]]}, {"type": "shell_call_output", "output": {MARK: 1}}],
]


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize("wire", WIRES)
def test_junk_in_any_place_is_read(wire: Wire, junk: Any) -> None:
    """Chosen by us: what is not understood is an opaque segment that carries no marker."""
    check_reads({"messages": junk, "input": junk}, wire)
    check_reads({"messages": [], "input": "x", "tools": junk, "functions": junk, "instructions": junk}, wire)
    check_reads({"model": junk, "prompt_cache_options": junk, "conversation": junk, "text": junk}, wire)
