"""Workloads that a store has learned of, on models that write by themselves: what their later requests carry.

Run as a program it is what the mutant tests run: `python -m tests.fuzz.learned WORKLOADS SEED` exits with 1 if a guard
is missing, or if too few requests carry what would have saved.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.facts import Wire
from agentaccel.testing import ManualClock
from agentaccel.turn import Finished, Reported, Send, Started
from agentaccel.wire import dialect
from agentaccel_emulator import Emulator, HttpRequest
from tests.fuzz.added import MARK
from tests.fuzz.chats import SCHEMA
from tests.fuzz.conversations import Json, prose

PATHS: Mapping[Wire, str] = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}
SESSIONS = 16
LEARNED = 8
"""Sessions after which the workload should be known."""


def one_shots(rng: random.Random, wire: Wire, *, static: int, mode: str | None = None) -> Iterator[Json]:
    """Requests that nobody goes on from, each with a long text of its own; the first `static` words are shared.

    `mode` is what their sender says of the provider's own breakpoint.
    """
    options = {"prompt_cache_options": {"mode": mode}} if mode is not None else {}
    model = rng.choice(("gpt-6-sol", "gpt-6.1-terra", "gpt-5.6-luna"))
    shared = prose(rng, static)
    function: Json = {"name": "file_under", "description": "Files it.", "parameters": SCHEMA}
    tool: Json = {"type": "function", **({"function": function} if wire == "chat" else function)}
    for _ in range(SESSIONS):
        said = [{"role": "user", "content": prose(rng, rng.choice((2000, 4000)))}]
        if static:
            said.insert(0, {"role": "developer", "content": shared})
        yield {"model": model, "tools": [tool], "messages" if wire == "chat" else "input": said, **options}


def sent(wire: Wire, bodies: Iterator[Json]) -> Iterator[Json]:
    """What goes out for each of them, one after another, with a store that remembers."""
    clock = ManualClock()
    emulator = Emulator(clock=clock)
    with tempfile.TemporaryDirectory() as folder:
        policy = Policy(strict=True, store=StorePolicy(path=Path(folder) / "trace.db"))
        with Accel(policy, clock=clock) as accel:
            for body in bodies:
                clock.advance(100.0)
                turn = accel.turn(body, provider="openai")
                send = turn.handle(Started(clock.monotonic()))[-1]
                assert isinstance(send, Send)
                request: Any = send.request
                data = json.dumps(request).encode()
                headers = {"authorization": "Bearer k"}
                reply = emulator.handle(HttpRequest(method="POST", path=PATHS[wire], headers=headers, body=data))
                assert reply.status == 200, reply.body
                answer = json.loads(reply.body)
                usage = dialect(wire).usage_of(answer["usage"])
                turn.handle(Reported(usage=usage, message_id=answer["id"]))
                clock.advance(2.0)
                turn.handle(Finished(clock.monotonic()))
                yield request


def switched_off(body: Json) -> bool:
    return (body.get("prompt_cache_options") or {}).get("mode") == "explicit"


def marked(body: Json) -> bool:
    return MARK in json.dumps(body)


def share(workloads: int, seed: int, *, static: int) -> float:
    """The share of later requests that carry what saves: no writing but, where it is shared, of the static part."""
    good = total = 0
    for number in range(workloads):
        rng = random.Random(f"{seed}/{number}")
        wire: Wire = "chat" if number % 2 else "responses"
        for body in list(sent(wire, one_shots(rng, wire, static=static)))[LEARNED:]:
            total += 1
            good += switched_off(body) and marked(body) == bool(static)
    return good / total


def overruled(workloads: int, seed: int) -> int:
    """How many requests whose sender wants the provider to write by itself went out saying something else."""
    found = 0
    for number in range(workloads):
        rng = random.Random(f"{seed}/{number}")
        wire: Wire = "chat" if number % 2 else "responses"
        found += sum(map(switched_off, sent(wire, one_shots(rng, wire, static=0, mode="implicit"))))
    return found


def main() -> int:
    workloads, seed = int(sys.argv[1]), int(sys.argv[2])
    alone, shared = (share(workloads, seed, static=static) for static in (0, 2000))
    against = overruled(workloads, seed)
    sys.stdout.write(f"switched off {alone:.2f}, but for what is shared {shared:.2f}, against the sender {against}\n")
    return int(min(alone, shared) < 0.9 or against > 0)


if __name__ == "__main__":
    sys.exit(main())
