"""Recorded exchanges with real APIs: what would be planned for each request, and what its reply is read as.

Digests stand by those of the files: what nobody has looked at has none, and is skipped.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.engine.draft import reported
from agentaccel.errors import ConfigError
from agentaccel.facts import host_platform
from agentaccel.testing import ManualClock
from agentaccel.turn import CallClosed, Finished, Started
from agentaccel.wire import dialect
from tests.golden.form import Case, Heard, Rows, stored_rows
from tests.wire.recorded import FILES, Json, data_of, exchanges, streamed, wire


def cases() -> Iterator[tuple[str, Case]]:
    """By the name and the digest of each file of exchanges; none where `AGENTACCEL_TRACES` names no folder."""
    folder = Path(os.environ.get("AGENTACCEL_TRACES") or "/nowhere") / "wire"
    for name in FILES:
        path = folder / f"{name}.jsonl.gz"
        if path.exists():
            told = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
            yield f"recorded {name} {told}", partial(_read, name)


def _read(name: str, folder: Path) -> Rows:
    clock = ManualClock()
    policy = Policy(strict=True, store=StorePolicy(path=folder / "trace.db"))
    heard = Heard(Accel(policy, clock=clock, environ={}))
    rows: Rows = []
    for number, one in enumerate(exchanges(name)):
        with heard.session(f"exchange {number}"):
            rows.append({"id": one["id"], **_told(heard, one, clock)})
        clock.advance(3600)
    heard.close()
    return [*rows, *heard.rows(), *stored_rows(folder / "trace.db")]


def _told(heard: Heard, one: Json, clock: ManualClock) -> Json:
    host = one["url"].split("/")[2] if "//" in one["url"] else ""
    provider, platform = ("anthropic", "api") if wire(one) == "messages" else host_platform(host)
    try:
        turn = heard.turn(one["request"], provider=provider, platform=platform)
    except ConfigError as refused:
        return {"refused": str(refused)}
    turn.handle(Started(clock.monotonic()))
    tap = dialect(wire(one)).reply_tap(streamed(one))
    calls = [*tap.feed(data_of(one)), *tap.finish()]
    for call in calls:
        turn.handle(CallClosed(call, clock.monotonic()))
    turn.handle(reported(tap))
    clock.advance(1)
    turn.handle(Finished(clock.monotonic()))
    shown: list[Any] = [[call.id, call.name, json.dumps(dict(call.arguments), sort_keys=True)] for call in calls]
    return {"calls": shown, "complete": tap.complete, "error": tap.error}
