"""Random agent histories in virtual time, and what must hold of each: the same one is run with agentaccel and without.

A history is a list of actions, all of which a loop may do: ask the model, hear what it asks for, begin calls side by
side, give calls up, wait. Between two waits every action stands at the same distance from the first one in both runs,
so all that writes does so at the same time, and a call beside which nothing was written in either must return the same
in both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from agentaccel import Accel, Policy, StorePolicy, ToolCall
from agentaccel.engine.scope import current
from agentaccel.policy import ToolPolicy
from agentaccel.predict.stats import Tally
from agentaccel.testing import ManualClock
from agentaccel.testing.inside import speculator
from agentaccel.testing.virtual import run
from agentaccel.turn import CallClosed, Finished, Started, Turn
from tests.predict.scripted import Script, likely, took

TAKES = 1.0
"""Seconds that every run takes, but for those that stall."""
STALLS, FAILS = "s", "f"
"""Keys of which a guess stalls, or fails."""
FILES, OUTSIDE = "files", "outside"
"""Domains; the second one is written by another process, of which only a validator can tell."""

Action = tuple[Any, ...]

keys = st.sampled_from(["a", "a", "a", "b", "b", STALLS, FAILS])
reads = st.tuples(st.sampled_from(["look", "look", "peek", "query"]), keys)
writes = st.tuples(st.sampled_from(["book", "note", "change"]), st.sampled_from(["a", "b"]))
calls = st.one_of(reads, reads, reads, writes)
mostly = st.sampled_from([True, True, True, False])
thinking = st.sampled_from([2.5, 1.1, 0.6, 0.4, 0.0])
"""Seconds until the model asks."""
waits = st.sampled_from([0.0, 0.1, 0.4, 0.6, 1.1, 2.5])
actions: st.SearchStrategy[Action] = st.one_of(
    st.tuples(st.just("send"), st.lists(reads, max_size=3)),
    st.tuples(st.just("hear"), calls),
    st.tuples(st.just("begin"), calls),
    st.tuples(st.just("begin"), calls),
    st.tuples(st.just("sleep"), waits),
    st.tuples(st.just("give up"), st.integers(0, 3)),
    st.tuples(st.just("outside"), st.sampled_from(["a", "b"])),
    st.tuples(st.just("wait")),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Action]:
    """Random actions, among them steps of an ordinary agent: the model is asked, and what it asks for is run."""
    made: list[Action] = []
    for _ in range(draw(st.sampled_from([3, 4, 2, 1]))):
        if draw(mostly):
            wanted = draw(st.lists(calls, min_size=1, max_size=3))
            guesses = [one for one in wanted if one[0] in ("look", "peek", "query")] if draw(mostly) else []
            made += [("send", guesses), ("sleep", draw(thinking))]
            made += [("hear", one) for one in wanted] if draw(st.booleans()) else []
            for one in wanted:
                made += [("begin", one), draw(st.sampled_from([("wait",), ("sleep", 0.0), ("sleep", 0.4)]))]
            made.append(("wait",))
        made += draw(st.lists(actions, max_size=4))
    return made


@dataclass
class Answer:
    """What came of one call."""

    call: tuple[str, str]
    given_up: bool = False
    value: str = ""
    """The value, or the name of the exception."""
    run: int | None = None
    """The run that gave it."""
    began: int = 0
    ended: int = 0
    seconds: float = 0.0


@dataclass
class Seen:
    """What one run of a history came to. Moments are numbers in the order in which things happened."""

    answers: list[Answer] = field(default_factory=list)
    state: dict[str, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    outside: dict[str, int] = field(default_factory=dict)
    moment: int = 0
    runs: dict[int, tuple[str, int, bool]] = field(default_factory=dict)
    """By number: the tool, when it began, and whether that was early."""
    own: set[int] = field(default_factory=set)
    """Early runs that a call had asked for of a tool whose results may answer later calls: they are the call's own."""
    wrote: list[tuple[str, int, int]] = field(default_factory=list)
    """Domain, beginning and end of everything that wrote."""
    total: Tally = field(default_factory=Tally)
    left_behind: int = 0

    def now(self) -> int:
        self.moment += 1
        return self.moment

    def disturbed(self, call: tuple[str, str], since: int, until: int) -> bool:
        """Whether anything that this call could see was written in that time."""
        tool, key = call
        seen = {"", FILES, f"{OUTSIDE} {key}"} if tool == "peek" else {"", FILES}
        return any(begin < until and end > since and scope in seen for scope, begin, end in self.wrote)


class World:
    """The tools of a history, and what they touch."""

    def __init__(self, accel: Accel, seen: Seen) -> None:
        self.seen = seen
        safe: dict[str, Any] = {"effect": "read_local", "concurrent": True}
        self.tools: dict[str, Callable[[str], Coroutine[Any, Any, Any]]] = {
            "look": accel.tool(name="look", **safe)(self._reading("look")),
            "peek": accel.tool(
                name="peek",
                **safe,
                scope=FILES,
                max_age=60.0,
                validator=lambda arguments: seen.outside.get(arguments["key"], 0),
            )(self._reading("peek")),
            "query": accel.tool(name="query", concurrent=True, effect=lambda arguments: "read_local")(
                self._reading("query")
            ),
            "book": accel.tool(name="book")(self._writing("")),
            "note": accel.tool(name="note", scope=FILES)(self._writing(FILES)),
            "change": accel.tool(name="change", effect=lambda arguments: "unknown")(self._writing("")),
        }

    def _reading(self, tool: str) -> Callable[[str], Coroutine[Any, Any, Any]]:
        async def read(key: str) -> str:
            seen, early = self.seen, current.get().early
            number = len(seen.runs)
            seen.runs[number] = (tool, seen.now(), early is not None)
            guess = early is not None and early.tier == "predicted"
            if tool == "peek" and not guess:
                seen.own.add(number)
            await asyncio.sleep(1000.0 if guess and key == STALLS else TAKES / 2)
            other = seen.outside if tool == "peek" else seen.state
            value = f"{other.get(key, 0)}/{seen.files.get(key, 0)}"
            await asyncio.sleep(TAKES / 2)
            if early is not None and key == FAILS:
                raise ConnectionError(key)
            if value.endswith("3"):
                raise ValueError(value)
            return f"{value}#{number}"

        return read

    def _writing(self, scope: str) -> Callable[[str], Coroutine[Any, Any, Any]]:
        async def write(key: str) -> str:
            seen, began = self.seen, self.seen.now()
            at = len(seen.wrote)
            seen.wrote.append((scope, began, 1 << 60))
            try:
                await asyncio.sleep(TAKES / 2)
                if not scope:
                    seen.state[key] = seen.state.get(key, 0) + 1
                seen.files[key] = seen.files.get(key, 0) + 1
                await asyncio.sleep(TAKES / 2)
                if seen.files[key] == 2:
                    raise KeyError("after the deed")
                return "done#-1"
            finally:
                seen.wrote[at] = (scope, began, seen.now())

        return write


def play(history: list[Action], *, off: bool = False, tools: ToolPolicy | None = None) -> Seen:
    """Run `history`; what it came to."""
    guesses = [
        [likely(ToolCall(name=n, arguments={"key": k})) for n, k in one[1]] for one in history if one[0] == "send"
    ]
    clock, seen = ManualClock(), Seen()
    policy = Policy(
        mode="off" if off else "on",
        strict=True,
        store=StorePolicy(enabled=False),
        tools=tools or ToolPolicy(),
    )
    accel = Accel(policy, clock=clock)
    speculator(accel).predictor = Script(dict(enumerate(guesses, start=1)))
    for name in ("look", "peek", "query"):
        for _ in range(4):
            took(accel, name, TAKES)
    player = Player(accel, clock, World(accel, seen), seen)

    async def main() -> None:
        async with accel.session("s") as session:
            await player.play(history)
        seen.total = session.speculation.total
        seen.left_behind = len(asyncio.all_tasks()) - 1

    run(main, clock)
    return seen


@dataclass
class Player:
    """Does the actions of a history."""

    accel: Accel
    clock: ManualClock
    world: World
    seen: Seen
    turn: Turn | None = None
    messages: list[Any] = field(default_factory=lambda: [{"role": "user", "content": "Go."}])
    begun: list[tuple[asyncio.Task[None], Answer]] = field(default_factory=list)

    async def play(self, history: list[Action]) -> None:
        for action in (*history, ("wait",)):
            match action:
                case ("send", _):
                    self._end_turn()
                    self.messages += [{"role": "assistant", "content": "So."}, {"role": "user", "content": "And?"}]
                    request = {"model": "claude-sonnet-5", "max_tokens": 9, "messages": list(self.messages)}
                    self.turn = self.accel.turn(request)
                    self.turn.handle(Started(self.clock.monotonic()))
                case ("hear", (name, key)) if self.turn is not None:
                    asked = ToolCall(name=name, arguments={"key": key})
                    self.turn.handle(CallClosed(asked, self.clock.monotonic()))
                case ("begin", call):
                    answer = Answer(call)
                    self.seen.answers.append(answer)
                    self.begun.append((asyncio.ensure_future(self._answer(answer)), answer))
                case ("sleep", seconds):
                    await asyncio.sleep(seconds)
                case ("give up", at) if at < len(self.begun):
                    task, answer = self.begun[at]
                    answer.given_up = True
                    task.cancel()
                case ("outside", key):
                    self.seen.outside[key] = self.seen.outside.get(key, 0) + 1
                    moment = self.seen.now()
                    self.seen.wrote.append((f"{OUTSIDE} {key}", moment, moment))
                case ("wait",):
                    if self.begun:
                        await asyncio.wait([task for task, _ in self.begun])
                    self.begun.clear()
                case _:
                    pass
        self._end_turn()

    def _end_turn(self) -> None:
        if self.turn is not None:
            self.turn.handle(Finished(self.clock.monotonic()))

    async def _answer(self, answer: Answer) -> None:
        name, key = answer.call
        start, answer.began = self.clock.now, self.seen.now()
        try:
            result = await self.world.tools[name](key)
            answer.value, _, number = result.partition("#")
            answer.run = int(number)
        except asyncio.CancelledError:
            answer.given_up = True
        except Exception as failure:  # noqa: BLE001 - it is compared with that of the other run
            answer.value = f"{type(failure).__name__}{failure}"
        answer.ended = self.seen.now()
        answer.seconds = self.clock.now - start
