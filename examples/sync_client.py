"""The synchronous client. Runs offline, against the emulator."""

from typing import Any

from anthropic import Anthropic

from agentaccel import Accel, Policy, StorePolicy
from agentaccel_emulator import serve

SYSTEM = "You answer questions about lamps in one sentence. " * 150

with (
    serve(script=["A lamp that stands on a desk.", "One that hangs."]) as server,
    Accel(Policy(store=StorePolicy(enabled=False))) as accel,
    accel.wrap(Anthropic(base_url=server.url, api_key="any")) as client,
):
    messages: list[Any] = []
    for question in ("What is a desk lamp?", "And a pendant?"):
        messages.append({"role": "user", "content": question})
        reply = client.messages.create(model="claude-sonnet-5", max_tokens=100, system=SYSTEM, messages=messages)
        messages.append({"role": "assistant", "content": reply.content[0].to_dict()["text"]})
        usage = reply.usage
        print(f"read {usage.cache_read_input_tokens}, written {usage.cache_creation_input_tokens} tokens")

    assert usage.cache_read_input_tokens is not None
    assert usage.cache_read_input_tokens > 1024
