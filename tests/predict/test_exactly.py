"""An early or remembered result answers exactly its call: any other that a function could tell from it is run."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from agentaccel import ToolCall
from agentaccel.policy import ToolPolicy
from agentaccel.turn import CallClosed, Started
from tests.predict.scripted import Agent, call

EAGER = ToolPolicy(speculate=False)
READS: dict[str, Any] = {"effect": "read_local", "concurrent": True, "max_age": 60.0}


def by_hundreds(tool: Callable[..., Coroutine[Any, Any, str]]) -> Callable[..., Coroutine[Any, Any, str]]:
    """A decorator that has a default of its own."""

    @functools.wraps(tool)
    async def run(**given: Any) -> str:
        given.setdefault("limit", 100)
        return await tool(**given)

    return run


def listing(agent: Agent) -> Callable[..., Coroutine[Any, Any, str]]:
    @agent.accel.tool(**READS)
    @by_hundreds
    async def listing(q: str, limit: int = 10) -> str:
        agent.log.append(q)
        return f"{limit} of {q}"

    return listing


def test_a_default_of_the_function_inside_is_not_one_of_the_decorator_around_it() -> None:
    agent = Agent(EAGER)
    lists = listing(agent)

    async def main() -> list[str]:
        await agent.model(call("listing", q="z"))
        return [await lists(q="z", limit=10), await lists(q="z"), await lists(q="z", limit=10)]

    assert agent.run(main) == ["10 of z", "100 of z", "10 of z"]
    assert agent.log == ["z", "z"], "both are answered again, by what they gave: early, and remembered"


def test_a_signature_that_a_function_only_shows_has_no_defaults() -> None:
    """As frameworks put one on a function that takes anything."""
    agent = Agent(EAGER)

    async def shown(q: str, limit: int = 10) -> str:
        return q

    async def lists(**given: Any) -> str:
        return str(given)

    lists.__signature__ = inspect.signature(shown)  # type: ignore[attr-defined]
    tool = agent.accel.tool(name="lists", **READS)(lists)

    async def main() -> list[str]:
        return [await tool(q="z"), await tool(q="z", limit=10)]

    assert agent.run(main) == ["{'q': 'z'}", "{'q': 'z', 'limit': 10}"]


def test_the_order_of_fields_in_a_value_tells_two_calls_apart() -> None:
    """Of a sort order, say."""
    agent = Agent(EAGER)

    @agent.accel.tool(**READS)
    async def ranked(sort: dict[str, int]) -> str:
        return " ".join(sort)

    async def main() -> list[str]:
        await agent.model(call("ranked", sort={"price": 1, "name": 1}))
        return [await ranked(sort={"name": 1, "price": 1}), await ranked(sort={"price": 1, "name": 1})]

    assert agent.run(main) == ["name price", "price name"]
    assert agent.ledger.asked.served == 1


def test_the_order_of_arguments_tells_two_calls_apart_where_a_function_takes_any() -> None:
    agent = Agent(EAGER)

    @agent.accel.tool(**READS)
    async def named(**given: str) -> str:
        return " ".join(given)

    async def main() -> list[str]:
        await agent.model(call("named", b="1", a="2"))
        return [await named(a="2", b="1"), await named(b="1", a="2")]

    assert agent.run(main) == ["a b", "b a"]
    assert agent.ledger.asked.served == 1


def test_in_which_order_a_function_s_own_parameters_are_named_does_not_matter() -> None:
    """The floor: it cannot see that."""
    agent = Agent(EAGER)
    look = agent.reads()

    async def main() -> tuple[str, float]:
        await agent.model(call("look", limit=3, key="a"), gap=1.0)
        found: tuple[str, float] = await agent.timed(look(key="a"))
        return found

    assert agent.run(main) == ("a=0", 0.0)


def test_arguments_that_a_loop_goes_on_to_change_are_those_that_it_gave() -> None:
    agent = Agent(EAGER)
    look = agent.reads(seconds=0.0)

    async def main() -> str:
        given = {"key": "a"}
        turn = agent.accel.turn({"model": "claude-sonnet-5", "max_tokens": 9, "messages": list(agent.messages)})
        turn.handle(Started(agent.clock.monotonic()))
        turn.handle(CallClosed(ToolCall(name="look", arguments=given, id="1"), agent.clock.monotonic()))
        given["key"] = "b"
        await asyncio.sleep(1)
        found: str = await look(key="a")
        return found

    assert agent.run(main) == "a=0"
    assert agent.log == ["look a"]
