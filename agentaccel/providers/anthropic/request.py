"""Reading a request of the Anthropic Messages API into a `Prompt`.

Facts used: which blocks may carry a marker, how many markers there may be, and in which order their lifetimes must
come (`facts/anthropic.toml`).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from agentaccel.canonical import block_hash, digest, wire_bytes
from agentaccel.facts import CacheFacts
from agentaccel.providers.anthropic.blocks import Reader, ttl_label
from agentaccel.providers.anthropic.edit import MARK
from agentaccel.providers.legality import illegal
from agentaccel.providers.parts import PartMemory, PartReader
from agentaccel.providers.values import is_object, items, name_of
from agentaccel.types import Marker, Prompt, Request
from agentaccel.values import maker

_prompt, _reader = maker(Prompt), maker(Reader)

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
    model elsewhere. With a `memory`, only what it has not read before is read; the result is the same. Never raises on
    a malformed body.
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
