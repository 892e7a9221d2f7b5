"""What was learned of running tools early: how long things take, which patterns are used, and what waste costs.

It has no lock and does no I/O; whoever holds it does both. Everything is numbers by the names of tools and patterns: no
arguments, no results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentaccel.predict.breaker import Breakers, stated
from agentaccel.predict.latency import Latencies, Runway, Sketch, runway, sketch_of, typical_step
from agentaccel.types import Prediction


class Experience:
    """What one `Accel` has learned; sessions share it."""

    __slots__ = ("_replies", "breakers", "latencies", "surcharge")

    def __init__(self) -> None:
        self.latencies = Latencies()
        self.breakers = Breakers()
        self.surcharge = 0.0
        """What a wasted second costs beyond what load makes it cost: it rises while too much is wasted."""
        self._replies = sketch_of(stated().reply_seconds)

    def replied(self, seconds: float) -> None:
        """A reply of the model took so long, from the request to its end."""
        self._replies.add(seconds)

    def ran(self, tool: str, seconds: float) -> None:
        """A real call of a tool took so long."""
        self.latencies.saw(tool, seconds)

    def runway(self, elapsed: float = 0.0) -> Runway:
        """Until when results are needed, where the model was asked `elapsed` seconds ago."""
        return runway(self._replies, typical_step(self._replies, self.latencies), elapsed)

    def launched(self, prediction: Prediction, now: float) -> None:
        """An early run has begun."""
        self.breakers.launched(prediction.rule, now)

    def settled(self, prediction: Prediction, *, used: bool, now: float) -> None:
        """What became of an early run is known: it was served, or it is no longer expected to be.

        Waste is kept at its share by a controller: the surcharge moves by a step for each launch, up for one that was
        wasted and down for one that was used, so that it rests where the share is as wanted (adaptive conformal
        inference: Gibbs and Candès, 2021).
        """
        prices = stated()
        self.breakers.settled(prediction.rule, max(prediction.soon, prediction.probability), used=used, now=now)
        moved = self.surcharge + prices.price_step * ((not used) - prices.wasted_share)
        self.surcharge = min(max(moved, 0.0), prices.most_price)

    def dump(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {
            "tools": self.latencies.dump(),
            "replies": self._replies.dump(),
            "rules": self.breakers.dump(),
            "surcharge": self.surcharge,
        }

    def merge(self, other: Experience) -> None:
        """Learn what another process has learned; waste is as dear as where it is dearer."""
        self.latencies.merge(other.latencies)
        self._replies.merge(other._replies)
        self.breakers.merge(other.breakers)
        self.surcharge = max(self.surcharge, other.surcharge)

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Experience:
        """What `dump` gave; what is not there, or is no such thing, was not learned."""
        experience = cls()
        tools, replies, rules = (_table(data.get(name)) for name in ("tools", "replies", "rules"))
        experience.latencies = Latencies.load({tool: _table(counts) for tool, counts in tools.items()})
        if replies:
            experience._replies = Sketch.load(replies)
        experience.breakers = Breakers.load({rule: _table(record) for rule, record in rules.items()})
        surcharge = data.get("surcharge")
        if isinstance(surcharge, int | float) and surcharge >= 0.0:
            experience.surcharge = min(float(surcharge), stated().most_price)
        return experience


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
