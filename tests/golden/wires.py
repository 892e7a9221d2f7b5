"""Random conversations at every place and under every consent, answered by the emulator."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from agentaccel import Accel, CachePolicy, Policy, StorePolicy
from agentaccel.policy import HistoryPolicy
from agentaccel.testing import ManualClock
from agentaccel.turn import CallClosed, Failed, Finished, FirstByte, Reported, Send, Started
from agentaccel.types import Endpoint
from agentaccel.wire import dialect
from agentaccel_emulator import Emulator
from tests.fuzz.arranged import HERE, churned
from tests.fuzz.edited import MODELS
from tests.fuzz.loops import loops
from tests.fuzz.wires import Place, claude
from tests.golden.form import Case, Heard, Json, Rows, stored_rows

_CONVERSATIONS = 8
_POLICIES: dict[str, Json] = {
    "as it comes": {},
    "one hour": {"cache": CachePolicy(ttl="1h")},
    "observed": {"mode": "observe"},
    "moved": {"cache": CachePolicy(move_volatile=True, freeze_tools=True)},
    "edited": {"history": HistoryPolicy(clear_results=True)},
}


def _told(rng: random.Random) -> Iterator[tuple[float, Json]]:
    """A conversation of the Messages API that has instructions, which tell its form."""
    for gap, body in claude(rng, ("some/model",)):
        yield gap, {"system": "Be brief.", **body}


PLACES = {
    **HERE,
    **{
        f"{name} messages": Place(Endpoint("compatible", name, "messages"), "/v1/messages", _told, frozenset(), "")
        for name in ("vllm", "llamacpp")
    },
}


def cases() -> Iterator[tuple[str, Case]]:
    for name in PLACES:
        for policy in _POLICIES:
            yield f"wire {name}, {policy}", partial(_talked, name, policy)


def _talks(name: str, policy: str, rng: random.Random, now: float) -> Iterator[tuple[float, Json]]:
    place = PLACES[name]
    if policy == "edited":
        return iter(loops(rng, place.endpoint.wire, MODELS.get(name, ("some/model",))))
    return iter(churned(rng, place.talks, now)) if policy == "moved" else place.talks(rng)


def _talked(name: str, policy: str, folder: Path) -> Rows:
    clock, place = ManualClock(), PLACES[name]
    settings = {"strict": True, "store": StorePolicy(path=folder / "trace.db"), **_POLICIES[policy]}
    log = logging.getLogger("agentaccel")
    log.addHandler(quiet := logging.NullHandler())
    heard = Heard(Accel(Policy(**settings), clock=clock, environ={}))
    emulator = Emulator(clock=clock, platform=place.endpoint.platform)
    for number in range(_CONVERSATIONS):
        rng = random.Random(f"golden/{name}/{policy}/{number}")
        with heard.session(f"talk {number}", agent=f"agent {number % 2}"):
            for gap, body in _talks(name, policy, rng, clock.now):
                clock.advance(gap)
                _ask(heard, emulator, place, body, clock)
    heard.close()
    log.removeHandler(quiet)
    return [*heard.rows(), *stored_rows(folder / "trace.db")]


def _ask(heard: Heard, emulator: Emulator, place: Place, body: Json, clock: ManualClock) -> None:
    provider, platform, wire = place.endpoint.provider, place.endpoint.platform, place.endpoint.wire
    turn = heard.turn(body, provider=provider, platform=platform)
    send = turn.handle(Started(clock.monotonic()))[-1]
    assert isinstance(send, Send)
    request: Any = dict(send.request)
    reply = emulator.handle(place.request({**request, "stream": False} if "stream" in request else request), clock.now)
    clock.advance(1.0)
    if reply.status != 200:
        turn.handle(Failed(at=clock.monotonic(), status=reply.status, error=json.loads(reply.body).get("type")))
        return
    turn.handle(FirstByte(clock.monotonic()))
    tap = dialect(wire).reply_tap(False)
    for call in (*tap.feed(reply.body), *tap.finish()):
        turn.handle(CallClosed(call, clock.monotonic()))
    metered = tap.metered
    turn.handle(Reported(usage=metered.usage, stop=tap.stop, message_id=tap.message_id, model=tap.model))
    clock.advance(1.0)
    turn.handle(Finished(clock.monotonic()))
