"""In each agent framework, on a real engine: what it computes, as the agent is written and with `install`; see `run`.

Needs the checkout and an environment with frameworks, as `frameworks` does, and the engine that the demo installs.
"""

from __future__ import annotations

import asyncio
import importlib.util
import random
import tempfile
import urllib.request
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import click

from agentaccel import CachePolicy, Policy, StorePolicy, install
from agentaccel.demo.local import FORMS, STEP
from agentaccel.selfhost.tiny import Tiny, TinyOptions, launch_tiny, prepare
from agentaccel.testing.conformance import Setting, Tool
from benchmarks.frameworks import FRAMEWORKS, agent
from benchmarks.registry import Cell, Result, Table, benchmark

QUESTIONS = (
    "Where is order 1004, and when does it come?",
    "And if it does not come this week?",
    "How long would a refund take?",
    "Can I get an invoice with my tax number?",
    "Who pays for sending a duplicate back?",
    "Please sum up what we agreed on.",
)
LOOKUPS = {
    "find_order": "Say where an order is.",
    "find_customer": "Say who a customer is.",
    "stock": "Say how many of an article there are.",
    "carrier": "Say who brings a parcel.",
    "invoice": "Say what an invoice has.",
    "returns": "Say what came back of an order.",
}
MODEL = {"pydantic_ai": "claude_local"}
"""What the engine's model is called, by which an agent chooses its SDK: llama.cpp refuses what Pydantic AI sends back
as Responses, whoever sends it, and takes it as Messages."""
NOON = 1_764_244_800.0
"""What the clock in the instructions shows first, in seconds since 1970."""
ENGINE = TinyOptions(slots=1, context=16384, cache_ram=0)


class Computed(NamedTuple):
    """What an engine had to do for the prompts of a conversation, by its own counters."""

    prompt: int
    tokens: int
    seconds: float


def tools(turn: int) -> dict[str, Tool]:
    """Those of the desk, in an order of this turn's own: none is called, for the model calls none."""

    def lookup(name: str, what: str) -> Tool:
        async def look(number: str) -> str:
            return "nothing is known of it"

        look.__name__ = look.__qualname__ = name
        look.__doc__ = what
        return look

    return {name: lookup(name, LOOKUPS[name]) for name in random.Random(turn).sample(list(LOOKUPS), len(LOOKUPS))}


def conversation(name: str, tiny: Tiny, policy: Policy | None) -> Computed:
    """Ask the questions of a conversation on an engine of its own; the agent is made anew for each, as in a web server,
    with the time in front of its instructions."""
    kept = dict[str, object]()
    system = FORMS[0].system

    async def ask(url: str) -> None:
        for turn, question in enumerate(QUESTIONS):
            made = Setting(
                url=url,
                model=MODEL.get(name, "local"),
                tools=tools(turn),
                instructions=system(NOON + STEP * turn),
                max_tokens=16,
                conversations=kept,
            )
            async with agent(name)(made) as asked:
                await asked(question, "one")

    with launch_tiny(tiny, ENGINE) as engine, nullcontext() if policy is None else install(policy):
        asyncio.run(ask(engine.url))
        return counted(engine.url)


def counted(url: str) -> Computed:
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as reply:
        lines = [line.split() for line in reply.read().decode().splitlines() if line.startswith("llamacpp:prompt_")]
    of = {name: float(value) for name, value in lines}
    computed = round(of["llamacpp:prompt_tokens_total"])
    return Computed(
        computed + round(of["llamacpp:prompt_tokens_cached_total"]), computed, of["llamacpp:prompt_seconds_total"]
    )


@benchmark()
@click.option("--only", multiple=True, type=click.Choice([*FRAMEWORKS]), help="These frameworks alone.")
def run(only: tuple[str, ...]) -> Result:
    """In each agent framework, a real engine computes less of the prompts with `install` than as the agent is written.

    Six questions to an agent that is made anew for each, as in a web server: six tools in a random order, the time in
    front of the instructions, and the conversation so far. llama.cpp's server with SmolLM2-135M, on this machine, with
    one slot; the policy moves what changes and keeps tools in their first order. The model calls no tools, so there are
    no seconds to hide. Seconds are those that the engine took for prompts: nothing is decoded before.
    """
    warnings.simplefilter("ignore")  # the frameworks' own
    names = [name for name in only or FRAMEWORKS if importlib.util.find_spec(FRAMEWORKS[name][0]) is not None]
    tiny = prepare()
    rows, broken = list[tuple[Cell, ...]](), list[str]()
    for name in names:
        bare = conversation(name, tiny, None)
        with tempfile.TemporaryDirectory() as folder:
            consent = CachePolicy(move_volatile=True, freeze_tools=True)
            ours = conversation(name, tiny, Policy(cache=consent, store=StorePolicy(path=Path(folder) / "trace.db")))
        rows.append(
            (
                name.replace("_", " "),
                f"{bare.tokens:,} of {bare.prompt:,}",
                f"{bare.seconds:.1f}",
                f"{ours.tokens:,} of {ours.prompt:,}",
                f"{ours.seconds:.1f}",
            )
        )
        if ours.tokens > bare.tokens:
            broken.append(f"{name}: {ours.tokens:,} tokens are computed, and {bare.tokens:,} as it is written")
    columns = ("framework", "computed as written", "s", "computed with install", "s with install")
    return Result(
        figure=f"{len(names)} frameworks on llama.cpp",
        inputs={"turns": len(QUESTIONS), "tools": len(LOOKUPS), "model": "SmolLM2-135M-Instruct, Q4_1"},
        n=len(names) * len(QUESTIONS) * 2,
        tables=(Table(title="Prompts of a conversation of six questions", columns=columns, rows=tuple(rows)),),
        broken=tuple(broken),
    )
