"""What is kept of one session for running its tools early: what has happened, and what its last message asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentaccel.facts import Wire
from agentaccel.hashing import digest, identity_bytes, wire_bytes
from agentaccel.locks import Lock
from agentaccel.predict.events import Answered, Asked, Event, Returned, Said, SessionPredictor
from agentaccel.predict.order import Order
from agentaccel.types import Prediction, Request, ToolCall
from agentaccel.wire.editing import calls_in, field_of
from agentaccel.wire.json import exactly, is_object, items, text_or_none

# --- What a request tells of what has happened since the one before it: the events that the predictor learns from -----
# Everything comes from requests, the model's own replies included: the next request repeats them. Only where the
# provider holds the conversation, and at its end, the reply itself is heard.

_MOST_AT_FIRST = 64
"""Messages of a conversation that is heard of for the first time; of a long one, only the last ones are told."""
_MOST_CALLS = 512
"""Calls whose results are still to come."""


@dataclass(slots=True)
class Hearing:
    """Where one conversation has been heard to. Not thread-safe."""

    _heard: int = 0
    """Messages that were told."""
    _last: bytes = b""
    """The last of them."""
    _calls: dict[str, ToolCall] = field(default_factory=dict)
    """Calls by the provider's id."""

    def request(self, request: Request, wire: Wire, *, held: bool = False) -> list[Event]:
        """What is new in `request`; where its history is `held` by the provider, all of it is.

        A history that was rewritten is not told again: only what follows the model's last reply is new then.
        """
        given = request.get(field_of(wire))
        messages = [{"role": "user", "content": given}] if isinstance(given, str) else list(items(given))
        start = 0 if held else self._start(messages, wire)
        if not held and messages:
            self._heard, self._last = len(messages), _digest(messages[-1])
        return list(self._events(messages[start:], wire))

    def reply(self, calls: tuple[ToolCall, ...]) -> Event:
        """What the model has replied, where no request will repeat it."""
        for call in calls:
            self._remember(call)
        return Asked(calls) if calls else Answered("")

    def _start(self, messages: list[Any], wire: Wire) -> int:
        heard = self._heard
        if not heard:
            return max(len(messages) - _MOST_AT_FIRST, 0)
        if len(messages) >= heard and _digest(messages[heard - 1]) == self._last:
            return heard
        ours = [at for at, message in enumerate(messages) if _is_reply(message)]
        end = ours[-1] if ours else len(messages) - 1
        while end > 0 and ours and _is_reply(messages[end - 1]):
            end -= 1
        return max(end, 0)

    def _events(self, messages: Iterable[Any], wire: Wire) -> Iterator[Event]:
        calls, texts = list[ToolCall](), list[str]()
        for message in messages:
            if not is_object(message):
                continue
            if _is_reply(message):
                calls += [call for one in calls_in(message) if (call := _call(*one)) is not None]
                texts += filter(None, [text_of(message.get("content"))])
                continue
            yield from self._ended(calls, texts)
            calls, texts = [], []
            yield from self._told(message, wire)
        yield from self._ended(calls, texts)

    def _ended(self, calls: list[ToolCall], texts: list[str]) -> Iterator[Event]:
        if calls:
            for call in calls:
                self._remember(call)
            yield Asked(tuple(calls), "\n".join(texts))
        elif texts:
            yield Answered("\n".join(texts))

    def _remember(self, call: ToolCall) -> None:
        if call.id is not None:
            self._calls[call.id] = call
            while len(self._calls) > _MOST_CALLS:
                del self._calls[next(iter(self._calls))]

    def _told(self, message: Mapping[str, Any], wire: Wire) -> Iterator[Event]:
        """What the user and the tools say in a message that is not the model's."""
        if wire == "responses" and message.get("type") == "function_call_output":
            yield from self._returned(message.get("call_id"), message.get("output"))
        elif message.get("role") == "tool":
            yield from self._returned(message.get("tool_call_id"), message.get("content"))
        elif message.get("role") == "user":
            content = message.get("content")
            for block in items(content):
                if is_object(block) and block.get("type") == "tool_result":
                    error = block.get("is_error") is True
                    yield from self._returned(block.get("tool_use_id"), block.get("content"), error=error)
            if text := text_of(content):
                yield Said(text)

    def _returned(self, id_: Any, content: Any, *, error: bool = False) -> Iterator[Event]:
        call = self._calls.pop(id_, None) if isinstance(id_, str) else None
        if call is not None:
            yield Returned(call, text_of(content), error)


def text_of(content: Any) -> str:
    """The text of a message or of a result, its blocks of text joined by newlines."""
    if isinstance(content, str):
        return content
    texts = (block.get("text") for block in items(content) if is_object(block))
    return "\n".join(text for text in texts if isinstance(text, str))


def _is_reply(message: Any) -> bool:
    return is_object(message) and (message.get("role") == "assistant" or message.get("type") == "function_call")


def _call(id_: Any, name: Any, arguments: Any) -> ToolCall | None:
    """The call; None where it is none that a tool could be run for."""
    given = exactly(arguments or "{}") if isinstance(arguments, str) else arguments
    if not isinstance(name, str) or not is_object(given):
        return None
    return ToolCall(name=name, arguments=given, id=text_or_none(id_))


def _digest(message: Any) -> bytes:
    return digest(wire_bytes(message))


_MOST_SAID = 100_000
"""Characters of what the user said that are kept."""
_MOST_SENT = 10_000
"""Values that tools were given, of each tool."""
_MOST_MADE = 1_000
"""Calls that are remembered as made; then all are forgotten."""


@dataclass(slots=True, eq=False)
class PendingLaunch:
    """A launch of which it is not known yet whether it is used."""

    prediction: Prediction
    step: int
    """The request that it was launched at."""
    settled: bool = False


@dataclass(slots=True, eq=False)
class SpeculationState:
    """Mutable. `lock` is held while it is learned and predicted, so never on an event loop; `choosing` guards `waiting`
    and what is launched; `order` is changed by the loop's own thread."""

    history: SessionPredictor | None = None
    hearing: Hearing = field(default_factory=Hearing)
    order: Order | None = None
    """The calls of the message that is coming in, or came last."""
    step: int = 0
    """Requests that were sent; what was foreseen in an earlier one is out of date."""
    sent: float | None = None
    """Monotonic time of the last of them; None once its reply is here."""
    waiting: list[PendingLaunch] = field(default_factory=list)
    replied: tuple[ToolCall, ...] | None = None
    """The calls of the last reply, where it was not heard of otherwise."""
    messages: int = 0
    """Messages of the last of them."""
    unseen: bool = False
    """The model has asked for a tool whose run does not go by here and may write: until its next request nobody can
    tell what that has changed."""
    reads: Callable[[ToolCall], bool] = lambda call: False
    """Tells calls that write nothing."""
    lock: Lock = field(default_factory=Lock)
    choosing: Lock = field(default_factory=Lock)
    _made: set[tuple[str, bytes]] = field(default_factory=set)
    """Calls whose results the model has before it, made since the last one that may write."""
    _said: str = ""
    _sent: dict[str, set[str]] = field(default_factory=dict)

    def take(self, events: list[Event]) -> None:
        """Learn what has happened."""
        for event in events:
            if isinstance(event, Said):
                self._said = (self._said + "\n" + event.text)[-_MOST_SAID:]
            elif isinstance(event, Asked):
                for call in event.calls:
                    self._asked(call)
            elif isinstance(event, Returned) and event.error:
                self._made.discard(_identity(event.call))
            if self.history is not None:
                self.history.take(event)

    def _asked(self, call: ToolCall) -> None:
        sent = self._sent.setdefault(call.name, set())
        if len(sent) < _MOST_SENT:
            sent.update(_leaves(call.arguments))
        if not self.reads(call) or len(self._made) >= _MOST_MADE:
            self._made.clear()
        else:
            self._made.add(_identity(call))

    def made(self, call: ToolCall) -> bool:
        """Whether this very call was made, and the model has its result before it: to ask again tells it nothing new.

        Recorded agents do so in 0 to 1.3 % of their calls.
        """
        return _identity(call) in self._made

    def hear_reply(self) -> None:
        """Learn what the model has replied, which no request will tell."""
        if self.replied is not None and self.history is not None:
            self.take([self.hearing.reply(self.replied)])
        self.replied = None

    def heard_all(self) -> None:
        """Learn the last reply, which no request will tell."""
        with self.lock:
            self.hear_reply()

    def ends(self) -> None:
        """The session was left."""
        with self.lock:
            self.hear_reply()
            if self.history is not None:
                self.history.close()

    def familiar(self, call: ToolCall) -> bool:
        """Whether every argument was given to this tool before, or stands in what the user said."""
        sent = self._sent.get(call.name, frozenset[str]())
        return all(one in sent or one in self._said for one in _leaves(call.arguments))


def _identity(call: ToolCall) -> tuple[str, bytes]:
    return call.name, digest(identity_bytes(call.arguments))


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for item in value.values():
            yield from _leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)
