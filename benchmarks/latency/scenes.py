"""What the simulator plays: recorded runs as turns of calls, each with the calls that were foreseen for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from zlib import crc32

from agentaccel.speculate.events import Asked
from agentaccel.speculate.keys import Key, Principal
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

    @property
    def tool(self) -> str:
        return self.key.tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """A call that may be run before the model makes it."""

    key: Key
    prediction: Prediction
    reads: bool
    seed: int
    """Tells its draw apart where no call of the run is the same."""
    drawn_as: tuple[int, int] | None = None
    """The turn and the place in it of the next call that is the same: its run takes the same draw."""
    then: Callable[[], tuple[Guess, ...]] | None = None
    """What is foreseen once its result is there; None where nothing is, or where nobody knows its result."""


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
    return [_calls(run, run.events[turn.at]) for turn in run.turns]


def _calls(run: Run, event: object) -> tuple[Call, ...]:
    if not isinstance(event, Asked):
        return ()
    sizes = [len(str(call.arguments)) + len(call.name) for call in event.calls]
    before, whole = len(event.text), len(event.text) + sum(sizes)
    calls = []
    for call, size in zip(event.calls, sizes, strict=True):
        before += size
        closes = FIRST_BYTE + (1.0 - FIRST_BYTE) * before / whole
        calls.append(Call(key=identity(call), reads=run.only_reads(call), closes=closes))
    return tuple(calls)


def guess_of(
    prediction: Prediction,
    run: Run,
    calls: Sequence[tuple[Call, ...]],
    at: int,
    then: Callable[[], tuple[Guess, ...]] | None = None,
) -> Guess:
    """A prediction that was made for the reply with index `at` of a run whose calls are `calls`."""
    key = identity(prediction.call)
    return Guess(
        key=key,
        prediction=prediction,
        reads=run.only_reads(prediction.call),
        seed=seed_of(key),
        drawn_as=next_same(calls, key, at),
        then=then,
    )


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
    return replace(
        guess, key=identity(wrong), prediction=replace(guess.prediction, call=wrong), drawn_as=None, then=None
    )
