"""Drives random conversations through the planner and the emulator's core, and counts.

Run as a program it is what the mutant tests run in a mutated copy of the package: `python -m tests.fuzz.legality N
SEED` exits with 1 if a request that is legal as written was rejected with our plan, or if the plan was useless too
often.
"""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from agentaccel.clock import ManualClock
from agentaccel.engine.conversation import Conversation
from agentaccel.engine.engine import Engine
from agentaccel.engine.lineage import Registry
from agentaccel.engine.scope import Announced, Session
from agentaccel.policy import CachePolicy, Policy, StorePolicy
from agentaccel.store.recorder import Recorder
from agentaccel.turn import Finished, Reported, Send, Started
from agentaccel.types import Endpoint
from agentaccel.wire import dialect
from agentaccel.wire.anthropic import usage_of
from agentaccel_emulator import Emulator, HttpRequest
from tests.fuzz.conversations import Json, conversation
from tests.fuzz.useful import Reach, reach_of

HEADERS = {
    "authorization": "Bearer k",
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "message-threads-2026-08-12",
}


@dataclass(slots=True)
class Tally:
    """What came of the conversations."""

    requests: int = 0
    illegal_as_written: int = 0
    rejected_by_us: list[str] = field(default_factory=list)
    repeated: int = 0
    """Requests after which, in time, a longer one repeats them up to a block that may carry a marker."""
    covered: int = 0
    """Those of them that carry a marker on such a block."""
    limits: Counter[str] = field(default_factory=Counter)

    @property
    def coverage(self) -> float:
        return self.covered / self.repeated if self.repeated else 1.0


def post(emulator: Emulator, body: Json, now: float) -> tuple[int, Json]:
    request = HttpRequest(method="POST", path="/v1/messages", headers=HEADERS, body=json.dumps(body).encode())
    reply = emulator.handle(request, now)
    return reply.status, json.loads(reply.body)


def run(conversations: int, seed: int) -> Tally:
    """`conversations` random ones, each in a session of its own, with nothing learned before."""
    tally = Tally()
    for number in range(conversations):
        _one(random.Random(f"{seed}/{number}"), tally)
    return tally


def consents(rng: random.Random) -> Json:
    """Consents of a user: mostly none."""
    return {name: True for name in ("move_volatile", "freeze_tools") if rng.random() < 0.2}


def _one(rng: random.Random, tally: Tally) -> None:
    clock = ManualClock()
    ttl = "1h" if rng.random() < 0.15 else "auto"
    policy = Policy(strict=True, cache=CachePolicy(ttl=ttl, **consents(rng)), store=StorePolicy(enabled=False))
    recorder = Recorder(policy.store, strict=True)
    engine = Engine(policy, clock, recorder, Registry(recorder))
    bare, ours = Emulator(clock=clock), Emulator(clock=clock)
    before: Reach | None = None
    for gap, body in conversation(rng):
        clock.advance(gap)
        _count_limits(body, tally.limits)
        tally.requests += 1
        legal, _ = post(bare, body, clock.now)
        turn = engine.begin(body)
        send = turn.handle(Started(clock.monotonic()))[-1]
        assert isinstance(send, Send)
        sent: Any = send.request
        status, answer_ours = post(ours, sent, clock.now)
        if legal != 200:
            tally.illegal_as_written += 1
            before = None
            continue
        if status != 200:
            tally.rejected_by_us.append(answer_ours["error"]["message"])
            before = None
            continue
        if any(marker.ours and marker.ttl == "1h" for marker in turn.plan.markers) and ttl == "auto":
            tally.limits["an hour chosen"] += 1
        _keep_alive(sent, clock.now, tally)
        if tally.requests % 4 == 0:
            _written_ahead(engine, body, clock.now, tally)
        turn.handle(Reported(usage=usage_of(answer_ours["usage"]), message_id=answer_ours["id"]))
        clock.advance(2.0)
        turn.handle(Finished(clock.monotonic()))
        now = reach_of(sent, clock.now)
        if "thread" in body:
            continue  # no marker is legal there
        if before is not None and clock.now - before.at < 300 and (shared := now.shares(before)) is not None:
            tally.repeated += 1
            tally.covered += before.marked_within(shared)
        before = now


def _keep_alive(sent: Json, now: float, tally: Tally) -> None:
    """What would keep its entries alive has to be legal where the request itself was."""
    warmed = dialect("messages").warmed(sent, "max_tokens")
    if warmed is None:
        return
    tally.limits["keep-alive"] += 1
    status, answer = post(Emulator(), json.loads(json.dumps(warmed)), now)
    if status != 200:
        tally.rejected_by_us.append(f"keep-alive: {answer['error']['message']}")


def _written_ahead(engine: Engine, body: Json, now: float, tally: Tally) -> None:
    """What would write it ahead has to be legal, too: all of it, and where its last message is not known yet."""
    for known in (body["messages"], body["messages"][:-1]):
        announced = Announced({**body, "messages": known}, Endpoint())
        session = Session(Conversation(id="-"), lambda call: nullcontext(), owner=engine.registry.owner)
        planned = engine.announced(session, announced)
        if planned is None or planned.plan.expected is None:
            continue
        warmed = dialect("messages").warmed(dialect("messages").encode(planned.request, planned.plan), "max_tokens")
        if warmed is None:
            continue
        tally.limits["written ahead"] += 1
        status, answer = post(Emulator(), json.loads(json.dumps(warmed)), now)
        if status != 200:
            tally.rejected_by_us.append(f"written ahead: {answer['error']['message']}")


def _count_limits(body: Json, limits: Counter[str]) -> None:
    """Which limits the request, as written, comes up against."""
    text = json.dumps(body)
    marks = text.count('"cache_control"')
    limits["four markers"] += marks == 4
    limits["more than four markers"] += marks > 4
    limits["mixed lifetimes"] += '"1h"' in text and text.count('"1h"') < marks
    limits["top-level marker"] += "cache_control" in body
    limits["deferred tool"] += '"defer_loading"' in text
    limits["deferred tool last"] += bool(body.get("tools") and body["tools"][-1].get("defer_loading"))
    last = body["messages"][-1]["content"]
    limits["thinking in history"] += '"type": "thinking"' in text
    limits["empty tool result"] += '"content": ""' in text
    limits["nested marker"] += any(
        "cache_control" in part
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if isinstance(block.get("content"), list)
        for part in block["content"]
    )
    limits["more than twenty blocks"] += isinstance(last, list) and len(last) > 20
    limits["message thread"] += "thread" in body


def main() -> int:
    tally = run(int(sys.argv[1]), int(sys.argv[2]))
    sys.stdout.write(
        f"{tally.requests} requests, {tally.illegal_as_written} illegal as written, "
        f"{len(tally.rejected_by_us)} rejected by us, coverage {tally.covered}/{tally.repeated}, {dict(tally.limits)}\n"
    )
    for message, count in Counter(tally.rejected_by_us).most_common(5):
        sys.stdout.write(f"  {count} x {message}\n")
    return int(bool(tally.rejected_by_us) or tally.coverage < 0.9)


if __name__ == "__main__":
    sys.exit(main())
