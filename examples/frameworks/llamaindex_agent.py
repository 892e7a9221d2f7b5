"""An agent of LlamaIndex. It knows nothing of agentaccel, and runs offline, against the emulator."""

import asyncio

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.anthropic import Anthropic

from agentaccel_emulator import call, serve

SYSTEM = "You help the customers of a shop for lamps. Look an order up before you speak about it. " * 60


async def get_order(number: int) -> str:
    """Look an order up by its number."""
    return f"order {number}: one desk lamp, sent on Monday"


async def main() -> None:
    with serve(script=[call("get_order", {"number": 7}), "It was sent on Monday."]) as server:
        llm = Anthropic(model="claude-sonnet-5", base_url=server.url, api_key="any", max_tokens=500)
        agent = FunctionAgent(tools=[get_order], llm=llm, system_prompt=SYSTEM)
        print(await agent.run("Where is order 7?"))


asyncio.run(main())
