"""A tool call that nothing was begun early for is dispatched in a few times what `json.dumps` takes for its arguments.

The time from the call of a wrapped tool to the first line of the user's function, with eight early results of the same
tool waiting, against `json.dumps(arguments, sort_keys=True)` of the same call; medians of blocks that alternate. The
arguments are never those that wait, defaults are filled in, and shell and SQL texts were never seen before.

Beside it the lag of the event loop: how long one pass through it takes while eight early runs wait, against eight
ordinary tasks that wait, and against eight others to show what chance does.

And its longest pass while ten long calls are judged, asked for and made: a statement of 15 KB, a shell line of 4,000
parts, a line of 100 KB of blanks. The same calls of the same functions without us run before each; medians of blocks
that alternate. Must show: at most 20 ms more.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sqlite3
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Any

import click

from agentaccel import Accel, Policy, StorePolicy, ToolCall, ToolPolicy, ToolSpec
from agentaccel.concurrency import beside
from agentaccel.effects.spec import SPEC_ATTRIBUTE, spec_of
from agentaccel.executors import Shell, Sql
from agentaccel.turn import CallClosed, Started
from benchmarks.measure import ROUNDS, longest_pass
from benchmarks.registry import Result, Table, benchmark

TYPED_BOUND, TEXT_BOUND, LAG_BOUND = 5.0, 10.0, 1.5
"""At most so many times `json.dumps` for typed tools and for texts, and so many times the lag of eight tasks."""
STALL_BOUND = 0.020
"""At most so many seconds more in the longest pass of the loop while long calls are judged."""
JUDGED = 10
"""Long calls in a block."""
WAITING = 8
CALLS = 200
"""Calls in a block."""
PASSES = 1000
"""Passes through the loop in a block."""

Arguments = dict[str, Any]


@benchmark()
@click.option("--rounds", default=ROUNDS, show_default=True, help="Blocks of each arm.")
def dispatch(rounds: int) -> Result:
    return measure(rounds=rounds)


def measure(*, rounds: int = ROUNDS) -> Result:
    """The benchmark."""
    numbers = count()
    kinds: dict[str, tuple[float, ToolSpec, Callable[[], Arguments]]] = {
        "typed": (
            TYPED_BOUND,
            ToolSpec(effect="read_local", concurrent=True, max_age=60.0),
            lambda: {"order": f"R{next(numbers)}", "with_items": True, "limit": 20},
        ),
        "shell": (
            TEXT_BOUND,
            _spec(Shell().run),
            lambda: {"command": f"grep -rn 'name_{next(numbers)}' src | head -n 20"},
        ),
        "sql": (
            TEXT_BOUND,
            _spec(Sql(connect=_opened, read_only=_opened, dialect="sqlite").query),
            lambda: {"sql": f"SELECT id, name FROM orders WHERE customer = {next(numbers)} ORDER BY id"},
        ),
    }
    rows, broken = [], []
    for name, (bound, spec, arguments) in kinds.items():
        ours, dumps = asyncio.run(_misses(name, spec, arguments, rounds))
        rows.append((name, ours * 1e6, dumps * 1e6, ours / dumps, bound))
        if ours / dumps > bound:
            broken.append(f"a missed {name} call is dispatched in {ours / dumps:.1f} times json.dumps, not {bound:g}")
    lag = asyncio.run(_lag(rounds))
    if lag["early runs"] > LAG_BOUND:
        broken.append(f"the loop lags {lag['early runs']:.2f} times as long with early runs, not {LAG_BOUND:g}")
    stalls = []
    for name in LONG:
        ours, alone = asyncio.run(_stalls(name, rounds))
        stalls.append((name, ours * 1e3, alone * 1e3, (ours - alone) * 1e3, STALL_BOUND * 1e3))
        if ours - alone > STALL_BOUND:
            more = (ours - alone) * 1e3
            broken.append(
                f"the loop stands still for {more:.0f} ms more while {name} is judged, not {STALL_BOUND * 1e3:g}"
            )
    return Result(
        figure=(
            f"A missed typed call is dispatched in {rows[0][3]:.1f} times json.dumps of its arguments, shell text in "
            f"{rows[1][3]:.1f} and SQL text in {rows[2][3]:.1f}; the loop lags {lag['early runs']:.2f} times as long."
        ),
        inputs={"waiting": WAITING, "calls a block": CALLS, "passes a block": PASSES},
        n=rounds,
        tables=(
            Table(
                title="Before a missed call is dispatched",
                columns=("tool", "µs", "json.dumps, µs", "times", "bound"),
                rows=tuple(rows),
            ),
            Table(
                title="Lag of the loop, p99 of a block in times that of eight tasks",
                columns=("waiting", "median ratio"),
                rows=tuple(lag.items()),
            ),
            Table(
                title=f"Longest pass of the loop while {JUDGED} long calls are judged and made",
                columns=("call", "ms", "without us, ms", "more, ms", "bound"),
                rows=tuple(stalls),
            ),
        ),
        broken=tuple(broken),
    )


def _accel() -> Accel:
    return Accel(Policy(store=StorePolicy(enabled=False), tools=ToolPolicy(concurrency=WAITING)))


def _opened() -> sqlite3.Connection:
    return sqlite3.connect(":memory:")


def _spec(tool: object) -> ToolSpec:
    found = spec_of(tool)
    assert found is not None
    return found


@asynccontextmanager
async def _waiting(tool: str, accel: Accel, arguments: Callable[[], Arguments]) -> AsyncIterator[None]:
    """A session in which so many early results of `tool` wait."""
    async with accel.session("s") as session:
        turn = accel.turn(
            {"model": "claude-sonnet-5", "max_tokens": 1, "messages": [{"role": "user", "content": "Go"}]}
        )
        turn.handle(Started(time.monotonic()))
        for number in range(WAITING):
            turn.handle(CallClosed(ToolCall(name=tool, arguments=arguments(), id=str(number)), time.monotonic()))
        async with asyncio.timeout(60):  # texts are judged beside the loop
            while session.speculation.asked.launched < WAITING:  # noqa: ASYNC110  # nothing of ours tells it
                await asyncio.sleep(0.001)
        yield


async def _misses(name: str, spec: ToolSpec, arguments: Callable[[], Arguments], rounds: int) -> tuple[float, float]:
    """The median seconds until a missed call is dispatched, and of `json.dumps`."""
    inside = [0.0]
    clock = time.perf_counter
    functions: Mapping[str, Callable[..., Awaitable[None]]] = {}

    async def typed(order: str, with_items: bool = False, limit: int = 10, currency: str = "USD") -> None:
        inside[0] = clock()

    async def shell(command: str) -> None:
        inside[0] = clock()

    async def sql(sql: str) -> None:
        inside[0] = clock()

    functions = {"typed": typed, "shell": shell, "sql": sql}
    function = functions[name]
    setattr(function, SPEC_ATTRIBUTE, spec)
    ours, dumps = list[float](), list[float]()
    with _accel() as accel:
        tool = accel.tools({name: function})[name]
        async with _waiting(name, accel, arguments):
            for number in range(2 * (rounds + 2)):
                times = list[float]()
                for _ in range(CALLS):
                    given = arguments()
                    began = clock()
                    if number % 2:
                        json.dumps(given, sort_keys=True)
                        times.append(clock() - began)
                    else:
                        await tool(**given)
                        times.append(inside[0] - began)
                await asyncio.sleep(0)
                if number >= 4:  # the first two of each are to warm up
                    (dumps if number % 2 else ours).append(statistics.median(times))
    return statistics.median(ours), statistics.median(dumps)


async def _lag(rounds: int) -> dict[str, float]:
    """The median ratio of the p99 of each arm to that of eight tasks, over blocks that alternate."""
    over = asyncio.Event()
    numbers = count()
    ratios: dict[str, list[float]] = {"early runs": [], "eight other tasks": []}
    for _ in range(rounds):
        async with _tasks(over):
            base = await _p99()
        with _accel() as accel:

            @accel.tool(name="slow", effect="read_local", concurrent=True)
            async def slow(number: int) -> None:
                await over.wait()

            async with _waiting("slow", accel, lambda: {"number": next(numbers)}):
                ratios["early runs"].append(await _p99() / base)
        async with _tasks(over):
            ratios["eight other tasks"].append(await _p99() / base)
    return {name: statistics.median(found) for name, found in ratios.items()}


@asynccontextmanager
async def _tasks(over: asyncio.Event) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(over.wait()) for _ in range(WAITING)]
    await asyncio.sleep(0)
    yield
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def _p99() -> float:
    """The longest pass through the loop but for one in a hundred, in seconds."""
    clock, times = time.perf_counter, list[float]()
    for _ in range(PASSES):
        began = clock()
        await asyncio.sleep(0)
        times.append(clock() - began)
    return sorted(times)[int(0.99 * PASSES)]


LONG: Mapping[str, tuple[str, Callable[[int], str]]] = {
    "a statement of 15 KB": ("sql", lambda number: _statement(number, 15_000)),
    "a statement of 4.9 KB": ("sql", lambda number: _statement(number, 4_900)),
    "a line of 4,000 parts": ("command", lambda number: ";".join([":"] * number + ["a"] + [":"] * (3_999 - number))),
    "a line of 100 KB of blanks": ("command", lambda number: " " * 100_000 + f"echo {number}"),
    "a statement of 100 KB of blanks": ("sql", lambda number: " " * 100_000 + f"select {number}"),
}
"""What is judged: the argument that it is given in, and the text, a new one by each number."""
_NEW = count()
"""Verdicts are kept as long as the process lives: no text is judged twice."""


def _statement(number: int, length: int) -> str:
    text = f"SELECT id FROM orders WHERE customer IN ({number}"
    while len(text) < length:
        number += 1
        text += f", {number}"
    return text + ")"


async def _stalls(name: str, rounds: int) -> tuple[float, float]:
    """The median of the longest pass of the loop in seconds, with us and without."""
    argument, text = LONG[name]
    spec = _spec(
        Shell().run if argument == "command" else Sql(connect=_opened, read_only=_opened, dialect="sqlite").query
    )
    ours, alone = list[float](), list[float]()
    for number in range(2 * (rounds + 1)):
        calls = [{argument: text(next(_NEW))} for _ in range(JUDGED)]

        async def run(**given: str) -> int:
            await asyncio.sleep(0)
            return len(given)

        if number % 2:
            found = await longest_pass(partial(_all, run, calls))
        else:
            setattr(run, SPEC_ATTRIBUTE, spec)
            run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
                [inspect.Parameter(argument, inspect.Parameter.KEYWORD_ONLY)]
            )
            with _accel() as accel:
                tool = accel.tools({"long": run})["long"]
                async with accel.session("s"):
                    found = await longest_pass(partial(_asked_and_made, accel, tool, calls))
        if number >= 2:  # the first of each is to warm up
            (alone if number % 2 else ours).append(found)
    return statistics.median(ours), statistics.median(alone)


async def _asked_and_made(accel: Accel, tool: Callable[..., Awaitable[Any]], calls: list[Arguments]) -> None:
    """The model asks for all of them in one message, and the loop makes them, as it goes on to."""
    turn = accel.turn({"model": "claude-sonnet-5", "max_tokens": 1, "messages": [{"role": "user", "content": "Go"}]})
    turn.handle(Started(time.monotonic()))
    for number, given in enumerate(calls):
        turn.handle(CallClosed(ToolCall(name="long", arguments=given, id=str(number)), time.monotonic()))
        await asyncio.sleep(0)
    await _all(tool, calls)
    for _ in range(2):  # what is judged is so by then, and what comes of it has begun
        await beside(lambda: None)


async def _all(tool: Callable[..., Awaitable[Any]], calls: list[Arguments]) -> None:
    await asyncio.gather(*(tool(**given) for given in calls))
