"""Sub-agents that share a cold prefix write it once, and wait hardly longer for it than writing it themselves takes. N
branches at once through the real `anthropic` SDK, with and without waiting for one another, in front of the emulator.

Latencies are virtual and exact, by the emulator's timing model: a first byte takes a base time, and the time of reading
the tokens that are not cached. They count from the call of the SDK, so waiting is part of them. Also where the first
is refused, is cut off, is cancelled or never answers; and from threads, over sockets, where only writes are counted.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

import anthropic
import click
import httpx2

from agentaccel import Accel, CachePolicy, Policy, StorePolicy, TurnRecord, Usage
from agentaccel.cache.price import input_cost, price_card
from agentaccel.hooks import Told
from agentaccel.testing import ManualClock
from agentaccel.testing.virtual import EmulatedTransport, run
from agentaccel_emulator import Behaviour, Emulator, Timing, Tokenizer, serve
from agentaccel_emulator.faults import FaultsLike
from benchmarks.registry import Result, Table, benchmark

MODEL = "claude-sonnet-5"
BYTES_PER_TOKEN = 4
OWN = 1_000
"""A request that writes more tokens than this writes the prefix; what it has for itself is a few."""
CANCELLED_AFTER = 2.0
"""Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What happens to the first request."""

    name: str
    faults: FaultsLike = None
    breaks: bool = False
    cancelled: bool = False


WELL = Trouble(name="nothing")
TROUBLES = (
    Trouble(name="refused (529)", faults=[{"kind": "529", "at": 1}]),
    Trouble(name="connection breaks after 1 s", breaks=True),
    Trouble(name=f"cancelled after {CANCELLED_AFTER:g} s", cancelled=True),
    Trouble(name="never answers", faults=[{"kind": "timeout", "at": 1}]),
)


@dataclass(slots=True)
class Outcome:
    """What came of one fan-out."""

    writes: int = 0
    """Requests that wrote the prefix."""
    records: list[TurnRecord] = field(default_factory=list)

    @property
    def answered(self) -> list[TurnRecord]:
        return [record for record in self.records if record.outcome == "ok"]

    @property
    def latencies(self) -> list[float]:
        """Seconds from the call to the first byte of those that were answered, ascending."""
        return sorted((one.first_byte or 0.0) - one.started + (one.waited or 0.0) for one in self.answered)

    @property
    def waited(self) -> float:
        return max((one.waited or 0.0 for one in self.records), default=0.0)

    def cost(self, everything: Sequence[Usage]) -> float:
        """USD of input of all that the provider billed, cancelled ones included."""
        return sum(input_cost(price_card("anthropic", MODEL, input_tokens=1), usage) or 0.0 for usage in everything)


@benchmark()
@click.option("--agents", default=20, show_default=True, help="Branches at once.")
@click.option("--tokens", default=(2_000, 10_000, 50_000, 150_000), multiple=True, show_default=True)
@click.option("--hold", default=CachePolicy().max_wait, show_default=True, help="CachePolicy.max_wait.")
def fanout(agents: int, tokens: tuple[int, ...], hold: float) -> Result:
    return measure(agents=agents, tokens=tokens, hold=hold)


def measure(*, agents: int = 20, tokens: Sequence[int] = (10_000, 50_000), hold: float = 10.0) -> Result:
    """The benchmark."""
    sizes, broken = [], list[str]()
    for count in tokens:
        for name, most in (("at once", 0.0), ("held", hold)):
            found, cost = asked(agents, count, most, WELL)
            sizes.append((f"{count:,}", name, found.writes, cost, *_spread(found)))
    wrong = []
    for trouble in TROUBLES:
        for name, most in (("at once", 0.0), ("held", hold)):
            found, cost = asked(agents, 50_000, most, trouble)
            wrong.append((trouble.name, name, len(found.answered), found.writes, cost, *_spread(found)))
            if found.waited > hold + 1e-6:
                broken.append(f"a request was held for {found.waited:.1f} s, and {hold:g} s is the bound")
            if len(found.answered) < agents - 1:
                broken.append(f"{len(found.answered)} of {agents - 1} others were answered: {trouble.name}, {name}")
    (free, dear), (held, cheap) = asked(agents, 50_000, 0.0, WELL), asked(agents, 50_000, hold, WELL)
    if held.writes != 1:
        broken.append(f"a prefix of 50,000 tokens is written {held.writes} times")
    added = fmean(held.latencies) - fmean(free.latencies)
    threads = tuple((name, threaded(agents, 50_000, most)) for name, most in (("at once", 0.0), ("held", hold)))
    if threads[-1][1] != 1:
        broken.append(f"threads write a prefix of 50,000 tokens {threads[-1][1]} times")
    timing = Timing()
    return Result(
        figure=f"{agents} branches on 50,000 cold tokens: written {held.writes} and not {free.writes} times, "
        f"{cheap:.3f} and not {dear:.3f} USD, first bytes {added:+.2f} s later in the mean.",
        inputs={
            "model": MODEL,
            "agents": agents,
            "max_wait (s)": hold,
            "cost_per_second (USD)": CachePolicy().cost_per_second,
            "emulator: first byte of an empty prompt (s)": timing.base,
            "emulator: uncached tokens read in a second": timing.prefill,
        },
        n=agents * (2 * len(tokens) + 2 * len(TROUBLES) + 4),
        tables=(
            Table(
                title="Sub-agents at once, streamed replies, from tasks",
                columns=("prefix tokens", "", "writes", "input USD", *SPREAD),
                rows=tuple(sizes),
                notes=(
                    "first byte: seconds from the call of the SDK, waiting included",
                    "what is small is not held: it saves less than the wait costs; what is large neither, where its "
                    f"first byte is expected later than max_wait ({hold:g} s)",
                ),
            ),
            Table(
                title="The same on 50,000 tokens, when the first one is in trouble",
                columns=("the first one", "", "answered", "writes", "input USD", *SPREAD),
                rows=tuple(wrong),
                notes=(
                    "no retries; what the provider billed for a cancelled request is in writes and USD",
                    "never answers: nobody is held beyond max_wait; latencies are of those that were answered",
                ),
            ),
            Table(
                title="From threads, 50,000 tokens, whole replies over sockets",
                columns=("", "writes"),
                rows=threads,
            ),
        ),
        broken=tuple(broken),
    )


SPREAD = ("first byte: mean", "p95", "max")


def _spread(found: Outcome) -> tuple[float, float, float]:
    times = found.latencies
    return fmean(times), times[math.ceil(0.95 * len(times)) - 1], times[-1]


def asked(agents: int, tokens: int, hold: float, trouble: Trouble) -> tuple[Outcome, float]:
    """What comes of so many branches at once in virtual time, and its cost."""
    clock, outcome = ManualClock(), Outcome()
    emulator = Emulator(script=["Done."], faults=trouble.faults, behaviour=_behaviour(), clock=clock)
    transport = EmulatedTransport(emulator, clock, {1} if trouble.breaks else set())
    with _accel(hold, clock) as accel:
        accel.add_hook(_Listener(outcome))

        async def main() -> None:
            http = httpx2.AsyncClient(transport=transport)
            bare = anthropic.AsyncAnthropic(
                base_url="http://api.emulated.test", api_key="k", http_client=http, max_retries=0
            )
            async with asyncio.timeout(3600), accel.wrap(bare) as client:
                tasks = [asyncio.create_task(_branch(client, number, tokens)) for number in range(agents)]
                if trouble.cancelled:
                    await asyncio.sleep(CANCELLED_AFTER)
                    tasks[0].cancel()
                await asyncio.gather(*tasks[1:], return_exceptions=True)
                tasks[0].cancel()  # one that is never answered
                await asyncio.gather(tasks[0], return_exceptions=True)

        run(main, clock)
    billed = [Usage(input=one.input, read=one.read, write={"5m": one.write_5m}) for one in _usages(emulator)]
    outcome.writes = sum(one.write_5m > OWN for one in _usages(emulator))
    return outcome, outcome.cost(billed)


async def _branch(client: anthropic.AsyncAnthropic, number: int, tokens: int) -> None:
    async with client.messages.stream(**request(number, tokens)) as reply:
        async for _ in reply:
            pass


def threaded(agents: int, tokens: int, hold: float) -> int:
    """How many of so many branches write their prefix, each in a thread of its own."""
    with serve(script=["Done."], behaviour=_behaviour()) as server, _accel(hold, server.clock) as accel:
        bare = anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0)
        client = accel.wrap(bare)

        def branch(number: int) -> None:
            client.messages.create(**request(number, tokens))

        threads = [threading.Thread(target=branch, args=(number,)) for number in range(agents)]
        with server.held():  # all are in flight, or wait, before any is answered
            for thread in threads:
                thread.start()
            server.wait_for_calls(1 if hold else agents, timeout=60)
        for thread in threads:
            thread.join()
        bare.close()
        return sum(one.write_5m > OWN for one in _usages(server.emulator))


def request(number: int, tokens: int) -> dict[str, Any]:
    """What branch `number` asks: instructions of so many tokens that all share, and a question of its own."""
    sentence = "You look after the orders of a shop for lamps. "
    shared = (sentence * (tokens * BYTES_PER_TOKEN // len(sentence) + 1))[: tokens * BYTES_PER_TOKEN]
    question = {"role": "user", "content": f"Look into part {number}."}
    return {"model": MODEL, "max_tokens": 500, "system": shared, "messages": [question]}


def _behaviour() -> Behaviour:
    return Behaviour(tokenizer=Tokenizer(bytes_per_token=BYTES_PER_TOKEN))


def _accel(hold: float, clock: Any) -> Accel:
    policy = Policy(strict=True, store=StorePolicy(enabled=False), cache=CachePolicy(max_wait=hold))
    return Accel(policy, clock=clock)


def _usages(emulator: Emulator) -> list[Any]:
    return [entry.usage for entry in emulator.log if entry.usage is not None]


class _Listener:
    """Keeps the records of an outcome."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def begins(self, at: float, tool: str | None) -> object:
        return None

    def ended(self, began: object, told: Told | None) -> None:
        if told is not None and isinstance(told.record, TurnRecord):
            self._outcome.records.append(told.record)
