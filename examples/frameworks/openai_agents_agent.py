"""An agent of the OpenAI Agents SDK. It knows nothing of agentaccel, and runs offline, against the emulator."""

import asyncio

from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, function_tool
from openai import AsyncOpenAI

from agentaccel_emulator import call, serve

SYSTEM = "You help the customers of a shop for lamps. Look an order up before you speak about it. " * 60


@function_tool
async def get_order(number: int) -> str:
    """Look an order up by its number."""
    return f"order {number}: one desk lamp, sent on Monday"


async def main() -> None:
    with serve(script=[call("get_order", {"number": 7}), "It was sent on Monday."]) as server:
        client = AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any")
        model = OpenAIResponsesModel("gpt-6.1-sol", openai_client=client)
        agent = Agent(name="desk", instructions=SYSTEM, model=model, tools=[get_order])
        result = await Runner.run(agent, "Where is order 7?", run_config=RunConfig(tracing_disabled=True))
    print(result.final_output)


asyncio.run(main())
