"""Streams work as without agentaccel, also when the reader breaks off. Runs offline, against the emulator."""

import asyncio
from typing import Any

from anthropic import AsyncAnthropic

from agentaccel import Accel, Policy, StorePolicy
from agentaccel_emulator import serve

SYSTEM = "You write short notes about lamps. " * 200
QUESTION: Any = [{"role": "user", "content": "Write a note about desk lamps."}]


async def main() -> None:
    with (
        serve(script=["Desk lamps stand on desks. They give light."]) as server,
        Accel(Policy(store=StorePolicy(enabled=False))) as accel,
    ):
        async with accel.wrap(AsyncAnthropic(base_url=server.url, api_key="any")) as client:
            options: dict[str, Any] = {"model": "claude-sonnet-5", "max_tokens": 200, "system": SYSTEM}

            async with client.messages.stream(messages=QUESTION, **options) as stream:
                async for text in stream.text_stream:
                    print(text, end="")
                final = await stream.get_final_message()
            print()

            follow_up = [*QUESTION, {"role": "assistant", "content": "Noted."}, {"role": "user", "content": "More."}]
            async with client.messages.stream(messages=follow_up, **options) as stream:
                async for _ in stream:
                    break  # the turn is recorded as abandoned, and the connection is let go as ever

        written, read = final.usage.cache_creation_input_tokens, server.log[1].usage
        print(f"the first request wrote {written} tokens; the second, broken off, read {read.read if read else 0}")
        assert read is not None
        assert written is not None
        assert read.read > 1024


asyncio.run(main())
