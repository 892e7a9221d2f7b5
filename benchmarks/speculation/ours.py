"""agentaccel's own predictor, as the benchmark judges it."""

from __future__ import annotations

import copyreg
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from agentaccel.locks import Lock
from agentaccel.predict.knowledge import Knowledge
from agentaccel.predict.predictor import Predictor, SessionHistory
from agentaccel.predict.tokens import REPLY, tool_of
from agentaccel.types import Prediction
from benchmarks.speculation.calls import key_of
from benchmarks.speculation.guesses import Before, Guess
from benchmarks.speculation.read import Run
from benchmarks.speculation.resources import MOST

MOST_GUESSES = 24
"""Asked for before a turn: more than are ever launched."""


class Ours:
    """Learns as it does at work: event by event. What it judges leaves no trace, since it judges with a copy."""

    def __init__(self) -> None:
        self._knowledge = Knowledge()
        self._image: bytes | None = None

    def learn(self, runs: Sequence[Run]) -> None:
        for run in runs:
            teach(self._knowledge, run)
        self._image = None

    def before(self, run: Run) -> tuple[Before, ...]:
        if self._image is None:
            self._image = image_of(self._knowledge)
        history, turns, found = session_of(copy_of(self._image), run), {turn.at for turn in run.turns}, []
        for i, event in enumerate(run.events):
            if i in turns:
                found.append(_before(history, run))
            history.take(event)
        return tuple(found)


def session_of(knowledge: Knowledge, run: Run) -> SessionHistory:
    """The session of a run, before anything has happened in it."""
    tools: Mapping[str, Mapping[str, Any]] = {str(tool.get("name")): tool for tool in run.tools}
    return Predictor(knowledge).session(run.workload, tools, run.only_reads)


def teach(knowledge: Knowledge, run: Run) -> None:
    """Learn from a whole run."""
    history = session_of(knowledge, run)
    for event in run.events:
        history.take(event)
    history.close()


def _before(history: SessionHistory, run: Run) -> Before:
    guesses: dict[Any, Guess] = {}
    for one in history.predict(MOST_GUESSES):
        guess = _guess(run, one)
        guesses.setdefault(guess.key, guess)
    offered = frozenset(str(tool.get("name")) for tool in run.tools)
    tools: dict[str, float] = {}
    for symbol, probability in history.symbols().items():
        if symbol != REPLY:
            tool = tool_of(symbol, offered)
            tools[tool] = tools.get(tool, 0.0) + probability
    return Before(
        guesses=tuple(guesses.values()),
        tools=tuple(sorted(tools, key=lambda tool: (-tools[tool], tool))),
        resources=tuple(one.value for one in history.resources(MOST)),
    )


def _guess(run: Run, one: Prediction) -> Guess:
    """What is launched now rather than later serves the next turn (`gained`), and is wasted unless it comes soon."""
    gained, wasted = one.probability, 1.0 - one.soon
    return Guess(key_of(one.call), gained, gained / (gained + wasted) if gained else 0.0, run.only_reads(one.call))


copyreg.pickle(type(Lock()), lambda _: (Lock, ()))  # a copy has a lock of its own


def image_of(knowledge: Knowledge) -> bytes:
    """All of `knowledge`, to be copied from: what judges one run must not learn from another one of its task."""
    return pickle.dumps(knowledge)


def copy_of(image: bytes) -> Knowledge:
    """What `image` was made of."""
    found = pickle.loads(image)
    assert isinstance(found, Knowledge)
    return found
