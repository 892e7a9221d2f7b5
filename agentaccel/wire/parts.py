"""What requests read as, remembered: a turn sends again what the turns before it sent.

Most requests are one that was read before, with some messages more. So a request is written down, once and as a whole,
and where it begins with the bytes of a history that is remembered, markers included, only what follows is read. The
last histories are held against it first; older ones are looked up by what they begin with. Whatever changed is seen: a
block edited in place, the order of keys, a marker that moved. Where the last messages of a request were others in the
next one, as with markers that move on and a clock at the end, so many are expected to be others again: they are no part
of the history, and remembered one by one. A request that goes on from no history, because it is a first one or was
edited, is read in stretches of eight messages, and only those that are not remembered.

The hash is XXH3 (Collet, 2019), seeded by the rules to read by and the place, in a way of this process's own: 128 bits
that never leave it, in a tenth of the time that writing the bytes takes. Were two histories ever taken for one another,
a marker would stand in the wrong place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import orjson
from xxhash import xxh3_128, xxh3_128_intdigest

from agentaccel.facts import CacheFacts
from agentaccel.hashing import PLAIN_JSON, digest
from agentaccel.types import STRETCH, Marker, Path, Segment, digest_of, show_path
from agentaccel.wire.memory import NO_FLAGS, Name, ParsedPart, RequestHead, made_history, made_part
from agentaccel.wire.memory import PartMemory as PartMemory

# --- What a dialect's reader gathers while it reads a stretch of a request --------------------------------------------


@dataclass(slots=True)
class Gathering:
    """What a dialect's reader gathers while it reads a stretch. A reader adds `tools`, `system` and `messages`."""

    facts: CacheFacts | None
    hash_of: Callable[[bytes, bytes], bytes]
    """The hash of a segment: of what stands before it in its message, and its wire bytes."""
    segments: list[Segment] = field(init=False, default_factory=list)
    markers: list[Marker] = field(init=False, default_factory=list)
    misplaced: list[str] = field(init=False, default_factory=list)
    flags: set[str] = field(init=False, default_factory=set)

    def part(self, *, hashed: bool = True) -> ParsedPart:
        """What has been read, `hashed` as a whole where somebody asks for that; the reader is as new."""
        segments = tuple(self.segments)
        digests = (digest(b"".join(map(digest_of, segments))),) if hashed else ()
        self.segments.clear()
        if not self.markers and not self.flags:  # markers that are misplaced are among the markers
            return made_part(segments, (), (), NO_FLAGS, digests)
        read = made_part(segments, tuple(self.markers), tuple(self.misplaced), frozenset(self.flags), digests)
        self.markers, self.misplaced, self.flags = [], [], set()
        return read

    def found(self, path: Path, ttl: str, *, allowed: bool) -> None:
        """A marker stands at `path`, where one is `allowed` or not."""
        self.markers.append(Marker(path=path, ttl=ttl))
        if not allowed:
            self.misplaced.append(f"{show_path(path)} cannot carry a marker")

    def tools(self, tools: Sequence[Any]) -> None:
        """Read the list of tools."""
        raise NotImplementedError

    def system(self, system: Any) -> None:
        """Read what stands before the conversation."""
        raise NotImplementedError

    def messages(self, messages: Sequence[Any], start: int) -> None:
        """Read messages that stand from index `start` on."""
        raise NotImplementedError


_NEXT = frozenset(b",][")
"""What follows on a message in a list of them as it is written, and what such a list begins with."""

_PARTED = 3
"""Messages by which conversations have parted that begin with the same words: they hold a reply of each. Shorter ones
are remembered by the first alone."""

_NOTHING: Mapping[Name | None, ParsedPart] = MappingProxyType({})
_EMPTY = RequestHead(0, 0, 0, 0, ParsedPart((), (), (), NO_FLAGS, ()), 0, 0, _NOTHING, 0, 0)


_Levels = tuple[Any, Any, Sequence[Any]]
"""The tools of a request, what stands before the conversation, and its messages."""

_Piece = tuple[int, ParsedPart]
"""A part of a request: the index of the message behind it, which is 0 for what stands before them all; and the part."""

_Behind = tuple[list[_Piece], int, bool]
"""What a request has behind the history that it goes on from: the pieces; how many messages at the end are expected to
be others in the next request, each a piece; and whether these are remembered, because that may turn out wrong."""


_Request = tuple[Sequence[Any], memoryview, xxh3_128]
"""Its messages; all of it as it is written; and the hash of what its history has of that."""


class _Written:
    """The bytes of the levels of a request, noted as one part after another is written."""

    def __init__(self, rules: int) -> None:
        self.hash = xxh3_128(b"", rules)
        self.size = 0
        self.lost = False
        """Whether some could not be written."""
        self._first = True

    def levels(self, *written: bytes | None) -> None:
        """What stands before the messages."""
        self.lost = None in written
        self._note(b"[" + b",".join([one for one in written if one is not None]))

    def messages(self, data: bytes | None) -> None:
        """Go on with messages that are written as the list `data`."""
        if data is None:
            self.lost = True
            return
        self._note(b",[" if self._first else b",")
        self._note(memoryview(data)[1:-1])
        self._first = False

    def _note(self, data: bytes | memoryview) -> None:
        self.hash.update(data)
        self.size += len(data)


class PartReader:
    """Reading with a memory: from `memory` where a request is known, else as `reader` reads it under `key`."""

    def __init__(self, memory: PartMemory | None, reader: Gathering, key: bytes, first: int = 0) -> None:
        facts = reader.facts
        place = (facts.provider, facts.platform, facts.wire, facts.model) if facts is not None else ()
        self._memory = memory or PartMemory()
        self._reader = reader
        self._rules = hash((key, type(reader), place, first))
        self._begin = first

    def read(self, levels: _Levels) -> ParsedPart:
        """What a request reads as. `levels` are its tools, what stands before the conversation, and its messages, which
        stand from index `first` on."""
        messages, last = levels[2], self._memory.last
        data = _dumped(levels) if last and len(messages) >= _PARTED else None
        if data is not None and (part := self._longer(levels, last, data, least=_PARTED)) is not None:
            return part
        opening = self._opening(levels)
        known = self._memory.known(opening) if opening is not None else ()
        if not known and len(messages) >= _PARTED:  # it may have come to so many with this request
            first = self._opening(levels, 1)
            known = self._memory.known(first) if first is not None else ()
        if known and data is None:
            data = _dumped(levels)
        if opening is None or data is None:
            return self._first(levels, opening)
        if (part := self._longer(levels, known, data)) is not None:
            return part
        behind = self._all(levels, known)
        return self._on_from(_EMPTY, behind, opening, (messages, memoryview(data), xxh3_128(b"", self._rules)))

    def _longer(self, levels: _Levels, known: Sequence[RequestHead], data: bytes, least: int = 0) -> ParsedPart | None:
        """What a request that is written as `data` reads as, where it goes on from some that are `known`, of so many
        messages at `least`: from the longest of these."""
        view, messages, whole = memoryview(data), levels[2], len(data)
        found, hash_, longest = None, None, 0
        for history in known:
            size = history.size
            if longest < size < whole and history.messages >= least and data[size] in _NEXT:
                written = xxh3_128(view[:size], self._rules)
                if written.intdigest() == history.digest:
                    found, hash_, longest = history, written, size
        if found is None or hash_ is None:
            return None
        # What one of fewer messages is remembered by may be of others than there are now.
        opening = found.opening if found.messages >= _PARTED else self._opening(levels)
        return self._on_from(found, self._behind(found, messages), opening, (messages, view, hash_))

    def _opening(self, levels: _Levels, messages: int = _PARTED) -> Name | None:
        """What histories with this beginning are remembered by: the first `messages`, or the very first of fewer, and
        what stands before them."""
        tools, system, all_ = levels
        first = all_[: messages if len(all_) >= messages else 1]
        return self._name("opening", _dumped((tools, system, first)), 0)

    def _first(self, levels: _Levels, opening: Name | None) -> ParsedPart:
        """What a request reads as where none is remembered that begins like it, or its bytes tell nothing."""
        written = _Written(self._rules)
        part, loose = _joined(_EMPTY.part, 0, self._all(levels, (), written)[0])
        if opening is not None and not written.lost:
            digest_, held = written.hash.intdigest(), len(part.segments)
            made = RequestHead(opening, len(levels[2]), written.size, digest_, part, loose, 0, _NOTHING, 0, held)
            self._memory.keep(made, _EMPTY)
        return part

    def _on_from(self, history: RequestHead, behind: _Behind, opening: Name | None, request: _Request) -> ParsedPart:
        """What a request reads as that is `history` and what stands `behind`; as far as it stays, it is remembered by
        `opening`."""
        pieces, moving, named = behind
        if not pieces:
            return history.part
        messages, view, written = request
        at, size, tail = len(messages) - moving, len(view) - 2, _NOTHING
        if not moving:
            part, loose = _joined(history.part, history.loose, pieces)
            whole = part
        else:
            moved = pieces[-moving:]
            size = len(view) - 1 - len(orjson.dumps(messages[at:], None, PLAIN_JSON))
            part, loose = _joined(history.part, history.loose, pieces[:-moving])
            whole, _ = _joined(part, loose, moved)
            if named:
                tail = {self._name("message", _dumped(messages[end - 1]), end): one for end, one in moved}
        if opening is None or (at == history.messages and history is not _EMPTY):  # no longer than what is remembered
            return whole
        written.update(view[history.size : size])
        held = len((whole if tail else part).segments)
        made = made_history(opening, at, size, written.intdigest(), part, loose, moving, tail, history.digest, held)
        self._memory.keep(made, history)
        return whole

    def _behind(self, history: RequestHead, messages: Sequence[Any]) -> _Behind:
        """What follows on `history`."""
        begin, count = history.messages, len(messages)
        pieces, moving, named = self._singly(history, messages) if history.tail else ([], history.moving, False)
        if count <= begin + history.moving:
            moving = count - begin  # the same once more, or less of it, says nothing of what the next one will change
        at, stays = begin + len(pieces), count - moving
        while at < count:
            end = at + 1 if at >= stays else min(at + STRETCH - at % STRETCH, stays)
            pieces.append((end, self._read(messages, at, end)))
            at = end
        return pieces, moving, named

    def _singly(self, history: RequestHead, messages: Sequence[Any]) -> _Behind:
        """Those of the messages behind `history` that were expected to be others, and how many are."""
        pieces: list[_Piece] = []
        before, named = history.messages + history.moving, False
        changed = before
        for at in range(history.messages, min(before, len(messages))):
            part = history.tail.get(self._name("message", _dumped(messages[at]), at + 1))
            if part is None:
                part, changed = self._read(messages, at, at + 1), min(changed, at)
            else:
                named = True
            pieces.append((at + 1, part))
        return pieces, before - changed, named

    def _read(self, messages: Sequence[Any], at: int, end: int) -> ParsedPart:
        self._reader.messages(messages[at:end], self._begin + at)
        return self._reader.part(hashed=False)

    def _all(self, levels: _Levels, known: Sequence[RequestHead], written: _Written | None = None) -> _Behind:
        """All of a request: what stands before its messages, stretches of these, and the last few one by one; noted in
        `written`, where somebody asks for that.

        Where others are `known` that begin like it, something in it was changed, and it may have been near the end.
        """
        tools, system, messages = levels
        moving = min(STRETCH, len(messages)) if known else 0
        tail = {name: part for history in known for name, part in history.tail.items()}
        whole, reader, pieces = (len(messages) - moving) // STRETCH * STRETCH, self._reader, list[_Piece]()
        before = _dumped(tools), _dumped(system)
        if tools:
            pieces.append((0, self._known("tools", before[0], 0, partial(reader.tools, tools))))
        if system is not None:
            pieces.append((0, self._known("system", before[1], 0, partial(reader.system, system))))
        if written is not None:
            written.levels(*before)
        for at in range(0, whole, STRETCH):
            stretch, end = messages[at : at + STRETCH], at + STRETCH
            data = _dumped(stretch)
            read = partial(reader.messages, stretch, self._begin + at)
            pieces.append((end, self._known("messages", data, end, read)))
            if written is not None:
                written.messages(data)
        for at in range(whole, len(messages)):
            part = tail.get(self._name("message", _dumped(messages[at]), at + 1)) if tail else None
            pieces.append((at + 1, part or self._read(messages, at, at + 1)))
        if written is not None and whole < len(messages):
            written.messages(_dumped(messages[whole:]))
        return pieces, moving, True

    def _known(self, level: str, data: bytes | None, end: int, read: Callable[[], object]) -> ParsedPart:
        """What was written as `data` reads as, which is looked up; what is not known is `read`, and remembered."""
        name = self._name(level, data, end)
        part = self._memory.parts.get(name) if name is not None else None
        if part is None:
            read()
            part = self._reader.part(hashed=end > 0)
            if name is not None:
                self._memory.put(name, part)
        return part

    def _name(self, level: str, data: bytes | None, end: int) -> Name | None:
        """What is remembered by the bytes `data`; None where there are none: that is read each time."""
        return xxh3_128_intdigest(data, hash((self._rules, level, end))) if data is not None else None


def _dumped(value: Any) -> bytes | None:
    """`value` as it is written; None where its bytes may be those of something else."""
    try:
        return orjson.dumps(value, None, PLAIN_JSON)
    except (TypeError, ValueError):
        return None


def _joined(before: ParsedPart, loose: int, pieces: Sequence[_Piece]) -> tuple[ParsedPart, int]:
    """What a part and the `pieces` behind it read as together, and how many segments at its end fill no stretch; so far
    these are `loose`.

    The last message of a stretch that was read one by one has the hash over all of it.
    """
    if not pieces:
        return before, loose
    segments, markers, misplaced, flags, digests = before
    added: list[Segment] = []
    ended: list[bytes] = []
    for end, part in pieces:
        added += part.segments
        if part.markers or part.flags:  # markers that are misplaced are among the markers
            markers, misplaced, flags = markers + part.markers, misplaced + part.misplaced, flags | part.flags
        if part.digests or not end:
            ended += part.digests
            loose = 0
            continue
        loose += len(part.segments)
        if end % STRETCH == 0:
            stretch = (*segments[len(segments) + len(added) - loose :], *added)[-loose:] if loose else ()
            ended.append(digest(b"".join(map(digest_of, stretch))))
            loose = 0
    return made_part(segments + tuple(added), markers, misplaced, flags, (*digests, *ended)), loose
