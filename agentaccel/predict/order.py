"""Which calls of one message may be begun before the message ends: a read that follows a write waits for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from agentaccel.types import ToolCall


class OrderedCall(NamedTuple):
    """A call in its message."""

    call: ToolCall
    identity: bytes | None
    """Equal for equal calls; None where that cannot be told."""
    reads: bool


@dataclass(slots=True)
class Order:
    """The calls of one message, as they come. Not thread-safe.

    >>> order = Order()
    >>> look, book = ToolCall(name="look", arguments={}), ToolCall(name="book", arguments={})
    >>> [len(order.closed(OrderedCall(call, call.name.encode(), call is look))) for call in (look, book, look)]
    [1, 0, 0]
    >>> [one.call.name for one in order.done("book", b"book")]
    ['look']
    """

    _calls: list[OrderedCall] = field(default_factory=list)
    _begun: int = 0
    """Calls from the first on that have been begun, or, where they write, have run."""
    _seen: Counter[tuple[str, bytes | None]] = field(default_factory=Counter)

    def closed(self, placed: OrderedCall) -> list[OrderedCall]:
        """The arguments of one more call are complete; returns what may be begun now."""
        self._calls.append(placed)
        self._seen[placed.call.name, placed.identity] += 1
        return self._next()

    def reads(self, placed: OrderedCall) -> list[OrderedCall]:
        """It is known by now that a call reads, which came as one that may write; returns what may be begun now."""
        for place in range(self._begun, len(self._calls)):
            if self._calls[place] is placed:
                self._calls[place] = placed._replace(reads=True)
        return self._next()

    def copies(self, placed: OrderedCall) -> int:
        """How often the message asks for exactly this call so far."""
        return self._seen[placed.call.name, placed.identity]

    def done(self, name: str, identity: bytes | None) -> list[OrderedCall]:
        """A call that may write has run; returns what waited for it and for nothing else."""
        if self._begun >= len(self._calls) or identity is None:
            return []
        waited = self._calls[self._begun]
        if (waited.call.name, waited.identity) != (name, identity):
            return []
        self._begun += 1
        return self._next()

    def _next(self) -> list[OrderedCall]:
        start = self._begun
        while self._begun < len(self._calls) and self._calls[self._begun].reads:
            self._begun += 1
        return self._calls[start : self._begun]
