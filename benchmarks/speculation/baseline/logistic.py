"""Logistic regression with a small ridge, by Newton's method, without a library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Row = Sequence[float]

RIDGE = 1.0
STEPS = 12
"""Newton's steps, at most."""
CLOSE = 1e-4
"""A step smaller than this in every weight is the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logistic:
    """A fitted model."""

    weights: tuple[float, ...]
    """One for each feature, then the constant."""

    def probability(self, row: Row) -> float:
        return _sigmoid(sum(map(float.__mul__, self.weights, (*row, 1.0))))


def fit(rows: Sequence[Row], came: Sequence[bool], weights: Sequence[float]) -> Logistic:
    """The model with the highest penalised likelihood; `weights` are how often each row stands for itself.

    >>> model = fit([(0.0,), (1.0,), (0.0,), (1.0,)] * 20, [False, True, False, True] * 20, [1.0] * 80)
    >>> model.probability((1.0,)) > 0.8 > 0.2 > model.probability((0.0,))
    True
    """
    full = [(*row, 1.0) for row in rows]
    width = len(full[0])
    at = [0.0] * width
    for _ in range(STEPS):
        slope = [-RIDGE * one for one in at[:-1]] + [0.0]
        curve = [[0.0] * width for _ in range(width)]
        for i in range(width):
            curve[i][i] = RIDGE if i < width - 1 else 1e-9
        for row, label, weight in zip(full, came, weights, strict=True):
            p = _sigmoid(sum(map(float.__mul__, at, row)))
            miss, bend = weight * (label - p), weight * p * (1 - p)
            for i, x in enumerate(row):
                if x:
                    slope[i] += miss * x
                    scaled, line = bend * x, curve[i]
                    for j in range(i + 1):
                        line[j] += scaled * row[j]
        step = _solved(curve, slope)
        at = [one + change for one, change in zip(at, step, strict=True)]
        if max(map(abs, step)) < CLOSE:
            break
    return Logistic(weights=tuple(at))


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, x))))


def _solved(lower: list[list[float]], right: Sequence[float]) -> list[float]:
    """The solution of a symmetric positive definite system of which the lower half is given, by Cholesky's method."""
    n = len(right)
    root = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(i + 1):
            rest = lower[i][j] - sum(root[i][k] * root[j][k] for k in range(j))
            root[i][j] = math.sqrt(max(rest, 1e-12)) if i == j else rest / root[j][j]
    half = [0.0] * n
    for i in range(n):
        half[i] = (right[i] - sum(root[i][k] * half[k] for k in range(i))) / root[i][i]
    solved = [0.0] * n
    for i in reversed(range(n)):
        solved[i] = (half[i] - sum(root[k][i] * solved[k] for k in range(i + 1, n))) / root[i][i]
    return solved
