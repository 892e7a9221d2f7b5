"""What a stated probability was worth: the share that came true, with a lower bound while little is known.

Stated probabilities fall into bins of equal width in log odds. Each bin has a beta prior around what was stated, worth
`WORTH` sightings. The bins are made monotone by pooling neighbours (isotonic regression: Ayer and others, 1955), so
that calibrating never turns an order around, and what lies between two bins is interpolated, so that it blurs none
either. Until a bin has been met `ENOUGH` times its value is drawn towards a
one-sided lower bound: whoever pays for a guess should not pay for our ignorance.
"""

from __future__ import annotations

import math
from bisect import bisect

from agentaccel.predict.rank import logit

BINS = 24
WORTH = 64.0
"""Many: the candidates of one moment, and the moments of one session, come true together or not at all."""
ENOUGH = 30.0
_LOW, _HIGH = -6.0, 4.0
_SIGMAS = 0.84
"""Of a normal approximation to the posterior: four in five lie above."""
_REFIT = 64
"""Outcomes between two fits."""
_MOST = 4000.0
"""Sightings of one bin; beyond, old ones count for less."""


class Calibration:
    """Learns what stated probabilities were worth.

    >>> calibration = Calibration()
    >>> for number in range(1000):
    ...     calibration.learn(0.8, number % 2 == 0)
    >>> 0.45 < calibration.of(0.8) < 0.55
    True
    >>> Calibration().of(0.8) < 0.8
    True
    """

    __slots__ = ("_fitted", "_left", "bins")

    def __init__(self) -> None:
        self.bins = [[0.0, 0.0, 0.0] for _ in range(BINS)]
        """Met, came true, sum of what was stated."""
        self._left = 0
        self._fitted: list[tuple[float, float]] | None = None

    def learn(self, stated: float, right: bool) -> None:
        """Take in what became of a stated probability."""
        counts = self.bins[_bin(stated)]
        if counts[0] >= _MOST:
            counts[:] = [one * 0.5 for one in counts]
        counts[0] += 1.0
        counts[1] += right
        counts[2] += stated
        self._left -= 1
        if self._left <= 0:
            self._fitted = None

    def of(self, stated: float) -> float:
        """What it is worth: between 0 and 1, and never lower for what was stated higher."""
        fitted = self._fitted
        if fitted is None:
            fitted = self._fitted = self._fit()
            self._left = _REFIT
        said = logit(stated)
        at = min(max(bisect(fitted, (said,)), 1), BINS - 1)
        (left, low), (right, high) = fitted[at - 1], fitted[at]
        part = min(max((said - left) / (right - left), 0.0), 1.0)
        return 1.0 / (1.0 + math.exp(-(low + (high - low) * part)))

    def _fit(self) -> list[tuple[float, float]]:
        """What was stated in every bin, on average, and what it is worth: both in log odds, both rising."""
        pooled: list[tuple[float, float, int]] = []
        stated: list[float] = []
        for number, (met, right, total) in enumerate(self.bins):
            centre = 1.0 / (1.0 + math.exp(-(_LOW + (number + 0.5) * (_HIGH - _LOW) / BINS)))
            stated.append(logit((total + WORTH * centre) / (met + WORTH)))
            mean = (right + WORTH * centre) / (met + WORTH)
            unknown = max(0.0, 1.0 - met / ENOUGH)
            low = max(mean - unknown * _SIGMAS * math.sqrt(mean * (1.0 - mean) / (met + WORTH + 1.0)), 0.0)
            pooled.append((met + 1.0, low, 1))  # a bin that was never met yields to its neighbours
            while len(pooled) > 1 and pooled[-2][1] > pooled[-1][1]:
                weight, value, count = pooled.pop()
                other, its_value, its_count = pooled.pop()
                both = weight + other
                pooled.append((both, (weight * value + other * its_value) / both, count + its_count))
        return list(zip(stated, (logit(value) for _, value, count in pooled for _ in range(count)), strict=True))


def _bin(stated: float) -> int:
    return min(max(int((logit(stated) - _LOW) / (_HIGH - _LOW) * BINS), 0), BINS - 1)
