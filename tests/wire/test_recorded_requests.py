"""Recorded requests: read, marked and unmarked again, byte by byte as their clients had written them."""

from __future__ import annotations

import copy
import json
from collections import Counter
from typing import Any

import pytest

from agentaccel.facts import CacheFacts, Wire, cache_facts
from agentaccel.types import CachePlan, Marker, Path
from agentaccel.wire import dialect
from tests.wire.recorded import FILES, Json, exchanges, facts, style, wire

pytestmark = pytest.mark.traces

MARKED: dict[Wire, CacheFacts | None] = {
    "messages": cache_facts("claude-sonnet-5"),
    "chat": cache_facts("gpt-6-sol", provider="openai", wire="chat"),
    "responses": cache_facts("gpt-6-sol", provider="openai", wire="responses"),
}
"""A model of each wire that takes markers, whatever the recorded request was for."""


def test_every_recording_is_there() -> None:
    """Mandated by the recordings' notes: what the tests below say of all holds for this many."""
    found = Counter({file: len(exchanges(file)) for file in FILES})
    assert found == {"anthropic": 175, "openai_chat": 130, "openai_responses": 150, "compatible": 165}
    assert len({one["id"] for one in exchanges()}) == 620


def test_nothing_planned_gives_back_the_very_request() -> None:
    """Chosen by us: every request that a real client sent is read, and goes out as the object that it was."""
    for one in exchanges():
        request, before = one["request"], json.dumps(one["request"])
        speaks = dialect(wire(one))
        for known in (facts(one), MARKED[wire(one)], None):
            prompt = speaks.decode(request, known)
            history = request.get("input" if wire(one) == "responses" else "messages", ())
            count = 1 if isinstance(history, str) else len(history)
            assert prompt.opening + prompt.messages == count, one["id"]
            assert speaks.encode(request, CachePlan()) is request, one["id"]
        assert json.dumps(request) == before, one["id"]


def test_nothing_planned_gives_back_the_very_bytes() -> None:
    """Mandated by the recordings: the text that was sent, wherever it was kept and written in a plain way."""
    kept, exact = 0, 0
    for one in exchanges():
        kept += one.get("request_text") is not None
        form = style(one)
        if form is not None:
            sent = dialect(wire(one)).encode(one["request"], CachePlan())
            assert json.dumps(sent, **form) == one["request_text"], one["id"]
            exact += 1
    # The two others are written in ways of their own.
    assert (kept, exact) == (321, 319)


def _at(body: Any, path: Path) -> Any:
    for part in path:
        body = body[part]
    return body


def lossless(body: Json, wire: Wire, paths: list[Path]) -> Json:
    """`body` with the strings at `paths` written as the one text part that stands for them."""
    changed = copy.deepcopy(body)
    for path in paths:
        value = _at(body, path)
        if isinstance(value, str):
            _at(changed, path[:-1])[path[-1]] = [
                {"type": "input_text" if wire == "responses" else "text", "text": value}
            ]
    return changed


def check_marked(one: Json, known: CacheFacts) -> int:
    """Each markable segment of a request marked in turn, as many at once as may be; how many there were."""
    request, speaks = one["request"], dialect(wire(one))
    was = speaks.decode(request, known)
    taken = {marker.path for marker in was.markers}
    free = [segment.path for segment in was.segments if segment.markable and segment.path not in taken]
    room = max(known.max_markers - len(was.markers), 1)
    for at in range(0, len(free), room):
        paths = free[at : at + room]
        markers = tuple(Marker(path=path, ttl=known.ttls[0].label, ours=True) for path in paths)
        plan = CachePlan(markers=markers, wire=known.wire, mark=known.mark)
        sent = speaks.encode(request, plan)
        assert json.dumps(sent).count(f'"{known.mark}"') == json.dumps(request).count(f'"{known.mark}"') + len(paths)
        wanted = json.dumps(lossless(request, known.wire, paths))
        assert json.dumps(speaks.strip(sent, plan)) == wanted, one["id"]
        now = speaks.decode(sent, known)
        assert [segment.digest for segment in now.segments] == [segment.digest for segment in was.segments], one["id"]
        assert len(now.markers) == len(was.markers) + len(paths), one["id"]
        assert now.parameters == was.parameters
    return len(free)


def test_a_marker_on_any_segment_can_be_taken_away_again() -> None:
    """Chosen by us: what a plan adds and nothing else is what its removal takes away, up to the lossless form."""
    segments: Counter[str] = Counter()
    for one in exchanges():
        before = json.dumps(one["request"])
        for known in (MARKED[wire(one)], facts(one)):
            if known is not None and known.mark:
                segments[wire(one)] += check_marked(one, known)
        assert json.dumps(one["request"]) == before, one["id"]
    assert min(segments.values()) >= 250, segments
