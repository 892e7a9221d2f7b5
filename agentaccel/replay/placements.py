"""Policies that need no planner: where each puts its markers in one request. What a planner has to beat.

Each takes the place of whatever markers the request had. All are legal: only on segments that may carry one,
ascending, of one lifetime, and no more than the model takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from agentaccel.cache.breakpoints import both_ends
from agentaccel.cache.ledger import Breakpoint
from agentaccel.facts import CacheFacts, Level
from agentaccel.replay.runs import Step

Placement = Callable[[Step], tuple[Breakpoint, ...]]
"""The markers of one request, ascending."""


def as_recorded(step: Step) -> tuple[Breakpoint, ...]:
    """The markers that the request was sent with."""
    return step.marks


def _none(step: Step) -> tuple[Breakpoint, ...]:
    return ()


def _automatic(step: Step) -> tuple[Breakpoint, ...]:
    """What the provider does with a top-level marker: one on the last block that can carry it."""
    return _marks(step, [_markable(step, len(step.prefix.prompt.segments) - 1)], "5m")


def _tail(step: Step) -> tuple[Breakpoint, ...]:
    return _marks(step, [_tail_of(step)], "5m")


def _three(label: str) -> Placement:
    def place(step: Step) -> tuple[Breakpoint, ...]:
        return _marks(step, [_end_of(step, "tools"), _end_of(step, "system"), _tail_of(step)], label)

    return place


PLACEMENTS: Mapping[str, Placement] = {
    "none": _none,
    "automatic": _automatic,
    "tail": _tail,
    "tools+system+tail 5m": _three("5m"),
    "tools+system+tail 1h": _three("1h"),
}
"""By the name that output shows; "tail" differs from "automatic" where an answer is prefilled."""


def _marks(step: Step, places: Iterable[int], label: str) -> tuple[Breakpoint, ...]:
    facts = step.prefix.facts
    ends = sorted({at for at in places if at >= 0})[-facts.max_markers :]
    return tuple(Breakpoint(at, _lifetime(facts, label)) for at in ends)


def _lifetime(facts: CacheFacts, label: str) -> str:
    """`label`, where the provider offers it; else its default."""
    return label if facts.ttl(label) is not None else facts.ttls[0].label


def _tail_of(step: Step) -> int:
    return _markable(step, both_ends(step.prefix.prompt)[0])


def _end_of(step: Step, level: Level) -> int:
    segments = step.prefix.prompt.segments
    return next((i for i in reversed(range(len(segments))) if segments[i].level == level and segments[i].markable), -1)


def _markable(step: Step, end: int) -> int:
    """The last segment up to `end`, inclusive, that may carry a marker; -1 where none may."""
    segments = step.prefix.prompt.segments
    return next((i for i in range(end, -1, -1) if segments[i].markable), -1)
