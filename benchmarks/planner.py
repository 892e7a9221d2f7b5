"""Planning one turn of a long conversation takes no longer than writing its request as JSON does. From the request to
the request that is sent (decode, plan, encode) in a session that is open, the trace store switched off; settling and
recording are stated apart, and so is opening and leaving a session.

*Cold* is an `Accel` that has seen nothing. *Warm* has answered the turns before and has seen this request, as it has
when the SDK retries it: *same* are the very objects, *fresh* equal ones that share none with them. *Next* is the
conversation's next turn, with two new messages, and *marked* is that with a marker of the user's own that moved to the
new tail; both fresh. Everything is measured against `json.dumps` of an equal request in the same rounds: of the same
objects, or of fresh ones. Each conversation grows by a turn each round, and so does the request that `json.dumps` is
given: from half the rounds below the length meant to half of them above, where it is that long. So the median is over
turns whose decision stands and turns that are decided anew, in the shares in which they come.
"""

from __future__ import annotations

import contextvars
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any

import click

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.engine.scope import current
from agentaccel.testing import ManualClock
from agentaccel.turn import Turn
from benchmarks.conversation import BLOCK_BYTES, BLOCKS_A_TURN, Conversation, answer, finish, run
from benchmarks.measure import ROUNDS, WARM_UP, Action, Rounds, alternated
from benchmarks.registry import Cell, Result, Table, benchmark

COLD, WARM = 3.0, 1.0
"""At most so many times what `json.dumps` takes: a model call takes seconds, and within that, simpler code wins."""
TURNS = (10, 30, 100, 330, 1000, 2000)
BASE = "json.dumps"
WARM_WAYS = ("same", "fresh", "next", "marked")
COLUMNS = ("cold", *WARM_WAYS, "anew", "session", "settle", "and record")
SEEN = 24
"""Turns of a conversation that were planned and answered before any is measured, where it is that long."""
SHORT, CONVERSATIONS = 100, 5
"""Of a length of so many turns at most, where a round takes a millisecond or two, so many conversations are measured:
some machines are faster in one minute than in the next."""
LONG = 330
"""The turns of 1,000 blocks, where the bound on a cold turn holds; that on a warm one holds from 100 blocks on."""


@benchmark()
@click.option("--rounds", default=ROUNDS, show_default=True, help="Rounds per length.")
@click.option("--turns", multiple=True, type=int, default=TURNS, show_default=True, help="Lengths, in turns.")
def planner(rounds: int, turns: Sequence[int]) -> Result:
    return measure(rounds=rounds, turns=turns)


def measure(*, rounds: int = ROUNDS, turns: Sequence[int] = TURNS, quick: bool = False) -> Result:
    """The benchmark; `quick` takes few rounds of the shorter conversations."""
    if quick:
        rounds, turns = 3, TURNS[:3]
    rows: list[tuple[Cell, ...]] = []
    broken: list[str] = []
    figure = ""
    for length in turns:
        shares = measured(length, rounds)
        blocks = Conversation(length).blocks
        rows.append((length, blocks, shares[BASE] * 1e3, *(shares[name] for name in COLUMNS)))
        if length == LONG:
            figure = f"{blocks} blocks: cold {shares['cold']:.2f}, warm {shares['fresh']:.2f} times json.dumps."
        if length == LONG and shares["cold"] > COLD:
            broken.append(f"{blocks} blocks, cold: {shares['cold']:.2f} times json.dumps, and {COLD} is the bound")
        for name in WARM_WAYS:
            share = shares[name]
            if blocks >= 100 and share > WARM:
                broken.append(f"{blocks} blocks, {name}: {share:.2f} times json.dumps, and {WARM} is the bound")
    columns = ("turns", "blocks", "json.dumps, ms", *COLUMNS)
    return Result(
        figure=figure or "Planning a turn, in times of json.dumps.",
        inputs={
            "rounds of a conversation": rounds,
            "conversations": f"{CONVERSATIONS} of each length up to {SHORT} turns, one of each above",
            "bytes a block": BLOCK_BYTES,
            "blocks a turn": BLOCKS_A_TURN,
            "time": "process CPU, median",
        },
        n=rounds,
        tables=(
            Table(
                title="One turn, in times of json.dumps of the same request",
                columns=columns,
                rows=tuple(rows),
                notes=(
                    "anew: the next turn, where its decision is taken anew and does not stand",
                    "session: to open and leave one, once in a conversation",
                    "settle: at the end of the reply, without a store; and record: with one",
                ),
            ),
        ),
        broken=tuple(broken),
    )


def measured(turns: int, rounds: int) -> dict[str, float]:
    """Each way's CPU time as a multiple of `json.dumps`, and that one's in seconds; medians."""
    conversations = CONVERSATIONS if turns <= SHORT else 1
    found = zip(*[contextvars.copy_context().run(_measured, turns, rounds) for _ in range(conversations)], strict=True)
    shares: dict[str, float] = {}
    for times in (reduce(add, some) for some in found):
        shares |= {name: times.ratio(name, to=BASE) for name in times.seconds} | {BASE: times.median(BASE)}
    return shares


def _measured(turns: int, rounds: int) -> tuple[Rounds, ...]:
    """In one conversation: the ways in which it goes on, those of a request that was seen, and its first turn."""
    with tempfile.TemporaryDirectory() as folder:
        begin = max(turns - (WARM_UP + rounds) // 2, 1)
        begun = [Live(begin) for _ in range(5)]
        lives = [*begun, Live(begin, marked=True), Live(begin, store=Path(folder))]
        again, fresh, coming, anew, settled, marked, recorded = lives
        plain = Conversation(turns)
        try:
            same = {"same": again.action(again.planned), "session": Action(run=again.enter)}
            seen = _times(lambda: again.request, rounds, same)
            retried = {"fresh": fresh.action(lambda: fresh.planned() and fresh.again())}
            decoded = _times(fresh.conversation.fresh, rounds, retried)
            grown = _times(
                coming.conversation.fresh,
                rounds,
                {
                    "next": coming.action(coming.next),
                    "marked": marked.action(marked.next),
                    "anew": anew.action(anew.unsettled),
                    "settle": Action(run=settled.finish, prepare=settled.answered),
                    "and record": Action(run=recorded.finish, prepare=recorded.answered),
                },
            )
            first = {"cold": Action(run=lambda given: given[0].turn(given[1]), prepare=lambda: _cold(plain))}
            return grown, seen, decoded, _times(plain.fresh, rounds, first)
        finally:
            for live in lives:
                live.accel.close()


def _times(request: Callable[[], Any], rounds: int, actions: dict[str, Action]) -> Rounds:
    """What each action takes, and `json.dumps`, which takes part in every round."""
    return alternated({**actions, BASE: Action(run=json.dumps, prepare=request)}, rounds=rounds)


def _cold(conversation: Conversation) -> tuple[Accel, Any]:
    return Accel(Policy(store=StorePolicy(enabled=False)), clock=ManualClock()), conversation.fresh()


class Live:
    """A conversation under way, whose turns can be measured one after another."""

    def __init__(self, turns: int, *, marked: bool = False, store: Path | None = None) -> None:
        self.clock = ManualClock()
        kept = StorePolicy(path=store / "trace.db") if store is not None else StorePolicy(enabled=False)
        self.accel = Accel(Policy(strict=True, store=kept), clock=self.clock)
        seen = min(turns, SEEN)
        self.conversation = Conversation(turns - seen, marked=marked)
        self.turn: Turn | None = None
        self.request: Any = None
        """The last one that `planned` gave."""
        self._session = self.accel.session("live")
        inside = contextvars.copy_context()  # several of these are under way at once
        inside.run(self._session.__enter__)
        inside.run(run, self.accel, self.clock, self.conversation, seen)
        self._scope = inside[current]

    def action(self, prepare: Callable[[], Any]) -> Action:
        """To plan the request that `prepare` makes."""
        return Action(run=self.accel.turn, prepare=prepare, after=self._planned)

    def enter(self, _: object) -> None:
        with self.accel.session("another"):
            pass

    def next(self) -> Any:
        """The request of the next turn, in objects of its own, once the one before has ended."""
        if self.turn is not None:
            answer(self.turn, self.clock, self.conversation.tokens)
            finish(self.turn, self.clock)
        self.conversation.grow()
        return self.again()

    def planned(self) -> Any:
        """The same, once it was planned and decided on: what comes is a retry."""
        self.request = self.unsettled()
        self.turn = self.accel.turn(self.request)
        return self.request

    def unsettled(self) -> Any:
        """The same, where no decision stands."""
        request, conversation = self.next(), self._session.conversation
        conversation.state = replace(conversation.state, standing=None)
        return request

    def again(self) -> Any:
        """The request of this turn once more, in objects of its own."""
        self.turn = None  # holds its request, which would else be freed, block by block, while the next one is planned
        current.set(self._scope)
        return self.conversation.fresh()

    def _planned(self, turn: Turn) -> None:
        self.turn = turn

    def answered(self) -> Turn:
        """The next turn, all but ended."""
        current.set(self._scope)
        turn = self.accel.turn(self.conversation.grow())
        answer(turn, self.clock, self.conversation.tokens)
        return turn

    def finish(self, turn: Turn) -> None:
        finish(turn, self.clock)
