"""Whether a pattern's launches are used: a circuit breaker for each pattern, one for all of them, and how far stated
probabilities are to be believed.

A breaker opens where the launches that are used are, by the upper Wilson bound, fewer than are worth it; after a rest
one launch is tried, and what becomes of it closes the breaker or opens it for twice as long (Nygard, Release It!, 2007;
the bound: Wilson, 1927). The counts fade, so patterns may change their ways. Times are seconds of the wall clock,
because the counts outlive the process.

>>> breakers = Breakers()
>>> for at in range(20):
...     breakers.launched("a", now=at)
...     breakers.settled("a", 0.5, used=False, now=at)
>>> breakers.room("a", now=20.0), breakers.trust("a") < 0.2
(0, True)
>>> breakers.room("a", now=1000.0)  # one is tried
1
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from typing import Any

from agentaccel.facts import table

# --- What is stated of the price of running a tool early, before experience has corrected it --------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchPrices:
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
def stated() -> LaunchPrices:
    """What is stated of them."""
    data = {key: value for key, value in table("speculation").items() if key != "date"}
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
    return LaunchPrices(**fields)


ALL = ""
"""The rule under which everything is counted."""
CHAINED = " > "
"""Between the patterns of a chain: a guess that follows from the result of another."""
MOST_RULES = 1024
"""Patterns that are counted; the one that was not launched for longest goes."""
UNLIMITED = 1 << 30
"""Room where a breaker is closed."""


@dataclass(slots=True)
class Record:
    """What became of the launches of one pattern, faded."""

    settled: float = 0.0
    """Launches of which it is known whether they were used."""
    used: float = 0.0
    expected: float = 0.0
    """The sum of their stated probabilities."""
    opened: float | None = None
    """When the breaker opened; None while it is closed."""
    rest: float = 0.0
    """How long it stays open, in seconds."""
    tried: float | None = None
    """When the launch was made that is to tell whether it closes."""

    def room(self, now: float) -> int:
        """How many launches it lets through."""
        if self.opened is None:
            return UNLIMITED
        rested = now - (self.opened if self.tried is None else self.tried) >= self.rest
        return 1 if rested else 0

    def settle(self, probability: float, *, used: bool, now: float) -> None:
        """One more launch of which it is known whether it was used."""
        prices = stated()
        fade = 1.0 - 1.0 / prices.memory
        self.settled = self.settled * fade + 1.0
        self.used = self.used * fade + used
        self.expected = self.expected * fade + probability
        if self.opened is not None:
            self._judge(used=used, now=now)
        elif self.fails():
            self.opened, self.rest = now, max(self.rest, prices.rest)

    def _judge(self, *, used: bool, now: float) -> None:
        """Close, or rest for longer, by the launch that was tried; what was launched before only counts."""
        if self.tried is None:
            return
        if used:
            self.opened, self.tried, self.rest = None, None, 0.0
            self.settled, self.used, self.expected = 1.0, 1.0, 1.0
        else:
            self.opened, self.tried, self.rest = now, None, min(2 * self.rest, stated().most_rest)

    def fails(self) -> bool:
        """Whether too few of its launches are used, as far as that is certain."""
        prices = stated()
        bound = upper_bound(self.used, self.settled, prices.breaker_deviations)
        return self.settled >= min(prices.breaker_launches, prices.memory / 2) and bound < prices.breaker_share

    def trust(self, like: float = 1.0) -> float:
        """What a stated probability is multiplied with: what was used for what was to be expected, with Poisson counts
        and a Gamma prior whose mean is that of patterns `like` it; never more than 1."""
        prior = stated().trust
        return min((self.used + prior * like) / (self.expected + prior), 1.0)


def upper_bound(hits: float, trials: float, deviations: float) -> float:
    """Wilson's upper bound of a share.

    >>> round(upper_bound(0, 8, 1.28), 2), upper_bound(0, 0, 1.28)
    (0.17, 1.0)
    """
    if trials <= 0.0:
        return 1.0
    z2, share = deviations * deviations, min(hits / trials, 1.0)
    spread = deviations * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials))
    return (share + z2 / (2 * trials) + spread) / (1 + z2 / trials)


def _length_of(rule: str) -> str:
    """What a pattern counts for beside itself: all, or the chains that are as long.

    >>> _length_of("a"), _length_of("a > b")
    ('', ' > ')
    """
    return CHAINED * rule.count(CHAINED)


class Breakers:
    """The records of all patterns. Not thread-safe."""

    __slots__ = ("_records",)

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}

    def room(self, rule: str, now: float) -> int:
        """How many launches of `rule` its own breaker lets through; that of `ALL` is asked for by its name."""
        record = self._records.get(rule)
        return UNLIMITED if record is None else record.room(now)

    def trust(self, rule: str) -> float:
        """How far the stated probabilities of `rule` are to be believed, at most 1: a new pattern as all are, and a
        chain, of which there are too many to know each, much as those of its length are."""
        records = self._records
        like = 1.0
        if CHAINED in rule and (chains := records.get(_length_of(rule))) is not None:
            like = chains.trust()
        elif rule not in records and ALL in records:
            like = records[ALL].trust()
        record = records.get(rule)
        return like if record is None else record.trust(like)

    def launched(self, rule: str, now: float) -> None:
        """A launch of `rule` has begun."""
        for name in {rule, _length_of(rule), ALL}:
            record = self._touch(name)
            if record.opened is not None and record.room(now):
                record.tried = now

    def settled(self, rule: str, probability: float, *, used: bool, now: float) -> None:
        """Whether a launch for which `probability` was stated was used is known now."""
        for name in {rule, _length_of(rule), ALL}:
            self._touch(name).settle(probability, used=used, now=now)

    def _touch(self, rule: str) -> Record:
        record = self._records.pop(rule, None) or Record()
        if len(self._records) >= MOST_RULES:
            del self._records[next(one for one in self._records if one.strip(CHAINED))]
        self._records[rule] = record
        return record

    def merge(self, other: Breakers) -> None:
        """Count what another process has counted; a breaker is open where one was and both together say so."""
        for rule, theirs in other._records.items():
            record = self._touch(rule)
            record.settled += theirs.settled
            record.used += theirs.used
            record.expected += theirs.expected
            opened = [one.opened for one in (record, theirs) if one.opened is not None]
            record.opened = max(opened) if opened and record.fails() else None
            record.rest, record.tried = max(record.rest, theirs.rest), None

    def dump(self) -> dict[str, dict[str, float | None]]:
        """What was learned, as JSON values."""
        return {rule: asdict(record) for rule, record in self._records.items()}

    @classmethod
    def load(cls, data: Mapping[str, Mapping[str, Any]]) -> Breakers:
        """What `dump` gave; what is no record is left out."""
        breakers, names = cls(), {field.name for field in fields(Record)}
        for rule, one in list(data.items())[-MOST_RULES:]:
            if set(one) == names and all(_is_stored(name, value) for name, value in one.items()):
                breakers._records[rule] = Record(**one)
        return breakers


def _is_stored(name: str, value: object) -> bool:
    return (value is None and name in ("opened", "tried")) or (
        isinstance(value, int | float) and 0.0 <= value < math.inf
    )
