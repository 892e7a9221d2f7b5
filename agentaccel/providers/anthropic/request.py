"""Reading a request of the Anthropic Messages API into a `Prompt`.

Facts used: which blocks may carry a marker, how many markers there may be, and in which order their lifetimes must
come (`facts/anthropic.toml`). What is not understood becomes an opaque segment that carries no marker: a malformed
request is the provider's to reject, not ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from agentaccel.canonical import digest, wire_bytes
from agentaccel.facts import CacheFacts, Level
from agentaccel.providers.anthropic.edit import DEFAULT_TTL, MARK
from agentaccel.types import Marker, Path, Prompt, Request, Segment, show_path

_DATED_TYPE = re.compile(r"_\d{8}$")
_LEVELS_AND_MARK = frozenset({"tools", "system", "messages", MARK})
_SPLIT = frozenset({"output_config"})
"""Parameters whose fields break different levels, hence are told apart."""

_HOLDS_BLOCKS = frozenset({"content", "source", "tool_references"})
"""Fields of a block that may hold blocks; what stands elsewhere (a call's `input`) is the user's own data."""

THINKING = frozenset({"thinking", "redacted_thinking"})


def decode(
    request: Request, facts: CacheFacts | None, *, key: bytes = b"", platform: str = "api", model: str = ""
) -> Prompt:
    """Read `request`, hashing its segments under `key`; without facts nothing is markable.

    `model` stands in for the body's own field on platforms that name the model elsewhere. Never raises on a malformed
    body.
    """
    reader = _Reader(facts=facts, key=key)
    segments = (*reader.tools(request), *reader.system(request), *reader.messages(request))
    top = request.get(MARK)
    if top is not None:
        reader.markers.append(Marker(path=(), ttl=_ttl_label(top) if isinstance(top, Mapping) else ""))
    parameters = _parameters(request, key)
    parameters.update({name: digest(b"1", key) for name in reader.flags})
    messages = request.get("messages")
    return Prompt(
        provider="anthropic",
        platform=platform,
        model=_name(model or request.get("model", "")),
        segments=segments,
        parameters=parameters,
        markers=tuple(reader.markers),
        messages=len(messages) if isinstance(messages, list | tuple) else 0,
        stream=request.get("stream") is True,
        held="message thread" if isinstance(request.get("thread"), Mapping) else "",
        illegal=tuple(_illegal(reader.markers, reader.misplaced, segments, facts)),
    )


@dataclass(slots=True)
class _Reader:
    """Walks one request in wire order and gathers what its blocks carry."""

    facts: CacheFacts | None
    key: bytes
    markers: list[Marker] = field(default_factory=list)
    """Markers found so far, in wire order."""
    misplaced: list[str] = field(default_factory=list)
    """Markers where none is allowed, as sentences."""
    flags: set[str] = field(default_factory=set)
    """Properties of the content that break levels by themselves, named as in the facts."""

    def tools(self, request: Request) -> Iterator[Segment]:
        for index, tool in enumerate(_items(request.get("tools"))):
            if not isinstance(tool, Mapping):
                yield self._segment("tools", ("tools", index), tool, kind="opaque")
                continue
            kind = _DATED_TYPE.sub("", _name(tool.get("type") or "custom"))
            deferred = tool.get("defer_loading") is True
            if deferred:
                # Deferred tools stand outside the prefix: they can neither break it nor end it.
                self._found(tool, ("tools", index), allowed=False)
                continue
            yield self._segment("tools", ("tools", index), tool, kind=kind, name=_name(tool.get("name", "")))

    def system(self, request: Request) -> Iterator[Segment]:
        system = request.get("system")
        if isinstance(system, str):
            yield self._segment("system", ("system",), system, kind="text", string=True)
            return
        for index, block in enumerate(_items(system)):
            yield self._segment("system", ("system", index), block, kind=_kind(block))

    def messages(self, request: Request) -> Iterator[Segment]:
        for index, message in enumerate(_items(request.get("messages"))):
            if not isinstance(message, Mapping):
                yield self._segment("messages", ("messages", index), message, kind="opaque")
                continue
            role = _name(message.get("role", ""))
            rest = {name: value for name, value in message.items() if name not in ("role", "content")}
            content = message.get("content")
            path: Path = ("messages", index, "content")
            if isinstance(content, str):
                yield self._segment("messages", path, content, kind="text", role=role, rest=rest, string=True)
                continue
            if not _items(content):
                # No content to speak of, and yet a part of the prompt: its role and its other fields count.
                yield self._segment("messages", ("messages", index), message, kind="opaque", role=role)
            for place, block in enumerate(_items(content)):
                yield self._segment("messages", (*path, place), block, kind=_kind(block), role=role, rest=rest)
                rest = {}

    def _segment(
        self,
        level: Level,
        path: Path,
        value: Any,
        *,
        kind: str,
        role: str = "",
        name: str = "",
        rest: Mapping[str, Any] | None = None,
        string: bool = False,
    ) -> Segment:
        # A bare string and the text block it stands for are one prompt: they must have one hash.
        block = {"type": "text", "text": value} if string else value
        markable = self._markable(level, kind, block)
        if isinstance(block, Mapping):
            self._notice(kind, block)
            bare = self._bare(block, path, markable)
        else:
            bare = block
        data = wire_bytes(bare)
        # The role is part of the prompt, and so is whatever else a message carries beside its content.
        head = wire_bytes([role, rest]) if rest else role.encode()
        return Segment(
            level=level,
            path=path,
            kind=kind,
            role=role,
            name=name,
            digest=digest(head + b"\x00" + data, self.key),
            size=len(data) + self._media(block),
            markable=markable,
        )

    def _media(self, block: Any) -> int:
        """What to add to the wire bytes of a block so that pictures and documents weigh what they count for."""
        if self.facts is None or not isinstance(block, Mapping):
            return 0
        source, added = block.get("source"), 0
        if isinstance(source, Mapping) and source.get("type") == "base64" and isinstance(source.get("data"), str):
            size = len(source["data"])
            tokens = self.facts.image_tokens if _kind(block) == "image" else size / self.facts.pdf_bytes_per_token
            added = round(tokens * self.facts.bytes_per_token) - size
        content = block.get("content")
        return added + (sum(map(self._media, content)) if isinstance(content, list) else 0)

    def _markable(self, level: Level, kind: str, block: Any) -> bool:
        if self.facts is None or not isinstance(block, Mapping):
            return False
        if MARK in block and block[MARK] is None:
            return False  # the sender said in so many words that this block carries none
        if level == "tools":
            return kind in self.facts.markable_tools and not _held_back(block)
        if kind == "text":
            # Empty text cannot carry a marker, and blank text is rejected as content anyway.
            return isinstance(block.get("text"), str) and bool(block["text"].strip())
        return kind in self.facts.markable_blocks

    def _notice(self, kind: str, block: Mapping[str, Any]) -> None:
        if kind == "image":
            self.flags.add("content.images")
        citations = block.get("citations")
        if kind == "document" and isinstance(citations, Mapping) and citations.get("enabled"):
            self.flags.add("content.citations")

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
        if isinstance(value, Mapping):
            return self._bare(value, path, _kind(value) not in THINKING)
        if isinstance(value, list | tuple):
            return [self._inner(item, (*path, index)) for index, item in enumerate(value)]
        return value

    def _found(self, block: Mapping[str, Any], path: Path, *, allowed: bool) -> None:
        mark = block.get(MARK)
        if mark is None:
            return
        ttl = _ttl_label(mark) if isinstance(mark, Mapping) else ""
        self.markers.append(Marker(path=path, ttl=ttl))
        if not allowed:
            self.misplaced.append(f"{show_path(path)} cannot carry a marker")


def _parameters(request: Request, key: bytes) -> dict[str, bytes]:
    parameters: dict[str, bytes] = {}
    for name, value in request.items():
        if name in _LEVELS_AND_MARK:
            continue
        if name in _SPLIT and isinstance(value, Mapping):
            parameters.update({_name(f"{name}.{part}"): digest(wire_bytes(item), key) for part, item in value.items()})
        else:
            parameters[_name(name)] = digest(wire_bytes(value), key)
    return parameters


def _illegal(
    markers: list[Marker], misplaced: list[str], segments: tuple[Segment, ...], facts: CacheFacts | None
) -> Iterator[str]:
    """Why the provider will reject the markers that the sender placed."""
    if facts is None or not markers:
        return
    yield from misplaced
    if len(markers) > facts.max_markers:
        yield f"{len(markers)} markers, and at most {facts.max_markers} are allowed"
    lifetimes = [facts.ttl(marker.ttl) for marker in markers]
    for marker, ttl in zip(markers, lifetimes, strict=True):
        if ttl is None:
            yield f"{show_path(marker.path) or 'the request'} asks for an unknown lifetime {marker.ttl!r}"
    known = [ttl.seconds for ttl in lifetimes if ttl is not None]
    if any(later > earlier for earlier, later in pairwise(known)):
        yield "a longer lifetime comes after a shorter one"
    if markers[-1].path == ():
        if not facts.top_level_marker:
            yield "a top-level marker is not known on this platform"
        last = next((segment.path for segment in reversed(segments) if segment.markable), None)
        if any(marker.path == last and marker.ttl != markers[-1].ttl for marker in markers[:-1]):
            yield "the last block and the request ask for different lifetimes"


def _items(value: Any) -> list[Any] | tuple[Any, ...]:
    return value if isinstance(value, list | tuple) else ()


def _kind(block: Any) -> str:
    return _name(block.get("type") or "opaque") if isinstance(block, Mapping) else "opaque"


def _ttl_label(mark: Mapping[str, Any]) -> str:
    return _name(mark.get("ttl") or DEFAULT_TTL)


def _name(value: Any) -> str:
    """A name that every part of agentaccel can write down; lone surrogates in it are replaced."""
    return str(value).encode("utf-8", "replace").decode()


def _held_back(tool: Mapping[str, Any]) -> bool:
    """Whether a toolset defers or leaves out some of its tools: its last one may then be none of the prefix."""
    configs = tool.get("configs")
    nested = configs.values() if isinstance(configs, Mapping) else ()
    return any(
        isinstance(config, Mapping) and (config.get("defer_loading") is True or config.get("enabled") is False)
        for config in (tool.get("default_config"), *nested)
    )
