"""Replies: events from bytes in any pieces, and what they say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.types import Usage
from agentaccel.wire.anthropic import MessagesTap, usage_of
from agentaccel.wire.sse import SseParser
from tests.wire.bodies import JSON
from tests.wire.replies import USAGE, Json, call, cut, end, read, sse, start, text

STREAM = [
    start(),
    {"type": "ping"},
    *text("Grüße 🚚 \u2028 end"),
    *call("search", ['{"q": "Prüf', 'ung", "n": 1', "}"], 1),
    *call("now", [], 2),
    *call("again", [""], 3),
    *end("tool_use"),
]
WHOLE = read([sse(STREAM)])


def test_a_stream_tells_usage_calls_and_stop() -> None:
    """Mandated by the provider: the counters are added, and a tool without arguments sends no delta that holds any."""
    assert WHOLE.usage == Usage(input=11000, read=9000, write={"5m": 1000, "1h": 500}, output=12)
    assert [(one.id, one.name, one.arguments) for one in WHOLE.calls] == [
        ("toolu_1", "search", {"q": "Prüfung", "n": 1}),
        ("toolu_2", "now", {}),
        ("toolu_3", "again", {}),
    ]
    assert (WHOLE.stop, WHOLE.message_id, WHOLE.complete, WHOLE.error) == ("tool_use", "msg_1", True, None)


@given(st.lists(st.integers(0, 5000), max_size=60), st.sampled_from(["\n", "\r\n", "\r"]))
def test_any_cut_of_the_bytes_reads_the_same(places: list[int], newline: str) -> None:
    """Mandated by the standard: events do not depend on how the network cut them, inside UTF-8 or CRLF too."""
    assert read(cut(sse(STREAM, newline=newline), places)) == WHOLE


@given(st.lists(st.integers(0, 5000), max_size=60), st.sampled_from(["\n", "\r\n", "\r"]))
def test_any_cut_of_the_bytes_gives_the_same_events(places: list[int], newline: str) -> None:
    """Mandated by the standard: names and data of the events themselves."""
    parser = SseParser()
    found = [event for piece in cut(sse(STREAM, newline=newline), places) for event in parser.feed(piece)]
    assert [(name, json.loads(data)) for name, data in found] == [(one["type"], one) for one in STREAM]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_single_bytes_read_the_same(newline: str) -> None:
    """Mandated by the standard; every cut there is."""
    data = sse(STREAM, newline=newline)
    assert read(data[i : i + 1] for i in range(len(data))) == WHOLE


class _LinesOnly:
    """A parser that cuts events at each chunk, as one would write it first."""

    def __init__(self) -> None:
        self.events: list[bytes] = []

    def feed(self, chunk: bytes) -> None:
        self.events += [line[6:] for line in chunk.split(b"\n") if line.startswith(b"data: ")]


def test_the_cut_test_bites() -> None:
    """The twin: a parser that keeps nothing between chunks gives other events for another cut."""
    data = sse(STREAM)
    one, two = _LinesOnly(), _LinesOnly()
    one.feed(data)
    for piece in cut(data, range(0, len(data), 7)):
        two.feed(piece)
    assert one.events != two.events


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=6))
def test_garbage_bytes_raise_nothing_and_do_not_depend_on_the_cut(data: bytes, places: list[int]) -> None:
    """Chosen by us: the reader of a reply is the one to complain about it."""
    for streamed in (True, False):
        assert read(cut(data, places), streamed=streamed) == read([data], streamed=streamed)


@given(st.lists(st.tuples(st.sampled_from([one["type"] for one in STREAM] + ["error", ""]), JSON, JSON, JSON)))
def test_events_of_any_shape_raise_nothing(events: list[tuple[str, Any, Any, Any]]) -> None:
    """Chosen by us, as above: every field of an event may be anything."""
    junk = [
        {"type": kind, "index": a, "message": b, "content_block": b, "delta": c, "usage": c, "error": a}
        for kind, a, b, c in events
    ]
    tools = [
        {"type": "content_block_start", "index": a, "content_block": {"type": "tool_use", "id": b, "name": c}}
        for _, a, b, c in events
    ]
    found = read([b"data: " + json.dumps(event).encode() + b"\n\n" for event in [*tools, *junk, *reversed(tools)]])
    assert all(isinstance(one.id, str | None) and isinstance(one.name, str) for one in found.calls)
    assert isinstance(found.stop, str | None)


@given(JSON)
def test_a_body_of_any_shape_raises_nothing(value: Any) -> None:
    """Chosen by us, as above, for replies that are not streamed."""
    for body in (value, {"type": "message", "content": value, "usage": value, "stop_reason": value, "id": value}):
        found = read([json.dumps(body).encode()], streamed=False)
        assert isinstance(found.stop, str | None)
        assert isinstance(found.message_id, str | None)


@pytest.mark.parametrize(
    ("events", "usage", "complete", "error"),
    [
        ([start({}), *text("a"), *end()], Usage(output=12), True, None),
        ([start({"input_tokens": None}), *end()], Usage(output=12), True, None),
        ([start(), *text("a")], Usage(input=11000, read=9000, write={"5m": 1000, "1h": 500}, output=1), False, None),
        (
            [start(), {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}],
            Usage(input=11000, read=9000, write={"5m": 1000, "1h": 500}, output=1),
            False,
            "overloaded_error",
        ),
        ([{"type": "error", "error": "text"}], Usage(), False, "error"),
        (
            [start(), *end(input_tokens=9)],
            Usage(input=10509, read=9000, write={"5m": 1000, "1h": 500}, output=12),
            True,
            None,
        ),
        ([start(), *end(input_tokens=None)], WHOLE.usage, True, None),
        ([], Usage(), False, None),
    ],
)
def test_what_was_not_reported_is_not_zero(events: list[Json], usage: Usage, complete: bool, error: str | None) -> None:
    """Mandated by the provider: absent and null are unknown; a later figure replaces an earlier one."""
    found = read([sse(events)])
    assert (found.usage, found.complete, found.error) == (usage, complete, error)


@pytest.mark.parametrize("pieces", [['{"q": "cu'], ['{"n": 1'], ["nonsense"], ["[1]"], ["NaN"]])
def test_arguments_that_were_cut_are_no_call(pieces: list[str]) -> None:
    """Chosen by us: a partial value is never acted upon; arguments that are no object are not a call."""
    assert read([sse([start(), *call("f", pieces), *end("max_tokens")])]).calls == []


def test_a_call_without_its_end_is_no_call() -> None:
    """Chosen by us, as above: the block has not closed."""
    assert read([sse([start(), *call("f", ['{"a": 1}'])[:-1], *end()])]).calls == []


def test_a_broken_event_in_the_middle_is_skipped() -> None:
    """Chosen by us: what comes after it still counts."""
    data = sse([start()]) + b"event: content_block_delta\ndata: {broken\n\ndata: [DONE]\n\n" + sse(end())
    assert read([data]).usage.output == 12
    assert read([data]).complete


def test_calls_are_told_as_soon_as_their_arguments_close() -> None:
    """Chosen by us, for what will act on them: not at the end of the reply."""
    tap = MessagesTap(streamed=True)
    told = [len(list(tap.feed(sse([event])))) for event in STREAM]
    assert [place for place, count in enumerate(told) if count] == [9, 11, 14]


def test_a_body_tells_the_same_as_a_stream() -> None:
    """Mandated by the provider: two ways of sending one reply."""
    message = {
        **start()["message"],
        "content": [{"type": "text", "text": "x"}]
        + [{"type": "tool_use", "id": one.id, "name": one.name, "input": one.arguments} for one in WHOLE.calls],
        "stop_reason": "tool_use",
        "usage": {**USAGE, "output_tokens": 12},
    }
    data = json.dumps(message).encode()
    assert read([data], streamed=False) == WHOLE
    assert read(cut(data, range(0, len(data), 11)), streamed=False) == WHOLE


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        ({"input_tokens": 5, "cache_creation_input_tokens": 20, "cache_creation": {"ephemeral_1h_input_tokens": 5}},
         Usage(input=25, write={"1h": 5, "5m": 15})),
        ({"input_tokens": 5, "cache_creation": {"ephemeral_1h_input_tokens": 5}}, Usage(input=10, write={"1h": 5})),
        ({"input_tokens": 5, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0},
         Usage(input=5, read=0, write={})),
        ({"input_tokens": "5", "output_tokens": True, "cache_read_input_tokens": -1}, Usage()),
        ({"input_tokens": 5, "cache_creation": [1]}, Usage()),
        ({"input_tokens": 5, "iterations": [1, {"type": []}]}, Usage(input=5)),
    ],
)  # fmt: skip
def test_usage_in_every_form(raw: Json, usage: Usage) -> None:
    """Mandated by the provider, as recorded: where split and total differ the total wins; junk is not reported."""
    assert usage_of(raw) == usage


def test_an_event_without_data_and_comments_are_no_events() -> None:
    """Mandated by the standard."""
    found = list(SseParser().feed(b": hi\n\nevent: ping\n\nid: 1\nretry: 5\ndata\n\ndata:a\ndata: b\n\n"))
    assert found == [("", b""), ("", b"a\nb")]


ROLL = {"type": "tool_use", "id": "t1", "name": "roll", "input": {"who": "a"}}
STOPPED: Json = {"type": "message_stop"}


def begun(*content: Json, **more: Any) -> Json:
    return {"type": "message_start", "message": {**start()["message"], "content": list(content), **more}}


def block(kind: str, index: int = 0, **more: Any) -> Json:
    return {"type": f"content_block_{kind}", "index": index, **more}


def piece(text: str, index: int = 0) -> Json:
    return block("delta", index, delta={"type": "input_json_delta", "partial_json": text})


BIG = {**ROLL, "input": {"id": 18446744073709551617}}


@pytest.mark.parametrize(
    ("events", "calls"),
    [
        ([begun(ROLL), STOPPED], [("t1", {"who": "a"})]),
        ([begun(ROLL), *end("tool_use")], [("t1", {"who": "a"})]),
        ([begun(ROLL, {**ROLL, "id": "t2"}), STOPPED], [("t1", {"who": "a"}), ("t2", {"who": "a"})]),
        ([begun(), block("start", content_block=ROLL), block("stop"), STOPPED], [("t1", {"who": "a"})]),
        # The content of the first event, told once more as a block, is the same call.
        ([begun(ROLL), block("start", content_block=ROLL), block("stop"), STOPPED], [("t1", {"who": "a"})]),
        ([begun(), block("start", content_block=ROLL), piece(""), block("stop"), STOPPED], [("t1", {"who": "a"})]),
        # Pieces replace what the block began with.
        (
            [begun(), block("start", content_block=ROLL), piece('{"who": "b"'), piece("}"), block("stop"), STOPPED],
            [("t1", {"who": "b"})],
        ),
        ([begun(), block("start", content_block={**ROLL, "input": None}), block("stop"), STOPPED], [("t1", {})]),
        ([begun(), block("start", content_block={**ROLL, "input": "x"}), block("stop"), STOPPED], []),
        ([begun(), block("start", content_block=BIG), block("stop"), STOPPED], [("t1", BIG["input"])]),
        ([begun(BIG), STOPPED], [("t1", BIG["input"])]),
        ([begun(), block("start", content_block={**ROLL, "id": ""}), block("stop"), STOPPED], [(None, {"who": "a"})]),
    ],
)
def test_a_stream_may_begin_with_what_others_send_in_pieces(events: list[Json], calls: list[Any]) -> None:
    """Chosen by us: as the SDK accumulates them; servers that are compatible send whole blocks, or whole messages."""
    assert [(one.id, one.arguments) for one in read([sse(events)]).calls] == calls


def test_usage_and_stop_in_the_first_event_count() -> None:
    """Chosen by us, as above."""
    found = read([sse([begun(ROLL, stop_reason="tool_use"), STOPPED])])
    assert (found.stop, found.usage.input, found.complete) == ("tool_use", 11000, True)


@pytest.mark.parametrize("rest", ["", "\n", "\r", "\r\n"])
def test_a_last_event_without_its_empty_line_ends_the_reply(rest: str) -> None:
    """Chosen by us: the SDK has then handed over the whole reply, and its reader got it."""
    data = sse([start(), *call("f", ['{"a": 1}']), *end("tool_use")]).rstrip(b"\n") + rest.encode()
    found = read(cut(data, range(0, len(data), 7)))
    assert (found.complete, found.stop, [one.arguments for one in found.calls]) == (True, "tool_use", [{"a": 1}])


def test_a_last_event_that_was_cut_is_none() -> None:
    """Chosen by us, as above."""
    data = sse([start(), *end()]).rstrip(b"\n")[:-3]
    assert not read([data]).complete
