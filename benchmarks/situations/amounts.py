"""Amounts that a situation draws: seconds, tokens, turns."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_Z90 = 1.2815515655446004
"""The 90th percentile of the standard normal distribution."""

FORMS = "a number, {median, p90}, {low, high}, {mean}, or {mix = [[share, amount], ...]}"
"""What an amount may be, as error messages say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogNormal:
    """Mostly small, sometimes large."""

    median: float
    p90: float
    """Nine of ten draws are at most this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Even:
    """Anything between two values, each as likely."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """One of several, by their shares."""

    of: tuple[tuple[float, Amount], ...]
    """Share and amount; shares need not add up to one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometric:
    """A whole number of at least 1 with this mean: whatever has been counted, the odds that it ends are the same."""

    mean: float


Amount = float | LogNormal | Even | Mixture | Geometric
"""A number is always the same."""


def draw(amount: Amount, chance: random.Random) -> float:
    """One draw from `amount`."""
    match amount:
        case LogNormal():
            return amount.median * math.exp(chance.gauss(0.0, math.log(amount.p90 / amount.median) / _Z90))
        case Even():
            return chance.uniform(amount.low, amount.high)
        case Geometric():
            if amount.mean <= 1:
                return 1.0
            return 1.0 + math.floor(math.log(1.0 - chance.random()) / math.log(1.0 - 1.0 / amount.mean))
        case Mixture():
            (_, part), *_ = chance.choices(amount.of, weights=[share for share, _ in amount.of])
            return draw(part, chance)
        case _:
            return amount


def varies(amount: Amount) -> bool:
    """Whether two draws may differ."""
    return not isinstance(amount, int | float)


def read_amount(value: object) -> Amount:
    """The amount that a TOML value describes. Raises ValueError saying what is wrong with it."""
    if isinstance(value, Mapping):
        keys = set(value)
        if keys == {"median", "p90"}:
            median, p90 = _number(value["median"]), _number(value["p90"])
            if not 0 < median <= p90:
                raise ValueError("median must be above 0 and at most p90")
            return LogNormal(median=median, p90=p90)
        if keys == {"low", "high"}:
            low, high = _number(value["low"]), _number(value["high"])
            if low > high:
                raise ValueError("low must be at most high")
            return Even(low=low, high=high)
        if keys == {"mean"}:
            mean = _number(value["mean"])
            if mean < 1:
                raise ValueError("mean must be at least 1")
            return Geometric(mean=mean)
        if keys == {"mix"} and isinstance(value["mix"], Sequence) and value["mix"]:
            return Mixture(of=tuple(map(_part, value["mix"])))
        raise ValueError(f"must be {FORMS}")
    return _number(value)


def _part(value: object) -> tuple[float, Amount]:
    if not isinstance(value, Sequence) or len(value) != 2 or isinstance(value, str):
        raise ValueError("each part of a mix is [share, amount]")
    share = _number(value[0])
    if share <= 0:
        raise ValueError("a share of a mix must be above 0")
    return share, read_amount(value[1])


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"must be {FORMS}, with numbers of at least 0")
    return float(value)
