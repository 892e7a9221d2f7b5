"""What is stated of the price of running a tool early, before experience has corrected it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from agentaccel.facts import table


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """The figures of `facts/speculation.toml`, where each meaning stands. Seconds, shares and counts."""

    idle_price: float
    full_price: float
    wasted_share: float
    price_step: float
    most_price: float
    breaker_launches: int
    breaker_share: float
    breaker_deviations: float
    rest: float
    most_rest: float
    memory: float
    trust: float
    start: float
    margin: float
    privacy: float
    gives_back: float
    headroom: float
    per_trigger: int
    per_session: int
    altogether: int
    tool_seconds: tuple[float, ...]
    reply_seconds: tuple[float, ...]

    def of_load(self, load: float) -> float:
        """What a wasted second costs by the share of the slots that are taken, from 0 to 1.

        >>> round(stated().of_load(0.0), 3), round(stated().of_load(0.5), 3), round(stated().of_load(1.0), 3)
        (0.02, 0.063, 0.2)
        """
        steep = self.full_price / self.idle_price
        return float(self.idle_price * steep ** min(max(load, 0.0), 1.0))


@cache
def stated() -> Prices:
    """What is stated of them."""
    data = {key: value for key, value in table("speculation").items() if key != "date"}
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
    return Prices(**fields)
