"""Tools and loops that do not behave: what is served is still what a run on time would have given."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest

from agentaccel.policy import ToolPolicy
from agentaccel.predict.resources import Resource
from agentaccel.testing.virtual import run
from tests.predict.scripted import Agent, Script, call, likely

EAGER = ToolPolicy(speculate=False)


def guessed(policy: ToolPolicy | None = None, **key: str) -> Agent:
    """An agent of whom a look at "a" is expected with the first request."""
    return Agent(policy or ToolPolicy(), Script({1: [likely(call("look", **(key or {"key": "a"})))]}))


def gives_what_it_has(agent: Agent) -> Any:
    """A tool that, cancelled, returns what it has by then; its first run is slow."""
    runs = list[int]()

    @agent.accel.tool(effect="read_local", concurrent=True)
    async def look(key: str) -> str:
        runs.append(1)
        try:
            await asyncio.sleep(10 if len(runs) == 1 else 1)
        except asyncio.CancelledError:
            return "a part"
        return "all of it"

    return look


def test_what_a_tool_returns_when_its_time_is_up_is_not_served() -> None:
    agent = guessed(ToolPolicy(timeout=2.0))
    look = gives_what_it_has(agent)

    async def main() -> str:
        await agent.model(call("look", key="a"), seconds=5)
        found: str = await look(key="a")
        return found

    assert (agent.run(main), agent.ledger.predicted.failed) == ("all of it", 1)


def test_what_a_tool_returns_when_its_session_is_left_is_not_served() -> None:
    agent = Agent(EAGER)
    look = gives_what_it_has(agent)

    async def main() -> str:
        async with agent.accel.session("x"):
            await agent.model(call("look", key="a"))
            waiting = asyncio.create_task(look(key="a"))
            await asyncio.sleep(1)
        return str(await waiting)

    assert run(main, agent.clock) == "all of it"


def test_what_is_still_to_run_is_not_served() -> None:
    agent = Agent(EAGER)

    @agent.accel.tool(effect="read_local", concurrent=True)
    async def look(key: str) -> AsyncIterator[str]:
        async def lines() -> AsyncIterator[str]:
            yield key

        return lines()

    async def main() -> list[str]:
        await agent.model(call("look", key="a"))
        return [line async for line in await look(key="a")]

    assert (agent.run(main), agent.ledger.asked.served, agent.ledger.asked.failed) == (["a"], 0, 1)


class Stop(BaseException):
    """No error, and not asyncio's."""


@pytest.mark.parametrize("failure", [Stop, SystemExit, asyncio.CancelledError, ValueError])
def test_whatever_an_early_run_raises_the_call_runs(failure: type[BaseException]) -> None:
    """A run that ends in the very step in which its call arrives included."""
    agent, runs = Agent(EAGER), list[int]()

    @agent.accel.tool(effect="read_local", concurrent=True)
    async def look(key: str) -> str:
        runs.append(1)
        if len(runs) == 1:
            raise failure
        return key

    async def main() -> str:
        await agent.model(call("look", key="a"))
        return await look(key="a")

    assert agent.run(main) == "a"
    assert [one.speculative for one in agent.heard.heard] == [True, False], "hooks hear the end of both"


def test_a_result_that_holds_itself_is_served_and_predicts_nothing() -> None:
    agent = guessed()

    @agent.accel.tool(effect="read_local", concurrent=True)
    async def look(key: str) -> dict[str, Any]:
        whole: dict[str, Any] = {}
        whole["whole"] = whole
        return whole

    async def main() -> bool:
        await agent.model(call("look", key="a"))
        whole = await look(key="a")
        return whole["whole"] is whole

    assert (agent.run(main), agent.ledger.predicted.served) == (True, 1)


def test_a_write_shows_by_the_arguments_it_was_given_whatever_it_does_to_them() -> None:
    agent, state = Agent(EAGER), [0]

    @agent.accel.tool(effect=lambda arguments: "unknown" if "add" in arguments["what"] else "read_local")
    async def change(what: dict[str, int]) -> None:
        added = what.pop("add", 0)
        await asyncio.sleep(1)
        state[0] += added

    @agent.accel.tool(effect="read_local", max_age=100.0)
    async def look() -> int:
        return state[0]

    async def main() -> list[int]:
        seen = [await look()]
        for what in ({}, {"add": 1}):
            await change(what=what)
            seen.append(await look())
        return seen

    assert (agent.run(main), agent.ledger.memo.served) == ([0, 0, 1], 1)


def test_loops_that_were_closed_under_early_runs_do_not_take_up_room_for_good() -> None:
    agent = Agent(ToolPolicy(speculate=False, concurrency=2))
    look = agent.reads(seconds=20.0)

    async def leaves(key: str) -> None:
        agent.messages.append({"role": "user", "content": key})
        await agent.model(call("look", key=key), seconds=0)

    for key in "abcd":
        loop = asyncio.new_event_loop()
        loop.run_until_complete(leaves(key))
        loop.close()
    agent.log.clear()

    async def main() -> None:
        await agent.model(call("look", key="z"))
        await look("z")

    agent.run(main)
    assert agent.log == ["look z"]
    assert agent.ledger.asked.served == 1


def test_a_tool_that_hands_out_a_generator_writes_until_that_is_done_with() -> None:
    agent = Agent(EAGER)
    look = agent.reads(seconds=0.5, max_age=1000.0)

    @agent.accel.tool
    async def stream() -> AsyncIterator[int]:
        yield 1
        agent.state["a"] = 9
        yield 2

    async def main() -> list[Any]:
        seen = [await look("a") async for _ in stream()]
        return [*seen, await look("a"), (await agent.timed(look("a")))[1]]

    assert agent.run(main) == ["a=0", "a=9", "a=9", 0.0]


# --- tools that do not go by here -------------------------------------------------------------------------------------


def zapped(agent: Agent, *after: Any) -> Coroutine[Any, Any, None]:
    """The model asks for a tool that nobody has wrapped, and the loop runs it."""

    async def main() -> None:
        await agent.model(call("zap"), *after)
        agent.state["a"] = 9

    return main()


def test_a_guess_from_before_a_tool_that_nobody_wrapped_is_not_served_in_its_message() -> None:
    agent = guessed()
    look = agent.reads(seconds=0.5)

    async def main() -> str:
        await zapped(agent, call("look", key="a"))
        return str(await look("a"))

    assert agent.run(main) == "a=9"


def test_a_guess_from_before_a_tool_that_nobody_wrapped_is_not_served_later() -> None:
    agent = guessed()
    look = agent.reads(seconds=0.5)

    async def main() -> str:
        await zapped(agent)
        agent.answers("ok")
        await agent.model(call("look", key="a"))
        return str(await look("a"))

    assert agent.run(main) == "a=9"


def test_a_result_that_is_remembered_from_before_it_is_not_served_either() -> None:
    agent = Agent(ToolPolicy(eager=False, speculate=False, prewarm=False))
    look = agent.reads(seconds=0.5, max_age=1000.0)

    async def main() -> list[Any]:
        seen = [await look("a")]
        await agent.model(call("zap"))
        seen.append(await look("a"))
        agent.state["a"] = 9
        seen.append(await look("a"))
        agent.state["a"] = 10
        agent.answers("ok")
        await agent.model()
        return [*seen, await look("a"), (await agent.timed(look("a")))[1]]

    assert agent.run(main) == ["a=0", "a=0", "a=9", "a=10", 0.0], "and from the next request on all is as before"


@pytest.mark.parametrize("known", ["by policy", "wrapped"])
def test_a_tool_that_reads_or_is_seen_to_run_leaves_guesses_alone(known: str) -> None:
    agent = guessed(ToolPolicy(effects={"zap": "read_local"} if known == "by policy" else {}))
    look = agent.reads(seconds=0.5)
    if known == "wrapped":
        agent.writes("zap")

    async def main() -> str:
        await agent.model(call("zap"), call("look", key="a"))
        return str(await look("a"))

    assert (agent.run(main), agent.ledger.predicted.served) == ("a=0", 1)


def test_what_a_call_that_goes_past_us_asks_for_may_write() -> None:
    agent = guessed()
    look = agent.reads(seconds=0.5)

    async def main() -> str:
        await agent.model()
        with agent.accel.bypass():
            await zapped(agent)
        return str(await look("a"))

    assert agent.run(main) == "a=9"


def test_nothing_is_fetched_by_the_tools_of_another_session() -> None:
    agent = Agent(told=Script(touched=[Resource(kind="path", value="/of/a", probability=0.9, evidence="")]))
    fetched = list[str]()

    def reads(session: str) -> None:
        async def fetch(path: str) -> None:
            fetched.append(f"{session} {path}")

        @agent.accel.tool(effect="read_local", concurrent=True, prefetch_key="path", prefetch=fetch)
        async def read(path: str) -> str:
            return path

    async def other() -> None:
        async with agent.accel.session("a", tenant="a"):
            reads("a")
            await agent.model()

    async def main() -> None:
        async with agent.accel.session("b", tenant="b"):
            reads("b")
            await asyncio.create_task(other(), context=contextvars.Context())

    run(main, agent.clock)
    assert fetched == ["a /of/a"]
