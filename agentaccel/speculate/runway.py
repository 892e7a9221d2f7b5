"""How long it takes until the result of an early run is needed: the runway.

For a call of the very next reply that is what is left of this one; for a call of a later reply the steps in between
come on top, since the result stays valid until something may write (AOSpec, 2608.00881: decode and tool times between
the launch and the need).
"""

from __future__ import annotations

from dataclasses import dataclass

from agentaccel.speculate.latency import Latencies, Sketch

_LEVELS = (0.125, 0.375, 0.625, 0.875)
"""Quantiles that stand for the whole distribution, equally likely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runway:
    """Seconds until results are needed."""

    next: tuple[float, ...]
    """Equally likely times until the next reply asks for its calls."""
    later: tuple[float, ...]
    """The same for a reply after that one."""


def runway(replies: Sketch, step: float, elapsed: float = 0.0) -> Runway:
    """What is left of a reply that was asked for `elapsed` seconds ago, by the times that replies have taken.

    `step` is what one more turn takes: its tools and its reply.

    >>> from agentaccel.speculate.latency import sketch_of
    >>> replies = sketch_of([4.0] * 8)
    >>> [round(one) for one in runway(replies, 5.0).next], [round(one) for one in runway(replies, 5.0, 3.0).later]
    ([4, 4, 4, 4], [6, 6, 6, 6])
    """
    left = tuple(max(replies.quantile(level, beyond=elapsed) - elapsed, 0.0) for level in _LEVELS)
    return Runway(next=left, later=tuple(one + step for one in left))


def typical_step(replies: Sketch, latencies: Latencies) -> float:
    """The expected seconds of one turn: a reply and one run of any tool."""
    return replies.quantile(0.5) + latencies.mean("")
