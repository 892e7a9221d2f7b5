"""Observe mode: requests go out as written, and the plan says what would have been added. Runs offline."""

from typing import Any

from anthropic import Anthropic

from agentaccel import Accel, Policy, StorePolicy
from agentaccel_emulator import serve

REQUEST: Any = {
    "model": "claude-sonnet-5",
    "max_tokens": 100,
    "system": "You answer questions about lamps in one sentence. " * 150,
    "messages": [{"role": "user", "content": "What is a desk lamp?"}],
}

with (
    serve(script=["A lamp that stands on a desk."]) as server,
    Accel(Policy(mode="observe", store=StorePolicy(enabled=False))) as accel,
    accel.wrap(Anthropic(base_url=server.url, api_key="any")) as client,
):
    plan = accel.plan(REQUEST)
    for marker in plan.markers:
        print("would mark", ".".join(map(str, marker.path)), marker.ttl, "-", marker.reason)

    reply = client.messages.create(**REQUEST)

    print("sent as written:", "cache_control" not in str(server.log[0].request))
    assert plan.markers
    assert reply.usage.cache_creation_input_tokens == 0
