"""A plain agent loop, with agentaccel around the model call and the tools. Runs offline, against the emulator."""

import asyncio
from typing import Any

from anthropic import AsyncAnthropic

from agentaccel import Accel, Policy, StorePolicy
from agentaccel_emulator import call, serve

SYSTEM = "You help the customers of a shop for lamps. Look an order up before you speak about it. " * 60
TOOL: Any = {
    "name": "get_order",
    "description": "Look an order up by its number.",
    "input_schema": {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
}


async def get_order(number: int) -> str:
    """Stands for a query of your own."""
    return f"order {number}: one desk lamp, sent on Monday"


async def answer(client: AsyncAnthropic, tools: dict[str, Any], question: str) -> list[Any]:
    """Your loop: nothing in here knows of agentaccel. Returns the usage of each request."""
    messages: list[Any] = [{"role": "user", "content": question}]
    usages: list[Any] = []
    while True:
        reply = await client.messages.create(
            model="claude-sonnet-5", max_tokens=500, system=SYSTEM, tools=[TOOL], messages=messages
        )
        usages.append(reply.usage)
        messages.append({"role": "assistant", "content": [block.to_dict() for block in reply.content]})
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            return usages
        results = [
            {"type": "tool_result", "tool_use_id": one.id, "content": await tools[one.name](**one.input)}
            for one in calls
        ]
        messages.append({"role": "user", "content": results})


async def main() -> None:
    with serve(script=[call("get_order", {"number": 7}), "It was sent on Monday."]) as server:
        bare = AsyncAnthropic(base_url=server.url, api_key="any")
        with Accel(Policy(store=StorePolicy(enabled=False))) as accel:
            async with accel.wrap(bare) as client:
                usages = await answer(client, accel.tools({"get_order": get_order}), "Where is order 7?")
    for usage in usages:
        print(f"read {usage.cache_read_input_tokens}, written {usage.cache_creation_input_tokens} tokens")
    assert usages[1].cache_read_input_tokens == usages[0].cache_creation_input_tokens > 1024


asyncio.run(main())
