"""What parts of requests read as, remembered by what they were read from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

from agentaccel.types import Marker, Segment
from agentaccel.values import maker

V = TypeVar("V")

_MOST_SEGMENTS = 65_536
"""Segments remembered before the older half is forgotten: some tens of megabytes."""

NO_FLAGS = frozenset[str]()


class ParsedPart(NamedTuple):
    """What a stretch of a request reads as."""

    segments: tuple[Segment, ...]
    markers: tuple[Marker, ...]
    """Those that its blocks carry, in wire order."""
    misplaced: tuple[str, ...]
    """Markers where none is allowed, as sentences."""
    flags: frozenset[str]
    """Properties of the content that break levels by themselves, named as in the facts."""
    digests: tuple[bytes, ...]
    """For each stretch of messages, a hash over the digests of its segments; of what is none, nothing."""


made_part = maker(ParsedPart)

Name = int
"""What a part was read from: a hash of its bytes, the rules it was read by, its level and where it stands."""


class RequestHead(NamedTuple):
    """The beginning of a request: its tools, what stands before the conversation, and messages."""

    opening: Name
    """What it is remembered by: what it, or what stood behind it, begins with."""
    messages: int
    """How many of them."""
    size: int
    """Bytes of it all, without the end of the list of messages."""
    digest: int
    """A hash of these."""
    part: ParsedPart
    """What all of it reads as."""
    loose: int
    """How many segments at its end fill no stretch of messages."""
    moving: int
    """How many messages stood behind it that are expected to be others in the next request."""
    tail: Mapping[Name | None, ParsedPart]
    """What these read as, one by one; empty where they were others the last time, too."""
    before: int
    """The hash of the one that it went on from."""
    held: int
    """How many segments are remembered with it, those of its tail included."""

    def goes_on_from(self, other: RequestHead) -> bool:
        """Whether it is the same as `other`, or that with more behind it: segments that stay are the same objects."""
        segments, others = self.part.segments, other.part.segments
        count = len(others)
        grew = 0 < count <= len(segments) and segments[count - 1] is others[-1]
        return grew or self.digest == other.digest


made_history = maker(RequestHead)


class PartMemory:
    """What was read. Thread-safe: each step is one operation on a dict or a tuple, and what two threads remember at the
    same moment may be forgotten."""

    def __init__(self) -> None:
        self.parts = _Latest[ParsedPart](lambda part: len(part.segments))
        self.last: tuple[RequestHead, ...] = ()
        """The last histories, the latest first."""
        self.histories = _Latest[tuple[RequestHead, ...]](lambda known: sum(map(_held, known)))
        """Those before them, by what they begin with."""

    def put(self, name: Name, part: ParsedPart) -> None:
        """Remember `part` as `name`."""
        self.parts.put(name, part, len(part.segments))

    def keep(self, history: RequestHead, after: RequestHead) -> None:
        """Remember `history`, which went on from the one `after` which it comes.

        That one stays until this one has been gone on from: others may go on from it, too.
        """
        gone = (after.before, history.digest)
        last = [one for one in self.last if one.digest not in gone or one.opening != history.opening]
        self.last = (history, *last[:_LAST])
        for one in last[_LAST:]:
            known = self.histories.get(one.opening) or ()
            others = [other for other in known if other.digest == one.before or not one.goes_on_from(other)]
            before = max([other.held for other in known if one.goes_on_from(other)], default=0)
            self.histories.put(one.opening, (one, *others[:_MOST_ALIKE]), max(one.held - before, 0))

    def known(self, opening: Name) -> list[RequestHead]:
        """The histories that are remembered by `opening`."""
        return [one for one in (*self.last, *(self.histories.get(opening) or ())) if one.opening == opening]


_LAST = 7
"""Histories beside the latest that are no older than to be looked at with each request."""
_MOST_ALIKE = 15
"""Histories with one beginning that are remembered beside another one."""

_held = attrgetter("held")


class _Latest(Generic[V]):
    """A dict that forgets what was not asked for since long ago."""

    def __init__(self, segments_of: Callable[[V], int]) -> None:
        self._segments_of = segments_of
        self._young: dict[Name, V] = {}
        self._old: dict[Name, V] = {}
        self._segments = 0

    def get(self, name: Name) -> V | None:
        value = self._young.get(name)
        if value is None and self._old:
            value = self._old.get(name)
            if value is not None:
                self.put(name, value, self._segments_of(value))
        return value

    def put(self, name: Name, value: V, segments: int) -> None:
        """Remember a value that has so many `segments` more than the one before; the older half may be forgotten."""
        self._young[name] = value
        self._segments += segments + 1
        if self._segments > _MOST_SEGMENTS:
            self._old, self._young, self._segments = self._young, {}, 0
