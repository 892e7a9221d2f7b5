"""What a decoder remembers never shows: it reads every request as if it were the first."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterable
from dataclasses import fields
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentaccel.cache.prefix import prefixes
from agentaccel.cache.state import head_of
from agentaccel.engine.lineage import Lineage
from agentaccel.facts import cache_facts
from agentaccel.types import STRETCH, agreeing
from agentaccel.wire import parts
from agentaccel.wire.anthropic import PartMemory, decode
from tests.wire.bodies import mangled, requests

FACTS = cache_facts("claude-sonnet-4-5")  # drops earlier thinking, so that a prompt may change from behind
KEY = b"k" * 32
quick = settings(max_examples=settings.default.max_examples // 2)
Json = dict[str, Any]


def same(body: Any, memory: PartMemory) -> None:
    assert decode(body, FACTS, key=KEY, memory=memory) == decode(body, FACTS, key=KEY)


def conversation(messages: int) -> Json:
    made = [
        {"role": "user", "content": [{"type": "text", "text": f"question {i}"}]}
        if i % 2 == 0
        else {
            "role": "assistant",
            "content": [
                {"type": "text", "text": f"answer {i}"},
                {"type": "tool_use", "id": f"t{i}", "name": "f", "input": {"a": i, "b": 2}},
            ],
        }
        for i in range(messages)
    ]
    return {"model": "claude-sonnet-5", "system": "Be brief.", "messages": made}


@pytest.mark.slow
@quick
@given(st.lists(st.one_of(requests(), mangled()), min_size=1, max_size=6))
def test_any_requests_in_any_order_read_the_same_with_a_memory(bodies: list[Any]) -> None:
    memory = PartMemory()
    for body in bodies:
        if isinstance(body, dict):
            same(body, memory)
            same(json.loads(json.dumps(body)), memory)


@quick
@given(st.integers(0, 10_000))
def test_whatever_is_changed_in_place_is_seen(seed: int) -> None:
    """Chosen by us: growth, edits, removals, moved markers, other keys and other key orders, in random turns."""
    chance, memory = random.Random(seed), PartMemory()
    body = conversation(chance.randint(1, 5 * STRETCH))
    for _ in range(12):
        same(body, memory)
        messages = body["messages"]
        at = chance.randrange(len(messages))
        match chance.randrange(7):
            case 0:
                messages.extend(conversation(len(messages) + 4)["messages"][len(messages) :])
            case 1:
                messages[at]["content"][0]["text"] += "."
            case 2 if len(messages) > 1:
                del messages[at]
            case 3:
                messages[at]["content"][-1]["cache_control"] = {"type": "ephemeral"}
            case 4:
                messages[at]["content"][-1].pop("cache_control", None)
            case 5:
                messages[at]["content"][-1] = dict(reversed(messages[at]["content"][-1].items()))
            case 6:
                messages[at]["role"] = "user"


@pytest.mark.parametrize("last", [0, 2, 15])
@quick
@given(st.integers(0, 10_000))
def test_conversations_under_way_at_once_are_told_apart(last: int, seed: int) -> None:
    """They begin alike, by messages, tools and instructions in turn, and go on, are gone back in and asked again."""
    chance, memory = random.Random(seed), PartMemory()
    bodies = [
        {**conversation(chance.randint(1, 2 * STRETCH)), "tools": [{"name": name}], "system": system}
        for name in ("look", "find")
        for system in ("Be brief.", "Be kind.")
        for _ in range(2)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentaccel.wire.memory._LAST", last)
        for _ in range(40):
            body = chance.choice(bodies)
            messages: list[Any] = body["messages"]
            same(body, memory)
            match chance.randrange(5):
                case 0 | 1:
                    messages.extend(conversation(len(messages) + 2)["messages"][len(messages) :])
                case 2:
                    del messages[chance.randint(1, len(messages)) :]
                case 3:
                    messages[-1]["content"][0]["text"] += chance.choice("xyz")
                case _:
                    body["system"] = chance.choice(["Be brief.", "Be kind."])


def test_a_conversation_that_others_have_pushed_out_is_still_recognised(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its beginning: what it had read before are the very same objects."""
    monkeypatch.setattr("agentaccel.wire.memory._LAST", 3)
    memory, bodies = PartMemory(), [conversation(30) for _ in range(20)]
    for number, body in enumerate(bodies):
        body["messages"][0]["content"][0]["text"] = f"question of {number}"
    before = [decode(body, FACTS, memory=memory).segments for body in bodies]
    for body, known in zip(bodies, before, strict=True):
        body["messages"].extend(conversation(32)["messages"][30:])
        after = decode(json.loads(json.dumps(body)), FACTS, memory=memory).segments
        assert all(old is new for old, new in zip(known, after[: len(known)], strict=True))


def test_key_order_alone_is_noticed_deep_in_an_old_message() -> None:
    memory, body = PartMemory(), conversation(60)
    before = decode(body, FACTS, memory=memory)
    call = body["messages"][5]["content"][1]
    call["input"] = {"b": 2, "a": 5}
    after = decode(body, FACTS, memory=memory)
    changed = [i for i, (old, new) in enumerate(zip(before.segments, after.segments, strict=True)) if old != new]
    assert [after.segments[i].path for i in changed] == [("messages", 5, "content", 1)]


def test_values_that_are_no_plain_json_are_read_afresh_each_time() -> None:
    class Odd(dict[str, Any]):
        pass

    memory = PartMemory()
    block: Any = Odd(type="text", text="one")
    body = {
        "model": "claude-sonnet-5",
        "messages": [{"role": "user", "content": [block]}, *conversation(20)["messages"]],
    }
    same(body, memory)
    block["text"] = "two"
    same(body, memory)


def test_a_part_is_not_taken_for_one_that_was_read_by_other_rules() -> None:
    memory, body = PartMemory(), conversation(20)
    assert any(segment.markable for segment in decode(body, FACTS, memory=memory).segments)
    assert not any(segment.markable for segment in decode(body, None, memory=memory).segments)
    other = decode(body, FACTS, key=b"other", memory=memory)
    assert other.segments[0].digest != decode(body, FACTS, memory=memory).segments[0].digest


def test_a_memory_that_is_full_forgets_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentaccel.wire.memory._MOST_SEGMENTS", 40)
    memory = PartMemory()
    for turns in range(1, 80, 3):
        same(conversation(turns), memory)
        for kind in (memory.parts, memory.histories):
            assert len(kind._young) + len(kind._old) < 90


def test_many_conversations_at_once_are_not_all_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each goes on in its turn, and what it had counts once more with every turn of a generation."""
    monkeypatch.setattr("agentaccel.wire.memory._MOST_SEGMENTS", 300)
    memory = PartMemory()
    for turns in range(10, 40, 2):
        for number in range(30):
            body = conversation(turns)
            body["messages"][0]["content"][0]["text"] = f"question of {number}"
            decode(body, FACTS, key=KEY, memory=memory)
        generations = (memory.histories._young, memory.histories._old)
        assert sum(len(one.part.segments) for made in generations for known in made.values() for one in known) < 1200


@pytest.mark.slow
def test_what_is_expected_to_change_counts_as_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory behind the first message is written anew with each turn: the last messages are remembered one by one."""
    monkeypatch.setattr("agentaccel.wire.memory._MOST_SEGMENTS", 300)
    memory = PartMemory()
    for number in range(100):
        for turn in range(6):
            body = conversation(12)
            body["messages"][0]["content"][0]["text"] = f"question of {number}"
            body["messages"][1]["content"][0]["text"] = f"memory {turn}"
            same(body, memory)
    generations = (memory.histories._young, memory.histories._old)
    histories = [one for made in generations for known in made.values() for one in known]
    assert sum(len(part.segments) for one in histories for part in (one.part, *one.tail.values())) < 700


def test_a_role_that_is_a_member_of_an_enumeration_reads_as_what_is_written_for_it() -> None:
    class Role(str, Enum):  # noqa: UP042 - as before Python 3.11
        USER = "user"

    memory = PartMemory()
    for role in ("user", Role.USER, "user"):
        same({"model": "claude-sonnet-5", "messages": [{"role": role, "content": "Hi."}]}, memory)


@quick
@given(st.integers(0, 10_000))
def test_hashes_that_go_on_from_the_last_prompt_are_those_made_from_scratch(seed: int) -> None:
    chance, memory, head = random.Random(seed), PartMemory(), None
    assert FACTS is not None
    body = conversation(chance.randint(1, 20))
    body["tools"] = [{"name": "f"}, {"type": "web_search_20250305", "name": "web_search"}]
    for _ in range(8):
        prompt = decode(copy.deepcopy(body), FACTS, memory=memory)
        prefix = prefixes(prompt, FACTS, head)
        assert prefix == prefixes(prompt, FACTS)
        head = head_of(prefix, started=0.0, tokens=None, message_id=None)
        messages = body["messages"]
        match chance.randrange(6):
            case 0:
                messages.extend(conversation(len(messages) + 3)["messages"][len(messages) :])
            case 1:
                messages[chance.randrange(len(messages))]["content"] = "edited"
            case 2:
                body["tool_choice"] = {"type": chance.choice(["auto", "any"])}
            case 3:
                body["system"] = f"Be brief {chance.random()}."
            case 4:
                chance.shuffle(body["tools"])
            case 5:
                thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
                messages.append({"role": "assistant", "content": [thought, {"type": "text", "text": "so"}]})
                messages.append({"role": "user", "content": chance.choice(["on", [{"type": "tool_result"}]])})


@quick
@given(st.lists(st.integers(0, 2), max_size=9), st.lists(st.integers(0, 2), max_size=9))
def test_prompts_agree_up_to_the_first_difference(one: list[int], other: list[int]) -> None:
    segments = decode(conversation(6), FACTS).segments
    a, b = (tuple(segments[i] for i in chosen) for chosen in (one, other))
    expected = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    assert agreeing(a, b) == expected


@quick
@given(st.integers(1, 200), st.integers(0, 199))
def test_lineage_is_the_same_whoever_hashed_the_stretches(messages: int, edited: int) -> None:
    """And differs from the first message that differs on."""
    body = conversation(messages)
    prompt = decode(body, FACTS, memory=PartMemory())
    bare = Lineage(prompt), Lineage(type(prompt)(**{**_fields(prompt), "stretches": ()}))
    assert [bare[0][i] for i in range(messages)] == [bare[1][i] for i in range(messages)]
    at = edited % messages
    body["messages"][at]["content"][0]["text"] = "edited"
    other = Lineage(decode(body, FACTS))
    assert [other[i] == bare[0][i] for i in range(messages)] == [i < at for i in range(messages)]


def _fields(prompt: Any) -> Json:
    return {field.name: getattr(prompt, field.name) for field in fields(prompt)}


@pytest.mark.parametrize("odd", [False, True])
def test_a_long_history_reads_as_if_it_were_short(odd: bool) -> None:
    """While it grows, after an edit deep inside, and after a rewind; also where a value is no plain JSON."""

    class Odd(dict[str, Any]):
        pass

    memory, whole = PartMemory(), conversation(300)
    whole["messages"][3]["content"][0]["cache_control"] = {"type": "ephemeral"}
    if odd:
        whole["messages"][5] = Odd(whole["messages"][5])
    for count in (1, 80, 88, 90, 151, 152, 153, 160, 217, 300, 100, 60, 300):
        same({**whole, "messages": whole["messages"][:count]}, memory)
        whole["messages"][count // 3]["content"][0]["text"] += " edited"
        same({**whole, "messages": whole["messages"][:count]}, memory)


def test_a_turn_reads_only_what_is_new() -> None:
    """The segments of a long history are the very objects of the turn before, markers moved or not."""
    memory, body = PartMemory(), conversation(200)
    before = decode(body, FACTS, memory=memory).segments
    body["messages"][-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    marked = decode(body, FACTS, memory=memory).segments
    body["messages"][-1]["content"][-1].pop("cache_control")
    body["messages"].extend(conversation(202)["messages"][200:])
    after = decode(json.loads(json.dumps(body)), FACTS, memory=memory).segments
    assert sum(old is new for old, new in zip(before, marked, strict=True)) >= len(before) - 2 * STRETCH
    assert all(old is new for old, new in zip(before, after[: len(before)], strict=True))


@quick
@given(st.integers(0, 10_000))
def test_conversations_that_begin_alike_are_told_apart(seed: int) -> None:
    """Chosen by us: branches of one conversation, each grown, cut short, edited near its end, marked and sent again."""
    chance, memory = random.Random(seed), PartMemory()
    bodies = [conversation(chance.randint(1, 3 * STRETCH))]
    for step in range(25):
        body = chance.choice(bodies)
        messages = body["messages"]
        match chance.randrange(6):
            case 0:
                bodies.append(copy.deepcopy(body))
            case 1 if len(messages) > 1:
                del messages[-chance.randint(1, min(3, len(messages) - 1)) :]
            case 2:
                messages[-chance.randint(1, min(3, len(messages)))]["content"][0]["text"] = f"edited {step}"
            case 3:
                messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
                messages[chance.randrange(len(messages))]["content"][-1].pop("cache_control", None)
            case _:
                more = conversation(len(messages) + chance.randint(1, 2 * STRETCH))["messages"][len(messages) :]
                more[0]["content"][0]["text"] += f" in step {step}"
                messages.extend(more)
        same(body, memory)


def reads(bodies: Iterable[Json]) -> list[int]:
    """For each of `bodies`, sent one after another, how many of its segments are no objects of those before."""
    memory, seen, new = PartMemory(), dict[int, Any](), list[int]()
    for body in bodies:
        segments = decode(json.loads(json.dumps(body)), FACTS, memory=memory).segments
        new.append(sum(id(one) not in seen for one in segments))
        seen |= {id(one): one for one in segments}
    return new


def moving_marker(body: Json) -> None:
    body["messages"][-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}


def moving_markers(body: Json) -> None:
    for message in body["messages"][-3::2]:
        message["content"][-1]["cache_control"] = {"type": "ephemeral"}


def clock_at_the_end(body: Json) -> None:
    body["messages"][-1]["content"].append({"type": "text", "text": f"It is {len(body['messages'])} o'clock."})


def edit_deep_inside(body: Json) -> None:
    for message in body["messages"][20 : len(body["messages"]) // 2 : 7]:
        message["content"][0]["text"] = "cleared"


def nothing(body: Json) -> None:
    """Only growth."""


@pytest.mark.parametrize(
    ("change", "most"),
    [(nothing, 3), (moving_marker, 4), (moving_markers, 6), (clock_at_the_end, 5)],
)
def test_a_turn_reads_only_what_is_new_or_was_changed(change: Callable[[Json], None], most: int) -> None:
    """Of a hundred messages, one turn after another, once it is known what changes at the end."""
    bodies = [conversation(count) for count in range(61, 101, 2)]
    for body in bodies:
        change(body)
    assert max(reads(bodies)[3:]) <= most


def test_a_history_that_is_edited_again_and_again_is_hardly_read_twice() -> None:
    """What was read behind a history is read once more after an edit, in stretches, which are known from then on."""
    bodies = [conversation(count) for count in range(61, 161, 2)]
    for body in bodies:
        edit_deep_inside(body)
    assert sum(reads(bodies)) <= 3 * len(decode(bodies[-1], FACTS).segments)


def test_a_look_before_each_request_does_not_make_the_next_one_dearer() -> None:
    """The same once more says nothing of what the next one will change."""
    bodies = [conversation(count) for count in range(61, 101, 2) for _ in range(2)]
    for body in bodies:
        moving_marker(body)
    assert max(reads(bodies)[6:]) <= 4


def test_branches_of_one_conversation_share_its_history() -> None:
    """And so does the request that was to be sent and was not."""
    stem = conversation(60)
    branches = []
    for number in range(10):
        branch = copy.deepcopy(stem)
        branch["messages"].append({"role": "user", "content": f"branch {number}"})
        branches.append(branch)
    grown = copy.deepcopy(branches)
    for branch in grown:
        branch["messages"].extend(conversation(63)["messages"][61:])
    assert max(reads([stem, *branches, *grown])[1:]) <= 4


def test_conversations_of_one_agent_whose_markers_move_on_do_not_hide_one_another() -> None:
    """What an early request of one holds of no message, because the last ones change, is the beginning of them all."""
    bodies = []
    for count in range(1, 42, 2):
        for number in range(5):
            body = conversation(count)
            for message in body["messages"]:
                message["content"][0]["text"] += f" of {number}"
            moving_marker(body)
            bodies.append(body)
    assert max(reads(bodies)[-100:]) <= 10
    assert max(reads(bodies)[-80:]) <= 4


def test_a_conversation_that_waits_while_others_go_on_is_not_forgotten_for_their_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What they add counts, and not all that they hold once more with each turn."""
    monkeypatch.setattr("agentaccel.wire.memory._MOST_SEGMENTS", 8_000)
    memory, counts = PartMemory(), [201] * 20

    def asked(number: int, messages: int) -> tuple[Any, ...]:
        body = conversation(messages)
        body["messages"][0]["content"][0]["text"] = f"question of {number}"
        return decode(body, FACTS, memory=memory).segments

    waits = [asked(-1, messages) for messages in range(1, 202, 2)][-1]
    for turn in range(400):
        number = turn % len(counts)
        counts[number] += 2
        asked(number, counts[number])
    assert all(old is new for old, new in zip(waits, asked(-1, 203)[: len(waits)], strict=True))


def test_a_number_that_begins_like_another_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """No message, and yet a list of them: after one of them comes a comma, or the end."""
    first = {"role": "user", "content": "Count."}
    one, other = ({"model": "claude-sonnet-5", "messages": [first, *more]} for more in ([1], [12, 3]))
    memory = PartMemory()
    same(one, memory)
    same(other, memory)
    monkeypatch.setattr(parts, "_NEXT", frozenset(range(256)))  # the twin
    memory = PartMemory()
    same(one, memory)
    assert decode(other, FACTS, key=KEY, memory=memory) != decode(other, FACTS, key=KEY)


def test_a_history_is_told_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: with a hash that is the same for all of them, an edit is not seen."""

    class Same:
        def __init__(self, *_: object) -> None: ...
        def update(self, _: object) -> None: ...
        def intdigest(self) -> int:
            return 0

    monkeypatch.setattr(parts, "xxh3_128", Same)
    memory, body = PartMemory(), conversation(20)
    same(body, memory)
    body["messages"][3]["content"][0]["text"] = "answer 4"  # as long as before
    assert decode(body, FACTS, key=KEY, memory=memory) != decode(body, FACTS, key=KEY)


@pytest.mark.slow
@pytest.mark.parametrize("alike", [2, 20, 40])
def test_conversations_that_begin_with_the_same_words_do_not_push_each_other_out(alike: int) -> None:
    """However many there are, and however long others were that nobody goes on with: each turn reads what it adds."""

    def talk(number: int, count: int) -> Json:
        whole = conversation(count)
        for message in whole["messages"][1:]:
            message["content"] = [{"type": "text", "text": f"{number}: {json.dumps(message)}"}]
        return whole

    over = [talk(100 + number, 81) for number in range(20)]
    going_on = [talk(number, count) for count in range(21, 61, 2) for number in range(alike)]
    assert max(reads([*over, *going_on])[len(over) + 2 * alike :]) <= 3
