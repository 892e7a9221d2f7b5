"""How often a model was right: sums with their denominators, so that tasks can be added and compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from benchmarks.speculation.calls import Key
from benchmarks.speculation.guesses import Before, Guess
from benchmarks.speculation.read import Run
from benchmarks.speculation.resources import foretold, resource_of

WITHIN = 5
"""Turns in which a launch comes soon, the next one included."""

BINS = 10
"""Of equal width, for the calibration error."""

RANKS = (1, 3, 10)
"""At which resources are looked for."""


def counted(run: Run, befores: Sequence[Before]) -> Counter[str]:
    """Everything that is told turn by turn; `turns`, `calls`, `reads` and `resources` are the denominators."""
    sums: Counter[str] = Counter()
    for turn, before in zip(run.turns, befores, strict=True):
        if not turn.keys:
            continue
        sums["turns"] += 1
        for most in (1, 3):
            guessed = top(before.guesses, most)
            sums[f"top{most}"] += not guessed.isdisjoint(turn.keys)
            for key, reads in zip(turn.keys, turn.reads, strict=True):
                sums[f"call{most}"] += key in guessed
                sums[f"read{most}"] += reads and key in guessed
                sums[f"tool{most}"] += key[0] in before.tools[:most]
        for key, reads in zip(turn.keys, turn.reads, strict=True):
            sums["calls"] += 1
            sums["reads"] += reads
            resource = resource_of(key) if reads else None
            if resource is not None:
                sums["resources"] += 1
                for rank in RANKS:
                    sums[f"resource{rank}"] += foretold(resource, before.resources[:rank])
    return sums


def top(guesses: Iterable[Guess], most: int) -> set[Key]:
    """The calls of the first guesses."""
    return {guess.key for guess in islice(guesses, most)}


class Launch(NamedTuple):
    """A call that is launched for the next turn alone."""

    probability: float
    hit: bool
    """It is a call of the next turn."""
    within: bool
    """It comes within the next few turns."""


def one_step(run: Run, befores: Sequence[Before], most: int) -> Iterator[Launch]:
    """The `most` surest launches for each turn.

    Only calls that read are launched, and none that was made since the last call that may write. A turn that ends in
    text is one in which every launch misses.
    """
    made: set[Key] = set()
    for i, (turn, before) in enumerate(zip(run.turns, befores, strict=True)):
        stated = (one for one in before.guesses if one.reads and one.key not in made)
        for guess in islice(stated, most):
            yield Launch(guess.probability, guess.key in turn.keys, _comes(run, i, guess.key))
        for key, reads in zip(turn.keys, turn.reads, strict=True):
            if reads:
                made.add(key)
            else:
                made.clear()


def _comes(run: Run, at: int, wanted: Key) -> bool:
    """Whether a call comes within a few turns and nothing that may write stands before it."""
    for turn in run.turns[at : at + WITHIN]:
        for key, reads in zip(turn.keys, turn.reads, strict=True):
            if key == wanted:
                return True
            if not reads:
                return False
    return False


def calibration(pairs: Iterable[tuple[Run, Sequence[Before]]], most: int | None = None) -> tuple[float, int]:
    """The expected calibration error of the stated probabilities of the first `most` guesses, and how many there are.

    Guo et al. (2017): over bins of equal width, the mean distance of what was stated from what came.
    """
    stated, came, count = [0.0] * BINS, [0] * BINS, [0] * BINS
    for run, befores in pairs:
        for turn, before in zip(run.turns, befores, strict=True):
            for guess in before.guesses[:most]:
                at = min(int(guess.probability * BINS), BINS - 1)
                stated[at] += guess.probability
                came[at] += guess.key in turn.keys
                count[at] += 1
    total = sum(count)
    return sum(abs(one - other) for one, other in zip(stated, came, strict=True)) / max(total, 1), total
