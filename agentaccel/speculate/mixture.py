"""Three trees that learn at three speeds, mixed by which of them has been right of late.

The *fleet* has seen everything, the *workload* what agents like this one did, the *session* only itself. Their weights
follow fixed share (Herbster and Warmuth, "Tracking the best expert", 1998): each is multiplied by the probability that
its tree gave to what happened, and a small share is then dealt out anew, so that a tree which was wrong for long can
come back when the loop changes what it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentaccel.speculate.ctw import Tree

SHARE = 0.01
"""Of the weight, dealt out anew after every outcome."""
_FIRST = (0.475, 0.475, 0.05)
"""Weights of fleet, workload and session before anything has happened: the session has seen nothing."""


class Mixture:
    """The trees of one session, and how much each is believed."""

    __slots__ = ("known", "trees", "weights")

    def __init__(self, trees: Sequence[Tree], weights: Sequence[float] = _FIRST, known: int = 0) -> None:
        self.trees = tuple(trees)
        self.weights = tuple(weights[: len(self.trees)])
        self.known = known
        """How many trees, the first ones, are asked and not taught."""

    def predict(self, past: Sequence[str]) -> dict[str, float]:
        """Probabilities of what may come next, for the symbols that some tree has counted in a context like this."""
        outlooks = [tree.predict(past) for tree in self.trees]
        mixed: dict[str, float] = {}
        base = 0.0
        for weight, outlook in zip(self.weights, outlooks, strict=True):
            floor = outlook.of("")
            base += weight * floor
            get = mixed.get
            for symbol, probability in outlook.counted.items():
                mixed[symbol] = get(symbol, 0.0) + weight * (probability - floor)
        for symbol in mixed:
            mixed[symbol] += base
        return mixed

    def update(self, past: Sequence[str], symbols: Iterable[str]) -> None:
        """Learn that `symbols` followed `past`: one, or the several that one reply asked for side by side."""
        for symbol in symbols:
            said = [tree.predict(past).of(symbol) for tree in self.trees[: self.known]]
            said += [tree.update(past, symbol) for tree in self.trees[self.known :]]
            self.weights = fixed_share(self.weights, said)


def fixed_share(weights: Sequence[float], said: Sequence[float], share: float = SHARE) -> tuple[float, ...]:
    """The weights after an outcome to which the experts had given the probabilities `said`.

    >>> [round(one, 2) for one in fixed_share([0.5, 0.5], [0.9, 0.1])]
    [0.9, 0.1]
    """
    gained = [weight * max(one, 1e-12) for weight, one in zip(weights, said, strict=True)]
    total = sum(gained)
    return tuple((1.0 - share) * one / total + share / len(gained) for one in gained)
