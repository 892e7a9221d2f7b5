"""Wire dialects, pure: a request body becomes a `Prompt`, a plan is written into a copy of it, a reply becomes `Usage`.

A dialect never does I/O, never mutates what it is given and never decides anything. `dialect` finds the one of a wire.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agentaccel.facts import CacheFacts, Wire, wires
from agentaccel.types import CachePlan, EngineWork, Metered, Prompt, Request, ToolCall, Usage
from agentaccel.wire import anthropic
from agentaccel.wire.anthropic import joining as of_messages
from agentaccel.wire.joining import StreamJoiner
from agentaccel.wire.openai import chat, edit, joining, responses, usage
from agentaccel.wire.openai import chat as chat_reply
from agentaccel.wire.openai import edit as arrange
from agentaccel.wire.openai import responses as responses_reply
from agentaccel.wire.parts import PartMemory

__all__ = ["Dialect", "PartMemory", "ReplyTap", "dialect", "wire_of"]


class ReplyTap(Protocol):
    """Watches one reply go by, in decoded bytes, and says what was in it. One per attempt; it never raises."""

    @property
    def streamed(self) -> bool: ...
    @property
    def usage(self) -> Usage:
        """What has been reported so far."""
        ...

    @property
    def metered(self) -> Metered:
        """What has been reported so far, with what it was billed for besides."""
        ...

    @property
    def stop(self) -> str | None: ...
    @property
    def message_id(self) -> str | None: ...
    @property
    def model(self) -> str | None:
        """The model that answers, as the reply names it."""
        ...

    @property
    def complete(self) -> bool:
        """True once the reply ended in the way the protocol ends one."""
        ...

    @property
    def pending(self) -> bool:
        """True if the provider says that the reply is still being made, and has ended the exchange all the same."""
        ...

    @property
    def error(self) -> str | None:
        """Type of the error that came inside a reply that had begun well."""
        ...

    @property
    def terms(self) -> Mapping[str, str]:
        """As in `TurnRecord`."""
        ...

    @property
    def work(self) -> EngineWork | None:
        """As in `TurnRecord`."""
        ...

    @property
    def diagnosis(self) -> str | None:
        """The provider's own word on a missed prefix, where it was asked for one."""
        ...

    def feed(self, chunk: bytes) -> Iterator[ToolCall]:
        """Take the next bytes; yields each tool call once, when its arguments have closed."""
        ...

    def finish(self) -> Iterator[ToolCall]:
        """The bytes have ended."""
        ...


class NewTap(Protocol):
    """A tap for one reply; `ttl` is the lifetime of what was written, where the reply does not say and it is known."""

    def __call__(self, streamed: bool, ttl: str = "") -> ReplyTap: ...


class Decode(Protocol):
    """Reads a request; see `anthropic.decode`."""

    def __call__(
        self,
        request: Request,
        facts: CacheFacts | None,
        *,
        key: bytes = b"",
        place: tuple[str, str] = ...,
        model: str = "",
        memory: PartMemory | None = None,
    ) -> Prompt: ...


class Encode(Protocol):
    """Writes a plan into a request, or takes it out again."""

    def __call__(self, request: Request, plan: CachePlan) -> Request: ...


class WithNote(Protocol):
    """Puts a note of the operator at the end of a request; None where it cannot stand there."""

    def __call__(self, request: Request, note: str, form: str) -> Request | None: ...


class OnlyTools(Protocol):
    """Keeps all tools but those named from being called, where that breaks no prefix; None where that cannot be."""

    def __call__(self, request: Request, names: tuple[str, ...]) -> Request | None: ...


class Warmed(Protocol):
    """A request that reads what another would and asks for no reply, made as `CacheFacts.keeps` says; None where the
    provider takes none."""

    def __call__(self, request: Request, keeps: str) -> Request | None: ...


class WithStub(Protocol):
    """What is known of a request as one that the provider takes, and whether its last message stands for the rest."""

    def __call__(self, request: Request) -> tuple[Request, bool]: ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """One wire: requests and replies of one form."""

    wire: Wire
    decode: Decode
    encode: Encode
    strip: Encode
    with_note: WithNote
    only_tools: OnlyTools
    warmed: Warmed
    with_stub: WithStub
    reply_tap: NewTap
    usage_of: Callable[[Mapping[str, Any]], Usage]
    """Reads a usage object."""
    stays_whole: Callable[[Request], str]
    """Tells why a call that asks for a whole reply must not go out streamed; empty where it may."""
    joiner: Callable[[], StreamJoiner]
    """Puts a stream together into the reply of a call that is not streamed."""


_DIALECTS: Mapping[Wire, Dialect] = {
    "messages": Dialect(
        "messages",
        anthropic.decode,
        anthropic.encode,
        anthropic.strip,
        anthropic.with_note,
        anthropic.only_tools,
        anthropic.warmed,
        anthropic.with_stub,
        anthropic.MessagesTap,
        anthropic.usage_of,
        of_messages.stays_whole,
        of_messages.MessageJoiner,
    ),
    "chat": Dialect(
        "chat",
        chat.decode,
        edit.encode,
        edit.strip,
        arrange.note_in_chat,
        arrange.only_in_chat,
        edit.warmed,
        edit.with_stub_in_chat,
        chat_reply.ChatTap,
        usage.usage_of,
        joining.chat_stays_whole,
        joining.ChatJoiner,
    ),
    "responses": Dialect(
        "responses",
        responses.decode,
        edit.encode,
        edit.strip,
        arrange.note_in_responses,
        arrange.only_in_responses,
        edit.warmed,
        edit.with_stub,
        responses_reply.ResponsesTap,
        usage.usage_of,
        joining.response_stays_whole,
        joining.ResponseJoiner,
    ),
}


dialect: Callable[[Wire], Dialect] = _DIALECTS.__getitem__
"""The dialect of a wire."""


def wire_of(provider: str, fields: Container[str]) -> Wire:
    """The form of a request, told by the names of its `fields` where the provider takes several.

    >>> wire_of("openai", {"messages": []}), wire_of("openai", {"input": "Hi"}), wire_of("anthropic", {})
    ('chat', 'responses', 'messages')
    """
    known = wires(provider)
    if "responses" in known and "messages" not in fields:
        return "responses"
    return known[0]
