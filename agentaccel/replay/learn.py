"""Learning from recorded conversations, and how well what was learned from the first of them tells the last."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agentaccel.effects.places import Surroundings
from agentaccel.effects.shell import judge_shell
from agentaccel.predict.context import identity
from agentaccel.predict.events import Asked
from agentaccel.predict.knowledge import Knowledge
from agentaccel.predict.predictor import Predictor
from agentaccel.predict.tokens import command_of
from agentaccel.replay.events import Recorded
from agentaccel.types import ToolCall

JUDGED = 0.2
"""The share of the conversations, the last ones, that what was learned before them is judged by."""
GUESSES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What came of it."""

    runs: int
    calls: int
    turns: int
    """Replies with calls in the last fifth of the runs."""
    first: int
    """Of these, those of which some call was the best guess, with all its arguments."""
    among: int
    """The same for the best three."""


def learn(
    runs: Iterable[Recorded], count: int, knowledge: Knowledge, tell: Callable[[], None] = lambda: None
) -> Learned:
    """Let `knowledge` learn from `runs`, of which there are `count`. Each is judged before it is learned from.

    `tell` is called after each of them. A predictor learns while it is in use, so the last runs learn from one another,
    too. Runs about one task are near copies: of those, what was guessed says little about a new task.
    """
    predictor = Predictor(knowledge)
    judged_from = count - int(count * JUDGED)
    number = calls = turns = first = among = 0
    for number, run in enumerate(runs, 1):
        history = predictor.session(run.workload, {str(one.get("name")): one for one in run.tools}, _reads(run))
        for event in run.events:
            if isinstance(event, Asked):
                calls += len(event.calls)
                if number > judged_from:
                    made = set(map(identity, event.calls))
                    guessed = [identity(one.call) in made for one in history.predict(GUESSES)]
                    turns, first, among = turns + 1, first + any(guessed[:1]), among + any(guessed)
            history.take(event)
        history.close()
        tell()
    return Learned(runs=number, calls=calls, turns=turns, first=first, among=among)


def _reads(run: Recorded) -> Callable[[ToolCall], bool]:
    """Which calls of a run write nothing, by its source or their command line. No permission hangs on it."""

    def reads(call: ToolCall) -> bool:
        command = command_of(call)
        if command:
            return judge_shell(command, Surroundings()).launchable != "never"
        return call.name in run.reads

    return reads
