"""The loops that come with the vendors' SDKs: with us their tools begin no later, and none runs twice for one call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from anthropic import beta_async_tool
from openai.lib.responses_tool_runner import AsyncRegisteredFunction, AsyncResponsesToolRunner

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.errors import ConfigError
from agentaccel.testing import ManualClock
from agentaccel.testing.virtual import EmulatedTransport, run
from agentaccel_emulator import Emulator

REPLY = {
    "content": [
        {"type": "tool_use", "name": "search", "input": {"q": "first"}},
        {"type": "text", "text": "The second one may tell us more about what happened before. " * 8},
        {"type": "tool_use", "name": "search", "input": {"q": "second"}},
    ],
    "first_token": 1.0,
    "tokens_per_second": 20.0,
}
ASK = "Find both of them, and then tell me. " * 800
SCHEMA: Any = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}

Search = Callable[[str], Awaitable[str]]


@dataclass
class Bench:
    """What a vendor's loop has of us: a client, with `accel` a wrapped one, and a tool that takes two seconds."""

    accel: Accel | None
    clock: ManualClock
    emulator: Emulator = field(init=False)
    began: list[tuple[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.emulator = Emulator(script=[REPLY, "Done."], clock=self.clock)

    def http(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=EmulatedTransport(self.emulator, self.clock))

    def client(self, client: Any) -> Any:
        return client if self.accel is None else self.accel.wrap(client)

    @property
    def search(self) -> Search:
        async def search(q: str) -> str:
            """Look for something."""
            self.began.append((q, round(self.clock.now, 3)))
            await asyncio.sleep(2.0)
            return f"found {q}"

        return search if self.accel is None else self.accel.tool(effect="read_remote", concurrent=True)(search)

    @property
    def bill(self) -> float:
        """What the input of all requests costs, in uncached tokens."""
        usages = [entry.usage for entry in self.emulator.log if entry.usage is not None]
        return sum(one.uncached + 0.1 * one.read + 1.25 * one.write_5m + 2 * one.write_1h for one in usages)


Loop = Callable[[Bench], Awaitable[str]]


def benches(loop: Loop) -> tuple[Bench, Bench, list[str]]:
    """Without us and with us, and what both answered."""
    clocks = ManualClock(), ManualClock()
    accel = Accel(Policy(strict=True, store=StorePolicy(enabled=False)), clock=clocks[1])
    bare, ours = Bench(None, clocks[0]), Bench(accel, clocks[1])

    async def in_a_session() -> str:
        async with accel.session("s"):
            return await loop(ours)

    answers = [run(lambda: loop(bare), clocks[0]), run(in_a_session, clocks[1])]
    accel.close()
    return bare, ours, answers


def claude(**options: Any) -> Loop:
    """`tool_runner`, read to its end."""

    async def loop(bench: Bench) -> str:
        client = bench.client(
            anthropic.AsyncAnthropic(
                base_url="http://api.anthropic.com", api_key="k", max_retries=0, http_client=bench.http()
            )
        )
        runner = client.beta.messages.tool_runner(
            model="claude-sonnet-5",
            max_tokens=500,
            tools=[beta_async_tool(bench.search)],
            messages=[{"role": "user", "content": ASK}],
            **options,
        )
        return str((await runner.until_done()).content[0].text)

    return loop


def gpt(**options: Any) -> Loop:
    """`AsyncResponsesToolRunner`."""

    async def loop(bench: Bench) -> str:
        client = bench.client(
            openai.AsyncOpenAI(
                base_url="http://api.openai.com/v1", api_key="k", max_retries=0, http_client=bench.http()
            )
        )
        search = bench.search

        async def execute(arguments: Mapping[str, object]) -> str:
            return await search(str(arguments["q"]))

        tool: Any = {"type": "function", "name": "search", "parameters": SCHEMA, "strict": False}
        runner = AsyncResponsesToolRunner(functions=[AsyncRegisteredFunction(tool, execute, independent=True)])
        done = await runner.run(client, {"model": "gpt-5.1", "input": ASK}, **options)
        return str(done.output_text)

    return loop


EAGER = {"stream": True, "run_tools_eagerly": True}
CLAUDES = [
    pytest.param({**threads, **streams}, id=f"{'a thread' if not threads else 'no thread'}, {', '.join(streams)}")
    for threads in ({}, {"thread": False})
    for streams in ({}, {"stream": True}, EAGER)
]


def check(bare: Bench, ours: Bench, answers: list[str]) -> None:
    """The same answer and the same calls, once each, none later, and no dearer."""
    assert answers == ["Done.", "Done."]
    assert [q for q, _ in sorted(ours.began)] == [q for q, _ in sorted(bare.began)] == ["first", "second"]
    assert all(mine <= theirs for mine, theirs in zip(sorted(ours.began), sorted(bare.began), strict=True))
    assert ours.clock.now <= bare.clock.now
    assert ours.bill <= bare.bill


@pytest.mark.parametrize("options", CLAUDES)
def test_the_tool_runner_of_anthropic_runs_each_call_once_and_no_later(options: dict[str, Any]) -> None:
    bare, ours, answers = benches(claude(**options))
    check(bare, ours, answers)
    if options.get("stream"):
        assert sum(at for _, at in ours.began) < sum(at for _, at in bare.began)


def test_a_message_thread_stays_one_and_without_a_thread_there_are_markers() -> None:
    """The provider holds a thread and takes no markers in it; what is sent whole is marked."""
    for options, thread in (({}, True), ({"thread": False}, False)):
        bare, ours, _ = benches(claude(**options))
        bodies = [entry.request for entry in ours.emulator.log]
        assert [("thread" in (body or {})) for body in bodies] == [thread, thread]
        assert all(entry.status == 200 for entry in ours.emulator.log)
        assert (ours.bill < 0.7 * bare.bill) is not thread


@pytest.mark.parametrize("options", [{}, {"stream": True}, {"stream": True, "eager": True, "max_concurrent_calls": 4}])
def test_the_tool_runner_of_openai_runs_each_call_once_and_no_later(options: dict[str, Any]) -> None:
    bare, ours, answers = benches(gpt(**options))
    check(bare, ours, answers)
    if options.get("stream"):
        assert sum(at for _, at in ours.began) < sum(at for _, at in bare.began)


def test_a_tool_object_of_an_sdk_is_refused_with_what_to_do(tmp_path: Path) -> None:
    """Its loop calls the function inside: what we would hand back is no such object, and fails in the request."""

    async def search(q: str) -> str:
        """Look for something."""
        return q

    with Accel(Policy(store=StorePolicy(path=tmp_path / "trace.db"))) as accel:
        with pytest.raises(ConfigError, match="wrap the function and make a tool of that"):
            accel.tools([beta_async_tool(search)])
        assert beta_async_tool(accel.tool(search)).to_dict() == beta_async_tool(search).to_dict()
