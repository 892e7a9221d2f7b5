"""A stream put together into the reply that a call which is not streamed would have got: bytes in, one JSON body out.

Exactly, or not at all: what is not known to add up is `Unclear`, and nothing is made up in its place.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agentaccel.types import Request
from agentaccel.wire.json import is_object, name_of
from agentaccel.wire.sse import SseParser


class Whole(NamedTuple):
    """What a call that is not streamed would have got: a reply, or the error that came in its place."""

    status: int
    body: bytes


class Broken(NamedTuple):
    """The stream ended before the reply did."""


class Unclear(NamedTuple):
    """The stream does not add up to a reply."""

    why: str


Joined = Whole | Broken | Unclear


class UnclearError(Exception):
    """An event of a stream that nobody knows how to add to a reply."""


@dataclass(slots=True)
class StreamJoiner:
    """Puts one stream together, in decoded bytes. It never raises."""

    _events: SseParser = field(default_factory=SseParser)
    _joined: Joined | None = None

    @property
    def over(self) -> bool:
        """True if nothing of what still comes matters: the reply is whole, or there will be none."""
        return self._joined is not None

    @property
    def complete(self) -> bool:
        """True if the reply has ended in the way the protocol ends one."""
        return isinstance(self._joined, Whole) and self._joined.status == _OK

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        for name, data in self._events.feed(chunk):
            self._take(name, data)

    def end(self) -> Joined:
        """The bytes have ended: what they came to."""
        for name, data in self._events.end():
            self._take(name, data)
        return self._joined or Broken()

    def _take(self, name: str, data: bytes) -> None:
        if self._joined is not None:
            return
        try:
            self._joined = self.done() if data.startswith(b"[DONE]") else self._event(name, data)
        except UnclearError as error:
            self._joined = Unclear(str(error))
        except (LookupError, TypeError, AttributeError, RecursionError) as error:
            self._joined = Unclear(f"an event is not of the known form ({type(error).__name__})")

    def _event(self, name: str, data: bytes) -> Joined | None:
        try:
            event = json.loads(data)
        except ValueError:  # its reader is to find that, as in a reply that is not streamed
            return Whole(_OK, data)
        if not is_object(event):
            raise UnclearError("an event is no object")
        return self.event(name_of(event.get("type") or name), event)

    def event(self, kind: str, event: Mapping[str, Any]) -> Joined | None:
        """Take one event; returns what the stream came to, where that is known by now."""
        raise NotImplementedError

    def done(self) -> Joined | None:
        """The stream has said that it is over."""
        return None


_OK = 200


def written(body: Mapping[str, Any]) -> bytes:
    """A body as providers write one.

    >>> written({"text": "Grüße", "cut": "\\ud83d"})
    b'{"text":"Gr\\\\u00fc\\\\u00dfe","cut":"\\\\ud83d"}'
    """
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:  # half of a pair of surrogates, which only an escape can stand for
        return json.dumps(body, separators=(",", ":")).encode()


def unknown_fields(request: Request, known: Collection[str]) -> str:
    """Why a request stays whole that has fields which are not `known`; empty where it has none.

    >>> unknown_fields({"model": "m", "odd": 1}, {"model"}), unknown_fields({"model": "m", "odd": None}, {"model"})
    ("what 'odd' does to a stream is not known", '')
    """
    names = [name_of(name) for name, value in request.items() if name not in known and value is not None]
    return f"what {', '.join(map(repr, sorted(names)))} does to a stream is not known" if names else ""
