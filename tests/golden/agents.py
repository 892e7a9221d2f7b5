"""Agents of both SDKs in virtual time: streams, tools that run early, what is learned of them, and reports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
from click.testing import CliRunner

from agentaccel import Accel, CachePolicy, Policy, StorePolicy
from agentaccel.cli import main
from agentaccel.demo.run import run_demo
from agentaccel.testing import ManualClock
from agentaccel.testing.virtual import EmulatedTransport, run
from agentaccel_emulator import Emulator, Script, call
from tests.golden.form import Case, Rows, stored_rows

_SESSIONS, _TRIPS = 12, 3
_MODELS = {"anthropic": "claude-sonnet-5", "openai": "gpt-6-sol"}
_SYSTEM = "You look up trips of customers, one after the other, and say how they are. " * 120


def cases() -> Iterator[tuple[str, Case]]:
    for vendor in _MODELS:
        yield f"agent {vendor}", partial(_worked, vendor)
        yield f"demo {vendor}", partial(_shown, vendor)


def _shown(vendor: str, folder: Path) -> Rows:
    """The demo, and what a report says of it."""
    store = folder / "demo.db"
    results = run_demo(store, provider=vendor, cache=CachePolicy(move_volatile=True, freeze_tools=True))
    rows = [
        {"form": one.form.name, "column": column, "cost": ran.cost, "input": ran.usage.input, "read": ran.usage.read}
        for one in results
        for column, ran in one.runs.items()
    ]
    return _without([*rows, *stored_rows(store), reported(store)], {"first_byte", "warm", "cold"})


def _without(value: Any, names: Set[str]) -> Any:
    """`value` without the members called so: a real server between two threads begins its replies when it can."""
    if isinstance(value, dict):
        return {name: _without(one, names) for name, one in value.items() if name not in names}
    return [_without(one, names) for one in value] if isinstance(value, list) else value


def reported(store: Path) -> dict[str, Any]:
    """What `agentaccel report` says of the store."""
    done = CliRunner().invoke(main, ["report", str(store), "--format", "json", "--by", "agent", "--tz", "UTC"])
    assert done.exit_code == 0, done.output
    report: dict[str, Any] = json.loads(done.stdout)
    return {"report": {name: value for name, value in report.items() if name not in ("source", "sources", "version")}}


# --- an agent ---------------------------------------------------------------------------------------------------------


def _worked(vendor: str, folder: Path) -> Rows:
    store = folder / "trace.db"
    return [*worked(vendor, store, range(_SESSIONS)), *stored_rows(store)]


def worked(vendor: str, store: Path, numbers: range, start: float = 0.0) -> Rows:
    """Let the agent work in sessions of these numbers, from `start` seconds of the clock on; what it sent and ran."""
    clock = ManualClock()
    clock.advance(start)
    emulator = Emulator(clock=clock, script=Script(answer=_answer))
    accel = Accel(Policy(strict=True, store=StorePolicy(path=store)), clock=clock, environ={})
    runs: list[str] = []
    tools = _tools(accel, runs)
    transport = EmulatedTransport(emulator, clock)

    async def all_sessions() -> None:
        async with httpx2.AsyncClient(transport=transport) as http:
            client = accel.wrap(_CLIENTS[vendor](http), **({"platform": "api"} if vendor == "openai" else {}))
            for number in numbers:
                with accel.session(f"desk {number}", agent="desk"):
                    await _LOOPS[vendor](client, tools, f"Hello, this is mia_li_{1000 + number}.")
                await asyncio.sleep(30)

    run(all_sessions, clock)
    accel.close()
    sent = [{"sent": round(at - transport.sent[0], 6)} for at in transport.sent]
    return [*sent, {"runs": runs}]


def _answer(turn: Any) -> Any:
    """What the model does: it finds the customer, then looks at each trip."""
    number = int(turn.opening.rpartition("_")[2].rstrip("."))
    if turn.index == 0:
        return call("find_person", {"person": f"mia_li_{number}"}, text="Let me see.")
    if turn.index <= _TRIPS:
        return call("get_trip", {"trip": _trip(number, turn.index - 1), "language": "en"})
    return "All of them are on their way."


def _trip(number: int, at: int) -> str:
    return f"K{number}T{at}"


def _tools(accel: Accel, runs: list[str]) -> dict[str, Callable[..., Any]]:
    @accel.tool(effect="read_local", concurrent=True, max_age=60)
    async def find_person(person: str) -> str:
        runs.append(person)
        await asyncio.sleep(0.5)
        number = int(person.rpartition("_")[2])
        return json.dumps({"person": person, "trips": [_trip(number, at) for at in range(_TRIPS)]})

    @accel.tool(effect="read_local", concurrent=True, max_age=60)
    async def get_trip(trip: str, language: str) -> str:
        runs.append(trip)
        await asyncio.sleep(0.75)
        return json.dumps({"trip": trip, "state": "booked", "language": language})

    return {"find_person": find_person, "get_trip": get_trip}


_PARAMETERS: Mapping[str, Mapping[str, Any]] = {
    name: {"type": "object", "properties": {one: {"type": "string"} for one in names}, "required": names}
    for name, names in {"find_person": ["person"], "get_trip": ["trip", "language"]}.items()
}


def _anthropic(http: httpx2.AsyncClient) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(api_key="k", http_client=http, max_retries=0)


def _openai(http: httpx2.AsyncClient) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(api_key="k", http_client=http, max_retries=0)


async def _of_anthropic(client: Any, tools: Mapping[str, Callable[..., Any]], opening: str) -> None:
    messages: list[Any] = [{"role": "user", "content": opening}]
    declared = [{"name": name, "description": name, "input_schema": _PARAMETERS[name]} for name in tools]
    fixed = {"model": _MODELS["anthropic"], "max_tokens": 500, "system": _SYSTEM, "tools": declared}
    while True:
        async with client.messages.stream(**fixed, messages=messages) as stream:
            reply = await stream.get_final_message()
        calls = [one for one in reply.content if one.type == "tool_use"]
        if not calls:
            return
        messages.append({"role": "assistant", "content": [one.model_dump(exclude_none=True) for one in reply.content]})
        results = [
            {"type": "tool_result", "tool_use_id": one.id, "content": await tools[one.name](**one.input)}
            for one in calls
        ]
        messages.append({"role": "user", "content": results})


async def _of_openai(client: Any, tools: Mapping[str, Callable[..., Any]], opening: str) -> None:
    messages: list[Any] = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": opening}]
    declared = [{"type": "function", "function": {"name": name, "parameters": _PARAMETERS[name]}} for name in tools]
    while True:
        reply = await client.chat.completions.create(model=_MODELS["openai"], messages=messages, tools=declared)
        said = reply.choices[0].message
        if not said.tool_calls:
            return
        messages.append(said.model_dump(exclude_none=True))
        for one in said.tool_calls:
            output = await tools[one.function.name](**json.loads(one.function.arguments))
            messages.append({"role": "tool", "tool_call_id": one.id, "content": output})


_CLIENTS: Mapping[str, Callable[[httpx2.AsyncClient], Any]] = {"anthropic": _anthropic, "openai": _openai}
_LOOPS = {"anthropic": _of_anthropic, "openai": _of_openai}
