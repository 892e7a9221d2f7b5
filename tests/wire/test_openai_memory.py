"""What the decoders of the OpenAI wires remember never shows: they read every request as if it were the first."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentaccel.facts import Wire
from agentaccel.types import STRETCH
from agentaccel.wire import PartMemory
from tests.wire.openai_bodies import MARK, WIRES, Json, mangled, requests
from tests.wire.test_openai_prompts import body_of, conversation, decode, history, parts_of

quick = settings(max_examples=settings.default.max_examples // 2)
wires = st.sampled_from(WIRES)


def same(body: Any, wire: Wire, memory: PartMemory) -> None:
    assert decode(body, wire, memory=memory) == decode(body, wire)


@pytest.mark.slow
@quick
@given(st.data())
def test_any_requests_in_any_order_read_the_same_with_a_memory(data: st.DataObject) -> None:
    """Chosen by us: the memory saves time and changes nothing, whatever is sent, on both wires in turn."""
    memory = PartMemory()
    for wire in data.draw(st.lists(wires, min_size=1, max_size=6)):
        body = data.draw(st.one_of(requests(wire), mangled(wire)))
        if isinstance(body, dict):
            same(body, wire, memory)
            same(json.loads(json.dumps(body)), wire, memory)


@quick
@given(wires, st.integers(0, 10_000))
def test_whatever_is_changed_in_place_is_seen(wire: Wire, seed: int) -> None:
    """Chosen by us: growth, edits, removals, moved markers, other key orders and roles, in random turns."""
    chance, memory = random.Random(seed), PartMemory()
    body = conversation(wire, chance.randint(1, 10 * STRETCH))
    for _ in range(12):
        same(body, wire, memory)
        messages = history(body)
        at = chance.randrange(len(messages))
        parts = parts_of(messages[at])
        match chance.randrange(8):
            case 0:
                messages.extend(history(conversation(wire, len(messages) + 4))[len(messages) :])
            case 1 if parts:
                parts[0]["text"] += "."
            case 2 if len(messages) > 1:
                del messages[at]
            case 3 if parts:
                parts[-1][MARK] = {"mode": "explicit"}
            case 4 if parts:
                parts[-1].pop(MARK, None)
            case 5:
                messages[at] = dict(reversed(messages[at].items()))
            case 6:
                messages[at]["role"] = chance.choice(["user", "developer"])
            case 7:
                body["instructions"] = f"Be brief {chance.random()}."


@pytest.mark.parametrize("wire", WIRES)
def test_a_long_history_reads_as_if_it_were_short(wire: Wire) -> None:
    """Chosen by us: while it grows, after an edit deep inside, after a rewind, and where the opening grows."""
    memory, whole = PartMemory(), conversation(wire, 300)
    field = "messages" if wire == "chat" else "input"
    for count in (1, 80, 88, 90, 152, 153, 217, 300, 100, 60, 300):
        same({**whole, field: whole[field][:count]}, wire, memory)
        for part in parts_of(whole[field][count // 3]):
            part["text"] += " edited"
        same({**whole, field: whole[field][:count]}, wire, memory)
    same({**whole, field: [whole[field][0], *whole[field]]}, wire, memory)


@pytest.mark.parametrize("count", [1, 2, 8, 9, 100])
def test_words_where_items_should_be_read_the_same_with_a_memory(count: int) -> None:
    """Chosen by us: a list of strings is malformed, and none of them is an input that is a string."""
    memory = PartMemory()
    same({"model": "gpt-6-sol", "input": "x"}, "responses", memory)
    for size in (1, count, 100):
        same(body_of("responses", *["x"] * size), "responses", memory)
    assert decode(body_of("responses", "x"), "responses").segments[0].kind == "opaque"


def test_a_turn_reads_only_what_is_new() -> None:
    """Chosen by us: the segments of a long history are the very objects of the turn before."""
    for wire in WIRES:
        memory, body = PartMemory(), conversation(wire, 200)
        before = decode(body, wire, memory=memory).segments
        grown: Json = json.loads(json.dumps(body))
        history(grown).extend(history(conversation(wire, 203))[201:])
        after = decode(grown, wire, memory=memory).segments
        assert all(old is new for old, new in zip(before, after[: len(before)], strict=True))
