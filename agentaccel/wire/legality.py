"""Why a provider will reject the markers that a sender placed; empty where it will not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentaccel.facts import CacheFacts
from agentaccel.types import Marker, show_path
from agentaccel.wire.memory import ParsedPart


def illegal(
    facts: CacheFacts | None, read: ParsedPart, own: Marker | None, *, options: Any = None, top: Any = None
) -> tuple[str, ...]:
    """The reasons, as sentences.

    `read` is what the request reads as, `own` the marker of the request itself or the provider's own breakpoint,
    `options` the field that steers the latter, `top` a top-level marker on a wire that knows none.
    """
    if facts is None:
        return ()
    markers = read.markers if own is None else (*read.markers, own)
    if not markers and options is None and top is None:
        return ()
    if facts.physics == "automatic":
        return ("this model knows no cache options",) if options is not None and facts.key == "routes" else ()
    reasons = [*read.misplaced]
    lifetimes: list[float] = []
    for marker in markers:
        ttl = facts.ttl(marker.ttl)
        if ttl is None:
            reasons.append(f"{show_path(marker.path) or 'the request'} asks for an unknown lifetime {marker.ttl!r}")
        else:
            lifetimes.append(ttl.seconds)
    if facts.physics == "markers":
        reasons += _placed(facts, lifetimes, own, read)
    if top is not None and not facts.top_level_marker:
        reasons.append("a top-level marker is not known on this platform")
    return tuple(reasons)


def _placed(facts: CacheFacts, lifetimes: Sequence[float], top: Marker | None, read: ParsedPart) -> list[str]:
    """The rules of Claude models: how many, in which order of `lifetimes`, and beside a top-level one."""
    reasons: list[str] = []
    count = len(read.markers) + (top is not None)
    if count > facts.max_markers:
        reasons.append(f"{count} markers, and at most {facts.max_markers} are allowed")
    if lifetimes != sorted(lifetimes, reverse=True):
        reasons.append("a longer lifetime comes after a shorter one")
    if top is None:
        return reasons
    last = next((segment.path for segment in reversed(read.segments) if segment.markable), None)
    if not facts.top_level_marker and last is None:
        reasons.append("a top-level marker is not known on this platform, and no block can carry it")
    if any(marker.path == last and marker.ttl != top.ttl for marker in read.markers):
        reasons.append("the last block and the request ask for different lifetimes")
    return reasons
