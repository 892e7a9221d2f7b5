"""Reading a request of the Anthropic Messages API into a `Prompt`.

Facts used: which blocks may carry a marker, how many markers there may be, and in which order their lifetimes must
come (`facts/anthropic.toml`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from sys import intern
from typing import Any

import orjson

from agentaccel.facts import CacheFacts, Level
from agentaccel.hashing import block_hash, digest, wire_bytes
from agentaccel.segments import THINKING
from agentaccel.types import Marker, Path, Prompt, Request, Segment, made_marker
from agentaccel.values import maker
from agentaccel.wire.anthropic.edit import DEFAULT_TTL, MARK
from agentaccel.wire.json import is_object, items, kind_of, name_of, word
from agentaccel.wire.legality import illegal
from agentaccel.wire.parts import Gathering, PartMemory, PartReader

# --- Reading tools, system blocks and content blocks into segments ----------------------------------------------------
# What is not understood becomes an opaque segment that carries no marker: a malformed request is the provider's to
# reject, not ours.

_DATED_TYPE = re.compile(r"_\d{8}$")
_MARK_BYTES = wire_bytes(MARK)
"""A marker's name as it stands in the wire bytes; inside a string its quotes are escaped."""

_HOLDS_BLOCKS = frozenset({"content", "source", "tool_references"})
"""Fields of a block that may hold blocks; what stands elsewhere (a call's `input`) is the user's own data."""

_ROLE_AND_CONTENT = frozenset({"role", "content"})

_PLAIN = b"\x00"
"""Between what a message adds and a block's bytes."""

_dumps = orjson.dumps
_segment = maker(Segment)


@dataclass(slots=True)
class MessagesReader(Gathering):
    """Reads one stretch of a Messages request."""

    def tools(self, tools: Sequence[Any]) -> None:
        for index, tool in enumerate(tools):
            path: Path = ("tools", index)
            if not is_object(tool):
                self._block("tools", path, tool, _PLAIN)
                continue
            kind = _DATED_TYPE.sub("", name_of(tool.get("type") or "custom"))
            if tool.get("defer_loading") is True:
                # Deferred tools stand outside the prefix: they can neither break it nor end it.
                self._found(tool, path, allowed=False)
                continue
            self._block("tools", path, tool, _PLAIN, kind=kind, name=name_of(tool.get("name", "")))

    def system(self, system: Any) -> None:
        if isinstance(system, str):
            # A bare string and the text block it stands for are one prompt: they must have one hash.
            self._block("system", ("system",), {"type": "text", "text": system}, _PLAIN)
            return
        for index, block in enumerate(items(system)):
            self._block("system", ("system", index), block, _PLAIN)

    def messages(self, messages: Sequence[Any], start: int) -> None:
        """Messages that stand from index `start` on."""
        for index, message in enumerate(messages, start):
            if type(message) is not dict and not is_object(message):
                self._block("messages", ("messages", index), message, _PLAIN)
                continue
            # The role is part of the prompt, and so is whatever else a message carries beside its content.
            role = message.get("role", "")
            role, plain = _opening(role if type(role) is str else name_of(role))
            head = plain
            if len(message) != 2 or "role" not in message or "content" not in message:
                rest = {name: value for name, value in message.items() if name not in _ROLE_AND_CONTENT}
                head = wire_bytes([role, rest]) + _PLAIN if rest else plain
            blocks = content = message.get("content", ())
            if type(content) is not list:
                if isinstance(content, str):
                    text = {"type": "text", "text": content}
                    self._block("messages", ("messages", index, "content"), text, head, role)
                    continue
                blocks = items(content)
            if not blocks:
                # No content to speak of, and yet a part of the prompt: its role and its other fields count.
                self._block("messages", ("messages", index), message, plain, role, "opaque")
            self._contents(blocks, index, head, role, plain)

    def _contents(self, blocks: Sequence[Any], index: int, head: bytes, role: str, plain: bytes) -> None:
        """The blocks of a message: `head` stands before the first, `plain` before the others.

        Of most of every prompt nothing is special (`_common`), but for a marker: that is read without detours.
        """
        markable = self.facts.markable_blocks if self.facts is not None else ()
        for place, block in enumerate(blocks):
            path, bare, kind = ("messages", index, "content", place), block, _common(block)
            if kind is None and type(block) is dict and block.get(MARK):
                bare = {name: value for name, value in block.items() if name != MARK}
                kind = _common(bare)
            if kind is None or kind not in markable:
                self._block("messages", path, block, head, role)
            else:
                if bare is not block:
                    self.markers.append(made_marker(path=path, ttl=ttl_label(block[MARK])))
                try:
                    data = _dumps(bare)
                except (TypeError, ValueError):
                    data = wire_bytes(bare)
                hash_ = self.hash_of(head, data)
                self.segments.append(_segment("messages", path, intern(kind), role, "", hash_, len(data), True))
            head = plain

    def _block(
        self, level: Level, path: Path, block: Any, head: bytes, role: str = "", kind: str = "", name: str = ""
    ) -> None:
        """One segment. Of the whole reading, this runs once per block: it is written for speed."""
        data = wire_bytes(block)
        markable, media = False, 0
        if is_object(block):
            kind = kind or word(block.get("type") or "opaque")
            markable = self._markable(level, kind, block)
            holds = not _HOLDS_BLOCKS.isdisjoint(block)
            if MARK in block or (holds and _MARK_BYTES in data):
                data = wire_bytes(self._bare(block, path, markable))
            if holds:
                media = self._media(block)
                self._notice(kind, block)
        size = len(data) + media
        hash_ = self.hash_of(head, data)
        self.segments.append(Segment(level, path, kind or "opaque", role, name, hash_, size, markable))

    def _media(self, block: Any) -> int:
        """What to add to the wire bytes of a block so that pictures and documents weigh what they count for."""
        if self.facts is None or not is_object(block):
            return 0
        source, added = block.get("source"), 0
        if is_object(source) and source.get("type") == "base64" and isinstance(source.get("data"), str):
            size = len(source["data"])
            tokens = self.facts.image_tokens if kind_of(block) == "image" else size / self.facts.pdf_bytes_per_token
            added = round(tokens * self.facts.bytes_per_token) - size
        return added + sum(map(self._media, items(block.get("content"))))

    def _markable(self, level: Level, kind: str, block: Mapping[str, Any]) -> bool:
        facts = self.facts
        if facts is None or (MARK in block and block[MARK] is None):
            return False  # None: the sender said in so many words that this block carries none
        if kind == "text" and level != "tools":
            # Empty text cannot carry a marker, and blank text is rejected as content anyway.
            text = block.get("text")
            return isinstance(text, str) and text != "" and not text.isspace()
        if level == "tools":
            return kind in facts.markable_tools and not _held_back(block)
        return kind in facts.markable_blocks

    def _notice(self, kind: str, block: Mapping[str, Any]) -> None:
        if kind == "image":
            self.flags.add("content.images")
        citations = block.get("citations")
        if isinstance(citations, Mapping) and citations.get("enabled"):
            self.flags.add("content.citations")
        for part in items(block.get("content")) if kind == "tool_result" else ():
            if is_object(part):
                self._notice(kind_of(part), part)

    def _bare(self, block: Mapping[str, Any], path: Path, markable: bool) -> Mapping[str, Any]:
        """`block` without markers, its own and nested ones, which are noted on the way."""
        bare = {
            name: self._inner(value, (*path, name)) if name in _HOLDS_BLOCKS else value
            for name, value in block.items()
            if name != MARK
        }
        if MARK in block:
            self._found(block, path, allowed=markable)
        return bare

    def _inner(self, value: Any, path: Path) -> Any:
        """What a block holds, without the markers on blocks in it, however deep they lie."""
        if is_object(value):
            return self._bare(value, path, kind_of(value) not in THINKING)
        if isinstance(value, list | tuple):
            return [self._inner(item, (*path, index)) for index, item in enumerate(value)]
        return value

    def _found(self, block: Mapping[str, Any], path: Path, *, allowed: bool) -> None:
        mark = block.get(MARK)
        if mark is not None:
            self.found(path, ttl_label(mark), allowed=allowed)


@functools.lru_cache(maxsize=64)
def _opening(role: str) -> tuple[str, bytes]:
    """A role as one object, and what stands for it before the bytes of a block."""
    name = word(role)
    return name, name.encode() + _PLAIN


def _common(block: Any) -> str | None:
    """The type of a block of which nothing is special: no marker in it, and no blocks but plain text; None for others.

    Whether its type may carry a marker is for the facts to say.
    """
    if type(block) is not dict:
        return None
    kind = block.get("type")
    if kind == "text":
        text = block.get("text")
        return "text" if len(block) == 2 and type(text) is str and text and not text.isspace() else None
    if MARK in block or type(kind) is not str:
        return None
    if kind == "tool_result" and "source" not in block and "tool_references" not in block:
        content = block.get("content")
        if type(content) is list:
            for item in content:
                if type(item) is not dict or len(item) != 2 or item.get("type") != "text" or "text" not in item:
                    return None
            return kind
        return kind if content is None or type(content) is str else None
    return kind if _HOLDS_BLOCKS.isdisjoint(block) else None


def ttl_label(mark: Any) -> str:
    """The lifetime that a marker asks for; empty where it is not understood."""
    return name_of(mark.get("ttl") or DEFAULT_TTL) if is_object(mark) else ""


def _held_back(tool: Mapping[str, Any]) -> bool:
    """Whether a toolset defers or leaves out some of its tools: its last one may then be none of the prefix."""
    configs = tool.get("configs")
    nested = configs.values() if isinstance(configs, Mapping) else ()
    return any(
        isinstance(config, Mapping) and (config.get("defer_loading") is True or config.get("enabled") is False)
        for config in (tool.get("default_config"), *nested)
    )


_prompt, _reader = maker(Prompt), maker(MessagesReader)

_LEVELS_AND_MARK = frozenset({"tools", "system", "messages", MARK})
_SPLIT = frozenset({"output_config"})
"""Parameters whose fields break different levels, hence are told apart."""


def decode(
    request: Request,
    facts: CacheFacts | None,
    *,
    key: bytes = b"",
    place: tuple[str, str] = ("anthropic", "api"),
    model: str = "",
    memory: PartMemory | None = None,
) -> Prompt:
    """Read `request`, hashing its segments under `key`; without facts nothing is markable.

    `place` is the provider and the platform; `model` stands in for the body's own field on platforms that name the
    model elsewhere. Where the facts know of no markers, the sender's are none. With a `memory`, only what it has not
    read before is read; the result is the same. Never raises on a malformed body.
    """
    messages = items(request.get("messages"))
    levels = (items(request.get("tools")), request.get("system"), messages)
    read = PartReader(memory, _reader(facts, block_hash(key)), key).read(levels)
    parameters = _parameters(request, key)
    top, thread = request.get(MARK), request.get("thread")
    held = after = ""
    if thread is not None and is_object(thread):
        held, after = "message thread", name_of(thread.get("previous_message_id") or "")
    own = Marker(path=(), ttl=ttl_label(top)) if top is not None else None
    markers = read.markers if own is None else (*read.markers, own)
    if facts is not None and not facts.mark:
        markers = ()
    for name in read.flags:
        parameters[name] = digest(b"1", key)
    return _prompt(
        provider=place[0],
        platform=place[1],
        model=name_of(model or request.get("model", "")),
        segments=read.segments,
        parameters=parameters,
        markers=markers,
        messages=len(messages),
        stream=request.get("stream") is True,
        held=held,
        after=after,
        stretches=read.digests,
        illegal=illegal(facts, read, own) if markers else (),
    )


def _parameters(request: Request, key: bytes) -> dict[str, bytes]:
    parameters: dict[str, bytes] = {}
    for name, value in request.items():
        if name in _LEVELS_AND_MARK:
            continue
        kind = type(value)
        if kind in _WORDS and (kind is not str or len(value) <= _SHORT):
            known, hash_ = _word(name, value, key)
            parameters[known] = hash_
        elif name in _SPLIT and isinstance(value, Mapping):
            parameters.update(
                {name_of(f"{name}.{part}"): digest(wire_bytes(item), key) for part, item in value.items()}
            )
        else:
            parameters[name_of(name)] = digest(wire_bytes(value), key)
    return parameters


_WORDS = frozenset({str, int, bool})
"""Types of most parameters, which are the same in each request."""
_SHORT = 64
"""Characters of a name; what is longer may be content."""


@functools.lru_cache(maxsize=256, typed=True)  # `True` and 1 are equal, and two
def _word(name: str, value: str | int, key: bytes) -> tuple[str, bytes]:
    return name_of(name), digest(wire_bytes(value), key)
