"""What reading replies has in common, whatever the wire: bytes to events, and usage that is told in several pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentaccel.types import EngineWork, Metered, ToolCall, Usage
from agentaccel.wire.json import is_object, items, loaded, terms_of
from agentaccel.wire.sse import SseParser


@dataclass(slots=True)
class ReplyReader:
    """Watches one reply go by, in decoded bytes, and says what was in it. One per attempt; it never raises.

    What does not parse is skipped: the reader of the reply is the one to complain.
    """

    streamed: bool
    """True for server-sent events, False for one JSON body."""
    ttl: str = ""
    """The lifetime of what was written, where no split says; empty where that is not known."""
    message_id: str | None = None
    model: str | None = None
    stop: str | None = None
    complete: bool = False
    """True once the reply ended in the way the protocol ends one."""
    error: str | None = None
    """Type of the error that came inside a reply that had begun well."""
    diagnosis: str | None = None
    """The type of the provider's reason for a missed prefix, where it was asked for one."""
    work: EngineWork | None = None
    """What a server of the user's own says of its work; None where it says nothing."""
    reported: Mapping[str, Any] = field(default_factory=dict)
    """The usage object that counts."""
    _terms: dict[str, Any] = field(default_factory=dict)
    """What else it is priced by, as it was said last."""
    _body: list[bytes] = field(default_factory=list)
    _events: SseParser = field(default_factory=SseParser)

    @property
    def pending(self) -> bool:
        """True if the provider says that the reply is still being made."""
        return False

    @property
    def usage(self) -> Usage:
        """What has been reported so far."""
        return self.metered.usage

    @property
    def metered(self) -> Metered:
        """What has been reported so far, with what it was billed for besides, and counters that contradict others."""
        raise NotImplementedError

    @property
    def terms(self) -> Mapping[str, str]:
        """What it is priced by: servers say that beside the usage, or in it."""
        return terms_of(self._terms) | terms_of(self.reported)

    def feed(self, chunk: bytes) -> Iterator[ToolCall]:
        """Take the next bytes; yields each tool call once, when its arguments have closed."""
        if not self.streamed:
            self._body.append(chunk)
            return
        yield from self.take(self._events.feed(chunk))

    def finish(self) -> Iterator[ToolCall]:
        """The bytes have ended: read the body where it was not streamed."""
        if self.streamed:
            yield from self.take(self._events.end())
            self.ended()
            return
        body = self.parsed(b"".join(self._body))
        self._body.clear()
        if body is not None:
            yield from self.whole(body)

    def parsed(self, body: bytes) -> dict[str, Any] | None:
        """A body that was not streamed."""
        return loaded(body)

    def take(self, events: Iterable[tuple[str, bytes]]) -> Iterator[ToolCall]:
        """Events of a stream, by name and data."""
        raise NotImplementedError

    def whole(self, body: Mapping[str, Any]) -> Iterator[ToolCall]:
        """A reply that was not streamed."""
        raise NotImplementedError

    def ended(self) -> None:
        """No more bytes of the stream will come."""


def merged(before: Mapping[str, Any], told: Mapping[str, Any]) -> Mapping[str, Any]:
    """The usage that several events of a stream report, which count as they go, as one object.

    A later count replaces an earlier one, and what is null or empty says nothing. Every reply has an input: an object
    with an input of 0 that counts nothing else says nothing either, where an earlier one did. What an earlier one
    counted of the prompt is not made 0 by a later one, unless that counts more of another part of the prompt. A sum
    that was told before one of its parts, or beside such a 0, holds no longer.

    >>> merged({"prompt_tokens": 5, "total_tokens": 5}, {"prompt_tokens": None, "completion_tokens": 2})
    {'prompt_tokens': 5, 'completion_tokens': 2}
    >>> merged({"prompt_tokens": 5}, {"prompt_tokens": 0, "completion_tokens": 0})
    {'prompt_tokens': 5}
    >>> merged({"input_tokens": 5}, {"input_tokens": 0, "output_tokens": 2})
    {'input_tokens': 5, 'output_tokens': 2}
    >>> merged({"input_tokens": 5}, {"input_tokens": 0, "cache_read_input_tokens": 5})
    {'input_tokens': 0, 'cache_read_input_tokens': 5}
    """
    if not before or (not _INPUTS.isdisjoint(told) and not _counts(told)):
        return before or told
    emptied = {name for name in told if _PROMPT.search(name) and _counts(before.get(name)) and not _counts(told[name])}
    if emptied and not _counts_more(before, told):
        told = {name: value for name, value in told.items() if name not in emptied and name != _SUM}
    after = _over(before, told)
    if told.get(_SUM) is None and any(type(count) is int and before.get(name) != count for name, count in told.items()):
        after.pop(_SUM, None)
    return after


_INPUTS, _SUM = frozenset({"input_tokens", "prompt_tokens"}), "total_tokens"
_PROMPT = re.compile("input|prompt|cach")
"""Of the names of counters of the prompt, and of its parts."""


def _counts(told: Any) -> bool:
    """True if a number in `told` is above zero."""
    inside = told.values() if is_object(told) else items(told)
    return any(map(_counts, inside)) or (isinstance(told, int) and told > 0)


def _counts_more(before: Mapping[str, Any], told: Mapping[str, Any]) -> bool:
    """True if `told` has a higher count of some part of the prompt."""
    for name, value in told.items():
        was = before.get(name)
        if not _PROMPT.search(name):
            continue
        if is_object(value) and _counts_more(was if is_object(was) else {}, value):
            return True
        if isinstance(value, int) and value > (was if isinstance(was, int) else 0):
            return True
    return False


def _over(before: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    """`before` with what `told` has that is not null, also in the objects inside."""
    after = dict(before)
    for name, value in told.items():
        if value is not None:
            was = after.get(name)
            after[name] = _over(was, value) if is_object(was) and is_object(value) else value
    return after
