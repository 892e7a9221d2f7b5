"""Tool calls of the OpenAI wires: told once, exactly, and never before their end."""

from __future__ import annotations

import json
import sys
from itertools import chain, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.facts import Wire
from agentaccel.types import ToolCall
from agentaccel.wire.openai.tap import Closing, OpenCalls
from tests.anything import CHARACTERS
from tests.wire.bodies import JSON
from tests.wire.openai_replies import (
    DONE,
    USAGE,
    Json,
    call_delta,
    calls,
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


def test_calls_that_come_in_turns_are_kept_apart() -> None:
    """Mandated by the protocol: each piece names its call, and another call's beginning ends none."""
    heads = calls(*[call_delta(at, "", id=f"c{at}", name=f"f{at}") for at in range(3)])
    pieces = [['{"a"', ": 0}"], ["{", "}"], ['{"b": [', "1]}"]]
    turns = [calls(call_delta(at, pieces[at][step])) for step in range(2) for at in (2, 0, 1)]
    found = read("chat", [sse([heads, *turns, finished()])])
    assert found.calls == [("c2", "f2", {"b": [1]}), ("c0", "f0", {"a": 0}), ("c1", "f1", {})]
    mixed = chain.from_iterable(zip(*[responses_call(at, f"f{at}", pieces[at]) for at in range(3)], strict=True))
    assert [name for _, name, _ in read("responses", [sse(mixed)]).calls] == ["f0", "f1", "f2"]


def test_choices_are_kept_apart() -> None:
    """Mandated by the protocol: with n above one, the end of one choice is not that of the others."""
    made = [
        calls(call_delta(0, "", id="a", name="f"), choice=0),
        calls(call_delta(0, '{"x": ', id="b", name="g"), choice=1),
        finished("stop", choice=1 + 1),
        calls(call_delta(0, "1}"), choice=1),
        finished("tool_calls", choice=1),
        calls(call_delta(0, '{"y": 2}'), choice=0),
        finished("length", choice=0),
    ]
    found = read("chat", [sse(made)])
    assert found.calls == [("b", "g", {"x": 1}), ("a", "f", {"y": 2})]
    assert found.stop == "length"


@pytest.mark.parametrize(
    ("events", "called"),
    [
        ([finished()], [{}]),
        ([finished("stop")], [{}]),
        ([], []),
        ([finished("length")], []),
        ([finished("content_filter")], []),
        ([calls(call_delta(0, '{"n": 1')), finished()], []),
        ([calls(call_delta(0, '{"n": 1'))], []),
        ([calls(call_delta(1, "", id="d", name="g"))], []),
        ([calls(call_delta(1, "", id="d", name="g")), calls(call_delta(0, '{"n": 10}'))], [{"n": 10}]),
    ],
)
def test_a_call_without_arguments_yet_is_told_only_when_its_choice_has_ended_well(
    events: list[Json], called: list[Any]
) -> None:
    """Chosen by us: a partial value is never acted upon, and nothing at all is the most partial one."""
    found = read("chat", [sse([calls(call_delta(0, "", id="c", name="f")), *events])])
    assert [arguments for _, _, arguments in found.calls] == called


def test_a_stream_that_says_it_is_done_has_ended_its_calls() -> None:
    """Mandated by the protocol: some servers give no reason to stop and only say that they are done."""
    found = read("chat", [sse(chat_call(0, "f", [])) + DONE])
    assert (found.calls, found.complete) == ([("call_0_0", "f", {})], True)


@pytest.mark.parametrize("status", ["incomplete", "failed", "cancelled"])
def test_a_response_that_was_cut_tells_no_open_call(status: str) -> None:
    """Chosen by us, as above: the input of a custom tool is text, and nothing in it says whether it is whole."""
    opened = responses_call(0, "f", ["SELECT *"], "custom_tool_call")[:2]
    cut_off = {**responses_call(0, "f", ["SELECT *"], "custom_tool_call")[-1]}
    cut_off["item"] = {**cut_off["item"], "status": "incomplete"}
    end = responses_end(status, error={"code": "server_error"} if status == "failed" else None)
    found = read("responses", [sse([*opened, cut_off, end])])
    assert (found.calls, found.stop, found.usage) == ([], status, USAGE)
    assert (found.complete, found.error) == ((False, "server_error") if status == "failed" else (True, None))
    whole = json.dumps(response(status, output=[cut_off["item"]])).encode()
    assert read("responses", [whole], streamed=False).calls == []


def test_custom_tools_are_told_with_their_text() -> None:
    """Mandated by the provider: their input is text, whatever it looks like, and ends where the protocol says."""
    text = ['{"not": "', 'json"} "']
    made = read("responses", [sse(responses_call(0, "sql", text, "custom_tool_call"))])
    late = read("responses", [sse(responses_call(0, "sql", text, "custom_tool_call")[-1:])])
    head = {"index": 0, "id": "call_0_0", "type": "custom", "custom": {"name": "sql", "input": text[0]}}
    tail = {"index": 0, "custom": {"input": text[1]}}
    chat = read("chat", [sse([calls(head), calls(tail), finished()])])
    message = {"tool_calls": [{"id": "call_0_0", "custom": {"name": "sql", "input": "".join(text)}}]}
    body = read("chat", [json.dumps({"choices": [{"message": message}]}).encode()], streamed=False)
    for found in (made, late, chat, body):
        assert found.calls == [("call_0_0", "sql", {"input": "".join(text)})]


def test_a_legacy_function_call_is_a_call_without_an_id() -> None:
    """Mandated by the provider: the form of 2023, which some servers still send."""
    head, tail = ({"function_call": part} for part in ({"name": "f", "arguments": '{"a"'}, {"arguments": ": 1}"}))
    stream = read("chat", [sse([chunk(delta(**head)), chunk(delta(**tail)), finished("function_call")])])
    message = {"function_call": {"name": "f", "arguments": '{"a": 1}'}}
    body = read("chat", [json.dumps({"choices": [{"message": message}]}).encode()], streamed=False)
    assert stream.calls == body.calls == [(None, "f", {"a": 1})]


EXACT: Json = {"id": 2**64 + 1, "low": -(10**30), "odd": 2**53 + 1, "real": 0.1, "text": "é🚚"}
"""Arguments of which a quick parser makes something else."""
LONE: Json = {"id": 2**64 + 1, "cut": "\ud83d"}
"""Half a character, as models write one now and then."""


@pytest.mark.parametrize("given_", [EXACT, LONE])
@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("wire", ["chat", "responses", "messages"])
def test_arguments_are_exactly_what_the_model_wrote(wire: Wire, streamed: bool, given_: Json) -> None:
    """Mandated by the SDKs, whose users read them with `json`: an id beyond 64 bits is no float."""
    text = json.dumps(given_)
    start = {"type": "content_block_start", "index": 0}
    block = {"type": "tool_use", "id": "t", "name": "f"}
    piece = {"type": "input_json_delta", "partial_json": text}
    events: dict[Wire, list[Json]] = {
        "chat": [calls(call_delta(0, text, id="c", name="f"))],
        "responses": responses_call(0, "f", [text]),
        "messages": [
            {**start, "content_block": {**block, "input": {}}},
            {**start, "type": "content_block_delta", "delta": piece},
            {**start, "type": "content_block_stop"},
        ],
    }
    item = {"type": "function_call", "call_id": "c", "name": "f", "arguments": text}
    bodies: dict[Wire, Json] = {
        "chat": {"choices": [{"message": {"tool_calls": [call_delta(0, text, id="c", name="f")]}}]},
        "responses": response(output=[item]),
        "messages": {"type": "message", "content": [{**block, "input": given_}]},
    }
    data = sse(events[wire]) if streamed else json.dumps(bodies[wire]).encode()
    [(_, name, arguments)] = read(wire, [data], streamed=streamed).calls
    assert (name, arguments) == ("f", given_)
    assert json.dumps(arguments) == text


DEEP = '{"a":' * 10**5
NO_OBJECTS = ["[1]", "nonsense", "NaN", '{"x": NaN}', '{"x": 1e999}', '"{}"', "{]", "}{", "1" * 5000, "[" * 10**5, DEEP]


@pytest.mark.many(3)
@pytest.mark.parametrize("text", NO_OBJECTS, ids=lambda text: text[:9])
@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_arguments_that_are_no_object_are_no_call(wire: Wire, text: str) -> None:
    """Chosen by us: what is not the JSON of an object is for the loop to complain about."""
    chat = [*chat_call(0, "f", [text]), finished()]
    assert read(wire, [sse(chat if wire == "chat" else responses_call(0, "f", [text]))]).calls == []


TEXTS = st.builds(
    json.dumps,
    st.dictionaries(st.text(CHARACTERS, max_size=4), JSON, max_size=4),
    ensure_ascii=st.booleans(),
    indent=st.sampled_from([None, 1]),
)
"""Arguments as models write them: with escapes and without, brackets inside of strings, spread over lines."""


def pieces_of(text: str, places: list[int]) -> list[str]:
    ends = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(ends)]


@given(TEXTS, st.text(CHARACTERS, max_size=5), st.lists(st.integers(0, 999), max_size=40))
def test_arguments_close_where_their_json_does(text: str, behind: str, places: list[int]) -> None:
    """Mandated by JSON: at its last bracket, neither before it nor behind it, in whatever pieces it comes."""
    closing, seen, end = Closing(), 0, None
    for piece in pieces_of(text + behind, places):
        end = closing.feed(piece)
        if end is not None:
            break
        seen += len(piece)
    assert end is not None
    assert seen + end == len(text)


@given(TEXTS, st.text(CHARACTERS, max_size=5), st.lists(st.integers(0, 999), max_size=40))
def test_a_call_is_told_once_with_what_was_written(text: str, behind: str, places: list[int]) -> None:
    """Chosen by us: with its last piece, exactly as `json` reads it, and never again whatever comes behind."""
    open_calls, told = OpenCalls(), list[tuple[int, ToolCall]]()
    open_calls.start((0, 0), "c", "f")
    for at, piece in enumerate(pieces_of(text + behind, places)):
        open_calls.start((0, 0), "c", "f")
        told += [(at, call) for call in open_calls.delta((0, 0), piece)]
    told += [(-1, call) for call in (*open_calls.stop((0, 0), text), *open_calls.end(cut=False))]
    if "NaN" in text or "Infinity" in text:
        return
    [(at, call)] = told
    assert (call.id, call.name) == ("c", "f")
    assert json.dumps(call.arguments) == json.dumps(json.loads(text))
    before = "".join(pieces_of(text + behind, places)[:at])
    assert len(before) < len(text) <= len(before + pieces_of(text + behind, places)[at])


@given(TEXTS, st.data())
def test_a_call_that_was_cut_is_never_told(text: str, data: st.DataObject) -> None:
    """Chosen by us: whatever a prefix of the arguments reads as, it is not what the model meant."""
    some = text[: data.draw(st.integers(0, len(text) - 1))]
    for cut in (True, False) if some else (True,):
        open_calls = OpenCalls()
        open_calls.start((0, 0), "c", "f")
        assert [*open_calls.delta((0, 0), some), *open_calls.end(cut=cut)] == []


def steps(size: int) -> int:
    """Lines of our own code that are run for a call whose arguments have `size` characters and come four by four."""
    text = json.dumps({"text": "x{[" * (size // 3), "list": [{}] * 9})
    open_calls, count = OpenCalls(), 0

    def line(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line" and "calls.py" in frame.f_code.co_filename
        return line

    before = sys.gettrace()
    sys.settrace(line)
    try:
        open_calls.start((0, 0), "c", "f")
        told = [call for at in range(0, len(text), 4) for call in open_calls.delta((0, 0), text[at : at + 4])]
    finally:
        sys.settrace(before)
    assert len(told) == 1
    return count


def test_the_cost_is_linear_in_the_characters() -> None:
    """Chosen by us: twice the arguments take twice the steps, and what is kept to find their end does not grow."""
    few, many = steps(4000), steps(8000)
    assert few > 4000 / 4
    assert 1.9 < many / few < 2.1
    assert {type(getattr(Closing(), name)) for name in Closing.__slots__} == {int, bool}


FILLED = {"name": "f", "arguments": '{"a": 1}'}
EMPTY: list[Any] = [
    None, {}, "", {"name": "", "arguments": "", "input": ""}, {"name": None, "arguments": None},
    {"name": "", "arguments": "{}"}, {"arguments": {}},
]  # fmt: skip


@pytest.mark.parametrize("empty", EMPTY)
def test_a_call_that_stands_in_one_of_several_forms_is_one_call(empty: Any) -> None:
    """Chosen by us: servers fill one form and leave the others empty, in bodies and in pieces."""
    call = {"index": 0, "id": "c", "type": "function", "function": FILLED, "custom": empty}
    message = {"role": "assistant", "tool_calls": [call], "function_call": empty}
    body = read("chat", [json.dumps({"choices": [{"index": 0, "message": message}]}).encode()], streamed=False)
    head = {**call, "function": {"name": "f", "arguments": '{"a"'}}
    tail = {"index": 0, "id": empty, "function": {"name": empty, "arguments": ": 1}"}, "custom": empty}
    stream = read("chat", [sse([chunk(delta(tool_calls=[one], function_call=empty)) for one in (head, tail)])])
    assert body.calls == stream.calls == [("c", "f", {"a": 1})]


@pytest.mark.parametrize("empty", EMPTY)
def test_a_custom_call_beside_empty_forms_is_one_call(empty: Any) -> None:
    """Chosen by us, as above."""
    call = {"index": 0, "id": "c", "custom": {"name": "sql", "input": "select 1"}, "function": empty}
    message = {"tool_calls": [call, empty], "function_call": empty}
    body = read("chat", [json.dumps({"choices": [{"message": message}]}).encode()], streamed=False)
    stream = read("chat", [sse([chunk(delta(tool_calls=[call])), finished()])])
    assert body.calls == stream.calls == [("c", "sql", {"input": "select 1"})]


AGAIN: list[Any] = [FILLED, {**FILLED, "arguments": '{"a":1}'}, {**FILLED, "arguments": {"a": 1}}]


@pytest.mark.parametrize("former", AGAIN)
def test_a_call_that_stands_in_two_forms_is_one_call(former: Any) -> None:
    """Chosen by us: its former form repeats it, in whatever JSON."""
    message = {"tool_calls": [{"index": 0, "id": "c", "function": FILLED}], "function_call": former}
    body = read("chat", [json.dumps({"choices": [{"message": message}]}).encode()], streamed=False)
    stream = read("chat", [sse([chunk(delta(**message)), finished()])])
    assert body.calls == stream.calls == [("c", "f", {"a": 1})]


def both(function: Json, choice: int = 0, **former: Any) -> Json:
    """A piece of a call in both forms."""
    return chunk(
        delta(choice, tool_calls=[{"index": 0, "id": "c", "function": function}], function_call=former or function)
    )


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([both({"name": "f", "arguments": '{"a"'}), both({"arguments": ": 1}"})], [("c", "f", {"a": 1})]),
        ([both({"name": "f", "arguments": ""})], [("c", "f", {})]),
        # Another call, or that of another choice, is none of its repetitions.
        ([both(FILLED, name="g", arguments="{}")], [("c", "f", {"a": 1}), (None, "g", {})]),
        ([both(FILLED), both(FILLED, 1)], [("c", "f", {"a": 1})] * 2),
        ([calls(call_delta(at, FILLED["arguments"], id=f"c{at}", name="f")) for at in (0, 1)],
         [("c0", "f", {"a": 1}), ("c1", "f", {"a": 1})]),
    ],
)  # fmt: skip
def test_pieces_in_two_forms_are_of_one_call(events: list[Json], found: list[Any]) -> None:
    """Chosen by us, as above."""
    assert read("chat", [sse([*events, finished(), finished(choice=1)])]).calls == found


def test_without_comparing_the_two_forms_a_call_is_told_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr("agentaccel.wire.openai.tap.repeats", lambda call, others: False)
    assert len(read("chat", [sse([both(FILLED), finished()])]).calls) == 2


@pytest.mark.parametrize("empty", [None, "", {}])
def test_an_item_of_a_response_that_is_empty_is_no_call(empty: Any) -> None:
    """Chosen by us, as above."""
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a": 1}', "input": empty}
    output = [call, {"type": "custom_tool_call", "call_id": "", "name": empty, "input": empty}]
    body = read("responses", [json.dumps(response(output=output)).encode()], streamed=False)
    stream = read("responses", [sse([responses_end(output=output)])])
    assert body.calls == stream.calls == [("c", "f", {"a": 1})]


def piece(text: str, name: str | None = None, id_: Any = None, **more: Any) -> Json:
    return chunk(delta(tool_calls=[{"id": id_, "function": {"name": name, "arguments": text}, **more}]))


@pytest.mark.parametrize("index", [{}, {"index": 0}, {"index": None}])
def test_calls_that_a_server_does_not_count_are_told_apart_by_their_ids(index: Json) -> None:
    """Chosen by us: two calls, whole or in pieces, that all claim the first place."""
    whole = [piece('{"a": 1}', "f", "x", **index), piece('{"b": 2}', "g", "y", **index), finished()]
    parts = [
        piece('{"a"', "f", "x", **index), piece(": 1}", **index), piece("", "g", "y", **index),
        piece('{"b": 2}', **index), finished(),
    ]  # fmt: skip
    turns = [
        piece('{"a"', "f", "x", **index), piece('{"b"', "g", "y", **index), piece(": 1}", None, "x", **index),
        piece(": 2}", None, "y", **index), finished(),
    ]  # fmt: skip
    for events in (whole, parts, turns):
        assert read("chat", [sse(events)]).calls == [("x", "f", {"a": 1}), ("y", "g", {"b": 2})]


@pytest.mark.parametrize("id_", ["", None])
def test_an_empty_id_is_none_and_a_call_behind_one_that_has_ended_is_another(id_: Any) -> None:
    """Chosen by us, as above."""
    events = [piece('{"a": 1}', "f", id_), piece('{"a": 1}', "f", id_), finished()]
    assert read("chat", [sse(events)]).calls == [(None, "f", {"a": 1})] * 2


def test_a_server_that_makes_up_an_id_for_every_piece_still_sends_one_call() -> None:
    """Chosen by us: only with a name does another id begin another call. What repeats itself at the end is the same."""
    events = [piece('{"a"', "f", "x"), piece(": 1}", None, "y"), piece("", "f", "x"), finished()]
    assert read("chat", [sse(events)]).calls == [("x", "f", {"a": 1})]


def test_without_looking_at_ids_the_second_call_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr("agentaccel.wire.openai.chat.ChatTap._place", lambda tap, slot, *rest: slot)
    events = [piece('{"a": 1}', "f", "x"), piece('{"b": 2}', "g", "y"), finished()]
    assert read("chat", [sse(events)]).calls == [("x", "f", {"a": 1})]


ITEM = {"type": "function_call", "id": "i", "call_id": "c", "name": "f", "arguments": '{"a": 1}', "status": "completed"}


@pytest.mark.parametrize(
    "events",
    [
        [responses_end(output=[ITEM])],
        [{"type": "response.created", "response": response("in_progress", output=[ITEM])}, responses_end()],
        [{"type": "response.output_item.added", "output_index": 0, "item": ITEM}, responses_end()],
        [{"type": "response.output_item.added", "output_index": 0, "item": ITEM}, responses_end(output=[ITEM])],
        [{"type": "response.output_item.added", "item": ITEM}, responses_end(output=[{"type": "reasoning"}, ITEM])],
        [*responses_call(0, "f", ['{"a"', ": 1}"]), responses_end(output=[{**ITEM, "call_id": "call_0_0"}])],
        [responses_end("incomplete", output=[ITEM])],
    ],
)
def test_a_response_may_list_what_no_event_told_of(events: list[Json]) -> None:
    """Chosen by us: servers send items whole, or nothing but the response as it begins or ends."""
    assert [(name, arguments) for _, name, arguments in read("responses", [sse(events)]).calls] == [("f", {"a": 1})]


@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_arguments_that_are_no_text_are_taken_as_they_are(wire: Wire) -> None:
    """Chosen by us: some servers send an object; it was read as a call without arguments."""
    if wire == "chat":
        events = [
            chunk(delta(stop="tool_calls", tool_calls=[{"id": "c", "function": {"name": "f", "arguments": {"a": 1}}}]))
        ]
    else:
        events = [responses_end(output=[{**ITEM, "arguments": {"a": 1}}])]
    assert read(wire, [sse(events)]).calls == [("c", "f", {"a": 1})]


@pytest.mark.parametrize("rest", [b"", b"\n", b"\r\n"])
@pytest.mark.parametrize("wire", ["chat", "responses"])
def test_a_last_event_without_its_empty_line_ends_the_reply(wire: Wire, rest: bytes) -> None:
    """Chosen by us: as the SDKs, which have handed over everything by then."""
    events = (
        [*chat_call(0, "f", ["{}"]), finished()]
        if wire == "chat"
        else [*responses_call(0, "f", ["{}"]), responses_end()]
    )
    found = read(wire, [sse(events).rstrip(b"\n") + rest])
    assert (found.complete, [name for _, name, _ in found.calls]) == (True, ["f"])
