"""The product itself in virtual time: `Accel.turn`, sessions, a trace store, and requests that wait for one another.

For situations in which agentaccel may send other requests than were written, or at other times: they go through the
line that a user's go through, and are billed by the replay's provider, which is no part of it. Requests of our own
during a pause are not driven here: a situation with `keep_alive` is replayed (`replay.simulate.accelerate`).
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentaccel import Accel, CachePolicy, Policy, StorePolicy, ToolCall
from agentaccel.replay.compare import cost_of
from agentaccel.replay.simulate import SimulatedProvider
from agentaccel.testing import ManualClock
from agentaccel.turn import CallClosed, Command, Finished, FirstByte, Reported, Started, Turn, Wait, Waited
from agentaccel.wire import PartMemory
from agentaccel.wire.anthropic import decode
from benchmarks.situations.agents import Exchange, bytes_per_token
from benchmarks.situations.amounts import draw
from benchmarks.situations.form import Situation
from benchmarks.situations.sessions import step_of

_KEY = b"situation"


@dataclass(slots=True)
class Live:
    """An `Accel` with what the situation consents to, over a store, in front of one cache. Mutable: time goes on."""

    situation: Situation
    folder: Path
    clock: ManualClock = field(default_factory=ManualClock)
    accel: Accel = field(init=False)
    provider: SimulatedProvider = field(default_factory=SimulatedProvider)
    costs: dict[int, float] = field(default_factory=dict)
    """By conversation, what its requests cost, in uncached input tokens."""
    _due: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _count: int = 0

    def __post_init__(self) -> None:
        consents = self.situation.consents
        seconds = draw(self.situation.second_costs, random.Random(self.situation.seed))
        cache = CachePolicy(
            move_volatile="move_volatile" in consents, freeze_tools="freeze_tools" in consents, cost_per_second=seconds
        )
        policy = Policy(strict=True, cache=cache, store=StorePolicy(path=self.folder / "trace.db"))
        self.accel = Accel(policy, clock=self.clock, environ={})

    def play(self, number: int, session: Sequence[Exchange]) -> None:
        """Let the conversation take place, as its times say; nothing happens before `run`."""
        self.costs.setdefault(number, 0.0)
        if session:
            talk = _Talk(self, number, session, PartMemory())
            self.at(session[0].at, talk.begin)

    def at(self, moment: float, what: Callable[[], None]) -> None:
        """Do `what` at `moment`, or now where that is past; what is due at once happens in the order given."""
        self._count += 1
        heapq.heappush(self._due, (max(moment, self.clock.now), self._count, what))

    def run(self) -> None:
        """Let happen all that is to come."""
        while self._due:
            moment, _, what = heapq.heappop(self._due)
            self.clock.advance(max(moment - self.clock.now, 0.0))
            what()


@dataclass(slots=True)
class _Talk:
    """One conversation. Mutable: it goes from request to request, later than written where one had to wait."""

    live: Live
    number: int
    session: Sequence[Exchange]
    memory: PartMemory
    index: int = 0
    late: float = 0.0
    """Seconds for which its requests were held back so far."""

    @property
    def asked(self) -> Exchange:
        return self.session[self.index]

    def begin(self) -> None:
        live, situation = self.live, self.live.situation
        with live.accel.session(f"{situation.name}/{self.number}", agent=situation.name):
            turn = live.accel.turn(self.asked.body, platform=situation.platform)
        began = live.clock.monotonic()
        self.perform(turn, turn.handle(Started(began, can_wait=True)), live.clock.now)

    def perform(self, turn: Turn, commands: Sequence[Command], since: float) -> None:
        for command in commands:
            if isinstance(command, Wait):
                self._wait(turn, command, since)
            else:
                self.late += self.live.clock.now - since
                self._send(turn, command.request)

    def _wait(self, turn: Turn, wait: Wait, since: float) -> None:
        live, over = self.live, list[bool]()

        def go_on() -> None:
            if not over:
                over.append(True)
                self.perform(turn, turn.handle(Waited(live.clock.monotonic())), since)

        wait.gate.add_done_callback(lambda _: live.at(live.clock.now, go_on))
        live.at(live.clock.now + wait.at_most, go_on)

    def _send(self, turn: Turn, request: Mapping[str, Any]) -> None:
        live, situation, asked = self.live, self.live.situation, self.asked
        facts, now = situation.facts(asked.body["model"]), live.clock.now
        prompt = decode(request, facts, key=_KEY, place=("anthropic", situation.platform), memory=self.memory)
        step = step_of(asked._replace(at=now), prompt, facts, bytes_per_token(situation))
        usage = live.provider.serve(step, step.marks)
        live.costs[self.number] += cost_of(usage, facts)

        def heard() -> None:
            turn.handle(FirstByte(live.clock.monotonic()))

        def done() -> None:
            for call in self._calls():
                turn.handle(CallClosed(call, live.clock.monotonic()))
            turn.handle(Reported(usage=usage, stop="end_turn", message_id=f"msg_{self.number}_{self.index}"))
            turn.handle(Finished(live.clock.monotonic()))
            self.index += 1
            if self.index < len(self.session):
                live.at(self.asked.at + self.late, self.begin)

        live.at(now + asked.first_byte, heard)
        live.at(now + asked.reply_seconds, done)

    def _calls(self) -> list[ToolCall]:
        """What the reply asked for, as the next request shows; nothing behind the last one."""
        if self.index + 1 >= len(self.session):
            return []
        replies = [one for one in self.session[self.index + 1].body["messages"] if one["role"] == "assistant"]
        blocks = replies[-1]["content"] if replies else []
        return [ToolCall(name=one["name"], arguments=one["input"]) for one in blocks if one["type"] == "tool_use"]
