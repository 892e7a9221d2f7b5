"""Tier 0: a read that is made again, while nothing that may write has run, is answered by its earlier result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from agentaccel.policy import ToolPolicy
from tests.predict.scripted import Agent

MEMO = ToolPolicy(eager=False, speculate=False)


def twice(agent: Agent, *steps: Any) -> list[Any]:
    """The results and seconds of some calls in a session."""

    async def main() -> list[Any]:
        return [await agent.timed(step()) for step in steps]

    found: list[Any] = agent.run(main)
    return found


def test_a_read_made_again_is_answered_at_once() -> None:
    agent = Agent(MEMO)
    look = agent.reads(max_age=60.0)
    assert twice(agent, lambda: look("a"), lambda: look(key="a", limit=3)) == [("a=0", 1.0), ("a=0", 0.0)]
    assert (agent.ledger.memo.served, agent.ledger.memo.hidden) == (1, 1.0)
    assert [one.served_from for one in agent.heard.heard] == [None, "memo"]


def test_after_a_write_it_runs_again() -> None:
    agent = Agent(MEMO)
    look, book = agent.reads(max_age=60.0), agent.writes()
    assert twice(agent, lambda: look("a"), lambda: book("a"), lambda: look("a"))[-1] == ("a=1", 1.0)


def test_a_read_during_which_something_wrote_is_not_kept() -> None:
    import asyncio

    agent = Agent(MEMO)
    look, book = agent.reads(seconds=4.0, max_age=60.0), agent.writes(seconds=1.0)

    async def both() -> Any:
        return await asyncio.gather(look("a"), asyncio.wait_for(book("a"), 9.0))

    assert twice(agent, both, lambda: look("a"))[-1] == ("a=1", 4.0)


@pytest.mark.parametrize("declared", [{}, {"effect": "unknown", "max_age": 60.0}, {"effect": lambda arguments: "pure"}])
def test_what_may_have_changed_or_is_told_by_each_call_is_not_kept(declared: dict[str, Any]) -> None:
    """A read without a word on freshness may be polled for a change."""
    agent = Agent(MEMO)
    look = agent.reads(**declared)
    assert [seconds for _, seconds in twice(agent, lambda: look("a"), lambda: look("a"))] == [1.0, 1.0]


def test_a_pure_tool_needs_no_word_on_freshness() -> None:
    agent = Agent(MEMO)
    look = agent.reads(effect="pure")
    assert [seconds for _, seconds in twice(agent, lambda: look("a"), lambda: look("a"))] == [1.0, 0.0]


def test_errors_are_never_kept() -> None:
    agent, left = Agent(MEMO), [ValueError("once")]

    @agent.accel.tool(effect="pure")
    async def look(key: str) -> str:
        if left:
            raise left.pop()
        return "fine"

    async def main() -> Any:
        with pytest.raises(ValueError, match="once"):
            await look("a")
        return await look("a")

    assert agent.run(main) == "fine"


def test_what_a_caller_does_to_its_result_is_not_seen_by_the_next() -> None:
    agent = Agent(MEMO)

    @agent.accel.tool(effect="pure")
    async def rows() -> list[int]:
        return [1, 2]

    async def main() -> Any:
        for _ in range(3):
            found = await rows()
            assert found == [1, 2]
            found.append(3)

    agent.run(main)
    assert agent.ledger.memo.served == 2


@pytest.mark.parametrize(("across", "seconds"), [(None, 1.0), (100.0, 0.0), (20.0, 1.0)])
def test_sessions_share_results_by_consent_only_and_for_so_long(across: float | None, seconds: float) -> None:
    import asyncio

    agent = Agent(ToolPolicy(eager=False, speculate=False, cache_results_across=across))
    look = agent.reads(max_age=1000.0)

    async def main() -> Any:
        async with agent.accel.session("one", tenant="t"):
            await look("a")
        await asyncio.sleep(50.0)
        async with agent.accel.session("two", tenant="other"):
            assert (await agent.timed(look("a")))[1] == 1.0
        async with agent.accel.session("three", tenant="t"):
            return (await agent.timed(look("a")))[1]

    assert agent.run(main) == seconds


def test_what_a_session_wraps_itself_is_its_own() -> None:
    """Two may mean two things by one name, and even one of theirs and one of everybody's."""
    agent = Agent(ToolPolicy(eager=False, speculate=False, cache_results_across=100.0))

    def of(project: str) -> Callable[..., str]:
        return agent.accel.tool(lambda: project, name="notes", effect="pure")

    async def main() -> list[str]:
        found = [of("everybody")()]
        for name in ("one", "two"):
            async with agent.accel.session(name, tenant="t"):
                found.append(of(name)())
        return found

    assert agent.run(main) == ["everybody", "one", "two"]


def test_switched_off_every_call_runs() -> None:
    agent = Agent(ToolPolicy(cache_results=False))
    look = agent.reads(max_age=60.0)
    assert [seconds for _, seconds in twice(agent, lambda: look("a"), lambda: look("a"))] == [1.0, 1.0]


def test_a_call_of_which_only_a_long_look_tells_what_it_does_closes_the_world_until_it_was_looked_at() -> None:
    """The look is taken after the call was dispatched."""
    import asyncio

    agent, order = Agent(MEMO), list[str]()

    def looks(arguments: Any) -> str:
        order.append("looked at")
        return "unknown" if arguments["sql"].startswith("DELETE") else "read_local"

    @agent.accel.tool(effect=looks)
    async def query(sql: str) -> str:
        order.append("dispatched")
        await asyncio.sleep(1.0)
        return sql

    look = agent.reads(max_age=1000.0)

    async def main() -> Any:
        await look("a")
        reading = asyncio.ensure_future(query("SELECT 1"))
        await asyncio.sleep(0.5)
        kept = (await agent.timed(look("a")))[1]
        await reading
        await query("DELETE FROM t")
        return kept, (await agent.timed(look("a")))[1]

    assert agent.run(main) == (0.0, 1.0)
    assert order == ["dispatched", "looked at"] * 2
