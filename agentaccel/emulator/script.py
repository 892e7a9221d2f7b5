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

    def reply(self, turn: Turn) -> ScriptedReply:
        """The reply to `turn`. A function's own exceptions pass through."""
        if self.answer is not None and (answered := self.answer(turn)) is not None:
            return reply_of(answered)
        named = (rule.replies for rule in self.conversations if rule.match in turn.opening)
        replies = next(named, self.replies)
        return replies[turn.index] if turn.index < len(replies) else self.default


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
    if unknown := set(value) - {"replies", "default", "order", "conversations"}:
        raise ConfigError(f"a script has no field {sorted(unknown)[0]!r}: use replies, conversations, default, order")
    if value.get("order", "turns") not in ("turns", "arrivals"):
        raise ConfigError(f"the order of a script is 'turns' or 'arrivals', not {value['order']!r}")
    rules = (
        Conversation(match=rule["match"], replies=tuple(map(reply_of, rule["replies"])))
        for rule in value.get("conversations", ())
    )
    return Script(
        replies=tuple(map(reply_of, value.get("replies", ()))),
        conversations=tuple(rules),
        default=reply_of(value["default"]) if "default" in value else Script().default,
        order=value.get("order", "turns"),
    )


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
        fields = dict(value)
        content = fields.pop("content", ())
        try:
            blocks = say(content).content if isinstance(content, str) else tuple(content)
            return _checked(ScriptedReply(content=blocks, **fields))
        except TypeError as error:
            raise ConfigError(f"a scripted reply is malformed: {error}") from None
    if isinstance(value, Sequence):
        return _checked(ScriptedReply(content=tuple(value)))
    raise ConfigError(f"a scripted reply is a string, a list of blocks or an object, not {type(value).__name__}")


def _checked(reply: ScriptedReply) -> ScriptedReply:
    """`reply`, whose blocks and numbers are such. Raises ConfigError."""
    if not all(isinstance(block, Mapping) and isinstance(block.get("type"), str) for block in reply.content):
        raise ConfigError("the content of a scripted reply is a list of blocks, each an object with its type")
    for name in ("output_tokens", "first_token", "tokens_per_second"):
        number = getattr(reply, name)
        if number is not None and (isinstance(number, bool) or not isinstance(number, int | float) or number < 0):
            raise ConfigError(f"{name} of a scripted reply is a number from 0 on, not {number!r}")
    if reply.tokens_per_second == 0:
        raise ConfigError("tokens_per_second of a scripted reply is above 0")
    if not isinstance(reply.stop_reason, str | None):
        raise ConfigError(f"stop_reason of a scripted reply is a text, not {reply.stop_reason!r}")
    return reply


def read_json(path: Path, what: str) -> Any:
    """The value in a JSON or JSON lines file; lines become a list. Raises ConfigError where it cannot be read."""
    try:
        # a pipe that nobody writes to is opened at once, and then seen to be none
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ConfigError(f"cannot read the {what} file {path}: it is no plain file")
            data = file.read()
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the {what} file {path}: {getattr(error, 'strerror', error)}") from None
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        whole = error
    try:
        return [orjson.loads(line) for line in data.splitlines() if line.strip()]
    except orjson.JSONDecodeError:
        raise ConfigError(f"the {what} file {path} is neither JSON nor JSON lines: {whole}") from None
