"""Recorded conversations as training data for a draft model of one's own: chats in the usual form, one a line.

Pure: it decides what a line holds and on which side it lies; who calls it reads and writes. A chat begins with what the
user said and ends with a reply; every result follows the call that it answers, and nobody speaks twice in a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

from agentaccel.effects.masking import Masks, Sensitive
from agentaccel.hashing import digest, identity_bytes, wire_bytes
from agentaccel.predict.events import Answered, Asked, Event, Returned, Said
from agentaccel.replay.events import Recorded
from agentaccel.types import ToolCall

Form = Literal["conversations", "messages"]
"""The field that holds the messages: as trainers of drafts read them, or as those of chat models do."""
Message = dict[str, Any]

_SHARES = 1 << 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """One conversation to train on."""

    id: str
    """A hash of what it holds: the same conversation has the same, whoever recorded it."""
    messages: tuple[Message, ...]
    """Arguments of calls are objects."""
    tools: tuple[dict[str, Any], ...]
    task: str
    """A hash: what the task is called may be anybody's."""
    models: tuple[str, ...]
    """The models that replied, as far as recorded."""
    masked: int = 0
    """Credentials in whose place there is a mask."""
    cut: bool = False
    """True if it went on behind a call without a result, and was left there."""

    @property
    def replies(self) -> int:
        """Messages of the model's."""
        return sum(one["role"] == "assistant" for one in self.messages)

    @property
    def calls(self) -> int:
        """Calls of tools."""
        return sum(len(one.get("tool_calls", ())) for one in self.messages)


def chat_of(run: Recorded, sensitive: Sensitive | None = None) -> Chat | None:
    """The conversation without credentials; None if the model replied to nothing in it.

    `sensitive` says of which arguments of tools no value is to be kept, as `StorePolicy.is_sensitive` does.
    """
    talk = _OpenChat()
    for event in run.events:
        if not talk.take(event):
            break
    messages = talk.to_the_last_reply()
    if not messages:
        return None
    if run.system:
        messages = [{"role": "system", "content": run.system}, *messages]
    masks = Masks(sensitive)
    offered = [_tool(masks, one) for one in run.tools]
    told = [_masked(masks, one) for one in messages]
    chat = tuple(_everywhere(masks, one) for one in told)
    tools = tuple(masks.everywhere(one, schema=True) for one in offered)
    return Chat(
        id=digest(identity_bytes([chat, tools])).hex(),
        messages=chat,
        tools=tools,
        task=digest(run.task.encode("utf-8", "replace")).hex(),
        models=run.models,
        masked=masks.count,
        cut=talk.cut,
    )


class _OpenChat:
    """The messages so far. Mutable: it grows."""

    def __init__(self) -> None:
        self.cut = False
        self._messages: list[Message] = []
        self._waiting: list[tuple[ToolCall, str]] = []
        """Calls without a result, with the names that they have here."""
        self._meanwhile: list[str] = []
        """What was said before all results were there."""
        self._names = (f"call_{number}" for number in count(1))

    def take(self, event: Event) -> bool:
        """Add what happened; False if nothing that follows can be added."""
        if isinstance(event, Said):
            if self._waiting:
                self._meanwhile.append(event.text)
            else:
                self._say("user", event.text)
        elif isinstance(event, Returned):
            self._return(event)
        elif self._waiting:
            self.cut = True
            return False
        elif self._messages:
            self._reply(event)
        return True

    def to_the_last_reply(self) -> list[Message]:
        """The messages up to the last of the model's; none if there is none."""
        ends = [place for place, one in enumerate(self._messages, 1) if one["role"] == "assistant"]
        return self._messages[: ends[-1]] if ends else []

    def _say(self, role: str, text: str) -> Message:
        if not self._messages or self._messages[-1]["role"] != role:
            self._messages.append({"role": role, "content": text})
        elif text:
            before = self._messages[-1]["content"]
            self._messages[-1]["content"] = f"{before}\n{text}" if before else text
        return self._messages[-1]

    def _reply(self, event: Asked | Answered) -> None:
        message = self._say("assistant", event.text)
        if isinstance(event, Asked):
            self._waiting = [(call, next(self._names)) for call in event.calls]
            calls = [
                {"id": id_, "type": "function", "function": {"name": call.name, "arguments": dict(call.arguments)}}
                for call, id_ in self._waiting
            ]
            message["tool_calls"] = [*message.get("tool_calls", ()), *calls]

    def _return(self, event: Returned) -> None:
        for place, (call, id_) in enumerate(self._waiting):
            if call is event.call or call == event.call:
                del self._waiting[place]
                self._messages.append({"role": "tool", "tool_call_id": id_, "content": event.result})
                break
        if not self._waiting and self._meanwhile:
            self._say("user", "\n".join(self._meanwhile))
            self._meanwhile = []


def _tool(masks: Masks, tool: Any) -> dict[str, Any]:
    name = str(tool["name"])
    function: dict[str, Any] = {"name": name}
    if isinstance(tool.get("description"), str):
        function["description"] = masks.text(tool["description"])
    if isinstance(tool.get("input_schema"), dict):
        function["parameters"] = masks.schema(name, tool["input_schema"])
    return {"type": "function", "function": function}


def _masked(masks: Masks, message: Message) -> Message:
    made = {**message, "content": masks.text(message["content"])}
    if "tool_calls" in message:
        made["tool_calls"] = [_call(one, masks.arguments) for one in message["tool_calls"]]
    return made


def _everywhere(masks: Masks, message: Message) -> Message:
    made = {**message, "content": masks.everywhere(message["content"])}
    if "tool_calls" in message:
        made["tool_calls"] = [
            _call(one, lambda _, given: {name: masks.everywhere(value) for name, value in given.items()})
            for one in message["tool_calls"]
        ]
    return made


def _call(call: dict[str, Any], change: Any) -> dict[str, Any]:
    function = call["function"]
    return {**call, "function": {**function, "arguments": change(function["name"], function["arguments"])}}


def line_of(chat: Chat, form: Form) -> bytes:
    """The line of a file that holds the conversation, with what ends it.

    Arguments are a text of JSON, as APIs have them. So are the tools beside `conversations`: readers of tables cannot
    hold schemas of many shapes in one column.
    """
    messages = [
        {**one, "tool_calls": [_call(call, lambda _, given: wire_bytes(given).decode()) for call in one["tool_calls"]]}
        if "tool_calls" in one
        else one
        for one in chat.messages
    ]
    line: dict[str, Any] = {"id": chat.id, "task": chat.task}
    if len(chat.models) == 1:
        line["model"] = chat.models[0]
    line[form] = messages
    if chat.tools:
        line["tools"] = wire_bytes(chat.tools).decode() if form == "conversations" else chat.tools
    return wire_bytes(line) + b"\n"


def is_held_out(task: str, share: float) -> bool:
    """True if the conversations of the task, told by its hash, are not to be trained on: always the same of a task.

    >>> [is_held_out("00" * 16, share) for share in (0, 0.1)], is_held_out("ff" * 16, 0.9)
    ([False, True], False)
    """
    return int(task[:16], 16) < share * _SHARES


@dataclass(slots=True, kw_only=True)
class ExportTally:
    """What was written, and what was left out. Mutable: it is filled while conversations are chosen."""

    chats: Counter[bool] = field(default_factory=Counter)
    """Conversations, by whether they are held out."""
    tasks: dict[str, bool] = field(default_factory=dict)
    """The tasks that they are of, each with the same."""
    replies: int = 0
    calls: int = 0
    masked: int = 0
    cut: int = 0
    """Conversations that end where a call has no result, and went on."""
    bare: int = 0
    """Conversations left out since the model replied to nothing in them."""
    twice: int = 0
    """Conversations left out since they are there already."""
    models: Counter[str] = field(default_factory=Counter)
    """Conversations, by the model that replied; of several, each counts."""


def chosen(
    runs: Iterable[Recorded], tally: ExportTally, *, share: float, sensitive: Sensitive | None = None
) -> Iterator[tuple[Chat, bool]]:
    """The conversations to write, each once, and whether they are held out; `tally` counts them.

    Kept in memory are a hash of each conversation and the tasks' names.
    """
    met = set[str]()
    for run in runs:
        chat = chat_of(run, sensitive)
        if chat is None:
            tally.bare += 1
        elif chat.id in met:
            tally.twice += 1
        else:
            met.add(chat.id)
            side = is_held_out(chat.task, share)
            tally.chats[side] += 1
            tally.tasks[chat.task] = side
            tally.replies += chat.replies
            tally.calls += chat.calls
            tally.masked += chat.masked
            tally.cut += chat.cut
            tally.models.update(chat.models)
            yield chat, side
