"""Named sessions, declared tools, and what the trace store holds of them. Runs offline, against the emulator."""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from anthropic import AsyncAnthropic

from agentaccel import Accel, Policy, StorePolicy
from agentaccel_emulator import call, serve

SYSTEM = "You know the stock of a shop for lamps. " * 200
SCHEMA: Any = {"type": "object", "properties": {"item": {"type": "string"}}}
OPTIONS: Any = {"model": "claude-sonnet-5", "max_tokens": 200, "system": SYSTEM}


async def main(store: Path) -> None:
    accel = Accel(Policy(store=StorePolicy(path=store)))

    @accel.tool(effect="read_local")  # what its owner declares of it
    async def stock(item: str) -> str:
        return f"three of {item}"

    with serve(script=[call("stock", {"item": "desk lamp"}), "Three."]) as server, accel:
        async with (
            accel.wrap(AsyncAnthropic(base_url=server.url, api_key="any")) as client,
            accel.session("ticket-4711", agent="stock desk", tenant="shop 1"),
        ):
            messages: list[Any] = [{"role": "user", "content": "How many desk lamps have we got?"}]
            tools: Any = [{"name": "stock", "description": "What is in stock.", "input_schema": SCHEMA}]
            reply = await client.messages.create(messages=messages, tools=tools, **OPTIONS)
            wish: Any = reply.content[0].to_dict()
            result = {"type": "tool_result", "tool_use_id": wish["id"], "content": await stock(**wish["input"])}
            messages += [{"role": "assistant", "content": [wish]}, {"role": "user", "content": [result]}]
            await client.messages.create(messages=messages, tools=tools, **OPTIONS)


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(Path(folder) / "trace.db"))
    command = [sys.executable, "-m", "agentaccel", "report", f"{folder}/trace.db", "--by", "agent"]
    report = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    print(report)
    assert "stock desk" in report
    assert "agentaccel saved" in report
