"""Why a provider will reject the markers that a sender placed; empty where it will not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from agentaccel.facts import CacheFacts
from agentaccel.providers.parts import Parts
from agentaccel.types import Marker, show_path


def illegal(
    facts: CacheFacts | None, parts: Parts, own: Marker | None, *, options: Any = None, top: Any = None
) -> tuple[str, ...]:
    """The reasons, as sentences.

    `own` is the marker of the request itself or the provider's own breakpoint, `options` the field that steers the
    latter, `top` a top-level marker on a wire that knows none.
    """
    if facts is None:
        return ()
    markers: list[Marker] = []
    misplaced: list[str] = []
    for part in parts:
        if part.markers:
            markers += part.markers
            misplaced += part.misplaced
    if own is None and not markers and options is None and top is None:
        return ()
    if facts.physics == "automatic":
        return ("this model knows no cache options",) if options is not None and facts.key == "routes" else ()
    reasons = [*misplaced, *_lifetimes(facts, [*markers, own] if own is not None else markers)]
    if facts.physics == "markers":
        reasons += _placed(facts, [*markers, own] if own is not None else markers, own, parts)
    if top is not None and not facts.top_level_marker:
        reasons.append("a top-level marker is not known on this platform")
    return tuple(reasons)


def _lifetimes(facts: CacheFacts, markers: Sequence[Marker]) -> Iterator[str]:
    for marker in markers:
        if facts.ttl(marker.ttl) is None:
            yield f"{show_path(marker.path) or 'the request'} asks for an unknown lifetime {marker.ttl!r}"


def _placed(facts: CacheFacts, markers: Sequence[Marker], top: Marker | None, parts: Parts) -> Iterator[str]:
    """The rules of Claude models: how many, in which order of lifetimes, and beside a top-level one."""
    if len(markers) > facts.max_markers:
        yield f"{len(markers)} markers, and at most {facts.max_markers} are allowed"
    known = [ttl.seconds for marker in markers if (ttl := facts.ttl(marker.ttl)) is not None]
    if any(later > earlier for earlier, later in pairwise(known)):
        yield "a longer lifetime comes after a shorter one"
    if top is not None:
        backwards = (segment for part in reversed([*parts]) for segment in reversed(part.segments))
        last = next((segment.path for segment in backwards if segment.markable), None)
        if not facts.top_level_marker and last is None:
            yield "a top-level marker is not known on this platform, and no block can carry it"
        if any(marker.path == last and marker.ttl != top.ttl for marker in markers[:-1]):
            yield "the last block and the request ask for different lifetimes"
