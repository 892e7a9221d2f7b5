"""What stretches of requests read as, remembered: a turn sends again what the turns before it sent.

A stretch is looked up by a hash of its wire bytes, markers included, so whatever changed in it is seen: a block edited
in place, the order of keys, a marker that moved. Only stretches that changed are read again. Eight messages make a
stretch, and the last few that do not fill one stand alone, so that the next turn finds them.

The hash is Python's own of bytes, SipHash with a key of this process: 64 bits that never leave it, at a third of the
time of a cryptographic one. Were two stretches ever taken for one another, a marker would stand in the wrong place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from agentaccel.facts import CacheFacts
from agentaccel.providers.anthropic.blocks import Part, Reader

STRETCH = 8
"""Messages that are looked up together: longer stretches are read again for less."""

_NEAR_END = 3 * STRETCH
"""Messages from the end within which some may still be remembered singly."""

_MOST_SEGMENTS = 65_536
"""Segments remembered before the older half is forgotten: some tens of megabytes."""

_AS_JSON = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATETIME
"""Only plain JSON values have bytes that say everything of them; others are read afresh each time."""


Name = tuple[int, str, int, int, int]
"""What a part was read from: the rules it was read by, its level, the index of its first message, the hash of its
bytes, their number."""


class PartMemory:
    """Parts by what they were read from. Thread-safe: each step is one operation on a dict."""

    def __init__(self) -> None:
        self._young: dict[Name, Part] = {}
        self._old: dict[Name, Part] = {}
        self._segments = 0

    def get(self, name: Name) -> Part | None:
        """The part remembered as `name`."""
        part = self._young.get(name)
        if part is None:
            part = self._old.get(name)
            if part is not None:
                self.put(name, part)
        return part

    def put(self, name: Name, part: Part) -> None:
        """Remember `part` as `name`; what was not asked for since long ago is forgotten."""
        self._young[name] = part
        self._segments += len(part.segments) + 1
        if self._segments > _MOST_SEGMENTS:
            self._old, self._young, self._segments = self._young, {}, 0

    def drop(self, name: Name) -> None:
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
    known = _Known(memory, Reader.under(facts, key), hash((key, _rules(facts))))
    parts = [known.tools(tools)] if tools else []
    if system is not None:
        parts.append(known.system(system))
    return parts + known.messages(messages)


class _Known:
    """Reading with a memory."""

    def __init__(self, memory: PartMemory | None, reader: Reader, rules: int) -> None:
        self._memory = memory
        self._reader = reader
        self._rules = rules

    def tools(self, tools: Sequence[Any]) -> Part:
        name, part = self._look_up(tools, "tools")
        if part is None:
            self._reader.tools(tools)
            part = self._keep(name)
        return part

    def system(self, system: Any) -> Part:
        name, part = self._look_up(system, "system")
        if part is None:
            self._reader.system(system)
            part = self._keep(name)
        return part

    def messages(self, messages: Sequence[Any]) -> list[Part]:
        """The messages, stretch by stretch and then one by one."""
        if self._memory is None:
            self._reader.messages(messages, 0)
            return [self._reader.part()]
        parts: list[Part] = []
        count = len(messages)
        whole = count - count % STRETCH
        for start in range(0, whole, STRETCH):
            stretch = messages[start : start + STRETCH]
            name, part = self._look_up(stretch, "stretch", start)
            if part is None:
                self._join(stretch, start) if start >= count - _NEAR_END else self._reader.messages(stretch, start)
                part = self._keep(name)
            parts.append(part)
        for at in range(whole, count):
            name, part = self._look_up(messages[at], "message", at)
            if part is None:
                self._reader.messages(messages[at : at + 1], at)
                part = self._keep(name)
            parts.append(part)
        return parts

    def _join(self, messages: Sequence[Any], start: int) -> None:
        """Read messages that stood alone while they were the last ones, and forget them singly."""
        for at, message in enumerate(messages, start):
            name, part = self._look_up(message, "message", at)
            if part is None:
                self._reader.messages([message], at)
                continue
            self._reader.add(part)
            if self._memory is not None and name is not None:
                self._memory.drop(name)

    def _look_up(self, value: Any, what: str, start: int = 0) -> tuple[Name | None, Part | None]:
        """The name of all that the reading of `value` depends on, None where its bytes do not say it; and its part."""
        if self._memory is None:
            return None, None
        try:
            data = orjson.dumps(value, option=_AS_JSON)
        except (TypeError, ValueError):
            return None, None
        name = (self._rules, what, start, hash(data), len(data))
        return name, self._memory.get(name)

    def _keep(self, name: Name | None) -> Part:
        part = self._reader.part()
        if name is not None and self._memory is not None:
            self._memory.put(name, part)
        return part


def _rules(facts: CacheFacts | None) -> tuple[str, ...]:
    return (facts.provider, facts.platform, facts.model) if facts is not None else ()
