"""Tools that are agents themselves, and open sessions of their own: an early run stays one in them."""

from __future__ import annotations

import asyncio

import pytest

from agentaccel.policy import ToolPolicy
from tests.predict.scripted import Agent, call


@pytest.mark.parametrize("inner", ["another", "s"])
def test_a_write_in_a_session_that_an_early_run_opens_waits_for_the_call(inner: str) -> None:
    """Nobody has asked for it yet, whatever the tool is said to do."""
    agent, written = Agent(ToolPolicy(speculate=False)), list[str]()

    @agent.accel.tool
    async def write(key: str) -> str:
        written.append(key)
        return key

    @agent.accel.tool(effect="read_local", concurrent=True)
    async def look(key: str) -> str:
        async with agent.accel.session(inner):
            return str(await write(key=key))

    async def main() -> tuple[int, str]:
        await agent.model(call("look", key="a"))
        await asyncio.sleep(1)
        return len(written), await look(key="a")

    assert agent.run(main) == (0, "a")
    assert written == ["a"]
