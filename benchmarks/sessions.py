"""What agentaccel adds to the event loop of a program with 200 sessions at once: agents that call their model five
times each, and a tool after every other call, with a trace store and with tools run early.

The longest pass through the loop, against that of the same sessions with the bare client and the bare tool; medians of
blocks that alternate. Must show: at most 10 ms more. The provider is made up: it answers after a while, without a
server. The garbage collector runs between blocks and not in them: one full collection stops any program of this size
for longer than all else (180 ms for 240,000 objects, on the machine that it was written on). The loop is kept spinning
while it is watched, so the work beside it gets less of the processor than in life.

That no file is read or written on that loop is for a test (`tests/clients/test_event_loop.py`).
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import statistics
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click

from agentaccel import Accel, Policy, StorePolicy
from benchmarks.measure import longest_pass
from benchmarks.registry import Result, Table, benchmark

BOUND = 0.010
"""At most so many seconds more in the longest pass of the loop."""
SESSIONS = 200
CALLS = 5
"""Model calls of a session."""
WAITS = (0.5, 1.5)
"""Seconds between which the model answers."""
BYTES = 40_000
"""Of the system prompt, so that a request has about 10,000 tokens."""
TOOLS = [{"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}]


@benchmark()
@click.option("--rounds", default=9, show_default=True, help="Blocks of each arm.")
@click.option("--sessions", "count", default=SESSIONS, show_default=True, help="Sessions at once.")
def sessions(rounds: int, count: int) -> Result:
    return measure(rounds=rounds, count=count)


def measure(*, rounds: int = 9, count: int = SESSIONS) -> Result:
    """The benchmark."""
    arms: dict[str, list[float]] = {"with us": [], "bare": []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(2 * (rounds + 1)):
            arm = "bare" if number % 2 else "with us"
            accel = None if number % 2 else Accel(Policy(store=StorePolicy(path=Path(folder, "trace.db"))))
            gc.collect()
            gc.disable()
            seconds = asyncio.run(_longest(accel, count, number // 2))
            gc.enable()
            if number >= 2:  # the first of each is to warm up
                arms[arm].append(seconds)
    ours, bare = (statistics.median(arms[arm]) for arm in arms)
    more = (ours - bare) * 1e3
    broken = [f"the longest pass is {more:.1f} ms longer with us, not {BOUND * 1e3:g}"] if ours - bare > BOUND else []
    return Result(
        figure=f"With {count} sessions at once, the longest pass of the event loop is {more:+.1f} ms with us.",
        inputs={"sessions": count, "model calls each": CALLS, "client": "anthropic.AsyncAnthropic"},
        n=rounds,
        tables=(
            Table(
                title=f"Longest pass of the loop, {count} sessions at once",
                columns=("with us, ms", "bare, ms", "more, ms", "bound"),
                rows=((ours * 1e3, bare * 1e3, more, BOUND * 1e3),),
            ),
        ),
        broken=tuple(broken),
    )


async def _longest(accel: Accel | None, count: int, seed: int) -> float:
    import anthropic
    import httpx2

    drawn = random.Random(seed)

    async def answer(request: Any) -> Any:
        await asyncio.sleep(drawn.uniform(*WAITS))
        asks = len(json.loads(request.content)["messages"]) % 4 == 1
        text, call = {"type": "text", "text": "Hello"}, {"type": "tool_use", "id": "t", "name": "look", "input": {}}
        message = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-5"}
        said = {"content": [call if asks else text], "stop_reason": "tool_use" if asks else "end_turn"}
        return httpx2.Response(200, json={**message, **said, "usage": {"input_tokens": 10_000, "output_tokens": 5}})

    async def look() -> str:
        return "seen"

    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(httpx2.AsyncClient(transport=httpx2.MockTransport(answer)))
        client, tool = anthropic.AsyncAnthropic(api_key="none", http_client=http), look
        if accel is not None:
            await stack.enter_async_context(accel)
            client, tool = accel.wrap(client), accel.tool(effect="read_local", concurrent=True)(look)

        async def all_of_them() -> None:
            await asyncio.gather(*(_agent(accel, client, tool, f"{seed}-{number}") for number in range(count)))

        return await longest_pass(all_of_them)


async def _agent(accel: Accel | None, client: Any, tool: Callable[[], Awaitable[str]], name: str) -> None:
    await asyncio.sleep(random.Random(name).uniform(0.0, WAITS[1]))
    ask = partial(
        client.messages.create, model="claude-sonnet-5", max_tokens=9, tools=TOOLS, system="Be good. " * (BYTES // 9)
    )
    messages: list[Any] = [{"role": "user", "content": f"Hello {name}"}]
    async with AsyncExitStack() as stack:
        if accel is not None:
            await stack.enter_async_context(accel.session(name, agent="bench"))
        for _ in range(CALLS):
            reply = await ask(messages=messages)
            messages.append({"role": "assistant", "content": [block.model_dump() for block in reply.content]})
            seen = [await tool() for block in reply.content if block.type == "tool_use"]
            results = [{"type": "tool_result", "tool_use_id": "t", "content": one} for one in seen]
            messages.append({"role": "user", "content": results or "Go on."})
