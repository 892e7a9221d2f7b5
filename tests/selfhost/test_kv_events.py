"""What engines say of their KV cache: read as it was recorded, and kept account of whatever gets lost on the way.

The right values are counted by hand from the blocks of each batch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.selfhost.kv_events import (
    BlocksCleared,
    BlocksRemoved,
    BlocksStored,
    KvBatch,
    KvCache,
    KvEvent,
    decoded,
)
from tests.selfhost.captured import FOLDER

msgspec = pytest.importorskip("msgspec")


def frames(sequence: int, events: list[Any], time: float = 0.0, rank: int | None = None) -> list[bytes]:
    """The three frames of a batch, as an engine sends them."""
    batch = [time or float(sequence), events] if rank is None else [time or float(sequence), events, rank]
    return [b"kv", sequence.to_bytes(8, "big", signed=True), msgspec.msgpack.encode(batch)]


def recorded() -> Iterator[list[bytes]]:
    """The exchange of five turns on vLLM 0.32.0, with a session, and four more requests, three of them with salts."""
    lines = (FOLDER / "vllm-0.32.0-cpu-kv-events.jsonl").read_text(encoding="utf-8").splitlines()
    for one in map(json.loads, lines):
        yield frames(one["sequence"], one["events"], one["timestamp"], one["rank"])


def batch(sequence: int, *events: KvEvent, time: float | None = None) -> KvBatch:
    return KvBatch(sequence=sequence, time=float(sequence) if time is None else time, events=events)


def stored(*blocks: int, session: str | None = None, medium: str = "GPU", group: int = 0) -> BlocksStored:
    """Blocks of 16 tokens."""
    return BlocksStored(
        blocks=blocks, parent=None, tokens=16 * len(blocks), session=session, medium=medium, group=group
    )


def removed(*blocks: int, medium: str = "GPU", group: int = 0) -> BlocksRemoved:
    return BlocksRemoved(blocks=blocks, medium=medium, group=group)


# --- reading ----------------------------------------------------------------------------------------------------------


def test_what_vllm_published_is_read_and_adds_up() -> None:
    """Blocks of 32 tokens: 3+2+1+1+1+1+1+1+2+1+1 = 15 of the session, three times 3 with a salt, and 2 more."""
    cache, batches = KvCache(), [decoded(one) for one in recorded()]
    assert [cache.see(one) for one in batches] == [(one,) for one in batches]
    assert cache.tokens_held() == (15 + 3 * 3 + 2) * 32
    assert cache.tokens_held(session="agent-7") == 15 * 32
    assert (cache.whole, cache.capacity, cache.removed) == (True, None, 0)
    assert [one.events[0].apart for one in batches if isinstance(one.events[0], BlocksStored)] == [
        *[False] * 11, *[True] * 3, False,
    ]  # fmt: skip
    assert str(cache) == "832 tokens held; none had to go yet"


def test_neither_salts_nor_tokens_are_kept() -> None:
    """Both are in the frames: a salt as it was sent, and the text of prompts as numbers."""
    assert b"tenant-a" in b"".join(b"".join(one) for one in recorded())
    kept = repr([decoded(one) for one in recorded()])
    assert "tenant-a" not in kept
    assert "429, 201" not in kept


OLDER = ["BlockStored", [1, 2], 7, [5, 6, 7, 8], 2, None, "CPU_PINNED"]
CURRENT = {"type": "BlockStored", "block_hashes": [1, 2], "parent_block_hash": 7, "token_ids": [5, 6, 7, 8],
           "block_size": 2, "medium": "CPU_PINNED"}  # fmt: skip


@pytest.mark.parametrize("event", [OLDER, CURRENT], ids=["an array", "a map"])
def test_arrays_of_older_engines_say_the_same_as_maps(event: Any) -> None:
    right = BlocksStored(blocks=(1, 2), parent=7, tokens=4, medium="CPU_PINNED")
    assert decoded(frames(3, [event], 1.5, rank=1)) == KvBatch(sequence=3, time=1.5, rank=1, events=(right,))


def test_fields_that_are_left_out_have_their_defaults() -> None:
    """Engines leave out what is at its default; names of blocks may be bytes; a kind to come is counted."""
    said = [
        ["BlockStored", [b"\x01"], None, [5, 6], 2],
        {"type": "BlockRemoved", "block_hashes": [b"\x01"]},
        ["AllBlocksCleared"],
        {"type": "BlockMoved", "block_hashes": [1]},
    ]
    read = decoded(frames(0, said, 1.0))
    assert read.events == (
        BlocksStored(blocks=(b"\x01",), parent=None, tokens=2),
        BlocksRemoved(blocks=(b"\x01",)),
        BlocksCleared(),
    )
    assert (read.rank, read.unknown) == (None, 1)


@pytest.mark.parametrize(
    "more",
    [{"cache_salt": "s"}, {"extra_keys": [["s"], None]}, {"lora_name": "a"}, {"lora_id": 0}],
    ids=["SGLang's salt", "vLLM's", "an adapter", "an adapter's number"],
)
def test_that_something_sets_blocks_apart_is_told_and_not_what(more: dict[str, Any]) -> None:
    read = decoded(frames(0, [{**CURRENT, **more}])).events[0]
    assert isinstance(read, BlocksStored)
    assert read.apart


def test_a_block_with_copies_left_is_not_gone() -> None:
    event = {"type": "BlockRemoved", "block_hashes": [1, 2], "medium": "GPU", "remaining_copy_counts": [1, 0]}
    assert decoded(frames(0, [event])).events == (BlocksRemoved(blocks=(2,)),)


@pytest.mark.parametrize(
    "wrong",
    [
        [b"kv", b"\0" * 8],
        [b"kv", b"\0" * 8, b"secret words"],
        [b"kv", b"\0" * 8, b""],
        frames(0, [{"type": "BlockStored", "token_ids": ["secret"]}]),
        frames(0, ["secret"]),
        frames(0, [7]),
        frames(0, [["BlockStored", 7]]),
        [b"kv", b"\0" * 8, b"\x92\xa1t\x90"],
    ],
)
def test_what_is_no_batch_is_a_value_error_without_what_was_sent(wrong: list[bytes]) -> None:
    with pytest.raises(ValueError, match=r"^no batch of KV events \(\w+\)$"):
        decoded(wrong)


SECRET = "secret"
NOT_OF_ITS_KIND: list[dict[str, Any]] = [
    {"block_hashes": [[1]]},
    {"block_hashes": [{}]},
    {"block_hashes": [1.5]},
    {"block_hashes": SECRET},
    {"block_hashes": {"1": 1}},
    {"parent_block_hash": [1]},
    {"block_size": float("inf")},
    {"block_size": float("nan")},
    {"block_size": 16.0},
    {"block_size": "16"},
    {"block_size": -16},
    {"block_size": 0},
    {"medium": ["GPU"]},
    {"medium": 3},
    {"group_idx": [1]},
    {"group_idx": "1"},
    {"session_id": ["a"]},
]


@pytest.mark.parametrize("wrong", NOT_OF_ITS_KIND, ids=str)
def test_a_field_that_is_not_of_its_kind_makes_the_batch_unreadable(wrong: dict[str, Any]) -> None:
    assert decoded(frames(0, [CURRENT])).events
    with pytest.raises(ValueError, match=r"^no batch of KV events \(\w+\)$"):
        decoded(frames(0, [{**CURRENT, **wrong}]))


@pytest.mark.parametrize(
    "wrong",
    [
        {"block_hashes": [[1]]},
        {"block_hashes": SECRET},
        {"medium": ["GPU"]},
        {"group_idx": [1]},
        {"remaining_copy_counts": "01"},
        {"remaining_copy_counts": [1]},
    ],
    ids=str,
)
def test_so_does_one_of_a_block_that_was_removed(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^no batch of KV events \(\w+\)$"):
        decoded(frames(0, [{"type": "BlockRemoved", "block_hashes": [1, 2], **wrong}]))


@pytest.mark.parametrize("sequence", [b"", b"\0" * 7, b"\1" + b"\0" * 8, b"\xff" * 8], ids=bytes.hex)
def test_a_number_is_of_eight_bytes_and_not_below_zero(sequence: bytes) -> None:
    """In 9 bytes a number is too large to be asked for in a replay, as one below 0 is."""
    _, eight, payload = frames(3, [CURRENT])
    assert (eight, decoded([b"kv", eight, payload]).sequence) == (b"\0" * 7 + b"\3", 3)
    with pytest.raises(ValueError, match="no batch"):
        decoded([b"kv", sequence, payload])


@pytest.mark.parametrize("time", [float("nan"), float("inf"), 1 << 63, "1.0", None, [1.0]], ids=str)
def test_a_time_is_a_finite_number(time: Any) -> None:
    """By it another engine is told. 2**63 is one."""
    payload = msgspec.msgpack.encode([time, []])
    if time == 1 << 63:
        assert decoded([b"kv", b"\0" * 8, payload]).time == 9223372036854775808.0
    else:
        with pytest.raises(ValueError, match="no batch"):
            decoded([b"kv", b"\0" * 8, payload])


def test_a_batch_that_is_nested_too_deep_is_none() -> None:
    """5,000 arrays of one element, and an empty one in the innermost."""
    with pytest.raises(ValueError, match=r"^no batch of KV events \(RecursionError\)$"):
        decoded([b"kv", b"\0" * 8, b"\x91" * 5_000 + b"\x90"])


LEAVES = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text() | st.binary()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
NAMES = ("block_hashes", "parent_block_hash", "block_size", "medium", "group_idx", "session_id", "extra_keys",
         "remaining_copy_counts")  # fmt: skip
MAPS = st.builds(
    lambda kind, right, wrong: {**right, "type": kind, **wrong},
    st.sampled_from(["BlockStored", "BlockRemoved", "AllBlocksCleared"]) | VALUES,
    st.sampled_from([CURRENT, {}]),
    st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3),
)
ARRAYS = st.builds(
    lambda kind, values: [kind, *values], st.sampled_from(["BlockStored", "BlockRemoved"]), st.lists(VALUES, max_size=7)
)
BATCHES = st.lists(MAPS | ARRAYS | VALUES, max_size=3).flatmap(
    lambda events: st.tuples(st.just(1.0) | VALUES, st.just(events) | VALUES)
)


@pytest.mark.slow
@given(payload=(BATCHES | VALUES).map(msgspec.msgpack.encode) | st.binary(), sequence=st.just(b"\0" * 8) | st.binary())
def test_whatever_is_sent_is_a_batch_that_can_be_kept_account_of_or_a_value_error(
    payload: bytes, sequence: bytes
) -> None:
    """Nothing else is raised, no tokens are owed, and its number can be asked for."""
    try:
        read = decoded([b"kv", sequence, payload])
    except ValueError as error:
        assert str(error).startswith("no batch of KV events (")  # noqa: PT017 - the other branch is as good
        return
    cache = KvCache()
    if cache.see(read) is None:
        cache.mend([], read)
    assert cache.tokens_held() >= 0
    assert len(cache.wanted.to_bytes(8, "big")) == 8
    assert "held" in str(cache)


# --- account ----------------------------------------------------------------------------------------------------------


def test_the_room_is_what_was_held_when_something_had_to_go() -> None:
    """Four blocks of 16 tokens, then one goes for the fifth: room for 64. The session that lost it has one left."""
    cache = KvCache()
    cache.see(batch(0, stored(1, 2, session="a"), stored(3, 4, session="b")))
    assert (cache.tokens_held(), cache.capacity) == (64, None)
    cache.see(batch(1, removed(2), stored(5, session="b")))
    assert (cache.tokens_held(), cache.capacity, cache.removed) == (64, 64, 16)
    assert (cache.tokens_held(session="a"), cache.tokens_held(session="b")) == (16, 48)
    assert str(cache) == "64 tokens held; some had to go at 64"


def test_what_is_cleared_is_gone_and_then_all_is_known() -> None:
    """Also where the beginning was not seen."""
    cache = KvCache()
    cache.mend([], batch(7, stored(1)))
    assert (cache.whole, str(cache)) == (False, "at least 16 tokens held; none had to go yet")
    cache.see(batch(8, BlocksCleared(), stored(2)))
    assert (cache.whole, cache.tokens_held(), cache.holds(1), cache.holds(2)) == (True, 16, False, True)


def test_a_tier_below_is_counted_for_itself() -> None:
    """A block that moves to the processor's memory is stored there, then removed from where prompts are computed."""
    cache = KvCache()
    cache.see(batch(0, stored(1, 2), stored(1, medium="CPU_PINNED"), removed(1)))
    assert (cache.tokens_held(), cache.tokens_held(medium="CPU_PINNED"), cache.tokens_held(medium="DISK")) == (
        16,
        16,
        0,
    )
    cache.see(batch(1, removed(1, medium="CPU_PINNED")))
    assert (cache.tokens_held(), cache.capacity) == (16, 32)


def test_groups_of_layers_hold_the_same_tokens_not_more() -> None:
    """A model with a sliding window: its first group keeps both blocks, the other one the last."""
    cache = KvCache()
    cache.see(batch(0, stored(1, 2, group=0), stored(1, 2, group=1), removed(1, group=1)))
    assert cache.tokens_held() == 32


def test_a_block_that_is_said_twice_is_held_once() -> None:
    cache = KvCache()
    cache.see(batch(0, stored(1), stored(1)))
    assert cache.tokens_held() == 16


def test_after_a_gap_nothing_is_taken_in_until_a_replay_brought_what_was_missed() -> None:
    """Number 1, which removes a block, gets lost."""
    batches = [batch(0, stored(1, 2)), batch(1, removed(1)), batch(2, stored(3)), batch(3, stored(4))]
    cache = KvCache()
    cache.see(batches[0])
    assert cache.see(batches[2]) is None
    assert (cache.wanted, cache.tokens_held()) == (0, 32)
    assert cache.mend(batches, batches[2]) == (batches[1], batches[2])
    assert (cache.whole, cache.tokens_held(), cache.holds(1)) == (True, 32, False)
    assert cache.see(batches[3]) == (batches[3],)


def test_without_a_replay_what_was_seen_before_a_gap_is_forgotten() -> None:
    """Any block may have gone in it. The room that was seen is the room."""
    cache = KvCache()
    cache.see(batch(0, stored(1, 2), removed(2)))
    assert cache.see(batch(3, stored(9))) is None
    assert cache.mend([], batch(3, stored(9))) == (batch(3, stored(9)),)
    assert (cache.whole, cache.tokens_held(), cache.holds(1), cache.holds(9)) == (False, 16, False, True)
    assert cache.capacity == 32


def test_what_a_replay_and_the_stream_both_bring_is_taken_once() -> None:
    cache = KvCache()
    cache.see(batch(0, stored(1)))
    assert cache.see(batch(0, stored(1))) == ()
    assert cache.tokens_held() == 16


def test_an_engine_that_was_started_anew_holds_nothing_of_before() -> None:
    """It counts from 0 again, later. Its room may be another."""
    cache = KvCache()
    cache.see(batch(0, stored(1, 2)))
    cache.see(batch(1, removed(2)))
    assert cache.see(batch(0, stored(7), time=9.0)) == (batch(0, stored(7), time=9.0),)
    assert (cache.whole, cache.tokens_held(), cache.holds(1), cache.capacity) == (True, 16, False, None)


def test_an_engine_that_was_started_anew_is_told_also_where_its_beginning_was_missed() -> None:
    """By its time: number 1 was seen, at another one. What it replays does not hold the batch that was seen last."""
    new = [batch(number, stored(100 + number), time=9.0 + number) for number in range(5)]
    cache = KvCache()
    for one in (batch(0, stored(1)), batch(1, stored(2))):
        cache.see(one)
    assert cache.see(new[4]) is None
    assert cache.mend(new[cache.wanted :], new[4]) == tuple(new[1:])
    assert (cache.whole, cache.holds(1), cache.holds(101)) == (False, False, True)


# --- whatever gets lost -----------------------------------------------------------------------------------------------


@st.composite
def engines(draw: st.DrawFn) -> list[KvBatch]:
    """What an engine of a few blocks does: stores some, removes some of those that it holds, or clears all."""
    held, batches = set[int](), []
    for sequence in range(draw(st.integers(1, 12))):
        new = draw(st.sets(st.integers(0, 9), max_size=3)) - held
        gone = draw(st.sets(st.sampled_from(sorted(held)), max_size=2)) if held else set()
        events: list[KvEvent] = [removed(*sorted(gone))] if gone else []
        events += [stored(*sorted(new))] if new else []
        held = (held - gone) | new
        if draw(st.integers(0, 9)) == 0:
            events, held = [BlocksCleared()], set()
        batches.append(batch(sequence, *events))
    return batches


@given(batches=engines(), lost=st.sets(st.integers(0, 11)), buffered=st.integers(0, 12), answers=st.booleans())
def test_what_is_told_to_be_held_is_held_whatever_gets_lost(
    batches: list[KvBatch], lost: set[int], buffered: int, answers: bool
) -> None:
    """The engine's buffer has room for the last few batches, and may not answer. None comes twice, or out of turn."""
    cache, came = KvCache(), list[int]()
    for one in batches:
        if one.sequence in lost:
            continue
        fresh = cache.see(one)
        if fresh is None:
            replayed = batches[max(cache.wanted, one.sequence + 1 - buffered) : one.sequence + 1] if answers else []
            fresh = cache.mend(replayed, one)
        came += [each.sequence for each in fresh]
        held = held_after(batches[: one.sequence + 1])
        said = {block for block in range(10) if cache.holds(block)}
        assert said <= held
        assert said == held or not cache.whole
        assert cache.tokens_held() == 16 * len(said)
    assert came == sorted(set(came))
    if answers and buffered >= len(batches):
        assert came == list(range(max((one.sequence + 1 for one in batches if one.sequence not in lost), default=0)))


def held_after(batches: list[KvBatch]) -> set[int]:
    held = set[Any]()
    for event in (event for one in batches for event in one.events):
        match event:
            case BlocksStored():
                held |= set(event.blocks)
            case BlocksRemoved():
                held -= set(event.blocks)
            case BlocksCleared():
                held = set()
    return held
