"""What requests of our own have in common, be they sent ahead of a session's next one or during a pause."""

from __future__ import annotations

from agentaccel.facts import Wire
from agentaccel.providers import ReplyTap, dialect
from agentaccel.turn import Reported
from agentaccel.types import Prompt

_REFUSALS = (400, 404, 405, 413, 422)
"""Statuses that say that no such request is taken; others are of the moment, such as credentials that have run out."""


class Refusals:
    """Platforms and models that take no request of our own, as far as they have said so. Thread-safe."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()

    def __contains__(self, prompt: Prompt) -> bool:
        return (prompt.platform, prompt.model) in self._known

    def answered(self, prompt: Prompt, status: int | None) -> bool:
        """Whether this is such a refusal; from then on nothing like it is sent."""
        refused = status in _REFUSALS
        if refused:
            self._known.add((prompt.platform, prompt.model))
        return refused


def said_in(body: bytes, wire: Wire, ttl: str) -> ReplyTap:
    """What a whole reply says of itself; `ttl` as in `Turn`."""
    tap = dialect(wire).reply_tap(False, ttl)
    for _ in (*tap.feed(body), *tap.finish()):
        pass
    return tap


def reported(tap: ReplyTap) -> Reported:
    """What a reply says of itself."""
    metered = tap.metered
    return Reported(
        usage=metered.usage,
        besides=metered.besides,
        doubts=metered.doubts,
        stop=tap.stop,
        message_id=tap.message_id,
        diagnostics=tap.diagnosis,
        model=metered.model or tap.model,
        terms=tap.terms,
    )
