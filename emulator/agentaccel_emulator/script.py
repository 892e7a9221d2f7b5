"""What the emulated model answers: replies written down in advance, or a function.

A script file is JSON or JSON lines. JSON lines, or a JSON list, are replies in order. A JSON object is::

    {"replies": [...], "default": {...}, "order": "turns",
     "conversations": [{"match": "text of the first user message", "replies": [...]}]}

A reply is a string (one text block), a list of content blocks, or an object::

    {"content": [{"type": "text", "text": "Let me look."}, {"type": "tool_use", "name": "search", "input": {"q": "x"}}],
     "stop_reason": "tool_use", "output_tokens": 40, "first_token": 1.5, "tokens_per_second": 60}

Replies are written in the form of the Messages API whichever API asks; the others say the same in theirs. Only
`content` is needed. A `tool_use` block without an `id` gets one made of its turn and place, equal in every run.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from agentaccel.errors import ConfigError
from agentaccel_emulator.given import fields, number, shown, text, well_formed

_TEXTS: Mapping[str, Mapping[str, str | None]] = {
    "text": {"text": None},
    "thinking": {"thinking": None, "signature": ""},
    "tool_use": {"name": None, "id": ""},
    "server_tool_use": {"name": None, "id": ""},
}
"""The fields of a block that are texts, by its type; None where they have to be there."""
_MOST_BYTES = 10_000_000
"""Of a reply's content as JSON: a stream has an event for each 16 characters."""
_SLOWEST = 0.001
"""Tokens per second."""


def _is_block(block: object) -> bool:
    return isinstance(block, Mapping) and isinstance(block.get("type"), str)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedReply:
    """One answer of the model."""

    content: tuple[Mapping[str, Any], ...] = ()
    """Content blocks as in a Messages reply."""
    stop_reason: str | None = None
    """As in a Messages reply; None means tool_use where a tool is called, else end_turn."""
    output_tokens: int | None = None
    """Tokens to bill; None counts the content."""
    first_token: float | None = None
    """Seconds to the first byte; None takes the emulator's timing."""
    tokens_per_second: float | None = None
    """Speed of the rest; None takes the emulator's timing."""

    def __post_init__(self) -> None:
        """Raises ConfigError for what no emulator could send."""
        for name, least, whole in (
            ("output_tokens", 0, True),
            ("first_token", 0, False),
            ("tokens_per_second", _SLOWEST, False),
        ):
            if (value := getattr(self, name)) is not None:
                number(f"{name} of a scripted reply", value, least=least, whole=whole)
        if self.stop_reason is not None:
            text("stop_reason of a scripted reply", self.stop_reason)
        if not isinstance(self.content, list | tuple) or not all(map(_is_block, self.content)):
            raise ConfigError("the content of a scripted reply is a list of blocks, each an object with its type")
        for block in self.content:
            for name, default in _TEXTS.get(block["type"], {}).items():
                if not isinstance(value := block.get(name, default), str):
                    raise ConfigError(
                        f"{name} of a {block['type']} block in a scripted reply is a text, not {shown(value)}"
                    )
        try:
            size = len(orjson.dumps([[[[[[[[well_formed(self.content)]]]]]]]]))  # a reply has it some levels down
        except (TypeError, RecursionError):
            raise ConfigError("the content of a scripted reply is JSON, and not nested too deep") from None
        if size > _MOST_BYTES:
            raise ConfigError(f"the content of a scripted reply has at most {_MOST_BYTES:,} bytes as JSON")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a reply may depend on."""

    index: int
    """How often the model has spoken in the conversation (assistant messages in the request, or runs of output items
    where the Responses API has it), or the number of earlier requests where the order is "arrivals"."""
    opening: str
    """Text of the first user message."""
    request: Mapping[str, Any]
    """The request as decoded JSON; treat it as immutable."""
    choice: int = 0
    """Which of several choices is written, where a Chat Completions request asks for them with `n`."""


Answer = Callable[[Turn], "ScriptedReply | str | Sequence[Mapping[str, Any]] | None"]
"""A function that answers; None stands for the default reply."""


def say(text: str) -> ScriptedReply:
    """A reply of one text block."""
    return ScriptedReply(content=({"type": "text", "text": text},))


def call(name: str, arguments: Mapping[str, Any] | None = None, *, text: str = "") -> ScriptedReply:
    """A reply that calls one tool, after `text` if there is any."""
    block = {"type": "tool_use", "name": name, "input": dict(arguments or {})}
    return ScriptedReply(content=(*say(text).content, block) if text else (block,))


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Replies for the requests whose first user message contains `match`."""

    match: str
    """Text to look for."""
    replies: tuple[ScriptedReply, ...]
    """Replies by turn."""

    def __post_init__(self) -> None:
        text("match of a conversation in a script", self.match)
        _all("the replies of a conversation in a script", self.replies, ScriptedReply)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Replies by turn. The turn is counted from the request itself, so parallel sessions take none from each other."""

    replies: tuple[ScriptedReply, ...] = ()
    """Replies by turn for every conversation that no other rule names."""
    conversations: tuple[Conversation, ...] = ()
    """Replies for particular conversations; the first match counts."""
    default: ScriptedReply = ScriptedReply(content=({"type": "text", "text": "OK."},))
    """The reply when none is left."""
    order: Literal["turns", "arrivals"] = "turns"
    """Whether replies are counted by assistant messages in the request, or by requests in order of arrival."""
    answer: Answer | None = None
    """A function that is asked first."""

    def __post_init__(self) -> None:
        _all("the replies of a script", self.replies, ScriptedReply)
        _all("the conversations of a script", self.conversations, Conversation)
        _all("the default of a script", [self.default], ScriptedReply)
        if self.order not in ("turns", "arrivals"):
            raise ConfigError(f"the order of a script is 'turns' or 'arrivals', not {shown(self.order)}")
        if self.answer is not None and not callable(self.answer):
            raise ConfigError(f"the answer of a script is a function, not {shown(self.answer)}")

    def reply(self, turn: Turn) -> ScriptedReply:
        """The reply to `turn`. A function's own exceptions pass through."""
        if self.answer is not None and (answered := self.answer(turn)) is not None:
            return reply_of(answered)
        named = (rule.replies for rule in self.conversations if rule.match in turn.opening)
        replies = next(named, self.replies)
        return replies[turn.index] if turn.index < len(replies) else self.default


def _all(what: str, values: object, kind: type) -> None:
    """Raises ConfigError unless `values` is a list of that kind."""
    if not isinstance(values, list | tuple):
        raise ConfigError(f"{what} are a list, not {shown(values)}")
    for value in values:
        if not isinstance(value, kind):
            raise ConfigError(f"of {what}, each is a {kind.__name__}, not {shown(value)}")


ScriptLike = Script | Answer | Sequence[Any] | Mapping[str, Any] | str | Path | None
"""A script, a function, replies in order, a decoded script file, or the path of one."""


def script_of(value: ScriptLike) -> Script:
    """The script that `value` stands for. Raises ConfigError where it is none, or the file cannot be read."""
    if value is None:
        return Script()
    if isinstance(value, Script):
        return value
    if isinstance(value, (str, Path)):
        return script_of(read_json(Path(value), "script"))
    if callable(value):
        return Script(answer=value)
    if isinstance(value, Mapping):
        return _from_object(value)
    if isinstance(value, Sequence):
        return Script(replies=tuple(reply_of(item) for item in value))
    raise ConfigError(f"a script is a list of replies, an object, a function or a path, not {type(value).__name__}")


def _from_object(value: Mapping[str, Any]) -> Script:
    fields("a script", value, ("replies", "conversations", "default", "order"))
    return Script(
        replies=_replies("replies of a script", value.get("replies", ())),
        conversations=tuple(map(_conversation, _listed("conversations of a script", value.get("conversations", ())))),
        default=reply_of(value["default"]) if "default" in value else Script().default,
        order=value.get("order", "turns"),
    )


def _conversation(value: object) -> Conversation:
    if not isinstance(value, Mapping) or "match" not in value or "replies" not in value:
        raise ConfigError(f"a conversation in a script is an object with match and replies, not {shown(value)}")
    fields("a conversation in a script", value, ("match", "replies"))
    replies = _replies("replies of a conversation in a script", value["replies"])
    return Conversation(match=value["match"], replies=replies)


def _replies(what: str, value: object) -> tuple[ScriptedReply, ...]:
    return tuple(map(reply_of, _listed(what, value)))


def _listed(what: str, value: object) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise ConfigError(f"{what} are a list, not {shown(value)}")
    return value


def reply_of(value: object) -> ScriptedReply:
    """The reply that `value` stands for: a reply, a string, a list of blocks or an object.

    >>> reply_of("hi") == reply_of([{"type": "text", "text": "hi"}]) == say("hi")
    True
    """
    if isinstance(value, ScriptedReply):
        return value
    if isinstance(value, str):
        return say(value)
    if isinstance(value, Mapping):
        fields("a scripted reply", value, tuple(ScriptedReply.__dataclass_fields__))
        content = value.get("content", ())
        return ScriptedReply(**{**value, "content": say(content).content if isinstance(content, str) else content})
    if isinstance(value, Sequence):
        return ScriptedReply(content=tuple(value))
    raise ConfigError(f"a scripted reply is a string, a list of blocks or an object, not {shown(value)}")


def read_json(path: Path, what: str) -> Any:
    """The value in a JSON or JSON lines file; lines become a list. Raises ConfigError where it cannot be read."""
    try:
        # a pipe that nobody writes to is opened at once, and then seen to be none
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:
            is_plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = file.read() if is_plain else b""
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the {what} file {path}: {getattr(error, 'strerror', error)}") from None
    if not is_plain:
        raise ConfigError(f"cannot read the {what} file {path}: it is no plain file")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        whole = error
    try:
        return [orjson.loads(line) for line in data.splitlines() if line.strip()]
    except orjson.JSONDecodeError:
        raise ConfigError(f"the {what} file {path} is neither JSON nor JSON lines: {whole}") from None
