"""Which of the calls that were bound comes next: a small logistic model over what speaks for each.

Learned online, one candidate after another, with a step of its own for every weight (AdaGrad: Duchi, Hazan and Singer,
2011): a feature that is seen seldom keeps learning. It has no weight for a tool, a value or a workload; those speak
through the rates that are among its features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from typing import NamedTuple

from agentaccel.speculate.bind import Bound
from agentaccel.speculate.scene import Scene, key_of

KINDS = ("constant", "argument", "result", "text", "user", "model", "changed", "record", "again")

NAMES = (
    "one", "log p", "log rate", "log either", "log weakest", "beyond", "rule seen", "share", "rank", "size", "first",
    "age", "fresh step", "agreeing", "ways", "seen", "arguments", "none", "dup", "asked", "by user", "by model",
    "after user", "after error", "reply", "order", "beside", "passed", *KINDS,
)  # fmt: skip
"""What is told of a candidate, in order."""

_STEP = 0.4
_FADE = 1e-5
_SETTLED = 0.004
"""An error below which there is nothing to learn."""


class Around(NamedTuple):
    """What is the same for all candidates of one moment."""

    scene: Scene
    probabilities: dict[str, float]
    """Of the symbols."""
    tools: dict[str, str]
    """The tool of each symbol that calls were bound for."""
    after_user: bool
    after_error: bool
    reply: float
    """That the model answers in text."""
    beside: int
    """Calls in the reply before."""


class Fared(NamedTuple):
    """What became of the candidates of a rule."""

    right: float = 0.0
    met: float = 0.0
    expected: float = 0.0
    """How many were expected to be right, by the probability of the tool and the rate of the arguments."""


def logit(p: float) -> float:
    """Log odds, bounded."""
    p = min(max(p, 1e-4), 1.0 - 1e-4)
    return math.log(p / (1.0 - p))


def features(bound: Bound, around: Around, rule: Fared, order: int, best: float) -> list[float]:
    """What speaks for a candidate, each about between -1 and 1 or a few.

    `rule`: how its rule fared; `order`: among the calls of its tool; `best`: the highest
    prior of all candidates.
    """
    scene, offers = around.scene, bound.offers
    p = around.probabilities.get(bound.symbol, 0.0)
    right, met, expected = rule
    prior = p * bound.rate
    call = f"{around.tools[bound.symbol]}\0{bound.key}"
    past = scene.asked.get(call)
    mentioned = [scene.mentions(value, key_of(value)) for value in bound.arguments.values()]
    count = len(mentioned) or 1
    varied = max(offers, key=lambda one: one.rank) if offers else None
    rank, size = (varied.rank, max(one.size for one in offers)) if varied else (0, 1)
    step = max([one.step for one in offers], default=-1)
    age = scene.step - step if step >= 0 else 12
    kinds = {one.stat.kind for one in offers}
    log, log1p = math.log, math.log1p
    return [
        1.0,
        0.5 * log(p + 1e-4) + 1.0,
        0.5 * log(bound.rate + 1e-3) + 1.0,
        0.5 * log(bound.either + 1e-3) + 1.0,
        0.5 * log(min([one.rate for one in offers], default=1.0) + 1e-3) + 1.0,
        0.5 * log((right + 1.0) / (expected + 1.0)),
        0.3 * log1p(met),
        log((prior + 1e-4) / (best + 1e-4)) * 0.3,
        0.4 * log1p(rank),
        0.4 * log(size),
        1.0 if rank == 0 else 0.0,
        0.4 * log1p(max(age, 0)),
        1.0 if age <= 0 else 0.0,
        0.3 * log(min([one.agreeing for one in offers], default=1)),
        0.5 * log(bound.ways),
        0.2 * log1p(min([one.stat.seen for one in offers], default=0.0)),
        0.3 * len(mentioned),
        0.0 if mentioned else 1.0,
        1.0 if past is not None and past.number > scene.wrote else 0.0,
        1.0 if past is not None else 0.0,
        sum([user for user, _ in mentioned]) / count,
        sum([model for _, model in mentioned]) / count,
        1.0 if around.after_user else 0.0,
        1.0 if around.after_error else 0.0,
        around.reply,
        0.4 * log1p(order),
        0.4 * log1p(around.beside),
        0.4 * log1p(scene.passed.get(call, 0)),
        *[1.0 if kind in kinds else 0.0 for kind in KINDS],
    ]


class Logistic:
    """An online logistic regression that states what the mean of its weights states.

    The weights that learn go on swinging around the best ones by as much as a step; their mean, in which later ones
    weigh more, does not (Polyak and Juditsky, 1992; weights that rise linearly: Lacoste-Julien and others, 2012).

    >>> model = Logistic([0.0, 0.0])
    >>> for _ in range(300):
    ...     model.learn([1.0, 1.0], True), model.learn([1.0, -1.0], False)  # doctest: +ELLIPSIS
    (...)
    >>> model.of([1.0, 1.0]) > 0.8
    True
    """

    __slots__ = ("_moving", "seen", "squares", "weights")

    def __init__(self, weights: Sequence[float]) -> None:
        self.weights = list(weights)
        """The mean."""
        self._moving = list(weights)
        self.squares = [1.0] * len(self.weights)
        """Sums of squared gradients."""
        self.seen = 0.0

    def of(self, given: Sequence[float]) -> float:
        """The probability that it states."""
        return _sigmoid(sum(map(mul, self.weights, given)))

    def learn(self, given: Sequence[float], right: bool) -> None:
        """Take in one outcome."""
        moving, squares = self._moving, self.squares
        error = _sigmoid(sum(map(mul, moving, given))) - right
        self.seen += 1.0
        if -_SETTLED < error < _SETTLED:
            return
        for at, value in enumerate(given):
            if value:
                gradient = error * value
                squares[at] += gradient * gradient
                moving[at] -= _STEP * (gradient / math.sqrt(squares[at]) + _FADE * moving[at])
        part = 2.0 / (self.seen + 1.0)
        self.weights = [mean + part * (now - mean) for mean, now in zip(self.weights, moving, strict=True)]

    def resume(self) -> None:
        """Learn on from the mean, after that was changed from outside."""
        self._moving = list(self.weights)


def _sigmoid(total: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-20.0, min(20.0, total))))


def beginning() -> Logistic:
    """A model that has learned nothing: the product of the probability of the tool and the rate of the arguments."""
    start = dict.fromkeys(NAMES, 0.0)
    start.update({"one": -4.0, "log p": 2.0, "log rate": 2.0})
    return Logistic([start[name] for name in NAMES])
