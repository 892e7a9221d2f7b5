"""A call that asks for a whole reply goes out streamed, with consent: its tools begin early; its caller sees no other
reply."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from agentaccel import Accel, Policy, StorePolicy, ToolPolicy
from agentaccel.testing import ManualClock
from agentaccel.testing.virtual import EmulatedTransport, run
from agentaccel_emulator import Emulator
from agentaccel_emulator.faults import FaultsLike
from tests.clients.test_eager_tools import ASK, REPLY, SCHEMA
from tests.driver import Json


class Desk:
    """A wrapped client, one tool that takes two seconds, and loops over the raw SDKs that do not stream."""

    def __init__(
        self,
        *,
        inside: bool = True,
        mode: Any = "on",
        effect: Any = "read_remote",
        eager: bool = True,
        faults: FaultsLike = None,
        **options: Any,
    ) -> None:
        """`options` are those of the SDK's client."""
        self.clock, self.options = ManualClock(), options
        self.emulator = Emulator(script=[REPLY, "Done."], faults=faults, clock=self.clock)
        self.transport = EmulatedTransport(self.emulator, self.clock)
        policy = Policy(
            mode=mode,
            strict=True,
            stream_inside=inside,
            store=StorePolicy(enabled=False),
            tools=ToolPolicy(speculate=False, eager=eager),
        )
        self.accel = Accel(policy, clock=self.clock)
        self.began: list[str] = []
        self.requests: list[int] = []
        self.started, self.replied = self.clock.now, 0.0
        self.search = self.accel.tool(effect=effect, concurrent=True)(self._tool())

    def _tool(self) -> Callable[[str], Awaitable[str]]:
        async def search(q: str) -> str:
            self.began.append(q)
            self.requests.append(len(self.transport.sent))
            await asyncio.sleep(2.0)
            return f"found {q}"

        return search

    def http(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=self.transport)

    async def results(self, calls: list[Json]) -> list[str]:
        """What an ordinary loop does: one call after the other."""
        self.replied = self.clock.now
        return [await self.search(one["q"]) for one in calls]

    @property
    def sent(self) -> list[Json]:
        """The bodies that arrived."""
        return [dict(one.request) for one in self.emulator.log]


async def claude(desk: Desk) -> list[str]:
    client = desk.accel.wrap(
        anthropic.AsyncAnthropic(
            base_url="http://api.anthropic.com", api_key="k", http_client=desk.http(), **desk.options
        )
    )
    tools: Any = [{"name": "search", "description": "Search.", "input_schema": SCHEMA}]
    reply = await client.messages.create(
        model="claude-sonnet-5", max_tokens=500, messages=[{"role": "user", "content": ASK}], tools=tools
    )
    return await desk.results([dict(block.input) for block in reply.content if block.type == "tool_use"])


async def gpt(desk: Desk) -> list[str]:
    client = desk.accel.wrap(
        openai.AsyncOpenAI(base_url="http://api.openai.com/v1", api_key="k", http_client=desk.http(), **desk.options)
    )
    tools: Any = [{"type": "function", "function": {"name": "search", "parameters": SCHEMA}}]
    reply = await client.chat.completions.create(
        model="gpt-5.1", messages=[{"role": "user", "content": ASK}], tools=tools
    )
    calls: Any = reply.choices[0].message.tool_calls or ()
    return await desk.results([json.loads(call.function.arguments) for call in calls])


async def responses(desk: Desk) -> list[str]:
    client = desk.accel.wrap(
        openai.AsyncOpenAI(base_url="http://api.openai.com/v1", api_key="k", http_client=desk.http(), **desk.options)
    )
    tools: Any = [{"type": "function", "name": "search", "parameters": SCHEMA, "strict": False}]
    reply = await client.responses.create(model="gpt-5.1", input=ASK, tools=tools)
    return await desk.results([json.loads(item.arguments) for item in reply.output if item.type == "function_call"])


LOOPS = [claude, gpt, responses]
Loop = Callable[[Desk], Awaitable[list[str]]]


def ran(desk: Desk, loop: Loop) -> float:
    """The seconds that one turn takes; each tool has run once."""

    async def main() -> list[str]:
        async with desk.accel.session("s"):
            return await loop(desk)

    assert run(main, desk.clock) == ["found first", "found second"]
    assert sorted(desk.began) == ["first", "second"]
    return desk.clock.now


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(
    "left",
    [{"inside": False}, {"eager": False}, {"effect": "unknown"}, {"mode": "observe"}, {"mode": "off"}],
    ids=str,
)
def test_where_nothing_is_to_be_won_or_allowed_the_wire_is_as_it_was(loop: Loop, left: Json) -> None:
    desk = Desk(**left)
    ran(desk, loop)
    assert "stream" not in desk.sent[0]
    assert "stream_options" not in desk.sent[0]


@pytest.mark.parametrize("loop", LOOPS)
def test_tools_begin_while_the_reply_is_on_its_way(loop: Loop) -> None:
    """The seconds of both tools are hidden behind the reply, but for what the last one lacks."""
    plain, inside = Desk(inside=False), Desk()
    assert ran(plain, loop) == pytest.approx(plain.replied + 4.0)
    seconds = ran(inside, loop)
    assert inside.replied == pytest.approx(plain.replied)
    assert seconds <= inside.replied + 2.0
    assert inside.sent[0]["stream"] is True
    assert not plain.sent[0].get("stream")


@pytest.mark.parametrize("loop", LOOPS)
def test_a_stream_that_is_dropped_and_retried_runs_no_tool_twice(loop: Loop) -> None:
    """The run of the attempt that failed waits for the call of the one that answers."""
    desk = Desk(faults=[{"kind": "disconnect_mid_stream", "at": 1, "after_events": 26}])
    ran(desk, loop)
    assert len(desk.sent) == 2
    assert desk.requests == [1, 2], "the first tool began in the attempt that failed"


@pytest.mark.parametrize(("loop", "error"), [(claude, anthropic.APITimeoutError), (gpt, openai.APITimeoutError)])
def test_a_reply_takes_no_longer_than_the_read_timeout(loop: Loop, error: type[Exception]) -> None:
    """A whole reply has to begin, and so to be there, within that; a stream, whose bytes keep coming, has no longer."""
    desk = Desk(timeout=6.0, max_retries=0)
    with pytest.raises(error):
        ran(desk, loop)
    assert 6.0 < desk.clock.now - desk.started < 8.0
    assert ran(Desk(timeout=60.0), loop)
