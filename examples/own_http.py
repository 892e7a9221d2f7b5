"""Your own HTTP in place of a vendor SDK: a turn takes events and says what to send. Runs offline."""

import json
import time
import urllib.request
from typing import Any

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.turn import Failed, Finished, Reported, Send, Started
from agentaccel.wire.anthropic import usage_of
from agentaccel_emulator import serve

HEADERS = {"content-type": "application/json", "x-api-key": "any", "anthropic-version": "2023-06-01"}
SYSTEM = "You answer questions about lamps in one sentence. " * 150


def post(url: str, body: Any) -> Any:
    """Stands for whatever sends your requests."""
    request = urllib.request.Request(f"{url}/v1/messages", json.dumps(body).encode(), HEADERS)
    with urllib.request.urlopen(request, timeout=10) as reply:
        return json.load(reply)


def ask(accel: Accel, url: str, body: Any) -> Any:
    """One request, planned before and recorded after."""
    turn = accel.turn(body)
    send = next(one for one in turn.handle(Started(time.monotonic())) if isinstance(one, Send))
    try:
        reply = post(url, send.request)
    except OSError as error:
        turn.handle(Failed(at=time.monotonic(), error=type(error).__name__))
        raise
    turn.handle(Reported(usage=usage_of(reply["usage"]), stop=reply["stop_reason"], message_id=reply["id"]))
    turn.handle(Finished(time.monotonic()))
    return reply


with (
    serve(script=["A lamp that stands on a desk.", "One that hangs."]) as server,
    Accel(Policy(store=StorePolicy(enabled=False))) as accel,
):
    messages: list[Any] = []
    for question in ("What is a desk lamp?", "And a pendant?"):
        messages.append({"role": "user", "content": question})
        body = {"model": "claude-sonnet-5", "max_tokens": 100, "system": SYSTEM, "messages": messages}
        reply = ask(accel, server.url, body)
        messages.append({"role": "assistant", "content": reply["content"]})
        print("read", reply["usage"]["cache_read_input_tokens"], "tokens")
    assert reply["usage"]["cache_read_input_tokens"] > 1024
