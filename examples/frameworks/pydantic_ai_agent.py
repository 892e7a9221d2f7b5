"""An agent of Pydantic AI. It knows nothing of agentaccel, and runs offline, against the emulator."""

import asyncio

from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from agentaccel_emulator import call, serve

SYSTEM = "You help the customers of a shop for lamps. Look an order up before you speak about it. " * 60


async def get_order(number: int) -> str:
    """Look an order up by its number."""
    return f"order {number}: one desk lamp, sent on Monday"


async def main() -> None:
    with serve(script=[call("get_order", {"number": 7}), "It was sent on Monday."]) as server:
        model = AnthropicModel("claude-sonnet-5", provider=AnthropicProvider(base_url=server.url, api_key="any"))
        agent = Agent(model, tools=[get_order], instructions=SYSTEM)
        result = await agent.run("Where is order 7?")
    print(result.output)


asyncio.run(main())
