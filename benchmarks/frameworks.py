"""In each agent framework, the seconds of tools that only read are hidden, and the prompt costs no more; see `run`.

The agents are those of the conformance kit (`tests/frameworks/agents.py`), so it needs the checkout; each framework is
measured where it is installed, and `make frameworks` makes an environment for each set that goes together.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click

from agentaccel import Accel, Policy, StorePolicy, ToolPolicy, ToolRecord, install
from agentaccel.facts import cache_facts
from agentaccel.store.store import open_reader
from agentaccel.testing.conformance import INSTRUCTIONS, MODELS, READS, Setting, Tool
from agentaccel_emulator import Behaviour, RunningServer, Script, ScriptedReply, Timing, call, say, serve
from benchmarks.registry import Cell, Result, Table, benchmark

FRAMEWORKS = {
    "langchain": ("langchain", "messages"),
    "langgraph": ("langchain", "messages"),
    "deepagents": ("deepagents", "messages"),
    "pydantic_ai": ("pydantic_ai", "messages"),
    "openai_agents": ("agents", "responses"),
    "llamaindex": ("llama_index", "messages"),
}
"""By the name of the agent: the module that has to be there, and the wire that it speaks."""
WAITS = {"find_order": 0.5, "stock": 0.1}
"""Seconds that each tool takes: of two at once the one that begins first takes longer. Were they equal, a tool that
begins sooner would save nothing, for the other one ends when it did."""
BY_INSTALL = ("openai_agents",)
"""Those that have no adapter: `install`, and functions that declare themselves."""
ARMS: dict[str, ToolPolicy | None] = {
    "without": None,
    "eager": ToolPolicy(speculate=False),
    "predicted": ToolPolicy(),
}
TIMING = Timing(base=0.3, decode=80.0)
TRAINED = 8
"""Sessions before, for what is predicted."""


@dataclass(slots=True)
class Arm:
    """What was measured of one framework in one way."""

    seconds: list[float] = field(default_factory=list)
    """Of each session."""
    cpu: list[float] = field(default_factory=list)
    """Of each turn, in sessions where nobody waits for anything."""
    cost: float = 0.0
    """Of the input of all sessions, in uncached tokens."""
    read: int = 0
    input: int = 0
    hidden: float = 0.0
    """Seconds of early runs for which no call waited, a session."""


class Desk:
    """Two tools that read: the second takes what the first has found. They take their `WAITS`, or no time."""

    def __init__(self, *, waits: bool) -> None:
        self.waits = waits

    def tools(self) -> dict[str, Tool]:
        async def find_order(number: str) -> str:
            """Say what was ordered."""
            await asyncio.sleep(WAITS["find_order"] * self.waits)
            return f"items: lamp-{number}, bulb-{number}"

        async def stock(item: str) -> str:
            """Say how many of an item there are."""
            await asyncio.sleep(WAITS["stock"] * self.waits)
            return f"3 of {item}"

        return {one.__name__: one for one in (find_order, stock)}


def script(turn: Any) -> ScriptedReply:
    """The model: the order that is asked for and the lamps in stock, then what is in stock of it, then an answer. Each
    message has two calls, so that the first one is complete while the second is written."""
    number = turn.opening.rpartition("order ")[2].partition("?")[0]
    steps = (
        (call("find_order", {"number": number}), call("stock", {"item": "lamps of all kinds that we have"})),
        (call("stock", {"item": f"lamp-{number}"}), call("stock", {"item": f"bulb-{number}"})),
    )
    if turn.index >= len(steps):
        return say("There are three of each: I have looked it up for you.")
    return ScriptedReply(content=tuple(block for one in steps[turn.index] for block in one.content))


def agent(name: str) -> Callable[..., Any]:
    from tests.frameworks import agents

    found: Callable[..., Any] = getattr(agents, name)
    return found


@contextmanager
def taking_part(name: str, policy: Policy | None, desk: Desk, server: RunningServer) -> Iterator[tuple[Setting, Any]]:
    """The setting of an agent, and the `Accel` that takes part in it."""
    wire = FRAMEWORKS[name][1]
    made = Setting(url=server.url, model=MODELS[wire], tools=desk.tools(), instructions=INSTRUCTIONS)
    if policy is None:
        yield made, None
    elif name in BY_INSTALL:
        with install(policy) as installed:
            reads = installed.accel.tool(effect="read_local", concurrent=True)
            yield replace(made, tools={key: reads(tool) for key, tool in made.tools.items()}), installed.accel
    else:
        with Accel(policy, environ={}) as accel:
            yield replace(made, accel=accel), accel


def sessions(name: str, policy: Policy | None, count: int, *, realtime: bool, first: int, arm: Arm) -> None:
    """Hold so many sessions one after the other, and note what they took."""
    with (
        serve(script=Script(answer=script), behaviour=Behaviour(timing=TIMING), realtime=realtime) as server,
        taking_part(name, policy, Desk(waits=realtime), server) as (setting, accel),
    ):

        async def main() -> None:
            async with agent(name)(setting) as ask:
                for number in range(first, first + count):
                    began, cpu = time.perf_counter(), time.process_time()
                    await ask(f"How many are left of what is in order {number}?", f"c{number}")
                    arm.seconds.append(time.perf_counter() - began)
                    arm.cpu.append((time.process_time() - cpu) / 3)

        asyncio.run(main())
        if accel is not None:
            accel.flush()
        count_usage(server, arm, FRAMEWORKS[name][1])


def count_usage(server: RunningServer, arm: Arm, wire: str) -> None:
    facts = cache_facts(MODELS[wire], provider="anthropic" if wire == "messages" else "openai")
    assert facts is not None
    prices = {one.label: one.write for one in facts.ttls}
    for entry in server.log:
        used = entry.usage
        if used is None:
            continue
        written = sum(getattr(used, f"write_{label}", 0) * price for label, price in prices.items())
        arm.cost += used.uncached + used.read * facts.read + written
        arm.read, arm.input = arm.read + used.read, arm.input + used.input


def measured(name: str, tools: ToolPolicy | None, count: int, folder: Path) -> Arm:
    """One framework in one way: sessions that wait as a user's do, and sessions that tell what we compute."""
    arm, quick, warm = Arm(), Arm(), Arm()
    policy = None
    if tools is not None:
        policy = Policy(tools=tools, stream_inside=True, store=StorePolicy(path=folder / "trace.db", content=True))
        policy = replace(policy, tools=replace(tools, effects=dict.fromkeys(READS, "read_local")))
    sessions(name, policy, TRAINED, realtime=False, first=100, arm=warm)
    hidden = seconds_hidden(folder)
    sessions(name, policy, count, realtime=True, first=200, arm=arm)
    arm.hidden = (seconds_hidden(folder) - hidden) / count
    sessions(name, policy, 4 * count, realtime=False, first=300, arm=quick)
    arm.cpu = quick.cpu
    gc.collect()
    return arm


def seconds_hidden(folder: Path) -> float:
    if not (folder / "trace.db").exists():
        return 0.0
    with open_reader(folder / "trace.db") as store:
        tools: list[ToolRecord] = list(store.tools())
    return sum(one.hidden or 0.0 for one in tools)


@benchmark()
@click.option("--sessions", "count", default=5, show_default=True, help="Sessions of three model calls each.")
@click.option("--only", multiple=True, type=click.Choice([*FRAMEWORKS]), help="These frameworks alone.")
def run(count: int, only: tuple[str, ...]) -> Result:
    """In each agent framework, the seconds of tools that only read are hidden, and the prompt costs no more.

    A session has three calls of a model, which takes 0.3 s to its first token and 80 tokens a second from then on, and
    two messages with two calls of tools, of 0.5 s and 0.1 s: emulated, in real time on the loopback interface. Without
    agentaccel; with tools that begin as the model writes; and with tools that are predicted, after 8 sessions.
    """
    warnings.simplefilter("ignore")  # the frameworks' own
    names = [name for name in only or FRAMEWORKS if importlib.util.find_spec(FRAMEWORKS[name][0]) is not None]
    rows, broken = list[tuple[Cell, ...]](), list[str]()
    for name in names:
        arms = dict[str, Arm]()
        for arm, tools in ARMS.items():
            with tempfile.TemporaryDirectory() as folder:
                arms[arm] = measured(name, tools, count, Path(folder))
        without, eager, predicted = arms.values()
        times = [statistics.median(arm.seconds) for arm in arms.values()]
        rows.append(
            (
                name.replace("_", " "),
                *(f"{one:.2f}" for one in times),
                f"{eager.hidden:.2f}",
                f"{predicted.hidden:.2f}",
                f"{without.read / without.input:.0%}",
                f"{predicted.read / predicted.input:.0%}",
                f"{predicted.cost / without.cost:.2f}",
                f"{1e3 * (statistics.median(predicted.cpu) - statistics.median(without.cpu)):.1f}",
            )
        )
        if not times[2] <= times[1] <= times[0]:
            broken.append(f"{name}: a session takes {times[0]:.2f}, {times[1]:.2f} and {times[2]:.2f} s")
        if predicted.cost > without.cost:
            broken.append(f"{name}: the prompt costs {predicted.cost / without.cost:.2f} of what it did")
    columns = (
        "framework", "s without", "s eager", "s predicted", "hidden s eager", "hidden s predicted", "read without",
        "read with", "cost with / without", "ms of CPU a turn",
    )  # fmt: skip
    return Result(
        figure=f"{len(names)} frameworks, {count} sessions each",
        inputs={"sessions": count, "tools": "0.5 s and 0.1 s", "model": "0.3 s and 80 tokens/s", "trained": TRAINED},
        n=count * len(names) * len(ARMS),
        tables=(Table(title="Per session of three model calls", columns=columns, rows=tuple(rows)),),
        broken=tuple(broken),
    )
