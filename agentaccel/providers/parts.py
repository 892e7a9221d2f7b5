"""What stretches of requests read as, remembered: a turn sends again what the turns before it sent.

A stretch is looked up by a hash of its wire bytes, markers included, so whatever changed in it is seen: a block edited
in place, the order of keys, a marker that moved. Only stretches that changed are read again. Eight messages make a
stretch, and the last few that do not fill one stand alone, so that the next turn finds them. What lies well behind the
end is looked up in chapters of 1, 2, 4, 8 or 16 stretches, the largest first, as a number is written in bits: a long
history costs few look-ups, and as it grows, two chapters of one size become one of the next.

The hash is XXH3 (Collet, 2019), seeded by the rules to read by and the place, in a way of this process's own: 128 bits
that never leave it, in a tenth of the time that writing the bytes takes. Were two stretches ever taken for one another,
a marker would stand in the wrong place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise, repeat
from typing import Any, Self

import orjson
from xxhash import xxh3_128_intdigest

from agentaccel.canonical import PLAIN_JSON, block_hash, digest
from agentaccel.facts import CacheFacts
from agentaccel.providers.memory import Name, Part
from agentaccel.providers.memory import PartMemory as PartMemory
from agentaccel.types import STRETCH, Marker, Path, Segment, show_path

_NEAR_END = 2 * STRETCH
"""Messages from the end within which some may still be remembered singly."""

_LARGEST = 16 * STRETCH
"""Messages of the largest chapter: what is read again after an edit deep inside."""

_NO_FLAGS = frozenset[str]()


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

    @classmethod
    def under(cls, facts: CacheFacts | None, key: bytes) -> Self:
        return cls(facts, block_hash(key))

    def part(self, *, hashed: bool = True) -> Part:
        """What has been read, `hashed` as a whole where somebody asks for that; the reader is as new."""
        segments = tuple(self.segments)
        digests = (digest(b"".join([segment.digest for segment in segments])),) if hashed else ()
        self.segments.clear()
        if not self.markers and not self.flags:  # markers that are misplaced are among the markers
            return Part(segments, (), (), _NO_FLAGS, digests)
        read = Part(segments, tuple(self.markers), tuple(self.misplaced), frozenset(self.flags), digests)
        self.markers, self.misplaced, self.flags = [], [], set()
        return read

    def add(self, part: Part) -> None:
        """Go on from what was read before."""
        self.segments.extend(part.segments)
        if part.markers or part.flags:  # as in `part`
            self.markers.extend(part.markers)
            self.misplaced.extend(part.misplaced)
            self.flags |= part.flags

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


def read_parts(
    memory: PartMemory | None, reader: Gathering, key: bytes, levels: tuple[Any, Any, Sequence[Any]], first: int = 0
) -> Part:
    """What a request reads as, part by part: from `memory` where they are known, else as `reader` reads them under
    `key`.

    `levels` are its tools, what stands before the conversation, and its messages, which stand from index `first` on.
    """
    tools, system, messages = levels
    wanted: list[_Wanted] = [("tools", tools, 0)] if tools else []
    if system is not None:
        wanted.append(("system", system, 0))
    count = len(messages)
    whole, past = count - count % STRETCH, max(count - _NEAR_END, 0) // STRETCH * STRETCH
    edges = [*_chapters(past), *range(past, whole, STRETCH), *range(whole, count + 1)]
    wanted += [("messages", messages[at:end], first + at) for at, end in pairwise(edges)]
    rules = hash((key, type(reader).__qualname__, _rules(reader.facts)))
    return _together(_Reading(memory or PartMemory(), reader, rules).parts(wanted))


_Wanted = tuple[str, Any, int]
"""A level, what stands there, and the index of its first message."""


def _chapters(past: int) -> list[int]:
    """Where the chapters of the first `past` messages, which are whole stretches, begin.

    >>> _chapters(88), _chapters(264)
    ([0, 64, 80], [0, 128, 256])
    """
    starts, at = list[int](), 0
    while at < past:
        starts.append(at)
        at += min(1 << (past - at).bit_length() - 1, _LARGEST)
    return starts


class _Reading:
    """Reading with a memory."""

    def __init__(self, memory: PartMemory, reader: Gathering, rules: int) -> None:
        self._memory = memory
        self._reader = reader
        self._rules = rules

    def parts(self, wanted: Sequence[_Wanted]) -> list[Part]:
        """What each of `wanted` reads as."""
        names = self._names(wanted)
        found = self._memory.found(names)
        for i, part in enumerate(found):
            if part is None:
                found[i] = self._new(*wanted[i], names[i])
        return found  # type: ignore[return-value]  # none is None any more

    def _new(self, level: str, value: Any, start: int, name: Name | None) -> Part:
        """What a part reads as that is not remembered as `name`; then it is."""
        reader = self._reader
        if level == "messages" and len(value) > 1:
            if name is None and len(value) > STRETCH:
                return _together(self.parts([(level, one, at) for one, at in _stretches(value, start)]))
            part = self._past(value, start)
        else:
            if level == "messages":
                reader.messages(value, start)
            elif level == "tools":
                reader.tools(value)
            else:
                reader.system(value)
            part = reader.part(hashed=False)
        if name is not None:
            self._memory.put(name, part)
        return part

    def _past(self, messages: Sequence[Any], start: int) -> Part:
        """What messages read as that are looked up together from now on: a stretch or a chapter."""
        if len(messages) > STRETCH:
            return self._of_halves(messages, start) or self._read(messages, start)
        self._join(messages, start)
        return self._reader.part()

    def _of_halves(self, messages: Sequence[Any], start: int) -> Part | None:
        """What a chapter reads as that has just become whole: its first half is remembered, and will be no more."""
        middle = len(messages) // 2
        if middle < STRETCH:
            return None
        rest, at = messages[middle:], start + middle
        first = self._taken([("messages", messages[:middle], start)])[0]
        if first is None:
            return None
        second = self._taken([("messages", rest, at)])[0]
        return _together([first, second or self._of_halves(rest, at) or self._read(rest, at)])

    def _read(self, messages: Sequence[Any], start: int) -> Part:
        """What whole stretches read as, of which nothing is remembered."""
        parts: list[Part] = []
        for stretch, at in _stretches(messages, start):
            self._reader.messages(stretch, at)
            parts.append(self._reader.part())
        return _together(parts)

    def _join(self, messages: Sequence[Any], start: int) -> None:
        """Read messages that stood alone while they were the last ones, and forget them singly."""
        singles: list[_Wanted] = [("messages", messages[at : at + 1], start + at) for at in range(len(messages))]
        for (_, single, at), part in zip(singles, self._taken(singles), strict=True):
            if part is None:
                self._reader.messages(single, at)
            else:
                self._reader.add(part)

    def _taken(self, wanted: Sequence[_Wanted]) -> list[Part | None]:
        """What is remembered of messages that will be looked up with others from now on; it is forgotten."""
        return self._memory.pop(self._names(wanted))

    def _names(self, wanted: Sequence[_Wanted]) -> list[Name | None]:
        """As `_name` of each: in a row, as of all but the oddest requests they can be had."""
        try:
            levels, values, starts = zip(*wanted, strict=True) if wanted else ((), (), ())
            seeds = map(hash, zip(repeat(self._rules), levels, starts))
            written = map(orjson.dumps, values, repeat(None), repeat(PLAIN_JSON))
            return [*map(xxh3_128_intdigest, written, seeds)]
        except (TypeError, ValueError):
            return [self._name(*one) for one in wanted]

    def _name(self, level: str, value: Any, start: int) -> Name | None:
        """What `value` is remembered by; None where its bytes may be those of something else: it is read each time."""
        try:
            data = orjson.dumps(value, option=PLAIN_JSON)
        except (TypeError, ValueError):
            return None
        return xxh3_128_intdigest(data, hash((self._rules, level, start)))


def _stretches(messages: Sequence[Any], start: int) -> list[tuple[Sequence[Any], int]]:
    return [(messages[at : at + STRETCH], start + at) for at in range(0, len(messages), STRETCH)]


def _together(parts: Sequence[Part]) -> Part:
    """Neighbouring parts as one."""
    segments, markers, misplaced, flags, digests = zip(*parts, strict=True) if parts else ((), (), (), (), ())
    joined = chain.from_iterable
    return Part(
        tuple(joined(segments)), tuple(joined(markers)), tuple(joined(misplaced)), _NO_FLAGS.union(*flags),
        tuple(joined(digests)),
    )  # fmt: skip


def _rules(facts: CacheFacts | None) -> tuple[str, ...]:
    return (facts.provider, facts.platform, facts.wire, facts.model) if facts is not None else ()
