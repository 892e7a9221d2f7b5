"""Requests: read, marked and unmarked again, over everything that the SDK's types allow and junk that they do not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentaccel import CachePlan
from agentaccel.cache.prefix import prefixes
from agentaccel.facts import CacheFacts, cache_facts
from agentaccel.types import Marker, Request
from agentaccel.wire.anthropic import decode, encode, strip
from tests.wire.bodies import JSON, Json, blocks, mangled, requests, typed_dict, unmarked

FACTS = cache_facts("claude-sonnet-5")
quick = settings(max_examples=settings.default.max_examples // 2, suppress_health_check=list(HealthCheck))
long = settings(max_examples=3000, deadline=None, suppress_health_check=list(HealthCheck))

Encode = Callable[[Request, CachePlan], Request]


def facts_of(body: Json) -> CacheFacts | None:
    return cache_facts(str(body.get("model", "")))


@st.composite
def planned(draw: st.DrawFn) -> tuple[Json, CachePlan]:
    """A request and a plan for it, with markers on any of the places that may carry one, and perhaps options."""
    body = draw(requests())
    taken = {marker.path for marker in decode(body, FACTS).markers}
    free = [s.path for s in decode(body, FACTS).segments if s.markable and s.path not in taken]
    chosen = draw(st.sets(st.sampled_from(free))) if free else set()
    paths: list[tuple[str | int, ...]] = sorted(chosen, key=free.index)
    if "cache_control" not in body and draw(st.booleans()):
        paths.append(())
    ttl = draw(st.sampled_from(["5m", "1h"]))
    options = {} if "diagnostics" in body or draw(st.booleans()) else {"diagnostics": {"previous_message_id": None}}
    return body, CachePlan(markers=tuple(Marker(path=p, ttl=ttl, ours=True) for p in paths), options=options)


def lossless(body: Json, plan: CachePlan) -> Json:
    """`body` with the strings that `plan` marks written as one text block: the two forms that cost nothing."""
    changed = copy.deepcopy(body)
    for marker in plan.markers:
        if marker.path == ("system",) and isinstance(body["system"], str):
            changed["system"] = [{"type": "text", "text": body["system"]}]
        if marker.path[:1] == ("messages",) and marker.path[2:] == ("content",):
            message = changed["messages"][marker.path[1]]
            message["content"] = [{"type": "text", "text": message["content"]}]
    return changed


def check_round_trip(body: Json, plan: CachePlan, encode: Encode = encode, strip: Encode = strip) -> None:
    """Everything that the contract says of a plan that was written into a request."""
    before, text = copy.deepcopy(body), json.dumps(body)
    sent = encode(body, plan)
    assert body == before
    assert json.dumps(body) == text, "the sender's own object was changed"
    assert json.dumps(strip(sent, plan)) == json.dumps(lossless(body, plan)), "taking ours away gives another request"
    was, now = decode(body, FACTS), decode(sent, FACTS)
    assert [s.digest for s in now.segments] == [s.digest for s in was.segments], "the content changed"
    assert [(s.size, s.kind, s.role, s.markable) for s in now.segments] == [
        (s.size, s.kind, s.role, s.markable) for s in was.segments
    ]
    assert {k: v for k, v in now.parameters.items() if k not in plan.options} == dict(was.parameters)
    assert len(now.markers) == len(was.markers) + len(plan.markers)
    assert (sent is body) == plan.empty


@quick
@given(requests())
def test_an_empty_plan_gives_back_the_very_object(body: Json) -> None:
    """Chosen by us: the bytes on the wire are then the sender's own, key order and all."""
    text = json.dumps(body)
    assert encode(body, CachePlan(reasons=("none",))) is body
    assert json.dumps(body) == text


@quick
@given(planned())
def test_taking_our_fields_away_gives_the_senders_request(case: tuple[Json, CachePlan]) -> None:
    """Chosen by us: markers and options are all that a plan adds, up to the two lossless forms."""
    check_round_trip(*case)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@long
@given(planned())
def test_taking_our_fields_away_gives_the_senders_request_at_length(case: tuple[Json, CachePlan]) -> None:
    """As the test before, many times."""
    check_round_trip(*case)


EXAMPLE: Json = {
    "model": "claude-sonnet-5",
    "system": "Be brief.",
    "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    "messages": [
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": [{"type": "text", "text": "Hi."}]},
    ],
}
PLACES = (("tools", 0), ("system",), ("messages", 0, "content"), ("messages", 1, "content", 0))
PLAN = CachePlan(markers=tuple(Marker(path=path, ttl="5m", ours=True) for path in PLACES))


def _in_place(body: Request, plan: CachePlan) -> Request:
    body["tools"][0]["cache_control"] = {"type": "ephemeral"}
    return encode(body, CachePlan(markers=plan.markers[1:]))


def _reordered(body: Request, plan: CachePlan) -> Request:
    return dict(sorted(encode(body, plan).items()))


def _trimmed(body: Request, plan: CachePlan) -> Request:
    sent = copy.deepcopy(dict(encode(body, plan)))
    sent["messages"][0]["content"][0]["text"] = "Hello"
    return sent


def _one_too_many(body: Request, plan: CachePlan) -> Request:
    return {**encode(body, plan), "cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize("broken", [_in_place, _reordered, _trimmed, _one_too_many])
def test_the_round_trip_check_bites(broken: Encode) -> None:
    """The twin of the property: an encoder that mutates, reorders, edits or adds does not pass it."""
    check_round_trip(copy.deepcopy(EXAMPLE), PLAN)
    with pytest.raises(AssertionError):
        check_round_trip(copy.deepcopy(EXAMPLE), PLAN, encode=broken)


def test_the_round_trip_check_bites_when_a_marker_is_left() -> None:
    """The twin for `strip`: one that forgets a marker does not pass."""
    with pytest.raises(AssertionError):
        check_round_trip(EXAMPLE, PLAN, strip=lambda body, plan: strip(body, CachePlan(markers=plan.markers[:-1])))


def check_reads(body: Any) -> None:
    for facts in (FACTS, None):
        prompt = decode(body, facts)
        assert len(prompt.parameters) <= len(body) + 40
        if facts is not None:
            assert len(prefixes(prompt, facts).hashes) == len(prompt.segments)


@quick
@given(st.one_of(mangled(), st.dictionaries(st.sampled_from(["model", "messages", "system", "tools", "thread"]), JSON)))
def test_reading_never_raises(body: Json) -> None:
    """Chosen by us: a malformed request is the provider's to reject."""
    check_reads(body)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@long
@given(mangled())
def test_reading_never_raises_at_length(body: Json) -> None:
    """As the test before, many times."""
    check_reads(body)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": {"role": "user"}},
        {"messages": None, "tools": 5, "system": {"a": 1}},
        {"messages": [None, 5, [], {"role": []}, {"content": [None, 7, [], {"type": {}}]}]},
        {"model": ["m"], "messages": [{"role": "\ud800", "content": "x", "\ud800": 1}]},
        {"output_config": {"\ud800": 1}, "messages": []},
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": 5}}]}]},
        {"system": [{"type": "text", "text": "x", "cache_control": {"ttl": ["a"]}}], "cache_control": "ephemeral"},
        {"tools": [{"type": {"a": 1}, "name": [], "defer_loading": True, "cache_control": 5}]},
        {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": [[[{"cache_control": 1}]]]}]}]},
    ],
)
def test_junk_in_any_place_is_read(body: Json) -> None:
    """Chosen by us: what is not understood is an opaque segment that carries no marker."""
    check_reads(body)


def without_markers_on_blocks(value: Any) -> Any:
    """`value` without the markers on it and on the blocks that it holds; what it holds elsewhere is data."""
    if isinstance(value, list):
        return [without_markers_on_blocks(item) for item in value]
    if not isinstance(value, dict):
        return value
    holds = ("content", "source", "tool_references")
    return {k: without_markers_on_blocks(v) if k in holds else v for k, v in value.items() if k != "cache_control"}


@quick
@given(blocks())
def test_a_marker_anywhere_in_a_block_is_seen_and_is_no_content(block: Json) -> None:
    """Chosen by us: a marker counts wherever it lies, and a prompt is the same with it and without."""
    body = {"messages": [{"role": "user", "content": [block]}]}
    bare = {"messages": [{"role": "user", "content": [unmarked(block)]}]}
    if decode(bare, FACTS).segments[0].digest != decode(body, FACTS).segments[0].digest:
        # Only what the user's own data calls cache_control may stay.
        assert "cache_control" in json.dumps(without_markers_on_blocks(block))


def _nested(block: Json) -> Json:
    return {"messages": [{"role": "user", "content": [block]}], "model": "claude-sonnet-5"}


MARK = {"type": "ephemeral"}
TEXT = {"type": "text", "text": "x", "cache_control": MARK}


@pytest.mark.parametrize(
    "block",
    [
        {"type": "tool_result", "tool_use_id": "t", "content": [TEXT]},
        {"type": "tool_result", "tool_use_id": "t", "content": (TEXT,)},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "search_result", "content": [TEXT]}]},
        {"type": "search_result", "source": "s", "title": "t", "content": [TEXT]},
        {"type": "document", "source": {"type": "content", "content": [TEXT]}},
        {"type": "mcp_tool_result", "tool_use_id": "t", "content": [TEXT]},
        {"type": "web_fetch_tool_result", "content": {"type": "web_fetch_result", "content": {**TEXT}}},
        {"type": "tool_search_tool_result", "content": {"tool_references": [TEXT]}},
    ],
)
def test_a_nested_marker_counts_against_the_limit(block: Json) -> None:
    """Mandated by the provider: at most four blocks of a request carry markers, wherever they lie."""
    assert len(decode(_nested(block), FACTS).markers) == 1
    assert decode(_nested({**block, "cache_control": MARK}), FACTS).illegal == ()
    four_more = {**_nested(block), "system": [TEXT] * 4}
    assert decode(four_more, FACTS).illegal


def test_what_a_call_passes_on_is_no_marker() -> None:
    """Chosen by us: a tool's input and schema are the user's data, whatever their keys are called."""
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {"content": [TEXT], "cache_control": MARK}}
    tool = {"name": "f", "input_schema": {"type": "object", "properties": {"cache_control": MARK}}}
    prompt = decode({**_nested(call), "tools": [tool]}, FACTS)
    assert prompt.markers == ()


@quick
@given(st.sampled_from(["text", "tool_result"]), st.integers(0, 3))
def test_a_change_of_key_order_alone_is_another_prompt(kind: str, turn: int) -> None:
    """Mandated by the provider, which hashes a prompt as it was sent."""
    block = {"type": kind, "tool_use_id": "t", "text": "x", "content": "y"}
    items = list(block.items())
    turned = dict(items[turn:] + items[:turn])
    same = decode(_nested(block), FACTS).segments[0].digest == decode(_nested(turned), FACTS).segments[0].digest
    assert same == (turn == 0)


def test_a_message_without_content_is_part_of_the_prompt() -> None:
    """Mandated by the provider: a system message may carry parameters alone, and a change of them is a change."""
    one, other = (
        decode({"messages": [{"role": "system", "output_config": {"effort": effort}}]}, FACTS)
        for effort in ("low", "high")
    )
    assert [s.kind for s in one.segments] == ["opaque"]
    assert one.segments[0].digest != other.segments[0].digest
    assert not one.segments[0].markable


@pytest.mark.parametrize("kind", ["text", "string"])
def test_a_string_and_the_block_it_stands_for_are_one_prompt(kind: str) -> None:
    """Chosen by us: the lossless form must not look like a change."""
    content: Any = "x \ud800" if kind == "string" else [{"type": "text", "text": "x \ud800"}]
    plain = decode({"messages": [{"role": "user", "content": "x \ud800"}]}, FACTS)
    assert decode({"messages": [{"role": "user", "content": content}]}, FACTS).segments[0].digest == (
        plain.segments[0].digest
    )


def test_the_generator_reaches_every_type() -> None:
    """The properties above cover every block and tool type of the SDK: each has a strategy of its own."""
    from tests.wire.test_markable import BLOCKS, TOOLS

    assert len(BLOCKS) >= 24
    assert len(TOOLS) >= 20
    for kind in (*BLOCKS.values(), *TOOLS.values()):
        assert not typed_dict(kind).is_empty


def test_parameters_that_are_equal_and_written_differently_are_told_apart() -> None:
    """In Python `True` is 1, and 1 is 1.0."""
    written = [decode({"messages": [], "top_k": value}, None).parameters["top_k"] for value in (1, True, 1.0, "1")]
    assert len(set(written)) == 4
    assert written[0] == decode({"messages": [], "top_k": 1}, None).parameters["top_k"]
