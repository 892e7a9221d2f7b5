"""Reading a request of the Anthropic Messages API into a `Prompt`.

Facts used: which blocks may carry a marker, how many markers there may be, and in which order their lifetimes must
come (`facts/anthropic.toml`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from agentaccel.canonical import digest, wire_bytes
from agentaccel.facts import CacheFacts
from agentaccel.providers.anthropic.blocks import Reader, ttl_label
from agentaccel.providers.anthropic.edit import MARK
from agentaccel.providers.parts import PartMemory, read_parts
from agentaccel.providers.values import items, name_of
from agentaccel.types import Marker, Prompt, Request, Segment, show_path

_LEVELS_AND_MARK = frozenset({"tools", "system", "messages", MARK})
_SPLIT = frozenset({"output_config"})
"""Parameters whose fields break different levels, hence are told apart."""


def decode(
    request: Request,
    facts: CacheFacts | None,
    *,
    key: bytes = b"",
    platform: str = "api",
    model: str = "",
    memory: PartMemory | None = None,
) -> Prompt:
    """Read `request`, hashing its segments under `key`; without facts nothing is markable.

    `model` stands in for the body's own field on platforms that name the model elsewhere. With a `memory`, only what
    it has not read before is read; the result is the same. Never raises on a malformed body.
    """
    messages = items(request.get("messages"))
    parts = read_parts(
        memory, Reader.under(facts, key), key, (items(request.get("tools")), request.get("system"), messages)
    )
    segments: list[Segment] = []
    markers: list[Marker] = []
    misplaced: list[str] = []
    parameters = _parameters(request, key)
    for part in parts:
        segments += part.segments
        if part.markers:
            markers += part.markers
            misplaced += part.misplaced
        for name in part.flags:
            parameters[name] = digest(b"1", key)
    top = request.get(MARK)
    if top is not None:
        markers.append(Marker(path=(), ttl=ttl_label(top)))
    return Prompt(
        provider="anthropic",
        platform=platform,
        model=name_of(model or request.get("model", "")),
        segments=tuple(segments),
        parameters=parameters,
        markers=tuple(markers),
        messages=len(messages),
        stream=request.get("stream") is True,
        held="message thread" if isinstance(request.get("thread"), Mapping) else "",
        stretches=tuple(part.digest for part in parts.stretches),
        illegal=tuple(_illegal(markers, misplaced, segments, facts)) if markers else (),
    )


def _parameters(request: Request, key: bytes) -> dict[str, bytes]:
    parameters: dict[str, bytes] = {}
    for name, value in request.items():
        if name in _LEVELS_AND_MARK:
            continue
        if name in _SPLIT and isinstance(value, Mapping):
            parameters.update(
                {name_of(f"{name}.{part}"): digest(wire_bytes(item), key) for part, item in value.items()}
            )
        else:
            parameters[name_of(name)] = digest(wire_bytes(value), key)
    return parameters


def _illegal(
    markers: Sequence[Marker], misplaced: Sequence[str], segments: Sequence[Segment], facts: CacheFacts | None
) -> Iterator[str]:
    """Why the provider will reject the markers that the sender placed."""
    if facts is None:
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
