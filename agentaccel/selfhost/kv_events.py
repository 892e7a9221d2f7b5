"""What an engine says of its KV cache, block by block: read, and kept account of. Pure.

    cache = KvCache()
    fresh = cache.see(decoded(frames))      # None: some batches are missing, `cache.wanted` is the first of them
    cache.tokens_held(), cache.capacity

vLLM and SGLang publish batches of events over ZeroMQ, each of three frames: a topic, a sequence number, and the batch
in msgpack. The ids of tokens in them are the text of prompts, and salts travel in clear: neither is kept.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentaccel.errors import MissingExtraError

BlockHash = int | bytes
"""The name that an engine gives a block: a hash of its tokens and of all before them."""
GPU = "GPU"
"""The medium that prompts are computed in, also where there is no GPU. Tiers below it are "CPU_PINNED" and "DISK"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlocksStored:
    """Blocks that the engine keeps from now on."""

    blocks: tuple[BlockHash, ...]
    parent: BlockHash | None
    """The block in front of the first one; None at the beginning of a prompt."""
    tokens: int
    """Tokens in all of them."""
    medium: str = GPU
    group: int = 0
    """The group of layers whose keys and values these are: models with several kinds of attention have several."""
    session: str | None = None
    """The session of the request that computed them, as it was sent; None where none was."""
    apart: bool = False
    """True if the blocks are found by more than their tokens: by a salt, an adapter, or a picture."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlocksRemoved:
    """Blocks that the engine does not keep any more."""

    blocks: tuple[BlockHash, ...]
    medium: str = GPU
    group: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BlocksCleared:
    """The engine keeps no block any more."""


KvEvent = BlocksStored | BlocksRemoved | BlocksCleared


@dataclass(frozen=True, slots=True, kw_only=True)
class KvBatch:
    """What an engine did in one step."""

    sequence: int
    """Its number, counted from 0 since the engine was started."""
    time: float
    """When, in seconds since 1970 by the engine's clock."""
    rank: int | None = None
    """The data-parallel rank, where there are several."""
    events: tuple[KvEvent, ...] = ()
    unknown: int = 0
    """Events of kinds that are not known here."""


# --- reading ----------------------------------------------------------------------------------------------------------

_FIELDS = {
    "BlockStored": ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name"),
    "BlockRemoved": ("block_hashes", "medium"),
    "AllBlocksCleared": (),
}
"""By kind, the fields of older engines, which send arrays, in their order; those at their default are left out."""


def sequence_of(frame: bytes) -> int:
    """The number in a batch's second frame; -1 ends a replay. Raises `ValueError` if the frame is not of 8 bytes."""
    if len(frame) != 8:
        raise ValueError("no number of 8 bytes")
    return int.from_bytes(frame, "big", signed=True)


def decoded(frames: Sequence[bytes]) -> KvBatch:
    """The batch of three frames. Raises `ValueError` for what is none, and `MissingExtraError` without the extra
    `selfhost`."""
    try:
        import msgspec
    except ImportError:
        raise MissingExtraError("selfhost", "msgspec") from None
    try:
        _, sequence, payload = frames
        number = sequence_of(sequence)
        if number < 0:
            raise ValueError("a batch has no number below 0")
        time, events, *rest = _of(list, msgspec.msgpack.decode(payload))
        rank = rest[0] if rest else None
        read = [_event(one) for one in _of(list, events)]
        return KvBatch(
            sequence=number,
            time=_seconds(time),
            rank=rank if isinstance(rank, int) else None,
            events=tuple(one for one in read if one is not None),
            unknown=sum(one is None for one in read),
        )
    except (*_UNREADABLE, msgspec.MsgspecError) as error:
        raise ValueError(f"no batch of KV events ({type(error).__name__})") from None  # its text could hold content


_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)
"""What comes of reading what is no batch."""


def _event(raw: Any) -> KvEvent | None:
    """One event, as a map or as an array; None for a kind that is not known."""
    if isinstance(raw, Mapping):
        kind, fields = raw["type"], raw
    else:
        kind, *values = list[Any](raw) if isinstance(raw, list) else []
        fields = dict(zip(_FIELDS.get(kind, ()), values, strict=False))
    if kind == "BlockStored":
        blocks = _blocks(fields)
        return BlocksStored(
            blocks=blocks,
            parent=_of(int | bytes | None, fields.get("parent_block_hash")),
            tokens=len(blocks) * _block_size(fields),
            medium=_medium(fields),
            group=_group(fields),
            session=_of(str | None, fields.get("session_id")),
            apart=_apart(fields),
        )
    if kind == "BlockRemoved":
        blocks = _blocks(fields)
        copies = _of(list | None, fields.get("remaining_copy_counts")) or [0] * len(blocks)
        return BlocksRemoved(
            blocks=tuple(one for one, left in zip(blocks, copies, strict=True) if not left),
            medium=_medium(fields),
            group=_group(fields),
        )
    return BlocksCleared() if kind == "AllBlocksCleared" else None


def _of(kind: Any, value: Any) -> Any:
    """The value, which is of that kind. Raises `TypeError` if it is not."""
    if not isinstance(value, kind):
        raise TypeError(f"a {type(value).__name__} where {kind} belongs")
    return value


def _blocks(fields: Mapping[str, Any]) -> tuple[BlockHash, ...]:
    return tuple(_of(BlockHash, one) for one in _of(list, fields["block_hashes"]))


def _block_size(fields: Mapping[str, Any]) -> int:
    size: int = _of(int, fields["block_size"])
    if size < 1:
        raise ValueError("a block has at least one token")
    return size


def _medium(fields: Mapping[str, Any]) -> str:
    return _of(str | None, fields.get("medium")) or GPU


def _group(fields: Mapping[str, Any]) -> int:
    return _of(int | None, fields.get("group_idx")) or 0


def _seconds(value: Any) -> float:
    seconds = float(_of(int | float, value))
    if not math.isfinite(seconds):
        raise ValueError("a time is finite")
    return seconds


def _apart(fields: Mapping[str, Any]) -> bool:
    """True if something beside the tokens is hashed; what it is, is not looked at."""
    return any(fields.get("extra_keys") or ()) or any(
        fields.get(name) is not None for name in ("cache_salt", "lora_id", "lora_name")
    )


# --- account ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Held:
    """A block that an engine keeps."""

    tokens: int
    session: str | None


class KvCache:
    """Which blocks one engine keeps, by what it says itself. It does no I/O; not thread-safe.

    A batch that is missing may have removed any block. So nothing is taken in until it came, or else all that was seen
    before it is forgotten: what is told to be held is held.
    """

    def __init__(self) -> None:
        self._last: tuple[int, float] | None = None
        self._held: dict[_Place, dict[BlockHash, _Held]] = {}
        self._tokens: Counter[_Place] = Counter()
        self.whole = False
        """True if every event since the engine began, or cleared all, was seen: then nothing else is held."""
        self.removed = 0
        """Tokens of blocks that had to go from where prompts are computed."""
        self.capacity: int | None = None
        """Most tokens that were held there when some of them had to go; None as long as none had to. It may grow: the
        tokens of requests that were computed at that moment come on top."""

    @property
    def wanted(self) -> int:
        """The first batch that a replay has to bring: the last one that was seen, by which another engine is told."""
        return 0 if self._last is None else self._last[0]

    def see(self, batch: KvBatch) -> tuple[KvBatch, ...] | None:
        """Take the next batch in. It, in a tuple; an empty one if it was seen before; None if some are missing before
        it: then it was not taken in, and `mend` is to be called.

        A number that was seen before, but at an earlier time, is that of an engine that was started anew.
        """
        if self._last is not None and batch.sequence <= self._last[0]:
            if batch.time <= self._last[1]:
                return ()
            self.forget()
            self.capacity, self.removed = None, 0
        if batch.sequence != (0 if self._last is None else self._last[0] + 1):
            return None
        self.whole = self.whole or self._last is None
        self._take(batch)
        return (batch,)

    def mend(self, replayed: Iterable[KvBatch], batch: KvBatch) -> tuple[KvBatch, ...]:
        """Take in a batch before which some are missing, and those that a replay from `wanted` brought. All that are
        new, in their order. Where they do not go on from what was seen, that is forgotten."""
        run = _run_up_to(batch, replayed)
        if self._last in {(one.sequence, one.time) for one in run}:
            run = tuple(one for one in run if one.sequence > self.wanted)
        else:
            self.forget()
            self.whole = run[0].sequence == 0
        for one in run:
            self._take(one)
        return run

    def forget(self) -> None:
        """Believe nothing of what was seen so far to be held."""
        self._last, self.whole = None, False
        self._clear()

    def holds(self, block: BlockHash, *, medium: str = GPU, group: int = 0) -> bool:
        """True if the engine keeps the block there; False also where that is not known."""
        return block in self._held.get((medium, group), ())

    def tokens_held(self, *, medium: str = GPU, session: str | None = None) -> int:
        """Tokens whose keys and values are kept, of all sessions or of one: at least so many, exactly where `whole`.

        A block belongs to the session that computed it, also where others read it. Of several groups of layers the one
        with the most counts: others keep a window only.
        """
        groups = [place for place in self._held if place[0] == medium]
        if session is None:
            return max((self._tokens[place] for place in groups), default=0)
        own = [sum(one.tokens for one in self._held[place].values() if one.session == session) for place in groups]
        return max(own, default=0)

    def __str__(self) -> str:
        most = "none had to go yet" if self.capacity is None else f"some had to go at {self.capacity:,}"
        return f"{'' if self.whole else 'at least '}{self.tokens_held():,} tokens held; {most}"

    def _clear(self) -> None:
        self._held.clear()
        self._tokens.clear()

    def _take(self, batch: KvBatch) -> None:
        self._last = (batch.sequence, batch.time)
        for event in batch.events:
            match event:
                case BlocksStored():
                    self._store(event)
                case BlocksRemoved():
                    self._remove(event)
                case BlocksCleared():
                    self._clear()
                    self.whole = True

    def _store(self, event: BlocksStored) -> None:
        place = (event.medium, event.group)
        blocks = self._held.setdefault(place, {})
        held = _Held(event.tokens // max(len(event.blocks), 1), event.session)
        new = {one: held for one in event.blocks if one not in blocks}
        blocks.update(new)
        self._tokens[place] += held.tokens * len(new)

    def _remove(self, event: BlocksRemoved) -> None:
        place = (event.medium, event.group)
        before = self.tokens_held()
        blocks = self._held.setdefault(place, {})
        gone = sum(held.tokens for one in event.blocks if (held := blocks.pop(one, None)) is not None)
        self._tokens[place] -= gone
        if gone and event.medium == GPU:
            self.removed += gone
            self.capacity = max(before, self.capacity or 0)


_Place = tuple[str, int]
"""A medium, and a group of layers."""


def _run_up_to(batch: KvBatch, replayed: Iterable[KvBatch]) -> tuple[KvBatch, ...]:
    """The longest run of consecutive batches that ends with `batch`."""
    known = {one.sequence: one for one in replayed}
    run = [batch]
    while (before := known.get(run[-1].sequence - 1)) is not None:
        run.append(before)
    return tuple(reversed(run))
