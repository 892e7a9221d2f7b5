"""A stream put together is the reply that a call which is not streamed would have got, or it is said that it is not."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.facts import Wire
from agentaccel.testing import ManualClock
from agentaccel.wire import dialect
from agentaccel.wire.anthropic.joining import ERROR_STATUS as OF_ANTHROPIC
from agentaccel.wire.joining import Broken, Joined, Unclear, Whole
from agentaccel.wire.openai.joining import ERROR_STATUS as OF_OPENAI
from agentaccel_emulator import Emulator, HttpRequest
from tests.wire import openai_replies as openai
from tests.wire.replies import Json, call, cut, end, sse, start, text

WIRES: tuple[Wire, ...] = ("messages", "chat", "responses")


def joined(wire: Wire, chunks: Iterable[bytes]) -> Joined:
    joiner = dialect(wire).joiner()
    for chunk in chunks:
        joiner.feed(chunk)
    return joiner.end()


def stream(wire: Wire, events: Iterable[Json]) -> bytes:
    """The events as their API sends them, to the end."""
    if wire == "messages":
        return sse(events)
    return openai.sse(events) + (openai.DONE if wire == "chat" else b"")


def body(wire: Wire, *events: Json) -> Any:
    """The reply that a stream of these events adds up to."""
    found = joined(wire, [stream(wire, events)])
    assert isinstance(found, Whole), found
    assert found.status == 200
    return json.loads(found.body)


# --- whatever the emulator can say ------------------------------------------------------------------------------------

ANY_TEXT = st.text(max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), VALUES, max_size=3)
PLAIN = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=60)
BLOCKS = st.one_of(
    st.builds(lambda words: {"type": "text", "text": words}, PLAIN),
    st.builds(lambda name, given: {"type": "tool_use", "name": name, "input": given}, st.sampled_from("fg"), ARGUMENTS),
    st.builds(lambda words: {"type": "thinking", "thinking": words, "signature": "c2lnbmVk"}, PLAIN),
)
REPLIES = st.builds(
    lambda content, stop: {"content": content, **({} if stop is None else {"stop_reason": stop})},
    st.lists(BLOCKS, max_size=4),
    st.sampled_from([None, "end_turn", "max_tokens", "refusal", "tool_use"]),
)

_ASKED = [{"role": "user", "content": "Go."}]
REQUESTS: dict[Wire, tuple[str, Json]] = {
    "messages": ("/v1/messages", {"model": "claude-sonnet-5", "max_tokens": 900, "messages": _ASKED}),
    "chat": ("/v1/chat/completions", {"model": "gpt-5.1", "messages": _ASKED}),
    "responses": ("/v1/responses", {"model": "gpt-5.1", "input": _ASKED}),
}
HEADERS = {"x-api-key": "k", "authorization": "Bearer k", "anthropic-version": "2023-06-01"}


def answered(wire: Wire, reply: Json, **more: Any) -> tuple[int, bytes]:
    """What an emulator of its own says, so that ids and times are the same ones."""
    path, asked = REQUESTS[wire]
    emulator = Emulator(script=[reply], clock=ManualClock())
    content = json.dumps({**asked, **more}).encode()
    answer = emulator.handle(HttpRequest(method="POST", path=path, headers=HEADERS, body=content), 1_700_000_000.0)
    return answer.status, answer.body


def streaming(wire: Wire) -> Json:
    return {"stream": True, **({"stream_options": {"include_usage": True}} if wire == "chat" else {})}


@pytest.mark.parametrize("wire", WIRES)
@given(reply=REPLIES, places=st.lists(st.integers(0, 4000), max_size=4), several=st.booleans())
def test_whatever_the_emulator_says_adds_up(wire: Wire, reply: Json, places: list[int], several: bool) -> None:
    """Equal to the JSON reply, key by key, however the bytes are cut; chats with several choices, too."""
    more = {"n": 2} if several and wire == "chat" else {}
    status, whole = answered(wire, reply, **more)
    assert status == 200, whole
    _, data = answered(wire, reply, **more, **streaming(wire))
    found = joined(wire, cut(data, [place % (len(data) + 1) for place in places]))
    assert isinstance(found, Whole)
    assert json.loads(found.body) == json.loads(whole)


# --- messages ---------------------------------------------------------------------------------------------------------


def grown(index: int, block: Json, *deltas: Json) -> list[Json]:
    return [
        {"type": "content_block_start", "index": index, "content_block": block},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def content(*events: Json) -> Any:
    return body("messages", start(), *events, *end())["content"]


def cited(words: str) -> Json:
    return {"type": "char_location", "cited_text": words, "document_index": 0}


GROWN: dict[str, tuple[list[Json], Json]] = {
    "text": (text("Grüße 🚚"), {"type": "text", "text": "Grüße 🚚"}),
    "citations": (
        grown(
            0,
            {"type": "text", "text": "", "citations": []},
            {"type": "citations_delta", "citation": cited("a")},
            {"type": "text_delta", "text": "So"},
            {"type": "citations_delta", "citation": cited("b")},
        ),
        {"type": "text", "text": "So", "citations": [cited("a"), cited("b")]},
    ),
    "citations of a block that began without": (
        grown(0, {"type": "text", "text": ""}, {"type": "citations_delta", "citation": cited("a")}),
        {"type": "text", "text": "", "citations": [cited("a")]},
    ),
    "thinking": (
        grown(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "Hm, ", "estimated_tokens": 5},
            {"type": "thinking_delta", "thinking": "so."},
            {"type": "signature_delta", "signature": "EqQB"},
        ),
        {"type": "thinking", "thinking": "Hm, so.", "signature": "EqQB"},
    ),
    "redacted thinking": (
        grown(0, {"type": "redacted_thinking", "data": "abc"}),
        {"type": "redacted_thinking", "data": "abc"},
    ),
    "a call": (
        call("f", ['{"a"', ": 18446744073709551617}"]),
        {"type": "tool_use", "id": "toolu_0", "name": "f", "input": {"a": 18446744073709551617}},
    ),
    "a call without arguments": (
        call("f", [""]),
        {"type": "tool_use", "id": "toolu_0", "name": "f", "input": {}},
    ),
    "a server's tool": (
        grown(
            0,
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"query": "x"}'},
        ),
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
    ),
    "its result": (
        grown(0, {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "https://a.example"}]}),
        {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"url": "https://a.example"}]},
    ),
    "a compaction": (
        grown(
            0,
            {"type": "compaction", "content": None},
            {"type": "compaction_delta", "content": "Short.", "encrypted_content": "xyz"},
        ),
        {"type": "compaction", "content": "Short.", "encrypted_content": "xyz"},
    ),
}


@pytest.mark.parametrize("name", GROWN)
def test_a_block_grows_to_what_it_is_in_a_whole_message(name: str) -> None:
    events, block = GROWN[name]
    assert content(*events) == [block]


def test_half_of_a_pair_of_surrogates_stays_what_it_is() -> None:
    data = sse([start(), *text("HALF"), *end()]).replace(b"HALF", b"\\ud83d")
    found = joined("messages", [data])
    assert isinstance(found, Whole)
    assert json.loads(found.body)["content"][0]["text"] == "\ud83d"


def test_blocks_stand_in_their_order() -> None:
    found = content(*text("One"), *call("f", ["{}"], 1), *text("Two", 2), *call("g", ['{"b": 2}'], 3))
    assert [block.get("text") or block["name"] for block in found] == ["One", "f", "Two", "g"]


def test_what_is_told_last_counts_and_null_says_nothing() -> None:
    ended = {
        "type": "message_delta",
        "delta": {"stop_reason": "stop_sequence", "stop_sequence": "!", "container": {"id": "c"}, "stop_details": None},
        "usage": {
            "output_tokens": 12,
            "input_tokens": 700,
            "cache_read_input_tokens": None,
            "server_tool_use": {"n": 1},
        },
        "context_management": {"applied_edits": []},
    }
    message = body("messages", start(), *text("So"), ended, {"type": "message_stop"})
    assert (message["stop_reason"], message["stop_sequence"], message["container"]) == (
        "stop_sequence",
        "!",
        {"id": "c"},
    )
    assert message["context_management"] == {"applied_edits": []}
    usage = {**start()["message"]["usage"], "output_tokens": 12, "input_tokens": 700, "server_tool_use": {"n": 1}}
    assert message["usage"] == usage


def test_pings_and_a_foreign_end_are_passed_over() -> None:
    data = sse([start(), {"type": "ping"}, *text("So"), *end()]) + b"event: data\ndata: [DONE]\n\n"
    assert isinstance(joined("messages", [data]), Whole)


# --- chats ------------------------------------------------------------------------------------------------------------


def chat(*events: Json) -> Any:
    return body("chat", *events, openai.CHAT_END)


def said(*deltas: Json, stop: str = "stop", **more: Any) -> list[Json]:
    chunks = [openai.chunk({"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}) for delta in deltas]
    return [*chunks, openai.chunk({"index": 0, "delta": {}, "logprobs": None, "finish_reason": stop, **more})]


def test_a_message_has_all_that_one_has_which_is_not_streamed() -> None:
    message = chat(*said({"role": "assistant", "content": "", "refusal": None}, {"content": "Grü"}, {"content": "ße"}))
    [choice] = message["choices"]
    assert choice == {
        "index": 0,
        "message": {"role": "assistant", "content": "Grüße", "refusal": None, "annotations": []},
        "logprobs": None,
        "finish_reason": "stop",
    }
    assert message["object"] == "chat.completion"
    assert message["usage"] == openai.CHAT_USAGE


def test_a_refusal_stands_beside_no_text() -> None:
    found = chat(*said({"role": "assistant", "content": ""}, {"refusal": "No"}, {"refusal": "."}))
    assert found["choices"][0]["message"] | {"annotations": []} == {
        "role": "assistant",
        "content": None,
        "refusal": "No.",
        "annotations": [],
    }


def test_calls_join_by_their_place() -> None:
    events = [*openai.chat_call(0, "f", ['{"a"', ": 1}"]), *openai.chat_call(1, "g", ["{}"]), openai.finished()]
    found = chat(*events)["choices"][0]["message"]["tool_calls"]
    assert found == [
        {"id": "call_0_0", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
        {"id": "call_0_1", "type": "function", "function": {"name": "g", "arguments": "{}"}},
    ]


def test_a_custom_call_and_one_of_2023_join() -> None:
    custom = [
        {"tool_calls": [{"index": 0, "id": "c", "type": "custom", "custom": {"name": "sh", "input": "l"}}]},
        {"tool_calls": [{"index": 0, "custom": {"input": "s"}}]},
    ]
    message = chat(*said({"role": "assistant", "content": None}, *custom))["choices"][0]["message"]
    assert message["tool_calls"] == [{"id": "c", "type": "custom", "custom": {"name": "sh", "input": "ls"}}]
    former = [{"function_call": {"name": "f", "arguments": ""}}, {"function_call": {"arguments": "{}"}}]
    message = chat(*said({"role": "assistant", "content": None}, *former))["choices"][0]["message"]
    assert message["function_call"] == {"name": "f", "arguments": "{}"}


def test_choices_and_the_odds_of_their_tokens_are_told_apart() -> None:
    def piece(index: int, words: str, stop: str | None = None) -> Json:
        odds = {"content": [{"token": words, "logprob": -0.1}], "refusal": None}
        delta = {"role": "assistant", "content": words}
        return openai.chunk({"index": index, "delta": delta, "logprobs": odds, "finish_reason": stop})

    events = [piece(1, "b"), piece(0, "a"), piece(1, "d", "stop"), piece(0, "c", "length")]
    found = chat(*events)["choices"]
    assert [one["message"]["content"] for one in found] == ["ac", "bd"]
    assert [one["finish_reason"] for one in found] == ["length", "stop"]
    assert [[token["token"] for token in one["logprobs"]["content"]] for one in found] == [["a", "c"], ["b", "d"]]


def test_a_chat_without_its_end_is_broken_off() -> None:
    """Its usage comes last, so a choice that has ended is not the end."""
    data = openai.sse(said({"role": "assistant", "content": "So"}))
    assert joined("chat", [data]) == Broken()
    assert isinstance(joined("chat", [data, openai.DONE]), Whole)
    cut_off = openai.sse([openai.chunk({"index": 0, "delta": {"content": "S"}, "finish_reason": None})])
    assert joined("chat", [cut_off, openai.DONE]) == Broken()


# --- responses --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["completed", "incomplete", "failed"])
def test_a_response_is_the_one_in_the_last_event(status: str) -> None:
    last = openai.responses_end(status, error={"code": "server_error"} if status == "failed" else None)
    assert body("responses", {"type": "response.made_up"}, {"type": "keepalive"}, last) == last["response"]


# --- what does not add up, is broken, or says no ----------------------------------------------------------------------

UNKNOWN: dict[str, list[Json]] = {
    "an event": [start(), {"type": "content_block_moved"}, *end()],
    "a delta": [start(), *grown(0, {"type": "text", "text": ""}, {"type": "sung_delta", "song": "la"}), *end()],
    "a field that is not there": [start(), *grown(0, {"type": "image"}, {"type": "text_delta", "text": "x"}), *end()],
    "blocks out of order": [start(), *text("So", 1), *end()],
    "a block that begins twice": [start(), *text("So"), *text("No"), *end()],
    "no beginning": [*text("So"), *end()],
    "arguments that were cut": [start(), *call("f", ['{"a": 1']), *end("max_tokens")],
    "arguments that are no object": [start(), *call("f", ["[1]"]), *end()],
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_is_not_made_up(name: str) -> None:
    assert isinstance(joined("messages", [sse(UNKNOWN[name])]), Unclear)


@pytest.mark.parametrize(
    "deltas",
    [
        [{"audio": {"id": "a"}}, {"audio": {"data": "x"}}],
        [{"tool_calls": [{"index": 1, "id": "c"}]}],
        [{"tool_calls": [{"index": 0, "id": "c"}]}, {"tool_calls": [{"index": 0, "id": "d"}]}],
        [{"reasoning": {"a": 1}}, {"reasoning": {"a": 2}}],
    ],
)
def test_a_chat_that_is_told_twice_and_otherwise_does_not_add_up(deltas: list[Json]) -> None:
    assert isinstance(joined("chat", [openai.sse(said(*deltas))]), Unclear)


def test_a_field_of_chunks_that_nobody_knows_is_kept() -> None:
    [choice] = chat(*said({"reasoning_content": "Hm, "}, {"reasoning_content": "so."}, content_filter="safe"))[
        "choices"
    ]
    assert (choice["message"]["reasoning_content"], choice["content_filter"]) == ("Hm, so.", "safe")


@pytest.mark.parametrize("wire", WIRES)
def test_what_is_no_json_reaches_the_reader_as_what_it_is(wire: Wire) -> None:
    """The first of it: what follows is not looked at any more."""
    assert joined(wire, [b'data: {"type": "mess\n\ndata: {}\n\n']) == Whole(200, b'{"type": "mess')


@pytest.mark.parametrize("wire", WIRES)
def test_what_ends_before_its_end_is_broken_off(wire: Wire) -> None:
    assert joined(wire, []) == Broken()
    assert joined("messages", [sse([start(), *text("So")])]) == Broken()
    assert joined("responses", [openai.sse(openai.responses_call(0, "f", ["{}"]))]) == Broken()


@pytest.mark.parametrize(("kind", "status"), [*OF_ANTHROPIC.items(), ("made_up_error", 500)])
def test_an_error_in_a_message_has_the_status_of_its_type(kind: str, status: int) -> None:
    error = {"type": "error", "error": {"type": kind, "message": "No."}, "request_id": "req_1"}
    found = joined("messages", [sse([start(), *text("So"), error, *end()])])
    assert isinstance(found, Whole)
    assert (found.status, json.loads(found.body)) == (status, error)


@pytest.mark.parametrize(("code", "status"), [*OF_OPENAI.items(), ("made_up", 500)])
def test_an_error_in_either_wire_of_openai_has_the_status_of_its_code(code: str, status: int) -> None:
    told = {"message": "No.", "type": "some_error", "param": None, "code": code}
    found = joined("chat", [openai.sse([*said({"content": "So"}), {"error": told}])])
    assert isinstance(found, Whole)
    assert (found.status, json.loads(found.body)) == (status, {"error": told})
    for event in ({**told, "type": "error"}, {"type": "error", "error": told}):
        found = joined("responses", [openai.sse([event])])
        assert isinstance(found, Whole)
        assert (found.status, json.loads(found.body)["error"]["code"]) == (status, code)


# --- which calls may go out streamed ----------------------------------------------------------------------------------

TOOLS: dict[Wire, Json] = {
    "messages": {"max_tokens": 9, "messages": [], "tools": [{"name": "f"}]},
    "chat": {"messages": [], "tools": [{"type": "function"}]},
    "responses": {"input": "Hi", "tools": [{"type": "function"}]},
}
WHOLE: list[tuple[Wire, Json]] = [
    ("messages", {"tools": []}),
    ("messages", {"max_tokens": 0}),
    ("messages", {"thread": {"type": "continue"}}),
    ("messages", {"fallbacks": []}),
    ("messages", {"made_up": 1}),
    ("chat", {"tools": None}),
    ("chat", {"modalities": ["text", "audio"], "audio": {}}),
    ("chat", {"store": True}),
    ("chat", {"web_search_options": {}}),
    ("chat", {"stream_options": {"include_usage": True}}),
    ("chat", {"moderation": {}}),
    ("responses", {"tools": []}),
    ("responses", {"background": True}),
    ("responses", {"made_up": 1}),
]


@pytest.mark.parametrize(("wire", "more"), WHOLE)
def test_a_call_that_may_differ_when_it_is_streamed_stays_whole(wire: Wire, more: Json) -> None:
    assert dialect(wire).stays_whole({**TOOLS[wire], **more})


@pytest.mark.parametrize("wire", WIRES)
def test_an_ordinary_call_with_tools_may_go_out_streamed(wire: Wire) -> None:
    assert dialect(wire).stays_whole({**TOOLS[wire], "model": "m", "temperature": None, "stream": False}) == ""
