"""The OpenAI Agents SDK with a wrapped client and functions of `accel.tool`: agents are what they were."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("agents", reason="agents is in another environment")

from agents import Agent, OpenAIResponsesModel, RunConfig, RunContextWrapper, Runner, function_tool
from openai import AsyncOpenAI

from agentaccel import Accel, CachePolicy, Policy, StorePolicy, ToolPolicy
from agentaccel.effects.spec import is_early
from agentaccel.testing.conformance import GATED, READS, Ask, Setting, assert_conforms
from agentaccel_emulator import ScriptedReply, call, say, serve
from tests.frameworks import agents
from tests.frameworks.early import seen_by_the_kit

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]

INSIDE = Policy(cache=CachePolicy(freeze_tools=True), tools=ToolPolicy(speculate=False), stream_inside=True)


@asynccontextmanager
async def openai_agents(setting: Setting) -> AsyncIterator[Ask]:
    """The desk as the page builds it: nothing but the client and the functions is another."""
    if (accel := setting.accel) is None:
        async with agents.openai_agents(setting) as ask:
            yield ask
        return
    read = accel.tool(effect="read_local", concurrent=True)
    gated = accel.tool(effect="read_local", concurrent=True, needs_approval=True)
    kinds = {**dict.fromkeys(READS, read), **dict.fromkeys(GATED, gated)}
    tools = {name: kinds.get(name, accel.tool)(tool) for name, tool in setting.tools.items()}
    async with agents.openai_agents(replace(setting, tools=tools), wrap=accel.wrap) as ask:
        yield ask


@pytest.mark.parametrize("policy", [None, INSIDE], ids=["", "inside"])
def test_an_agent_with_the_lines_of_the_page_is_what_it_was(
    policy: Policy | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The floor: tools do begin early in it."""
    began = seen_by_the_kit(monkeypatch)
    assert_conforms(openai_agents, wire="responses", policy=policy)
    assert any(began)


def test_what_needs_approval_runs_once_it_is_given_and_what_takes_the_run_when_it_is_asked_for(tmp_path: Path) -> None:
    """The floor: beside them, a tool that only reads begins early."""
    ran = list[tuple[str, bool]]()
    asked = [call(name, {"key": "a"}) for name in ("look", "pay", "peek")]
    script = [ScriptedReply(content=tuple(block for one in asked for block in one.content)), say("Done.")]
    policy = replace(INSIDE, store=StorePolicy(path=tmp_path / "trace.db"), strict=True)
    with serve(script=script) as server, Accel(policy, environ={}) as accel:
        reads: Any = {"effect": "read_local", "concurrent": True}

        @function_tool
        @accel.tool(**reads)
        async def look(key: str) -> str:
            ran.append(("look", is_early()))
            return "looked"

        @function_tool(needs_approval=True)
        @accel.tool(**reads, needs_approval=True)
        async def pay(key: str) -> str:
            ran.append(("pay", is_early()))
            return "paid"

        @function_tool
        @accel.tool(**reads)
        async def peek(context: RunContextWrapper[Any], key: str) -> str:
            ran.append(("peek", is_early()))
            return "peeked"

        async def main() -> Any:
            async with AsyncOpenAI(base_url=f"{server.url}/v1", api_key="k", max_retries=1) as client:
                model = OpenAIResponsesModel("gpt-6.1-sol", openai_client=accel.wrap(client))
                agent = Agent(name="desk", instructions="Look. " * 2000, model=model, tools=[look, pay, peek])
                settings = RunConfig(tracing_disabled=True)
                result = await Runner.run(agent, "Go", run_config=settings)
                [stopped] = result.interruptions
                assert "pay" not in {name for name, _ in ran}
                state = result.to_state()
                state.approve(stopped)
                return await Runner.run(agent, state, run_config=settings)

        assert asyncio.run(main()).final_output == "Done."
    assert sorted(ran) == [("look", True), ("pay", False), ("peek", False)]
