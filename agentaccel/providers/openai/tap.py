"""What the taps of both OpenAI wires share: bytes to events, and what a reply has said of itself so far."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentaccel.providers.merging import merged
from agentaccel.providers.openai.calls import OpenCalls
from agentaccel.providers.openai.usage import metered
from agentaccel.providers.sse import SseParser
from agentaccel.providers.values import TERMS, is_object, loaded, name_of, name_or_none, terms_of
from agentaccel.types import Metered, ToolCall, Usage


@dataclass(slots=True)
class Tap:
    """Watches one reply go by, in decoded bytes, and says what was in it. One tap per attempt; it never raises.

    What does not parse is skipped: the reader of the reply is the one to complain.
    """

    streamed: bool
    """True for server-sent events, False for one JSON body."""
    ttl: str = ""
    """The lifetime of what was written, where no split says; empty for the provider's own."""
    message_id: str | None = None
    model: str | None = None
    stop: str | None = None
    complete: bool = False
    """True once the reply ended in the way the protocol ends one."""
    error: str | None = None
    """Type of the error that came inside a reply that had begun well."""
    diagnosis: str | None = None
    """The provider's own word on a missed prefix, where it was asked for one."""
    calls: OpenCalls = field(default_factory=OpenCalls)
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
        """What has been reported so far, with the names of counters that contradict one another."""
        return metered(self.reported, self.ttl)

    @property
    def terms(self) -> Mapping[str, str]:
        """What it is priced by: servers say that beside the usage, or in it."""
        return terms_of(self._terms) | terms_of(self.reported)

    def feed(self, chunk: bytes) -> Iterator[ToolCall]:
        """Take the next bytes; yields each tool call once, when its arguments have closed."""
        if not self.streamed:
            self._body.append(chunk)
            return
        yield from self._take(self._events.feed(chunk))

    def _take(self, events: Iterable[tuple[str, bytes]]) -> Iterator[ToolCall]:
        for name, data in events:
            if data.startswith(b"[DONE]"):
                yield from self.done()
                continue
            event = loaded(data)
            if event is not None:
                self.take_error(event.get("error"))
                yield from self.event(str(event.get("type") or name), event)

    def finish(self) -> Iterator[ToolCall]:
        """The bytes have ended: read the body where it was not streamed."""
        if self.streamed:
            yield from self._take(self._events.end())
            self.ended()
            return
        body = loaded(b"".join(self._body))
        self._body.clear()
        if body is not None:
            self.take_error(body.get("error"))
            yield from self.whole(body)

    def event(self, kind: str, event: Mapping[str, Any]) -> Iterator[ToolCall]:
        """One event of a stream."""
        raise NotImplementedError

    def whole(self, body: Mapping[str, Any]) -> Iterator[ToolCall]:
        """A reply that was not streamed."""
        raise NotImplementedError

    def done(self) -> Iterator[ToolCall]:
        """The stream has said that it is over."""
        yield from ()

    def ended(self) -> None:
        """No more bytes of the stream will come."""

    def take_error(self, error: Any) -> None:
        """An error object, or the text that some servers have in its place."""
        if is_object(error):
            self.error = name_of(error.get("type") or error.get("code") or "error")
        elif error:
            self.error = "error"

    def take_name(self, message: Mapping[str, Any]) -> None:
        """The reply's id, model and terms, as far as it says them."""
        self.message_id = name_or_none(message.get("id")) or self.message_id
        self.model = name_or_none(message.get("model")) or self.model
        if not TERMS.isdisjoint(message):
            self._terms |= {name: value for name in TERMS if (value := message.get(name))}

    def take_usage(self, usage: Any) -> None:
        """What was told last counts."""
        if is_object(usage):
            self.reported = merged(self.reported, usage)
