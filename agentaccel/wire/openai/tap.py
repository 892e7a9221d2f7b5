"""What the taps of both OpenAI wires share: tool calls that arrive in pieces, and what a reply says of itself."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentaccel.types import Metered, ToolCall
from agentaccel.wire.json import TERMS, exactly, is_object, loaded, name_of, name_or_none
from agentaccel.wire.openai.usage import WORK, metered, work_of
from agentaccel.wire.replies import ReplyReader, merged

# --- Tool calls whose arguments arrive in pieces: each is told once, as soon as its JSON has closed -------------------
# The end of the JSON is found by counting brackets outside of strings, linear in the characters, and then read by one
# strict parse: a value that may still grow (`{"limit": 1`) is never acted on.

_OUTSIDE = re.compile(r'["{}\[\]]')
_INSIDE = re.compile(r'["\\]')


Slot = tuple[Hashable, Hashable]
"""Where the protocol says that a call stands: in which choice, and where in it."""
FORMER: Hashable = "function_call"
"""The place in a choice of a call in the form of 2023, of which it has one."""


@dataclass(slots=True)
class Closing:
    """Tells where a JSON value that arrives in pieces closes.

    >>> closing = Closing()
    >>> closing.feed('{"a": "}'), closing.feed('"'), closing.feed('} {')
    (None, None, 1)
    """

    _depth: int = 0
    _inside: bool = False
    _escaped: bool = False

    def feed(self, text: str) -> int | None:
        """How far into `text` the value reaches; None where it goes on behind it."""
        at = 0
        if self._escaped and text:
            at, self._escaped = 1, False
        while (found := (_INSIDE if self._inside else _OUTSIDE).search(text, at)) is not None:
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
                if self._depth == 0:
                    return at
        return None


@dataclass(slots=True)
class _OpenCall:
    id: str | None
    name: str
    plain: bool
    """Whether the input is text and not JSON, so that only the protocol can say when it ends."""
    begun: str = ""
    """The input that stood in the event that it began with."""
    pieces: list[str] = field(default_factory=list)
    closing: Closing = field(default_factory=Closing)


@dataclass(slots=True)
class OpenCalls:
    """The tool calls of one reply, by the slot that its protocol knows them under."""

    _open: dict[Slot, _OpenCall] = field(default_factory=dict)
    _told: dict[Slot, str | None] = field(default_factory=dict)
    """The ids of those that have ended."""
    _made: list[tuple[Slot, ToolCall]] = field(default_factory=list)
    """Those that were told."""

    def start(self, slot: Slot, id_: str | None, name: str, begun: str = "", *, plain: bool = False) -> None:
        """A call begins, or more of its name has come; what repeats itself is the same."""
        call = self._open.get(slot)
        if call is None:
            if slot not in self._told:
                self._open[slot] = _OpenCall(id_, name, plain, begun)
            return
        call.id, call.begun = call.id or id_, call.begun or begun
        if name and name != call.name:
            call.name += name

    def delta(self, slot: Slot, text: str) -> Iterator[ToolCall]:
        """More of its arguments; yields the call where they have closed, whatever comes behind."""
        call = self._open.get(slot)
        if call is None or not text:
            return
        end = None if call.plain else call.closing.feed(text)
        call.pieces.append(text if end is None else text[:end])
        if end is not None:
            yield from self.stop(slot)

    def stop(self, slot: Slot, whole: str | None = None) -> Iterator[ToolCall]:
        """The protocol says that the call has ended; `whole` is its input where it says that as well."""
        call = self._open.pop(slot, None)
        if call is None:
            return
        self._told[slot] = call.id
        for made in call_of(call.id, call.name, whole or "".join(call.pieces) or call.begun, plain=call.plain):
            before = [told for at, told in self._made if at[0] == slot[0] and (at[1] == FORMER) != (slot[1] == FORMER)]
            self._made.append((slot, made))
            if not repeats(made, before):
                yield made

    @property
    def count(self) -> int:
        """How many there have been."""
        return len(self._open) + len(self._told)

    def known(self, slot: Slot) -> tuple[str | None, bool] | None:
        """The id of the call at `slot`, and whether it has ended; None where there is none."""
        if slot in self._told:
            return self._told[slot], True
        return (self._open[slot].id, False) if slot in self._open else None

    def place_of(self, id_: str | None, choice: Hashable = 0) -> Slot | None:
        """Where the call with that id stands in a choice; None where there is none, or no id."""
        if id_ is None:
            return None
        ids = {**{slot: call.id for slot, call in self._open.items()}, **self._told}
        return next((slot for slot, known in ids.items() if known == id_ and slot[0] == choice), None)

    def end(self, choice: Hashable = None, *, cut: bool) -> Iterator[ToolCall]:
        """A choice has ended, or all of them, and so has every call of it.

        Where it was `cut`, nobody knows how what is still open would have gone on: it is no call.
        """
        for slot in [slot for slot in self._open if choice is None or slot[0] == choice]:
            if cut:
                self._told[slot] = self._open.pop(slot).id
            else:
                yield from self.stop(slot)


def repeats(call: ToolCall, others: Iterable[ToolCall]) -> bool:
    """True if `call` is one of `others`, which stand in the other form: some servers fill both."""
    return any((one.name, one.arguments) == (call.name, call.arguments) for one in others)


def call_of(id_: str | None, name: str, text: str, *, plain: bool) -> Iterator[ToolCall]:
    """The call with that input; none where it was cut or is no JSON object: the real call decides then."""
    arguments = {"input": text} if plain else exactly(text or "{}")
    if arguments is not None:
        yield ToolCall(name=name, arguments=arguments, id=id_)


@dataclass(slots=True)
class OpenAITap(ReplyReader):
    """Watches one reply of either wire go by."""

    calls: OpenCalls = field(default_factory=OpenCalls)

    @property
    def metered(self) -> Metered:
        return metered(self.reported, self.ttl)

    def take(self, events: Iterable[tuple[str, bytes]]) -> Iterator[ToolCall]:
        for name, data in events:
            if data.startswith(b"[DONE]"):
                yield from self.done()
                continue
            event = loaded(data)
            if event is not None:
                self.take_error(event.get("error"))
                yield from self.event(str(event.get("type") or name), event)

    def event(self, kind: str, event: Mapping[str, Any]) -> Iterator[ToolCall]:
        """One event of a stream."""
        raise NotImplementedError

    def done(self) -> Iterator[ToolCall]:
        """The stream has said that it is over."""
        yield from ()

    def take_error(self, error: Any) -> None:
        """An error object, or the text that some servers have in its place."""
        if is_object(error):
            self.error = name_of(error.get("type") or error.get("code") or "error")
        elif error:
            self.error = "error"

    def take_name(self, message: Mapping[str, Any]) -> None:
        """The reply's id, model, terms and work, as far as it says them."""
        self.message_id = name_or_none(message.get("id")) or self.message_id
        self.model = name_or_none(message.get("model")) or self.model
        if not TERMS.isdisjoint(message):
            self._terms |= {name: value for name in TERMS if (value := message.get(name))}
        if not WORK.isdisjoint(message):
            self.work = work_of(message) or self.work

    def take_usage(self, usage: Any) -> None:
        """What was told last counts."""
        if is_object(usage):
            self.reported = merged(self.reported, usage)
