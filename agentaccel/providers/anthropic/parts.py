"""What stretches of requests read as, remembered: a turn sends again what the turns before it sent.

A stretch is looked up by a hash of its wire bytes, markers included, so whatever changed in it is seen: a block edited
in place, the order of keys, a marker that moved. Only stretches that changed are read again. Four messages make a
stretch, and the last few that do not fill one stand alone, so that the next turn finds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import Any

import orjson

from agentaccel.facts import CacheFacts
from agentaccel.providers.anthropic.blocks import Part, Reader

STRETCH = 8
"""Messages that are looked up together. Longer stretches cost more where one message of them changes."""

_NEAR_END = 3 * STRETCH
"""Messages from the end within which some may still be remembered singly."""

_MOST_SEGMENTS = 65_536
"""Segments remembered before the older half is forgotten: some tens of megabytes."""

_AS_JSON = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATETIME
"""Only plain JSON values have bytes that say everything of them; others are read afresh each time."""


class PartMemory:
    """Parts by what they were read from. Thread-safe: each step is one operation on a dict."""

    def __init__(self) -> None:
        self._young: dict[bytes, Part] = {}
        self._old: dict[bytes, Part] = {}
        self._segments = 0

    def get(self, name: bytes) -> Part | None:
        """The part remembered as `name`."""
        part = self._young.get(name)
        if part is None:
            part = self._old.get(name)
            if part is not None:
                self.put(name, part)
        return part

    def put(self, name: bytes, part: Part) -> None:
        """Remember `part` as `name`; what was not asked for since long ago is forgotten."""
        self._young[name] = part
        self._segments += len(part.segments) + 1
        if self._segments > _MOST_SEGMENTS:
            self._old, self._young, self._segments = self._young, {}, 0

    def drop(self, name: bytes) -> None:
        """Forget `name`."""
        self._young.pop(name, None)
        self._old.pop(name, None)


def read_parts(
    memory: PartMemory | None, facts: CacheFacts | None, key: bytes, levels: tuple[Any, Any, Sequence[Any]]
) -> list[Part]:
    """The parts of a request in wire order, from `memory` where they are known; `levels` are its tools, its system and
    its messages as the sender gave them.
    """
    tools, system, messages = levels
    reader = Reader.under(facts, key)
    known = _Known(memory, reader, b"%b|%b|" % (key, _rules(facts)))
    parts = [
        known.part(tools, b"t", lambda: reader.tools(tools)) if tools else None,
        known.part(system, b"s", lambda: reader.system(system)) if system is not None else None,
    ]
    return [part for part in parts if part is not None] + list(known.stretches(messages))


class _Known:
    """Reading with a memory."""

    def __init__(self, memory: PartMemory | None, reader: Reader, rules: bytes) -> None:
        self._memory = memory
        self._reader = reader
        self._start = sha256(rules)

    def part(self, value: Any, place: bytes, read: Callable[[], None]) -> Part:
        """What `value`, at `place`, reads as."""
        name = self._name(value, place)
        part = self._memory.get(name) if name is not None and self._memory is not None else None
        if part is None:
            read()
            part = self._reader.part()
            if name is not None and self._memory is not None:
                self._memory.put(name, part)
        return part

    def stretches(self, messages: Sequence[Any]) -> Iterator[Part]:
        """The messages, four by four."""
        count = len(messages)
        whole = count - count % STRETCH if self._memory is not None else 0
        for start in range(0, whole, STRETCH):
            yield self._stretch(messages[start : start + STRETCH], start, at_end=start >= count - _NEAR_END)
        if self._memory is None:
            self._reader.messages(messages, 0)
            yield self._reader.part()
            return
        for at in range(whole, count):
            yield self._one(messages[at], at)

    def _one(self, message: Any, at: int) -> Part:
        return self.part(message, b"m%d|" % at, lambda: self._reader.messages([message], at))

    def _stretch(self, messages: Sequence[Any], start: int, *, at_end: bool) -> Part:
        place = b"g%d|" % start
        if not at_end:
            return self.part(messages, place, lambda: self._reader.messages(messages, start))
        return self.part(messages, place, lambda: self._join(messages, start))

    def _join(self, messages: Sequence[Any], start: int) -> None:
        """Messages that stood alone while they were the last ones become one part, and are forgotten singly."""
        for at, message in enumerate(messages, start):
            name = self._name(message, b"m%d|" % at)
            part = self._memory.get(name) if name is not None and self._memory is not None else None
            if part is None:
                self._reader.messages([message], at)
                continue
            self._reader.add(part)
            if self._memory is not None and name is not None:
                self._memory.drop(name)

    def _name(self, value: Any, place: bytes) -> bytes | None:
        """A hash of everything that the reading of `value` depends on; None where its bytes do not say it all."""
        if self._memory is None:
            return None
        try:
            data = orjson.dumps(value, option=_AS_JSON)
        except (TypeError, ValueError):
            return None
        hash_ = self._start.copy()
        hash_.update(place + data)
        return hash_.digest()


def _rules(facts: CacheFacts | None) -> bytes:
    return f"{facts.provider}|{facts.platform}|{facts.model}".encode() if facts is not None else b""
