"""What a request of the OpenAI wires is as a prompt: which forms are one, what is noticed, and what is held back."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentaccel.facts import Wire, cache_facts
from agentaccel.types import Prompt
from agentaccel.wire import dialect
from tests.wire.openai_bodies import FACTS, MARK, WIRES, Json

KEY = b"k" * 32
quick = settings(max_examples=settings.default.max_examples // 2)
wires = st.sampled_from(WIRES)
TEXT = {"chat": "text", "responses": "input_text"}


def decode(body: Json, wire: Wire, **options: Any) -> Prompt:
    return dialect(wire).decode(body, FACTS[wire], key=KEY, **options)


def body_of(wire: Wire, *messages: Any, **more: Any) -> Json:
    return {"model": "gpt-6-sol", **more, "messages" if wire == "chat" else "input": list(messages)}


def digests(body: Json, wire: Wire) -> list[bytes]:
    return [segment.digest for segment in decode(body, wire).segments]


def result(wire: Wire, content: Any) -> Json:
    """A tool's result."""
    if wire == "chat":
        return {"role": "tool", "tool_call_id": "c1", "content": content}
    return {"type": "function_call_output", "call_id": "c1", "output": content}


@pytest.mark.parametrize("role", ["user", "developer", "system", "tool"])
@pytest.mark.parametrize("wire", WIRES)
def test_a_string_and_the_part_it_stands_for_are_one_prompt(wire: Wire, role: str) -> None:
    """Chosen by us: the lossless form must not look like a change."""
    part = {"type": TEXT[wire], "text": "x \ud800"}
    made = [result(wire, c) if role == "tool" else {"role": role, "content": c} for c in ("x \ud800", [part])]
    string, parts = (decode(body_of(wire, one), wire).segments for one in made)
    assert [one[5:] for one in string] == [one[5:] for one in parts]
    assert string[0].markable


def test_an_input_that_is_a_string_is_a_users_message() -> None:
    """Mandated by the provider: one is short for the other. There is no part of it that could be marked."""
    string, message = (
        decode({"model": "gpt-6-sol", "input": given}, "responses").segments
        for given in ("x", [{"role": "user", "content": "x"}])
    )
    assert (string[0].digest, string[0].size, string[0].role) == (message[0].digest, message[0].size, "user")
    assert (string[0].path, string[0].markable, message[0].markable) == (("input",), False, True)


@pytest.mark.parametrize("wire", WIRES)
def test_two_messages_are_not_one_message_of_two_parts(wire: Wire) -> None:
    """Mandated by the provider: a message that has grown is another prompt from there on."""
    one, other = ({"type": TEXT[wire], "text": text} for text in "ab")
    grown = body_of(wire, {"role": "user", "content": [one, other]})
    appended = body_of(wire, {"role": "user", "content": [one]}, {"role": "user", "content": [other]})
    assert digests(grown, wire)[0] == digests(appended, wire)[0]
    assert digests(grown, wire)[1] != digests(appended, wire)[1]


def conversation(wire: Wire, turns: int) -> Json:
    """A conversation of `turns` messages, with parts, calls and results."""
    made: list[Any] = []
    for i in range(turns):
        match i % 3:
            case 0:
                made.append({"role": "user", "content": [{"type": TEXT[wire], "text": f"question {i}"}]})
            case 1 if wire == "chat":
                call = {"id": f"c{i}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
                made.append({"role": "assistant", "content": None, "tool_calls": [call]})
            case 1:
                made.append({"type": "function_call", "call_id": f"c{i}", "name": "f", "arguments": "{}"})
            case _:
                made.append(result(wire, [{"type": TEXT[wire], "text": f"answer {i}"}]))
    head = {"role": "developer", "content": [{"type": TEXT[wire], "text": "Be brief."}]}
    return body_of(wire, head, *made, tools=[{"type": "function", "function": {"name": "f"}, "name": "f"}])


def history(body: Json) -> list[Any]:
    return body.get("messages") or body["input"]


def parts_of(message: Json) -> list[Json]:
    return message.get("content") or message.get("output") or []


@quick
@given(wires, st.sets(st.integers(0, 11)), st.sampled_from([MARK, "cache_control"]))
def test_markers_are_no_part_of_a_prompt_wherever_they_stand(wire: Wire, places: set[int], mark: str) -> None:
    """Mandated by the provider, which keeps what is sent and not how it was marked; and by gateways for theirs."""
    body = conversation(wire, 12)
    bare = decode(body, wire)
    for at in places:
        for part in parts_of(history(body)[at]):
            part[mark] = {"mode": "explicit", "n": at}
    marked = decode(body, wire)
    assert [one.digest for one in marked.segments] == [one.digest for one in bare.segments]
    assert [one.size for one in marked.segments] == [one.size for one in bare.segments]
    assert marked.stretches == bare.stretches
    placed = [marker.path for marker in marked.markers if marker.path]
    assert len(placed) == (sum(len(parts_of(history(body)[at])) for at in places) if mark == MARK else 0)


@quick
@given(st.data())
def test_a_change_of_one_byte_is_noticed_where_it_stands(data: st.DataObject) -> None:
    """Mandated by the provider, which finds a prefix again only if all of it is the same."""
    wire = data.draw(wires)
    body = conversation(wire, 12)
    before = decode(body, wire).segments
    at = data.draw(st.integers(0, 12))
    message = history(body)[at]
    parts = parts_of(message)
    if parts:
        parts[0]["text"] += "."
    elif wire == "chat":
        message["tool_calls"][0]["function"]["arguments"] = "{ }"
    else:
        message["arguments"] = "{ }"
    after = decode(body, wire).segments
    changed = [new.path for old, new in zip(before, after, strict=True) if old.digest != new.digest]
    assert [path[1] for path in changed] == [at]


@pytest.mark.parametrize("wire", WIRES)
def test_a_change_of_key_order_alone_is_another_prompt(wire: Wire) -> None:
    """Mandated by the provider, which hashes a prompt as it was sent: of a tool, a part, a call."""
    body = conversation(wire, 12)
    before = decode(body, wire).segments
    turned = copy.deepcopy(body)
    turned["tools"][0] = dict(reversed(turned["tools"][0].items()))
    parts_of(history(turned)[1])[0] = dict(reversed(parts_of(history(body)[1])[0].items()))
    call = history(turned)[2]
    for place, key in ((call["tool_calls"], 0),) if wire == "chat" else ((history(turned), 2),):
        place[key] = dict(reversed(place[key].items()))
    after = decode(turned, wire).segments
    assert [new.level for old, new in zip(before, after, strict=True) if old.digest != new.digest] == [
        "tools",
        "messages",
        "messages",
    ]
    assert [one[6:] for one in before] == [one[6:] for one in after]


CHAT_MESSAGES: list[tuple[Json, Json]] = [
    ({"role": "user", "content": "x"}, {"role": "developer", "content": "x"}),
    ({"role": "user", "content": "x"}, {"role": "user", "content": "x", "name": "n"}),
    ({"role": "tool", "content": "x", "tool_call_id": "a"}, {"role": "tool", "content": "x", "tool_call_id": "b"}),
    ({"role": "function", "content": "x", "name": "f"}, {"role": "function", "content": "x", "name": "g"}),
    ({"role": "assistant", "content": None, "refusal": "no"}, {"role": "assistant", "content": None, "refusal": "nay"}),
    ({"role": "assistant", "content": "x"}, {"role": "assistant", "content": "x", "refusal": "no"}),
    ({"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
     {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{ }"}}),
    ({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
     {"role": "assistant", "content": [{"type": "refusal", "refusal": "nay"}]}),
    ({"role": "assistant", "audio": {"id": "a"}}, {"role": "assistant", "audio": {"id": "b"}}),
    ({"role": "user", "content": []}, {"role": "assistant", "content": []}),
]  # fmt: skip
ITEMS: list[tuple[Json, Json]] = [
    ({"role": "user", "content": "x"}, {"role": "developer", "content": "x"}),
    ({"role": "assistant", "content": "x"}, {"role": "assistant", "content": "x", "phase": "commentary"}),
    ({"type": "function_call_output", "call_id": "a", "output": "x"},
     {"type": "function_call_output", "call_id": "b", "output": "x"}),
    ({"type": "function_call_output", "call_id": "a", "output": "x"},
     {"type": "custom_tool_call_output", "call_id": "a", "output": "x"}),
    ({"type": "reasoning", "summary": [], "encrypted_content": "a"},
     {"type": "reasoning", "summary": [], "encrypted_content": "b"}),
    ({"type": "item_reference", "id": "a"}, {"type": "item_reference", "id": "b"}),
    ({"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": "a"}},
     {"type": "computer_call_output", "output": {"type": "computer_screenshot", "image_url": "b"}}),
]  # fmt: skip


@pytest.mark.parametrize(("wire", "pair"), [("chat", it) for it in CHAT_MESSAGES] + [("responses", it) for it in ITEMS])
def test_what_a_message_says_beside_its_content_is_part_of_the_prompt(wire: Wire, pair: tuple[Json, Json]) -> None:
    """Mandated by the provider: roles, names, ids, refusals and legacy calls are all of what is read."""
    one, other = (digests(body_of(wire, {"role": "user", "content": "first"}, message), wire) for message in pair)
    assert one[:1] == other[:1]
    assert one[1:] != other[1:]


def test_functions_of_2023_are_tools() -> None:
    """Mandated by the provider: both fields define what may be called, and a change of either is noticed."""
    prompt = decode(
        body_of("chat", functions=[{"name": "f"}], tools=[{"type": "custom", "custom": {"name": "g"}}]), "chat"
    )
    assert [(one.level, one.name, one.path) for one in prompt.segments] == [
        ("tools", "g", ("tools", 0)),
        ("tools", "f", ("functions", 0)),
    ]
    assert "functions" not in prompt.parameters


def test_the_operators_messages_at_the_start_are_the_system_level() -> None:
    """Chosen by us: they are what every request of an agent begins with; later ones belong to the conversation."""
    operator, user = {"role": "developer", "content": "a"}, {"role": "user", "content": "b"}
    for wire in WIRES:
        body = body_of(wire, operator, {**operator, "role": "system"}, user, operator)
        prompt = decode(body, wire)
        assert [one.level for one in prompt.segments] == ["system", "system", "messages", "messages"]
        assert (prompt.opening, prompt.messages) == (2, 2)
    told = decode(body_of("responses", operator, user, instructions="Be brief."), "responses")
    assert [(one.level, one.path, one.markable) for one in told.segments] == [
        ("system", ("instructions",), False),
        ("system", ("input", 0, "content"), True),
        ("messages", ("input", 1, "content"), True),
    ]


@pytest.mark.parametrize(
    ("more", "held"),
    [
        ({"previous_response_id": "resp_1"}, "previous response"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"conversation": {"id": "conv_1"}}, "conversation"),
        ({"prompt_cache_options": {"prewarm": True}}, "prewarm request"),
        ({"previous_response_id": None, "conversation": None, "prompt_cache_options": {"prewarm": False}}, ""),
    ],
)
def test_a_request_that_holds_only_what_is_new_is_held(more: Json, held: str) -> None:
    """Chosen by us: what we cannot see we do not plan. Null is how clients write that there is none."""
    assert decode(body_of("responses", {"role": "user", "content": "x"}, **more), "responses").held == held


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("model", "options", "own", "implicit"),
    [
        ("gpt-6-sol", None, "30m", True),
        ("gpt-6-sol", {}, "30m", True),
        ("gpt-6-sol", {"ttl": "30m"}, "30m", True),
        ("gpt-6-sol", {"mode": "implicit"}, "30m", False),
        ("gpt-6-sol", {"mode": "explicit"}, None, False),
        ("gpt-4o", None, None, False),
        ("gpt-4o", {"mode": "implicit"}, None, False),
        ("unheard-of", None, None, False),
    ],
)
def test_the_providers_own_breakpoint_is_there_unless_it_was_told_not_to(
    wire: Wire, model: str, options: Any, own: str | None, implicit: bool
) -> None:
    """Mandated by the provider: from gpt-5.6 on it sets one itself in implicit mode, which is the default."""
    body = body_of(wire, {"role": "user", "content": "x"}, model=model)
    if options is not None:
        body["prompt_cache_options"] = options
    prompt = dialect(wire).decode(body, cache_facts(model, provider="openai", wire=wire))
    assert [(marker.path, marker.ttl) for marker in prompt.markers] == ([((), own)] if own else [])
    assert prompt.implicit is implicit


def test_markers_that_the_provider_would_reject_are_named() -> None:
    """Mandated by the provider: no marker on tools, none on a model's own words, no lifetime that it does not offer."""
    part = {"type": "text", "text": "x"}
    bad: list[Json] = [
        body_of("chat", {"role": "user", "content": "x"}, tools=[{"type": "function", MARK: {"mode": "explicit"}}]),
        body_of("chat", {"role": "assistant", "content": [{**part, MARK: {"mode": "explicit"}}]}),
        body_of("chat", {"role": "user", "content": [{**part, MARK: {"mode": "explicit", "ttl": "5m"}}]}),
        body_of("chat", {"role": "user", "content": "x"}, prompt_cache_options={"ttl": "2d"}),
        body_of("chat", {"role": "user", "content": [{**part, MARK: 5}]}),
    ]
    for body in bad:
        assert decode(body, "chat").illegal, body
    good = body_of("chat", {"role": "user", "content": [{**part, MARK: {"mode": "explicit", "ttl": "30m"}}] * 9})
    assert decode(good, "chat").illegal == ()
