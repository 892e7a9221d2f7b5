"""What is judged: a model that learns runs, and guesses calls before every reply of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from agentaccel.types import ToolCall
from benchmarks.speculation.calls import Key
from benchmarks.speculation.read import Run


class Guess(NamedTuple):
    """A call that may come."""

    key: Key
    probability: float
    """As stated: that the very next reply asks for it."""
    soon: float
    """As stated: that one of the next few replies does; what a launch is decided by."""
    reads: bool
    """Whether it would only read."""


Guesses = tuple[tuple[Guess, ...], ...]
"""For every turn of a run, the guesses before it, best first."""


class Model(Protocol):
    """A predictor under judgement. One that learns a run after guessing it is judged online."""

    def learn(self, runs: Sequence[Run]) -> None:
        """Runs that have ended."""
        ...

    def guesses(self, run: Run) -> Guesses:
        """Before each turn of `run`; what has not yet happened then must not matter."""
        ...


def guess_of(run: Run, call: ToolCall, key: Key, probability: float, soon: float | None = None) -> Guess:
    """A guess in `run`."""
    return Guess(key, probability, max(probability, soon or 0.0), run.only_reads(call))


def top(guesses: Iterable[Guess], count: int) -> set[Key]:
    """The keys of the first `count` guesses."""
    return {guess.key for _, guess in zip(range(count), guesses, strict=False)}
