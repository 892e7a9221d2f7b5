"""What was foreseen for each reply of each run: once for all draws, shares and arms, since latencies change none of it.

Each run is foreseen by what was learned from the tasks of the other folds, and by itself; not by other runs of its
fold, among which are near copies of it. What an early run of a call would return is what that call returned in this run
or, where this run never makes it, in another one of the source; where no run does, nothing is foreseen from it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agentaccel.predict.breaker import CHAINED, stated
from agentaccel.predict.events import Returned
from agentaccel.predict.identity import Key
from agentaccel.predict.knowledge import Knowledge
from agentaccel.predict.predictor import SessionHistory
from agentaccel.types import Prediction, ToolCall
from benchmarks.latency.scenes import Call, Guess, Session, Turn, guess_of, identity, never_made, turns_of
from benchmarks.latency.setting import needed_after
from benchmarks.latency.simple import Simple, State
from benchmarks.speculation.ours import copy_of, image_of, session_of, teach
from benchmarks.speculation.protocols import Round, by_folds
from benchmarks.speculation.read import Run, Source

OURS, WRONG, MARKOV, TEMPLATES, PLACEBO = "ours", "wrong", "markov", "templates", "placebo"
MOST = 16
"""Candidates that the decision is given for each reply; more than it launches at one moment."""
LEAST = stated().idle_price / (1.0 + stated().idle_price)
"""What is less likely than this is left out: at no price is it worth it, and looking at it takes time."""
DEPTH = 3
"""Steps that are foreseen ahead."""
_GOES_ON = 0.1
"""What is less likely than this is not followed further; a choice of the benchmark, for time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """Sessions that are judged by what was learned from the others."""

    sessions: tuple[Session, ...]
    training: Mapping[str, int]
    """By tool, its calls in the runs that were learned."""
    needed: float
    """The most calls of one reply in the last of those."""


def foresee(source: Source, folds: int, done: Callable[[], object]) -> list[Fold]:
    """All folds of a source; `done` is told of each."""
    results = {key: result for run in reversed(source.runs) for key, result in _results(run).items()}
    found = []
    for round_ in by_folds(source.runs, folds):
        found.append(_fold(round_, results))
        done()
    return found


def _results(run: Run) -> dict[Key, str]:
    """What its calls returned, the first time."""
    returned = [event for event in run.events if isinstance(event, Returned) and not event.error]
    return {identity(event.call): event.result for event in reversed(returned)}


def _fold(round_: Round, results: Mapping[Key, str]) -> Fold:
    knowledge, simple = Knowledge(), {MARKOV: Simple(templates=False), TEMPLATES: Simple(templates=True)}
    tools: dict[str, int] = {}
    needed, reads = 1.0, list[ToolCall]()
    for run in round_.learned:
        teach(knowledge, run)
        for one in simple.values():
            one.learn(run.events)
        for calls in turns_of(run):
            needed = needed_after(needed, len(calls))
            for call in calls:
                tools[call.tool] = tools.get(call.tool, 0) + 1
        made = (event.call for event in run.events if isinstance(event, Returned))
        reads += [call for call in made if run.only_reads(call)]
    learned = image_of(knowledge)
    sessions = tuple(_session(run, learned, simple, reads, results) for run in round_.judged)
    return Fold(sessions=sessions, training=tools, needed=needed)


def _session(
    run: Run, learned: bytes, simple: Mapping[str, Simple], reads: Sequence[ToolCall], results: Mapping[Key, str]
) -> Session:
    calls, known = turns_of(run), {**results, **_results(run)}
    history, state = session_of(copy_of(learned), run), State()
    chance = random.Random(run.id)
    turns = list[Turn]()
    at = {turn.at: i for i, turn in enumerate(run.turns)}
    for i, event in enumerate(run.events):
        if i in at:
            scene = _Scene(run, calls, at[i], known)
            ours = tuple(scene.guesses(history))
            foreseen = {OURS: ours, WRONG: tuple(map(never_made, ours))}
            for name, one in simple.items():
                foreseen[name] = tuple(map(scene.guess, one.predict(state)))
            foreseen[PLACEBO] = tuple(map(scene.guess, _random(chance, reads)))
            turns.append(Turn(calls=calls[at[i]], foreseen=foreseen))
        history.take(event)
        state.take(event)
    return Session(id=run.id, task=run.task, turns=tuple(turns))


def _random(chance: random.Random, reads: Sequence[ToolCall]) -> Iterator[Prediction]:
    seen = set[Key]()
    for call in chance.sample(reads, min(3 * MOST, len(reads))):
        if (key := identity(call)) not in seen and len(seen) < MOST:
            seen.add(key)
            yield Prediction(call=call, probability=0.5, soon=0.5, rule="random")


@dataclass(frozen=True, slots=True)
class _Scene:
    """One reply of a run, to which guesses belong."""

    run: Run
    calls: Sequence[tuple[Call, ...]]
    at: int
    results: Mapping[Key, str]

    def guesses(self, history: SessionHistory) -> Iterator[Guess]:
        """What the predictor expects of this reply, and what of later ones once the results of that are there."""
        for prediction in history.predict(MOST):
            if max(prediction.soon, prediction.probability) >= LEAST:
                yield self._followed(self.guess(prediction), history)

    def guess(self, prediction: Prediction) -> Guess:
        return guess_of(prediction, self.run, self.calls, self.at)

    def _followed(self, guess: Guess, history: SessionHistory) -> Guess:
        result = self.results.get(guess.key)
        depth, before = guess.depth, guess.prediction.soon
        if result is None or depth == DEPTH or before < _GOES_ON or not guess.reads:
            return guess
        supposed = history.supposing(guess.prediction.call, result)
        then = []
        for prediction in supposed.predict(MOST):
            joint = before * max(prediction.soon, prediction.probability)
            if joint >= LEAST:
                rule = f"{guess.prediction.rule}{CHAINED}{prediction.rule}"  # counted for itself, as the runtime does
                later = self.guess(replace(prediction, probability=0.0, soon=joint, rule=rule))
                then.append(self._followed(replace(later, depth=depth + 1), supposed))
        return replace(guess, then=tuple(then))
