"""With both consents, through the vendors' own clients: ten requests with a clock in the instructions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentaccel import Accel, CachePolicy, Policy, StorePolicy, TurnRecord
from agentaccel.store.store import open_reader
from agentaccel.testing import ManualClock
from agentaccel_emulator import RunningServer, serve
from tests.clients.dialects import DIALECTS, Dialect
from tests.driver import prose

TURNS = 10
START = 1_795_000_000.0
AUTOMATIC: Mapping[str, Mapping[str, Any]] = {"messages": {"cache_control": {"type": "ephemeral"}}}
"""What asks for caching where it is not the provider's own doing."""
RULES = [f"Rule {n}: {prose(12, n)}." for n in range(160)]


def instructions(now: float) -> str:
    shown = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return "\n".join([*RULES[:80], f"It is {shown} UTC.", *RULES[80:]])


def asked(place: Dialect, turn: int, now: float, model: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Where is order 7?"}]
    for one in range(turn):
        messages += [{"role": "assistant", "content": "Sent."}, {"role": "user", "content": f"And now, {one}?"}]
    match place.wire:
        case "chat":
            messages = [{"role": "developer", "content": instructions(now)}, *messages]
            return {"model": model, "messages": messages}
        case "responses":
            return {"model": model, "instructions": instructions(now), "input": messages}
    return {"model": model, "max_tokens": 64, "system": instructions(now), "messages": messages}


def talk(place: Dialect, client: Any, server: RunningServer, extra: Mapping[str, Any], model: str) -> None:
    for turn in range(TURNS):
        place.calls(client).create(**asked(place, turn, server.clock.now, model), **extra)
        server.clock.advance(7.0)


def total(place: Dialect, model: str, extra: Mapping[str, Any]) -> Any:
    """What the bare client is billed for."""
    with serve(script=["Sent."] * TURNS, clock=ManualClock(now=START)) as server, place.client(server) as client:
        talk(place, client, server, extra, model)
        return server.counters.total


def ours(place: Dialect, model: str, folder: Path, extra: Mapping[str, Any]) -> tuple[Any, list[TurnRecord]]:
    cache = CachePolicy(move_volatile=True, freeze_tools=True)
    policy = Policy(strict=True, cache=cache, store=StorePolicy(path=folder / "trace.db"))
    with (
        serve(script=["Sent."] * TURNS, clock=ManualClock(now=START)) as server,
        place.client(server) as bare,
        Accel(policy, clock=server.clock, environ={}) as accel,
    ):
        talk(place, place.wrapped(accel)(bare), server, extra, model)
        billed = server.counters.total
    with open_reader(folder / "trace.db") as reader:
        return billed, list(reader.turns())


def cost(usage: Any) -> float:
    """In uncached tokens, where a read is a tenth."""
    return float(usage.uncached + 0.1 * usage.read + 1.25 * (usage.write_5m + usage.write_30m))


CASES = [
    *[(name, str(one.ask["model"])) for name, one in DIALECTS.items()],
    ("messages", "claude-opus-5"),
    ("chat", "gpt-4o"),
    ("responses", "gpt-5.1"),
]


@pytest.mark.slow
@pytest.mark.many(6)
@pytest.mark.parametrize(("name", "model"), CASES)
def test_a_clock_costs_no_prefix_from_the_second_request_on(name: str, model: str, tmp_path: Path) -> None:
    """At every place where it is documented what may stand at the end; below no caching, and below automatic caching.

    A provider that reads in steps of many tokens reads the last whole one.
    """
    place = DIALECTS[name]
    extra = AUTOMATIC.get(place.wire, {}) if place.name == "messages" else {}
    billed, records = ours(place, model, tmp_path, {})
    shares = [(record.usage.read or 0) / (record.usage.input or 1) for record in records]
    assert all(share > 0.8 for share in shares[1:]), shares
    assert all(record.consents == ("move_volatile",) for record in records)
    assert cost(billed) < 0.4 * billed.input
    assert cost(billed) < 0.5 * cost(total(place, model, extra))


@pytest.mark.many(3)
@pytest.mark.parametrize(("name", "model"), [("chat", "gpt-6-sol"), ("responses", "gpt-6-sol"), ("chat", "gpt-4o")])
def test_savings_are_stated_against_the_bill_of_the_request_as_written(name: str, model: str, tmp_path: Path) -> None:
    """To within the bytes of what stands in the place of the clock: the emulator bills the bare client for that."""
    place = DIALECTS[name]
    _, records = ours(place, model, tmp_path, {})
    bare = total(place, model, {})
    said = [record.as_written for record in records]
    for kind in ("read", "written", "input"):
        modelled = sum(getattr(one, kind) or 0 for one in said if one is not None)
        billed = bare.write_30m if kind == "written" else getattr(bare, kind)
        # Where a provider reads in steps, one step more or less in each request.
        assert modelled == pytest.approx(billed, rel=0.03, abs=128 * TURNS if model == "gpt-4o" else 0), kind


@pytest.mark.slow
def test_what_the_provider_would_write_at_the_end_is_not_written(tmp_path: Path) -> None:
    """Its own breakpoint stands at the end of what lasts, not of what this request alone has."""
    billed, records = ours(DIALECTS["chat"], "gpt-6-sol", tmp_path, {})
    assert all((record.usage.uncached or 0) > 10 for record in records)
    assert billed.write_30m < 1.1 * (records[-1].usage.input or 0)
