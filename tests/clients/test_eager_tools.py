"""Tools begin when their arguments close in a stream of the real SDKs, and none runs twice for one call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.testing import ManualClock
from agentaccel.testing.virtual import EmulatedTransport, run
from agentaccel_emulator import Emulator
from agentaccel_emulator.faults import FaultsLike
from tests.driver import Json

CALLS = [{"q": "first"}, {"q": "second"}]
REPLY = {
    "content": [
        {"type": "text", "text": "Let me look at both of them, one after the other. " * 4},
        {"type": "tool_use", "name": "search", "input": CALLS[0]},
        {"type": "text", "text": "The second one may tell us more about what happened before. " * 8},
        {"type": "tool_use", "name": "search", "input": CALLS[1]},
    ],
    "first_token": 1.0,
    "tokens_per_second": 20.0,
}
SCHEMA: Json = {"type": "object", "properties": {"q": {"type": "string"}}}
ASK = "Find both."


class Desk:
    """A wrapped client, one tool that takes two seconds, and a loop over the raw SDK."""

    def __init__(self, *, faults: FaultsLike = None) -> None:
        self.clock = ManualClock()
        self.transport = EmulatedTransport(
            Emulator(script=[REPLY, "Done."], faults=faults, clock=self.clock), self.clock
        )
        self.accel = Accel(Policy(strict=True, store=StorePolicy(enabled=False)), clock=self.clock)
        self.began: list[tuple[str, float]] = []
        self.closed: list[tuple[str, float]] = []
        self.search = self.accel.tool(effect="read_remote", concurrent=True)(self._tool())

    def _tool(self) -> Callable[[str], Awaitable[str]]:
        async def search(q: str) -> str:
            self.began.append((q, round(self.clock.now, 3)))
            await asyncio.sleep(2.0)
            return f"found {q}"

        return search

    def http(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=self.transport)

    def heard(self, arguments: str) -> None:
        """The reader of the stream sees that a call has closed."""
        self.closed.append((json.loads(arguments)["q"], round(self.clock.now, 3)))

    async def results(self, calls: list[Json]) -> list[str]:
        """What an ordinary loop does: one call after the other."""
        return [await self.search(one["q"]) for one in calls]


async def claude(desk: Desk) -> list[str]:
    client = desk.accel.wrap(
        anthropic.AsyncAnthropic(
            base_url="http://api.anthropic.com", api_key="k", max_retries=0, http_client=desk.http()
        )
    )
    tools: Any = [{"name": "search", "description": "Search.", "input_schema": SCHEMA}]
    messages: Any = [{"role": "user", "content": ASK}]
    for _ in range(3):
        try:
            async with client.messages.stream(
                model="claude-sonnet-5", max_tokens=500, messages=messages, tools=tools
            ) as stream:
                async for event in stream:
                    if event.type == "content_block_stop" and event.content_block.type == "tool_use":
                        desk.heard(json.dumps(event.content_block.input))
                reply = await stream.get_final_message()
            break
        except (anthropic.APIError, httpx2.HTTPError):
            continue
    return await desk.results([dict(block.input) for block in reply.content if block.type == "tool_use"])


async def gpt(desk: Desk) -> list[str]:
    client = desk.accel.wrap(
        openai.AsyncOpenAI(base_url="http://api.openai.com/v1", api_key="k", max_retries=0, http_client=desk.http())
    )
    tools: Any = [{"type": "function", "function": {"name": "search", "parameters": SCHEMA}}]
    messages: Any = [{"role": "user", "content": ASK}]
    for _ in range(3):
        arguments: dict[int, str] = {}
        try:
            stream = await client.chat.completions.create(model="gpt-5.1", messages=messages, tools=tools, stream=True)
            async for chunk in stream:
                for piece in chunk.choices[0].delta.tool_calls or () if chunk.choices else ():
                    so_far = arguments.get(piece.index, "") + (piece.function.arguments or "" if piece.function else "")
                    arguments[piece.index] = so_far
                    if so_far.endswith("}"):
                        desk.heard(so_far)
            break
        except (openai.APIError, httpx2.HTTPError):
            continue
    return await desk.results([json.loads(text) for text in arguments.values()])


async def responses(desk: Desk) -> list[str]:
    client = desk.accel.wrap(
        openai.AsyncOpenAI(base_url="http://api.openai.com/v1", api_key="k", max_retries=0, http_client=desk.http())
    )
    tools: Any = [{"type": "function", "name": "search", "parameters": SCHEMA, "strict": False}]
    for _ in range(3):
        arguments: dict[int, str] = {}
        try:
            stream = await client.responses.create(model="gpt-5.1", input=ASK, tools=tools, stream=True)
            async for event in stream:
                if event.type == "response.function_call_arguments.delta":
                    text = arguments[event.output_index] = arguments.get(event.output_index, "") + event.delta
                    if text.endswith("}"):
                        desk.heard(text)
            break
        except (openai.APIError, httpx2.HTTPError):
            continue
    return await desk.results([json.loads(text) for text in arguments.values()])


LOOPS = [claude, gpt, responses]


@pytest.mark.parametrize("loop", LOOPS)
def test_each_tool_starts_when_its_arguments_close_and_runs_once(loop: Callable[[Desk], Awaitable[list[str]]]) -> None:
    desk = Desk()

    async def main() -> list[str]:
        async with desk.accel.session("s"):
            return await loop(desk)

    assert run(main, desk.clock) == ["found first", "found second"]
    assert [name for name, _ in desk.began] == ["first", "second"]
    assert desk.began == desk.closed, "in the very moment in which the reader could know of it"


@pytest.mark.parametrize(("loop", "events"), [(claude, 110), (gpt, 50), (responses, 110)])
def test_a_stream_that_is_dropped_and_retried_runs_no_tool_twice(
    loop: Callable[[Desk], Awaitable[list[str]]], events: int
) -> None:
    desk = Desk(faults=[{"kind": "disconnect_mid_stream", "at": 1, "after_events": events}])

    async def main() -> list[str]:
        async with desk.accel.session("s"):
            return await loop(desk)

    assert run(main, desk.clock) == ["found first", "found second"]
    assert len(desk.transport.sent) == 2, "the first stream was dropped"
    assert [name for name, _ in desk.closed].count("first") == 2, "once its first call had closed"
    assert [name for name, _ in desk.began] == ["first", "second"]
    assert desk.began[0] in desk.closed


def test_without_a_session_the_same_holds() -> None:
    desk = Desk()
    assert run(lambda: claude(desk), desk.clock) == ["found first", "found second"]
    assert [name for name, _ in desk.began] == ["first", "second"]
    assert desk.began == desk.closed
