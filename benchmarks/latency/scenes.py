"""What the simulator plays: recorded runs as turns of calls, each with the calls that were foreseen for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from zlib import crc32

from agentaccel.predict.events import Asked
from agentaccel.predict.identity import Key, Principal
from agentaccel.types import Prediction, ToolCall
from benchmarks.speculation.calls import key_of
from benchmarks.speculation.read import Run

FIRST_BYTE = 0.3
"""The share of a reply's time that passes before its first byte; stated. The rest goes by in proportion to its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that the model makes."""

    key: Key
    reads: bool
    """Whether nothing that was read before is in doubt after it."""
    closes: float
    """The share of the reply's time after which its arguments are complete."""
    again: bool
    """Whether a later call of the run is the same."""

    @property
    def tool(self) -> str:
        return self.key.tool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Guess:
    """A call that may be run before the model makes it."""

    key: Key
    prediction: Prediction
    reads: bool
    seed: int
    """Tells its draw apart where no call of the run is the same."""
    drawn_as: tuple[int, int] | None = None
    """The turn and the place in it of the next call that is the same: its run takes the same draw."""
    depth: int = 1
    """Steps ahead of what is known."""
    then: tuple[Guess, ...] = ()
    """What is foreseen besides, once its result is there: calls of later replies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One reply of the model, and what was foreseen when it was asked."""

    calls: tuple[Call, ...]
    foreseen: Mapping[str, tuple[Guess, ...]] = field(default_factory=dict)
    """By who foresaw it, best first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One run."""

    id: str
    task: str
    turns: tuple[Turn, ...]


_NOBODY = Principal(None, "")
"""Each session has a buffer of its own here."""


def identity(call: ToolCall) -> Key:
    """What a call is known by."""
    return Key(*key_of(call), _NOBODY, 0)


def turns_of(run: Run) -> list[tuple[Call, ...]]:
    """The calls of each reply of a run."""
    later, turns = set[Key](), list[tuple[Call, ...]]()
    for turn in reversed(run.turns):
        event = run.events[turn.at]
        calls = event.calls if isinstance(event, Asked) else ()
        keys = [identity(call) for call in calls]
        ends = _closes(event.text, calls) if isinstance(event, Asked) else []
        turns.append(
            tuple(
                Call(key=key, reads=run.only_reads(call), closes=end, again=key in later or key in keys[at + 1 :])
                for at, (call, key, end) in enumerate(zip(calls, keys, ends, strict=True))
            )
        )
        later.update(keys)
    return turns[::-1]


def _closes(text: str, calls: Sequence[ToolCall]) -> list[float]:
    sizes = [len(str(call.arguments)) + len(call.name) for call in calls]
    whole = len(text) + sum(sizes)
    return [FIRST_BYTE + (1.0 - FIRST_BYTE) * (len(text) + written) / whole for written in accumulate(sizes)]


def guess_of(prediction: Prediction, run: Run, calls: Sequence[tuple[Call, ...]], at: int) -> Guess:
    """A prediction that was made for the reply with index `at` of a run whose calls are `calls`."""
    key, reads = identity(prediction.call), run.only_reads(prediction.call)
    return Guess(key=key, prediction=prediction, reads=reads, seed=seed_of(key), drawn_as=next_same(calls, key, at))


def next_same(calls: Sequence[tuple[Call, ...]], key: Key, at: int) -> tuple[int, int] | None:
    """Where the next call with this key stands, from the reply with index `at` on."""
    return next(
        ((turn, place) for turn in range(at, len(calls)) for place, call in enumerate(calls[turn]) if call.key == key),
        None,
    )


def seed_of(key: Key) -> int:
    """A number of a key that is the same in every process."""
    return crc32(key.arguments, crc32(key.tool.encode()))


def never_made(guess: Guess) -> Guess:
    """The same guess of a call that no run makes, of the same tool: probability, rule and time stay."""
    call = guess.prediction.call
    wrong = ToolCall(name=call.name, arguments={**call.arguments, "never made": True})
    return replace(guess, key=identity(wrong), prediction=replace(guess.prediction, call=wrong), drawn_as=None, then=())
