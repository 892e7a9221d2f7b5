"""An agent for tests: a scripted model, predictions that are told in advance, and tools that take virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentaccel import Accel, Policy, StorePolicy, ToolCall
from agentaccel.hooks import Told
from agentaccel.policy import ToolPolicy
from agentaccel.predict.events import Event
from agentaccel.predict.resources import Resource
from agentaccel.predict.stats import SpeculationStats
from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.testing import ManualClock
from agentaccel.testing.inside import speculator
from agentaccel.testing.virtual import run
from agentaccel.turn import CallClosed, Finished, Started
from agentaccel.types import Prediction

Json = dict[str, Any]


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall(name=name, arguments=arguments)


@dataclass
class Script:
    """Predictions as they were told in advance: by how many requests were sent, or by the result that is supposed."""

    by_request: Mapping[int, list[Prediction]] = field(default_factory=dict)
    by_result: Mapping[str, list[Prediction]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    touched: list[Resource] = field(default_factory=list)
    asked: int = 0
    supposed: str | None = None

    def session(
        self,
        workload: str = "",
        tools: Mapping[str, Mapping[str, Any]] | None = None,
        reads: Callable[[ToolCall], bool] | None = None,
    ) -> Script:
        return Script(self.by_request, self.by_result, self.events, self.touched)

    def take(self, event: Event) -> None:
        self.events.append(event)

    def predict(self, most: int = 12, admits: Callable[[ToolCall], bool] | None = None) -> tuple[Prediction, ...]:
        if self.supposed is not None:
            return tuple(self.by_result.get(self.supposed, []))
        self.asked += 1
        return tuple(self.by_request.get(self.asked, []))

    def resources(self, most: int = 10) -> tuple[Resource, ...]:
        return tuple(self.touched)

    def supposing(self, call: ToolCall, result: str) -> Script:
        return Script(self.by_request, self.by_result, supposed=result)

    def close(self) -> None:
        """What is told in advance is not learned from."""


def took(accel: Accel, tool: str, seconds: float) -> None:
    """A call of the tool has taken so long."""
    speculator(accel).launcher.serving.track.experience.latencies.saw(tool, seconds)


def likely(call: ToolCall, probability: float = 0.9, rule: str = "r") -> Prediction:
    return Prediction(call=call, probability=probability, soon=probability, rule=rule)


@dataclass
class Listening:
    """What an audit hook hears."""

    heard: list[ToolRecord] = field(default_factory=list)

    def begins(self, at: float, tool: str | None) -> object:
        return None

    def ended(self, began: object, told: Told | None) -> None:
        if told is not None and isinstance(told.record, ToolRecord):
            self.heard.append(told.record)
        assert told is None or isinstance(told.record, ToolRecord | TurnRecord)


class Agent:
    """An `Accel` in virtual time, its tools, and what they did."""

    def __init__(self, tools: ToolPolicy | None = None, told: Script | None = None, **policy: Any) -> None:
        self.clock = ManualClock()
        policy = {"strict": True, "store": StorePolicy(enabled=False), **policy}
        self.accel = Accel(Policy(tools=tools or ToolPolicy(), **policy), clock=self.clock)
        self.told = told or Script()
        speculator(self.accel).predictor = self.told
        self.heard = Listening()
        self.accel.add_hook(self.heard)
        self.ledger = SpeculationStats()
        """Of the session that `run` opens."""
        self.log: list[str] = []
        """Every run of a tool, as it begins."""
        self.state: dict[str, int] = {}
        self.messages: list[Json] = [{"role": "user", "content": "Go on."}]

    def reads(
        self, name: str = "look", seconds: float = 1.0, **declared: Any
    ) -> Callable[..., Coroutine[Any, Any, Any]]:
        """A tool that reads the state of a key, as it is when it has run half its time."""

        async def look(key: str, limit: int = 3) -> str:
            self.log.append(f"{name} {key}")
            await asyncio.sleep(seconds / 2)
            value = self.state.get(key, 0)
            await asyncio.sleep(seconds / 2)
            return f"{key}={value}"

        return self.accel.tool(name=name, **{"effect": "read_local", "concurrent": True, **declared})(look)

    def writes(
        self, name: str = "book", seconds: float = 1.0, **declared: Any
    ) -> Callable[..., Coroutine[Any, Any, Any]]:
        """A tool that adds one to a key when it has run half its time."""

        async def book(key: str) -> str:
            self.log.append(f"{name} {key}")
            await asyncio.sleep(seconds / 2)
            self.state[key] = self.state.get(key, 0) + 1
            await asyncio.sleep(seconds / 2)
            return "done"

        return self.accel.tool(name=name, **declared)(book)

    async def model(self, *calls: ToolCall, seconds: float = 3.0, gap: float = 0.0) -> None:
        """One request, and its reply: `calls` come `gap` seconds apart at its end."""
        turn = self.accel.turn({"model": "claude-sonnet-5", "max_tokens": 100, "messages": list(self.messages)})
        turn.handle(Started(self.clock.monotonic()))
        await asyncio.sleep(seconds - gap * len(calls))
        blocks: list[Json] = [{"type": "text", "text": "Let me see."}]
        for number, one in enumerate(calls):
            id_ = f"c{len(self.messages)}_{number}"
            blocks.append({"type": "tool_use", "id": id_, "name": one.name, "input": dict(one.arguments)})
            turn.handle(CallClosed(ToolCall(name=one.name, arguments=one.arguments, id=id_), self.clock.monotonic()))
            await asyncio.sleep(gap)
        turn.handle(Finished(self.clock.monotonic()))
        self.messages.append({"role": "assistant", "content": blocks})

    def answers(self, *results: Any) -> None:
        """The results of the last calls go back to the model."""
        asked = [one["id"] for one in self.messages[-1]["content"] if one["type"] == "tool_use"]
        content = [
            {"type": "tool_result", "tool_use_id": id_, "content": str(result)}
            for id_, result in zip(asked, results, strict=True)
        ]
        self.messages.append({"role": "user", "content": content})

    async def timed(self, work: Coroutine[Any, Any, Any]) -> tuple[Any, float]:
        """What comes of `work`, and the virtual seconds that it took."""
        start = self.clock.now
        return await work, round(self.clock.now - start, 6)

    def run(self, main: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """`main` in a session called "s"."""

        async def inside() -> Any:
            async with self.accel.session("s") as session:
                self.ledger = session.speculation
                return await main()

        return run(inside, self.clock)
