"""A deep agent. It knows nothing of agentaccel, and runs offline, against the emulator."""

import asyncio

from deepagents import create_deep_agent
from langchain_anthropic import ChatAnthropic

from agentaccel_emulator import call, serve


async def get_order(number: int) -> str:
    """Look an order up by its number."""
    return f"order {number}: one desk lamp, sent on Monday"


async def main() -> None:
    with serve(script=[call("get_order", {"number": 7}), "It was sent on Monday."]) as server:
        model = ChatAnthropic(model="claude-sonnet-5", base_url=server.url, api_key="any")
        agent = create_deep_agent(model, [get_order], system_prompt="You help the customers of a shop for lamps.")
        state = await agent.ainvoke({"messages": [("user", "Where is order 7?")]})
    print(state["messages"][-1].text)


asyncio.run(main())
