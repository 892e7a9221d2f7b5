"""What is judged: a model that learns runs, and says before every reply of a run what it expects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from benchmarks.speculation.calls import Key
from benchmarks.speculation.read import Run


class Guess(NamedTuple):
    """A call that may come."""

    key: Key
    probability: float
    """As stated: that the very next reply asks for it."""
    soon: float
    """How good it is to launch it now, from 0 to 1, as the model rates it: what a launch is decided by."""
    reads: bool
    """Whether it would only read."""


class Before(NamedTuple):
    """What a model expects of a reply."""

    guesses: tuple[Guess, ...] = ()
    """Each call once, best first."""
    tools: tuple[str, ...] = ()
    """Likeliest first."""
    resources: tuple[str, ...] = ()
    """Paths and addresses that will be read, likeliest first."""


class Model(Protocol):
    """A predictor under judgement. One that learns each run after it was judged by it is judged online."""

    def learn(self, runs: Sequence[Run]) -> None:
        """Runs that have ended."""
        ...

    def before(self, run: Run) -> tuple[Before, ...]:
        """What it expects of each turn of `run`: from what stands before that turn alone, and nothing of it stays."""
        ...
