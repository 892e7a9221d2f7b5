"""A loop whose tools run while the model still writes, and before it asks. Offline, in virtual time."""

import asyncio
from typing import Any

import httpx2
from anthropic import AsyncAnthropic

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.testing import ManualClock
from agentaccel.testing.virtual import EmulatedTransport, run
from agentaccel_emulator import Emulator, call

SCHEMA: Any = {"type": "object", "properties": {"number": {"type": "string"}}, "required": ["number"]}
TOOLS: Any = [{"name": name, "description": name, "input_schema": SCHEMA} for name in ("find_order", "find_parcel")]
ORDERS = [f"A-{number}" for number in range(12)]
SCRIPT = [
    reply
    for order in ORDERS
    for reply in (call("find_order", {"number": order}), call("find_parcel", {"number": f"P{order}"}), "It was sent.")
]


async def main(clock: ManualClock, early: bool) -> float:
    """Virtual seconds for twelve questions; prints how many of its tools' were hidden behind the model."""
    accel, hidden = Accel(Policy(mode="on" if early else "observe", store=StorePolicy(enabled=False)), clock=clock), 0.0
    http = httpx2.AsyncClient(transport=EmulatedTransport(Emulator(script=SCRIPT, clock=clock), clock))
    client = accel.wrap(AsyncAnthropic(api_key="any", http_client=http))

    @accel.tool(effect="read_local", concurrent=True)
    async def find_order(number: str) -> str:
        await asyncio.sleep(1.0)
        return f'{{"order": "{number}", "parcel": "P{number}"}}'

    @accel.tool(effect="read_local", concurrent=True)
    async def find_parcel(number: str) -> str:
        await asyncio.sleep(1.0)
        return f"{number} is on its way"

    for order in ORDERS:
        messages: Any = [{"role": "user", "content": f"Where is my order {order}?"}]
        async with accel.session(f"order {order}", agent="parcel desk") as session:
            while True:
                options: Any = {"model": "claude-sonnet-5", "max_tokens": 200, "tools": TOOLS, "messages": messages}
                async with client.messages.stream(**options) as stream:
                    reply = await stream.get_final_message()
                if reply.stop_reason != "tool_use":
                    break
                wish: Any = reply.content[-1]
                text = await (find_order if wish.name == "find_order" else find_parcel)(**wish.input)
                result = {"type": "tool_result", "tool_use_id": wish.id, "content": text}
                messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": [result]}]
        hidden += session.speculation.total.hidden
    accel.close()
    print(f"early={early}: {clock.now:.1f} s, of which {hidden:.1f} s of {2 * len(ORDERS)} s of tools hidden")
    return clock.now


one, other = ManualClock(now=0.0), ManualClock(now=0.0)
assert run(lambda: main(one, True), one) < 0.9 * run(lambda: main(other, False), other)
