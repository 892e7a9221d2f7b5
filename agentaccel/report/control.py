"""What was saved, measured: sessions that agentaccel acted on beside those that `holdout` left as written.

The control group is drawn by session, so sessions are what varies. Both groups are compared by their cost for each
1,000 input tokens, which agentaccel does not change, a ratio of two sums; its variance is that of the linearised ratio,
and the interval of the difference is Welch's. Source: Cochran, Sampling Techniques, 3rd ed., section 6.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

from agentaccel.report.figures import Control

ON, HOLDOUT = "on", "holdout"
COMPARED = (ON, HOLDOUT)
"""The modes whose sessions are compared: what agentaccel acts on, and its control group."""

LEAST_SESSIONS = 10
"""In each of the two groups: with fewer, one long session decides, and an interval would promise too much."""

LEVEL = 0.95
"""Of the interval."""

_PER = 1_000
"""Tokens that a rate is for."""


class Spent(NamedTuple):
    """What one session paid for its input, over requests with a price."""

    usd: float
    tokens: int


@dataclass(frozen=True, slots=True)
class _Rate:
    """A ratio of two sums over sessions."""

    value: float
    variance: float
    sessions: int


def control(on: Collection[Spent], holdout: Collection[Spent]) -> Control | None:
    """The control group beside the rest; None where either has sent nothing.

    A session that only paid, as for what was written ahead and never asked for, is one that agentaccel acted on.
    """
    groups = [[one for one in group if one.tokens or one.usd] for group in (on, holdout)]
    if not all(sum(one.tokens for one in group) for group in groups):
        return None
    ours, theirs = map(_rate, groups)
    low = high = None
    if min(ours.sessions, theirs.sessions) >= LEAST_SESSIONS:
        half = _half(ours, theirs)
        low, high = theirs.value - ours.value - half, theirs.value - ours.value + half
    return Control(
        sessions=theirs.sessions,
        others=ours.sessions,
        usd_control=theirs.value,
        usd_others=ours.value,
        saved=theirs.value - ours.value,
        low=low,
        high=high,
    )


def _rate(group: Collection[Spent]) -> _Rate:
    count, tokens = len(group), sum(one.tokens for one in group)
    ratio = sum(one.usd for one in group) / tokens
    if count < 2:
        return _Rate(ratio * _PER, 0.0, count)
    mean = tokens / count
    spread = sum(((one.usd - ratio * one.tokens) / mean) ** 2 for one in group) / (count - 1)
    return _Rate(ratio * _PER, spread / count * _PER**2, count)


def _half(one: _Rate, other: _Rate) -> float:
    """Half the width of the interval of a difference."""
    variance = one.variance + other.variance
    if not variance:
        return 0.0
    freedom = variance**2 / sum(rate.variance**2 / (rate.sessions - 1) for rate in (one, other))
    return student(LEVEL, freedom) * math.sqrt(variance)


def student(level: float, freedom: float) -> float:
    """Within plus or minus so much lies a share of `level` of Student's t; to about a thousandth from 5 degrees on.

    Source: Abramowitz and Stegun, 26.7.5.

    >>> round(student(0.95, 10), 2), round(student(0.95, 1e9), 2)
    (2.23, 1.96)
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return sum(term / freedom**power for power, term in enumerate(terms))


class Spendings:
    """What the sessions of one mode spent, two numbers each."""

    __slots__ = ("_tokens", "_usd")

    def __init__(self) -> None:
        self._usd, self._tokens = array("d"), array("q")

    def add(self, spent: Spent) -> None:
        """One session."""
        self._usd.append(spent.usd)
        self._tokens.append(spent.tokens)

    def all(self) -> list[Spent]:
        """All of them."""
        return list(map(Spent, self._usd, self._tokens))
