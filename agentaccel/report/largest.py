"""The largest misses of a report, as examples."""

from __future__ import annotations

import heapq

from agentaccel.records import TurnRecord
from agentaccel.report.figures import Example
from agentaccel.types import Cause, Miss

EXAMPLES = 10
"""Largest misses kept to be shown."""


class Largest:
    """The largest misses so far that are not first requests; of equal ones the earliest."""

    def __init__(self) -> None:
        self._kept: list[tuple[int, int, Example]] = []
        self._order = 0

    def take(self, turn: TurnRecord) -> None:
        """The misses of one request."""
        for miss in turn.misses:
            if miss.cause is Cause.FIRST:
                continue
            self._order -= 1
            full = len(self._kept) >= EXAMPLES
            if full and miss.tokens <= self._kept[0][0]:
                continue
            # The order breaks ties, so that examples themselves are never compared.
            keep = heapq.heappushpop if full else heapq.heappush
            keep(self._kept, (miss.tokens, self._order, _example(turn, miss)))

    def all(self) -> tuple[Example, ...]:
        """The largest first."""
        return tuple(example for _, _, example in sorted(self._kept, reverse=True))


def _example(turn: TurnRecord, miss: Miss) -> Example:
    drift = turn.drift
    place = f"{drift.where}: {drift.likely}" if drift is not None else ""
    known = drift is not None and miss.detail in (drift.where, drift.level)
    return Example(
        cause=miss.cause,
        inferred=miss.inferred,
        tokens=miss.tokens,
        session=turn.session,
        started=turn.started,
        detail="; ".join(part for part in (place, "" if known else miss.detail) if part),
    )
