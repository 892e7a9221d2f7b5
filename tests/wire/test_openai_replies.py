"""Replies of the OpenAI wires: calls, usage and stop reason from bytes in any pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.facts import Wire
from agentaccel.types import Usage
from agentaccel.wire import dialect
from tests.wire.bodies import JSON
from tests.wire.openai_replies import (
    CHAT_END,
    CHAT_USAGE,
    DONE,
    RESPONSES_USAGE,
    USAGE,
    Json,
    chat_call,
    chunk,
    delta,
    finished,
    read,
    response,
    responses_call,
    responses_end,
    sse,
)
from tests.wire.replies import cut

ARGUMENTS = ['{"q": "Prüf', 'ung 🚚 \\u00e9 }", "n": 1', "}"]
CALLED = [
    ("call_0_0", "search", {"q": "Prüfung 🚚 é }", "n": 1}),
    ("call_0_1", "now", {}),
]
CHAT = [
    chunk(delta(role="assistant", content="Grüße \u2028")),
    *chat_call(0, "search", ARGUMENTS),
    *chat_call(1, "now", ["{}"]),
    finished(),
    CHAT_END,
]
RESPONSES = [
    {"type": "response.created", "response": response("in_progress")},
    {"type": "response.output_text.delta", "output_index": 7, "delta": "Grüße \u2028"},
    *responses_call(0, "search", ARGUMENTS),
    *responses_call(1, "now", ["{}"]),
    responses_end(),
]
STREAMS: dict[Wire, bytes] = {"chat": sse(CHAT) + DONE, "responses": sse(RESPONSES, named=True)}
STOPS: dict[Wire, str] = {"chat": "tool_calls", "responses": "completed"}
wires = st.sampled_from(["chat", "responses"])


@pytest.mark.parametrize("wire", STREAMS)
def test_a_stream_tells_usage_calls_and_stop(wire: Wire) -> None:
    """Mandated by the provider: input is inclusive of what the cache did; calls are told with what they were given."""
    found = read(wire, [STREAMS[wire]])
    assert (found.usage, found.calls, found.stop) == (USAGE, CALLED, STOPS[wire])
    assert (found.complete, found.error, found.message_id) == (True, None, "chatcmpl-1" if wire == "chat" else "resp_1")


@given(wires, st.lists(st.integers(0, 5000), max_size=60), st.sampled_from(["\n", "\r\n", "\r"]))
def test_any_cut_of_the_bytes_reads_the_same(wire: Wire, places: list[int], newline: str) -> None:
    """Mandated by the standard: events do not depend on how the network cut them, inside UTF-8 or CRLF too."""
    data = STREAMS[wire].replace(b"\n", newline.encode())
    assert read(wire, cut(data, places)) == read(wire, [STREAMS[wire]])


@pytest.mark.parametrize("wire", STREAMS)
def test_single_bytes_read_the_same(wire: Wire) -> None:
    """Mandated by the standard; every cut there is."""
    data = STREAMS[wire]
    assert read(wire, (data[i : i + 1] for i in range(len(data)))) == read(wire, [data])


def test_a_body_tells_the_same_as_a_stream() -> None:
    """Mandated by the provider: two ways of sending one reply."""
    made = [{"id": id_, "function": {"name": name, "arguments": json.dumps(a)}} for id_, name, a in CALLED]
    choice = {"index": 0, "finish_reason": "tool_calls", "message": {"tool_calls": made}}
    body = {"id": "chatcmpl-1", "model": "m", "choices": [choice], "usage": CHAT_USAGE}
    items = [
        {"type": "function_call", "call_id": id_, "name": name, "arguments": json.dumps(a)} for id_, name, a in CALLED
    ]
    whole: dict[Wire, Json] = {"chat": body, "responses": response(output=items, usage=RESPONSES_USAGE)}
    for wire, reply in whole.items():
        data = json.dumps(reply).encode()
        assert read(wire, cut(data, range(0, len(data), 7)), streamed=False) == read(wire, [STREAMS[wire]])


@pytest.mark.parametrize(("wire", "events"), [("chat", CHAT), ("responses", RESPONSES)])
def test_calls_are_told_as_soon_as_their_arguments_close(wire: Wire, events: list[Json]) -> None:
    """Chosen by us, for what will act on them: with the last piece, and not at the end of the reply."""
    tap = dialect(wire).reply_tap(True)
    when = [(at, call.name) for at, event in enumerate(events) for call in tap.feed(sse([event]))]
    last = ("}", "{}")
    pieces = [json.dumps(event) for event in events]
    expected = [next(i for i, p in enumerate(pieces) if f'"{end}"' in p) for end in last]
    assert when == [(expected[0], "search"), (expected[1], "now")]


@given(wires, st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=6))
def test_garbage_bytes_raise_nothing_and_do_not_depend_on_the_cut(wire: Wire, data: bytes, places: list[int]) -> None:
    """Chosen by us: the reader of a reply is the one to complain about it."""
    for streamed in (True, False):
        assert read(wire, cut(data, places), streamed=streamed) == read(wire, [data], streamed=streamed)


FIELDS = ["index", "delta", "usage", "error", "choices", "x_groq", "item", "output_index", "response", "id", "model"]


@pytest.mark.slow
@given(
    wires,
    st.lists(
        st.tuples(
            st.sampled_from([event["type"] for event in RESPONSES] + ["error", "response.failed", ""]),
            st.dictionaries(st.sampled_from(FIELDS), JSON),
            JSON,
            JSON,
        )
    ),
)
def test_events_of_any_shape_raise_nothing(wire: Wire, events: list[tuple[str, Json, Any, Any]]) -> None:
    """Chosen by us, as above: every field of an event may be anything."""
    made: list[Any] = []
    for kind, fields, a, b in events:
        call = {"index": a, "id": b, "function": {"name": a, "arguments": b}, "custom": b}
        item = {"type": "function_call", "call_id": a, "name": b, "arguments": a, "id": b, "status": a}
        made += [
            {**fields, "type": kind},
            {"choices": [{"index": a, "finish_reason": b, "delta": {"tool_calls": [call, a], "function_call": b}}]},
            {"choices": [{"index": a, "message": {"tool_calls": [call, b], "function_call": a}, "finish_reason": a}]},
            {"type": kind, "output_index": a, "item_id": b, "item": item, "delta": b, "arguments": a, "input": b},
            {"type": kind, "response": {"id": a, "usage": b, "status": a, "error": b, "prompt_cache_diagnostics": a}},
        ]
    found = read(wire, [sse(made)])
    bodies = [{"output": [1, one.get("item")], **one} for one in made]
    whole = [read(wire, [json.dumps(body).encode()], streamed=False) for body in bodies]
    for it in (found, *whole):
        assert all(isinstance(id_, str | None) and isinstance(name, str) for id_, name, _ in it.calls)
        assert all(isinstance(text, str | None) for text in (it.stop, it.message_id, it.error))


@pytest.mark.parametrize("wire", ["chat", "responses", "messages"])
def test_half_a_character_hides_nothing_of_its_event(wire: Wire) -> None:
    """Mandated by the SDKs, which read such an event: its usage, its id and its reason to stop count."""
    half, usage = "\ud83d", {"input_tokens": 3, "output_tokens": 5}
    message = {"type": "message_start", "message": {"id": f"msg_{half}", "usage": usage, "content": [half]}}
    events: dict[Wire, list[Json]] = {
        "chat": [chunk(delta(content=half, stop="stop"), usage=CHAT_USAGE)],
        "responses": [responses_end(output_text=half)],
        "messages": [message, {"type": "message_delta", "delta": {"stop_reason": "end_turn", "x": half}}],
    }
    data = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events[wire])
    found = read(wire, [data])
    assert found.usage == (Usage(input=3, output=5) if wire == "messages" else USAGE)
    assert found.stop in ("stop", "completed", "end_turn")
    assert found.message_id is not None
    found.message_id.encode()


def test_a_chat_has_ended_well_where_it_says_so() -> None:
    """Mandated by the protocol, as recorded: with a reason to stop or with [DONE]; bytes that just stop are no end."""
    begun = CHAT[:1]
    assert not read("chat", [sse(begun)]).complete
    assert not read("chat", [sse([*begun, CHAT_END])]).complete
    assert read("chat", [sse([*begun, finished("stop")])]).complete
    assert read("chat", [sse(begun) + DONE]).complete
    assert not read("responses", [sse(RESPONSES[:-1])]).complete
    assert not read("responses", [sse(RESPONSES[:-1]) + DONE]).complete


def test_an_error_inside_a_stream_is_no_good_end() -> None:
    """Mandated by the providers: whatever came before it, and in the forms in which they write errors."""
    for error in ({"error": {"type": "overloaded"}}, {"error": "overloaded"}, {"error": {"code": 529}}):
        found = read("chat", [sse([*CHAT[:1], error]) + DONE])
        assert not found.complete
        assert found.error is not None
    event = {"type": "error", "code": "server_error", "message": "m"}
    found = read("responses", [sse([*RESPONSES[:2], event])])
    assert (found.complete, found.error) == (False, "server_error")
