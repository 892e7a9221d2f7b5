"""What parts of requests read as, remembered by what they were read from."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import NamedTuple

from agentaccel.types import Marker, Segment

_MOST_SEGMENTS = 65_536
"""Segments remembered before the older half is forgotten: some tens of megabytes."""


class Part(NamedTuple):
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


Name = int
"""What a part was read from: a hash of its bytes, the rules it was read by, its level and the index of its first
message."""


class PartMemory:
    """Parts by what they were read from. Thread-safe: each step is one operation on a dict."""

    def __init__(self) -> None:
        self._young: dict[Name, Part] = {}
        self._old: dict[Name, Part] = {}
        self._segments = 0

    def found(self, names: Sequence[Name | None]) -> list[Part | None]:
        """The part remembered as each of `names`."""
        found: list[Part | None] = [*map(self._young.get, names)]  # type: ignore[arg-type]  # None is no key
        old = self._old
        for i, name in enumerate(names if old else ()):
            part = old.get(name) if name is not None and found[i] is None else None
            if name is not None and part is not None:  # not asked for since long ago: it is remembered anew
                found[i] = part
                self.put(name, part)
        return found

    def put(self, name: Name, part: Part) -> None:
        """Remember `part` as `name`; what was not asked for since long ago is forgotten."""
        self._young[name] = part
        self._segments += len(part.segments) + 1
        if self._segments > _MOST_SEGMENTS:
            self._old, self._young, self._segments = self._young, {}, 0

    def pop(self, names: Sequence[Name | None]) -> list[Part | None]:
        """The part remembered as each of `names`, which is forgotten."""
        found: list[Part | None] = [*map(self._young.pop, names, repeat(None))]  # type: ignore[arg-type]
        self._segments -= sum([len(part.segments) + 1 for part in found if part is not None])
        old = self._old
        for i, name in enumerate(names if old else ()):
            if found[i] is None and name is not None:
                found[i] = old.pop(name, None)
        return found
