"""What the readers of both OpenAI wires share: one segment from one part of a request.

What is not understood becomes an opaque segment that carries no marker: a malformed request is the provider's to
reject, not ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentaccel.facts import CacheFacts, Level
from agentaccel.hashing import digest, wire_bytes
from agentaccel.types import MARKS, Marker, Path, Request, Segment
from agentaccel.wire.json import is_object, items, name_of, word
from agentaccel.wire.parts import Gathering

OPTIONS = "prompt_cache_options"
"""The field of the request that steers the breakpoint which the provider sets by itself."""

PLAIN = b"\x00"
"""Between what a message adds and a block's bytes."""

MORE = b"\x01"
"""Before the bytes of a block that goes on its message: two messages are another prompt than one of two blocks."""

_TEXTS = frozenset({"text", "input_text"})
"""Types of block that are nothing without their text."""

FIRST = frozenset({"system", "developer"})
"""Roles of the messages that a conversation may begin with and that every request of an agent shares."""

_BASE64 = ("data:", ";base64,")


@dataclass(slots=True)
class BlockReader(Gathering):
    """Reads blocks; the dialects say where they stand."""

    def tools(self, tools: Any) -> None:
        """The tools as a list, or by the fields of the request that list them."""
        for field, listed in (tools if is_object(tools) else {"tools": tools}).items():
            for index, tool in enumerate(listed):
                inner = (tool.get("function"), tool.get("custom")) if is_object(tool) else ()
                named = next(filter(is_object, inner), tool)
                name = name_of(named.get("name") or "") if is_object(named) else ""
                kind = word(tool.get("type") or "function") if is_object(tool) else "opaque"
                self.block(("tools", (field, index), ""), tool, PLAIN, kind, name=name)

    def block(
        self,
        place: tuple[Level, Path, str],
        block: Any,
        head: bytes,
        kind: str,
        *,
        name: str = "",
        markable: bool = False,
    ) -> None:
        """One segment at `place`: its level, its path and the role of its message."""
        level, path, role = place
        media = 0
        if is_object(block):
            if not MARKS.isdisjoint(block):
                block = self._bare(block, path, markable)
            media = self._media(kind, block)
        data = wire_bytes(block)
        size = max(len(data) + media, 0)
        self.segments.append(Segment(level, path, kind, role, name, self.hash_of(head, data), size, markable))

    def text(self, place: tuple[Level, Path, str], text: str, kind: str, head: bytes, *, markers: bool = True) -> None:
        """A string and the text block that it stands for are one prompt: they have one hash."""
        self.block(place, {"type": kind, "text": text}, head, kind, markable=markers and self.can_mark(kind, text))

    def parts(self, place: tuple[Level, Path, str], parts: Sequence[Any], head: bytes, *, markers: bool = True) -> None:
        """The parts of a message's content, which stands at `place`, where the message may carry `markers`."""
        level, path, role = place
        for index, part in enumerate(parts):
            kind = word(part.get("type") or "opaque") if is_object(part) else "opaque"
            text = part.get("text", "" if kind in _TEXTS else "-") if is_object(part) else ""
            markable = markers and self.can_mark(kind, text) and self._unmarked_so_far(part)
            self.block((level, (*path, index), role), part, head, kind, markable=markable)
            head = MORE

    def can_mark(self, kind: str, text: Any) -> bool:
        """Whether a block of this `kind` may carry a marker; an empty or blank one never does."""
        facts = self.facts
        return facts is not None and kind in facts.markable_blocks and isinstance(text, str) and not _blank(text)

    def _unmarked_so_far(self, part: Mapping[str, Any]) -> bool:
        # None: the sender said in so many words that this block carries none.
        return self.facts is None or part.get(self.facts.mark, "") is not None

    def _bare(self, block: Mapping[str, Any], path: Path, markable: bool) -> Mapping[str, Any]:
        """`block` without its marker, which is noted where it is one to this provider."""
        mark = self.facts.mark if self.facts is not None else ""
        if mark and block.get(mark) is not None:
            self.found(path, ttl_label(block[mark], self.facts), allowed=markable)
        return {name: value for name, value in block.items() if name not in MARKS}

    def _media(self, kind: str, block: Mapping[str, Any]) -> int:
        """What to add to the wire bytes of a block so that pictures and documents weigh what they count for."""
        if self.facts is None:
            return 0
        source = block.get("image_url") if "image" in kind else block.get("file") or block.get("file_data")
        if is_object(source):
            source = source.get("url") or source.get("file_data")
        if not isinstance(source, str) or not source.startswith(_BASE64[0]) or _BASE64[1] not in source[:128]:
            return 0
        tokens = self.facts.image_tokens if "image" in kind else len(source) / self.facts.pdf_bytes_per_token
        return round(tokens * self.facts.bytes_per_token) - len(source)


def _blank(text: str) -> bool:
    return text == "" or text.isspace()


def head_of_message(role: str, message: Mapping[str, Any], known: frozenset[str]) -> bytes:
    """What a message adds before its first block: its role, and what it says besides."""
    rest = {name: value for name, value in message.items() if name not in known and name not in MARKS}
    return wire_bytes([role, rest]) + PLAIN if rest else head_of_role(role)


def head_of_role(role: str) -> bytes:
    """What a message adds that says nothing besides its role."""
    return role.encode("utf-8", "replace") + PLAIN


def ttl_label(mark: Any, facts: CacheFacts | None) -> str:
    """The lifetime that a marker asks for; empty where it is not understood."""
    default = facts.ttls[0].label if facts is not None else ""
    return name_of(mark.get("ttl") or default) if is_object(mark) else ""


def opening(messages: Sequence[Any]) -> int:
    """How many messages at the start are the operator's."""
    for index, message in enumerate(messages):
        role = message.get("role") if is_object(message) else None
        if not isinstance(role, str) or role not in FIRST:
            return index
    return len(messages)


def own_breakpoint(request: Request, facts: CacheFacts | None) -> Marker | None:
    """The breakpoint that the provider sets by itself; None where it sets none, or was told not to.

    Where every prefix is kept, the lifetime that the sender asked for, if there is one.
    """
    if facts is None or facts.physics == "markers":
        return None
    if facts.physics == "automatic":
        kept = request.get("prompt_cache_retention")
        return Marker(path=(), ttl=kept) if isinstance(kept, str) and facts.ttl(kept) is not None else None
    options = request.get(OPTIONS)
    if options is None:
        options = {}
    if is_object(options) and options.get("mode") == "explicit":
        return None
    # Options that are no object have no lifetime that is known, which keeps us off a request that will be refused.
    return Marker(path=(), ttl=ttl_label(options, facts))


def may_switch(request: Request, facts: CacheFacts | None) -> bool:
    """Whether the provider sets a breakpoint by itself because the request does not say whether it should."""
    options = request.get(OPTIONS)
    # A request that prewarms is there to be written; one whose options are no object is the provider's to refuse.
    told = options is not None and (not is_object(options) or "mode" in options or bool(options.get("prewarm")))
    return facts is not None and facts.physics == "breakpoints" and not told


def ttl_asked(options: Any) -> str:
    """The lifetime that the request asks for all its breakpoints; empty where it says none."""
    return name_of(options["ttl"]) if is_object(options) and options.get("ttl") else ""


def parameters_of(request: Request, key: bytes, apart: frozenset[str], split: frozenset[str]) -> dict[str, bytes]:
    """The digest of every field that is no level; of those in `split`, of each of their own fields."""
    parameters: dict[str, bytes] = {}
    for name, value in request.items():
        if name in apart:
            continue
        if name in split and is_object(value):
            for part, item in value.items():
                parameters[name_of(f"{name}.{part}")] = digest(wire_bytes(item), key)
        else:
            parameters[name_of(name)] = digest(wire_bytes(value), key)
    return parameters


def tools_of(request: Request) -> Mapping[str, Sequence[Any]]:
    """The tools by the field that lists them, in the form of today and in that of 2023; empty where there are none."""
    fields = {field: items(request.get(field)) for field in ("tools", "functions")}
    return {field: listed for field, listed in fields.items() if listed}
