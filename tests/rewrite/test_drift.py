"""Where two prompts first differ, to the byte where both are at hand, and what stands there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.explain import explain
from agentaccel.facts import cache_facts
from agentaccel.rewrite.drift import PIECE, compare, drift, imprint
from agentaccel.rewrite.templates import shape_at
from agentaccel.types import Drift
from agentaccel.wire.anthropic import decode
from tests.anything import CHARACTERS
from tests.driver import MODEL, Json, assistant, body, prose, tool, user

FACTS = cache_facts(MODEL)
assert FACTS is not None


def between(old: Json, new: Json) -> Drift | None:
    return compare(old, new, decode(old, FACTS), decode(new, FACTS), FACTS)


def live(old: Json, new: Json) -> Drift | None:
    """As a live session sees it: the old content is gone, its print is left."""
    return drift(imprint(decode(old, FACTS), old), decode(new, FACTS), new, FACTS)


def test_a_clock_is_named_to_the_byte() -> None:
    """Must show 6: segment, byte and cause."""
    system = prose(100) + " Now: 2026-11-21 12:30:0{}. Go."
    found = between(body(user("a"), system=system.format(7)), body(user("a"), assistant("b"), system=system.format(9)))
    assert found is not None
    assert (found.where, found.byte, found.likely) == ("system", len(system) - len("{}. Go."), "clock")


def test_bytes_count_utf8_and_not_characters() -> None:
    """The offset is into what is sent."""
    found = between(body(user("a"), system="äöü 1 x"), body(user("a"), system="äöü 2 x"))
    assert found is not None
    assert found.byte == len("äöü ".encode())


@pytest.mark.parametrize(
    ("old", "new", "likely"),
    [
        ("at 09:15", "at 09:16", "clock"),
        ("on 2026-11-20.", "on 2026-11-21.", "date"),
        ("on 20 November", "on 21 November", "date"),
        ("run 3f2504e0-4f89-41d3-9a0c-0305e82c3301", "run 3f2504e0-4f89-41d3-9a0c-0305e82c3302", "id"),
        ("request req_01HZX4T9", "request req_01HZX4TB", "id"),
        ("since 1763700000 s", "since 1763700001 s", "clock"),
        ("attempt 3 of 9", "attempt 4 of 9", "counter"),
        ("be brief", "be long", "edited text"),
    ],
)
def test_the_likely_cause_is_read_off_what_stands_there(old: str, new: str, likely: str) -> None:
    """By shape, both with content at hand and from checksums."""
    before, after = (body(user("a"), system=f"{prose(60)} {text} {prose(20)}") for text in (old, new))
    exact, coarse = between(before, after), live(before, after)
    assert exact is not None
    assert coarse is not None
    assert exact.likely == likely
    if likely != "edited text":
        assert coarse.likely == likely


def test_an_appended_turn_is_no_drift() -> None:
    """History that only grows is what a cache is for."""
    old = body(user("a"), system="s", tools=[tool("t")])
    new = body(user("a"), assistant("b"), user("c"), system="s", tools=[tool("t")])
    assert between(old, new) is None
    assert live(old, new) is None


def test_markers_are_no_part_of_the_prompt() -> None:
    """Moving a marker changes nothing that a provider hashes."""
    mark = {"cache_control": {"type": "ephemeral"}}
    old = body(user([{"type": "text", "text": "a", **mark}]), system="s")
    new = body(user([{"type": "text", "text": "a"}]), system=[{"type": "text", "text": "s", **mark}])
    assert between(old, new) is None


def test_a_string_and_its_text_block_are_one_prompt() -> None:
    """The lossless form is lossless for the cache as well."""
    assert between(body(user("a")), body(user([{"type": "text", "text": "a"}]))) is None


def test_key_order_alone_is_noticed_and_named() -> None:
    """In a tool and in the input of a call."""
    one = {"name": "t", "description": "d", "input_schema": {"type": "object", "properties": {}}}
    turned = {"name": "t", "input_schema": {"properties": {}, "type": "object"}, "description": "d"}
    found = between(body(user("a"), tools=[one]), body(user("a"), tools=[turned]))
    assert found is not None
    assert found.likely == "key order"
    call: Any = {"type": "tool_use", "id": "1", "name": "t", "input": {"a": 1, "b": 2}}
    swapped = {**call, "input": {"b": 2, "a": 1}}
    found = between(body(user("a"), assistant([call]), user("b")), body(user("a"), assistant([swapped]), user("b")))
    assert found is not None
    assert found.likely == "key order"


def test_a_description_that_holds_a_uuid_is_named_in_its_tool() -> None:
    """Volatile bytes anywhere ahead of the marker."""
    old, new = (
        body(
            user("a"),
            tools=[tool("x"), {**tool("y"), "description": f"Session 3f2504e0-4f89-41d3-9a0c-0305e82c330{n}"}],
        )
        for n in (1, 2)
    )
    found = between(old, new)
    assert found is not None
    assert (found.where, found.likely) == ("tools[1].description", "id")


def test_a_parameter_that_breaks_the_tools_is_named_before_a_later_change() -> None:
    """Earliest first, as the provider reads."""
    old = body(user("a"), thinking={"type": "disabled"})
    new = body(user("b"), thinking={"type": "adaptive"})
    found = between(old, new)
    assert found is not None
    assert (found.level, found.where) == ("parameters", "thinking")


def test_explain_names_segment_byte_and_cause() -> None:
    """Must show 6, through the function behind the command."""
    old, new = (body(user("a"), system=f"{prose(900)} It is 12:30:{second}. Go.") for second in ("07", "08"))
    explanation = explain(new, old)
    assert explanation.drift is not None
    assert explanation.drift.likely == "clock"
    assert explanation.plan.markers == ()


def test_a_shape_is_looked_for_only_at_the_place() -> None:
    """A clock elsewhere is not the cause."""
    text = "It is 12:30:07. You are Ada."
    assert shape_at(text, text.index("Ada"), text.index("Ada") + 1) == "text"


@given(st.text(CHARACTERS, max_size=80), st.text(CHARACTERS, max_size=80), st.text(CHARACTERS, max_size=80))
def test_the_byte_is_the_first_that_differs(head: str, one: str, other: str) -> None:
    """For any two system prompts that share a beginning."""
    try:
        old_bytes, new_bytes = (f"x{head}{tail}".encode() for tail in (one, other))
    except UnicodeEncodeError:
        return
    found = between(body(user("a"), system=old_bytes.decode()), body(user("a"), system=new_bytes.decode()))
    if old_bytes == new_bytes:
        assert found is None
        return
    assert found is not None
    assert found.byte is not None
    assert old_bytes[: found.byte] == new_bytes[: found.byte]
    assert old_bytes[found.byte : found.byte + 1] != new_bytes[found.byte : found.byte + 1]


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(CHARACTERS),
        lambda v: st.lists(v) | st.dictionaries(st.text(CHARACTERS), v),
    )
)
def test_nothing_that_json_can_hold_makes_it_fail(value: Any) -> None:
    """A malformed request is the provider's to reject."""
    old = body(user("a"), tools=[tool("t"), value], system=value)
    new = body(user([value, {"type": value}]), assistant(value), tools=[value], system=value)
    between(old, new)
    live(old, new)


# --- how much changed -------------------------------------------------------------------------------------------------


def changed(old: str, new: str) -> int | None:
    found = live(body(user("a"), system=old), body(user("a"), system=new))
    assert found is not None
    return found.bytes


@given(
    before=st.integers(0, 3_000),
    old=st.binary(min_size=8, max_size=700).map(bytes.hex),
    new=st.binary(min_size=8, max_size=700).map(bytes.hex),
    after=st.integers(3 * PIECE, 3_000),
)
def test_the_changed_stretch_is_told_to_its_pieces(before: int, old: str, new: str, after: int) -> None:
    """Of whatever length, wherever it stands; where it begins and ends is known to a piece."""
    text = distinct(3_000)
    found = changed(text[:before] + f"({old})" + text[-after:], text[:before] + f"[{new}]" + text[-after:])
    assert found is not None
    assert found <= max(len(new) + 2, PIECE) + 4 * PIECE
    if len(old) == len(new) and not same_anywhere(old, new):
        assert found >= len(new)


def distinct(size: int) -> str:
    """Text in which nothing comes twice."""
    return "".join(f"{n:05d} " for n in range(size // 6 + 1))[:size]


def same_anywhere(old: str, new: str) -> bool:
    """Whether so much of one stands in the other that it may not count as changed."""
    return any(old[i : i + 8] == new[i : i + 8] for i in range(0, len(old), 8))


def test_two_stamps_far_apart_count_by_themselves() -> None:
    text = distinct(3_000)
    old, new = (f"Now: 12:30:{n}. {text} Try {n} of 99." for n in ("10", "25"))
    assert changed(old, new) == 2 * PIECE


def test_newlines_in_the_changed_text_do_not_hide_what_stayed() -> None:
    """They count twice in the wire bytes, by which lengths are compared."""
    text = distinct(3_000)
    old, new = "one line" * 40, "line\n" * 90
    found = changed(f"{text}{old}{text}", f"{text}{new}{text}")
    assert found is not None
    assert len(new) <= found <= len(new) + 3 * PIECE


def test_beyond_what_is_kept_nothing_is_said() -> None:
    text = distinct(17 * 1024)
    assert changed(f"{text} 1", f"{text} 2") is None


def test_another_process_kept_nothing_to_compare() -> None:
    old, new = body(user("a"), system="one"), body(user("a"), system="two")
    kept = imprint(decode(old, FACTS), old)
    bare = replace(kept, checks=tuple(b"" for _ in kept.checks))
    found = drift(bare, decode(new, FACTS), new, FACTS)
    assert found is not None
    assert found.bytes is None
