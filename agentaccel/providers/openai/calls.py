"""Tool calls whose arguments arrive in pieces: each is told once, as soon as its JSON has closed.

The end of the JSON is found by counting brackets outside of strings, linear in the characters, and then read by one
strict parse: a value that may still grow (`{"limit": 1`) is never acted on.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from agentaccel.providers.values import loaded
from agentaccel.types import ToolCall

_OUTSIDE = re.compile(r'["{}\[\]]')
_INSIDE = re.compile(r'["\\]')


@dataclass(slots=True)
class Closing:
    """Tells when a JSON value that arrives in pieces has closed.

    >>> closing = Closing()
    >>> closing.feed('{"a": "}'), closing.feed('"'), closing.feed('}')
    (False, False, True)
    """

    _depth: int = 0
    _inside: bool = False
    _escaped: bool = False

    def feed(self, text: str) -> bool:
        """Whether the value has closed within the pieces so far."""
        at, closed = 0, False
        if self._escaped and text:
            at, self._escaped = 1, False
        while True:
            found = (_INSIDE if self._inside else _OUTSIDE).search(text, at)
            if found is None:
                return closed
            at, sign = found.end(), found.group()
            if self._inside:
                if sign == '"':
                    self._inside = False
                elif at < len(text):
                    at += 1
                else:
                    self._escaped = True
            elif sign == '"':
                self._inside = True
            elif sign in "{[":
                self._depth += 1
            else:
                self._depth -= 1
                closed = closed or self._depth == 0


@dataclass(slots=True)
class _Open:
    id: str | None
    name: str
    plain: bool
    """Whether the input is text and not JSON, so that only the protocol can say when it ends."""
    pieces: list[str] = field(default_factory=list)
    closing: Closing = field(default_factory=Closing)


@dataclass(slots=True)
class OpenCalls:
    """The tool calls of one reply, by the slot that its protocol knows them under."""

    _open: dict[Hashable, _Open] = field(default_factory=dict)
    _told: set[Hashable] = field(default_factory=set)

    def start(self, slot: Hashable, id_: str | None, name: str, *, plain: bool = False) -> None:
        """A call begins, or more of its name has come; what repeats itself is the same."""
        call = self._open.get(slot)
        if call is None:
            if slot not in self._told:
                self._open[slot] = _Open(id_, name, plain)
            return
        call.id = call.id or id_
        if name and name != call.name:
            call.name += name

    def delta(self, slot: Hashable, text: str) -> Iterator[ToolCall]:
        """More of its arguments; yields the call where they have closed."""
        call = self._open.get(slot)
        if call is None or not text:
            return
        call.pieces.append(text)
        if not call.plain and call.closing.feed(text):
            yield from self.stop(slot)

    def stop(self, slot: Hashable, whole: str | None = None) -> Iterator[ToolCall]:
        """The protocol says that the call has ended; `whole` is its input where it says that as well."""
        call = self._open.pop(slot, None)
        if call is None:
            return
        self._told.add(slot)
        text = "".join(call.pieces) if whole is None else whole
        yield from call_of(call.id, call.name, text, plain=call.plain)

    def stop_all(self, but: Hashable = None) -> Iterator[ToolCall]:
        """Every call has ended, or every one but one."""
        for slot in [slot for slot in self._open if slot != but]:
            yield from self.stop(slot)

    def told(self, slot: Hashable) -> bool:
        return slot in self._told


def call_of(id_: str | None, name: str, text: str, *, plain: bool) -> Iterator[ToolCall]:
    """The call with that input; none where it was cut or is no JSON object: the real call decides then."""
    arguments = {"input": text} if plain else loaded(text.encode("utf-8", "surrogatepass") or b"{}")
    if arguments is not None:
        yield ToolCall(name=name, arguments=arguments, id=id_)
