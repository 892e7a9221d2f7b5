"""What is begun early is served exactly when the model would have seen the same, and once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentaccel.policy import ToolPolicy
from agentaccel.testing.inside import speculator
from agentaccel.types import Prediction
from tests.predict.scripted import Agent, Script, call, likely, took

LOOK = call("look", key="a")


def guessing(*guesses: Any, tools: ToolPolicy | None = None, **policy: Any) -> Agent:
    """An agent whose first request is expected to be followed by `guesses`."""
    return Agent(tools or ToolPolicy(eager=False), Script({1: [likely(one) for one in guesses]}), **policy)


def test_a_finished_guess_is_served_at_once_and_counted() -> None:
    agent = guessing(LOOK)
    look = agent.reads()

    async def main() -> Any:
        await agent.model(LOOK)
        return await agent.timed(look("a"))

    assert agent.run(main) == ("a=0", 0.0)
    assert agent.log == ["look a"]
    total = agent.ledger.total
    assert (total.launched, total.served, total.joined, total.hidden, total.wasted) == (1, 1, 0, 1.0, 0.0)


def test_a_guess_under_way_is_joined() -> None:
    agent = guessing(LOOK)
    look = agent.reads(seconds=4.0)

    async def main() -> Any:
        await agent.model(LOOK)
        return await agent.timed(look("a"))

    took(agent.accel, "look", 4.0)
    assert agent.run(main) == ("a=0", 1.0)
    assert agent.log == ["look a"]
    assert (agent.ledger.total.joined, agent.ledger.total.hidden) == (1, 3.0)


def test_arguments_are_the_same_whatever_their_order_and_with_defaults_filled_in() -> None:
    agent = guessing(LOOK)
    look = agent.reads()

    async def main() -> Any:
        await agent.model()
        return await agent.timed(look(limit=3, key="a"))

    assert agent.run(main)[1] == 0.0


@pytest.mark.parametrize("other", [{"key": "b"}, {"key": "a", "limit": 4}, {"key": "a", "limit": 3.0}])
def test_no_other_call_is_served(other: dict[str, Any]) -> None:
    agent = guessing(LOOK)
    look = agent.reads()

    async def main() -> Any:
        await agent.model()
        return await agent.timed(look(**other))

    assert agent.run(main) == (f"{other['key']}=0", 1.0)
    assert agent.ledger.total.served == 0


def test_a_result_is_served_once() -> None:
    agent = guessing(LOOK)
    look = agent.reads()

    async def main() -> Any:
        await agent.model()
        return [await agent.timed(look("a")) for _ in range(2)]

    assert agent.run(main) == [("a=0", 0.0), ("a=0", 1.0)]
    assert agent.log == ["look a", "look a"]


def test_a_write_kills_what_was_read_before_it() -> None:
    agent = guessing(LOOK)
    look, book = agent.reads(), agent.writes()

    async def main() -> Any:
        await agent.model()
        await book("a")
        return await look("a")

    assert agent.run(main) == "a=1"
    assert (agent.ledger.total.stale, agent.ledger.total.wasted) == (1, 1.0)


def test_a_read_that_began_while_a_write_ran_is_dead() -> None:
    """The write closes the world as it begins, and changes it again as it ends."""
    agent = guessing(LOOK)
    look, book = agent.reads(seconds=0.2), agent.writes(seconds=10.0)

    async def main() -> Any:
        writing = asyncio.ensure_future(book("a"))
        await asyncio.sleep(0)
        await agent.model()
        early = await look("a")
        await writing
        return early, await look("a")

    assert agent.run(main) == ("a=0", "a=1")
    assert agent.ledger.total.served == 0


@pytest.mark.parametrize("how", ["fails", "is cancelled"])
def test_a_write_that_does_not_end_well_kills_as_well(how: str) -> None:
    agent = guessing(LOOK)
    look = agent.reads(seconds=0.5)

    @agent.accel.tool(name="book")
    async def book() -> None:
        agent.state["a"] = 7
        await asyncio.sleep(1.0)
        raise ValueError("after the deed")

    async def main() -> Any:
        await agent.model()
        writing = asyncio.ensure_future(book())
        await asyncio.sleep(0.1)
        if how == "is cancelled":
            writing.cancel()
        await asyncio.wait([writing])
        assert writing.cancelled() or writing.exception()
        return await look("a")

    assert agent.run(main) == "a=7"


def test_a_write_elsewhere_leaves_a_declared_domain_fresh() -> None:
    agent = guessing(LOOK)
    look, book = agent.reads(scope="files"), agent.writes(scope="mails")

    async def main() -> Any:
        await agent.model()
        await book("b")
        return await agent.timed(look("a"))

    assert agent.run(main) == ("a=0", 0.0)


def test_a_write_while_a_caller_waits_kills_what_it_waits_for() -> None:
    """The check before is not enough: something may have been written while the call was joined."""
    agent = guessing(LOOK)
    look, book = agent.reads(seconds=4.0), agent.writes(seconds=0.2)
    took(agent.accel, "look", 4.0)

    async def main() -> Any:
        await agent.model(seconds=2.5)  # the guess has read its value, and not ended
        waiting = asyncio.ensure_future(look("a"))
        await asyncio.sleep(0.1)
        await book("a")
        return await waiting

    assert agent.run(main) == "a=1"
    assert (agent.ledger.total.served, agent.ledger.total.stale) == (0, 1)


def test_a_result_is_served_only_while_it_is_fresh() -> None:
    agent = guessing(LOOK)
    look = agent.reads(max_age=10.0)

    async def main() -> Any:
        await agent.model()
        await asyncio.sleep(10.0)
        return await agent.timed(look("a"))

    assert agent.run(main)[1] == 1.0
    assert agent.ledger.total.stale == 1


@pytest.mark.parametrize("when", ["while it ran", "after it ran"])
def test_what_a_witness_tells_of_a_change_is_not_served(when: str) -> None:
    agent = guessing(LOOK)
    look = agent.reads(validator=lambda arguments: agent.state.get(arguments["key"], 0))

    async def main() -> Any:
        model = asyncio.ensure_future(agent.model())
        await asyncio.sleep(0.7 if when == "while it ran" else 1.5)
        agent.state["a"] = 5  # by another process, as it were
        await model
        return await look("a")

    assert agent.run(main) == "a=5"
    assert agent.ledger.total.stale == 1


def test_a_witness_that_fails_serves_nothing() -> None:
    def broken(arguments: Any) -> int:
        raise OSError("no such file")

    agent = guessing(LOOK)
    look = agent.reads(validator=broken)

    async def main() -> Any:
        await agent.model()
        return await agent.timed(look("a"))

    assert agent.run(main) == ("a=0", 1.0)


def test_a_tool_whose_witness_changes_while_it_runs_is_demoted() -> None:
    """Nothing else wrote, so it did, whatever it is declared."""
    agent = Agent(ToolPolicy(eager=False), Script({1: [likely(LOOK)], 2: [likely(LOOK)]}))

    def number(arguments: object) -> int | None:
        return agent.state.get("n")

    @agent.accel.tool(name="look", effect="read_local", concurrent=True, validator=number)
    async def look(key: str) -> None:
        agent.log.append("run")
        agent.state["n"] = agent.state.get("n", 0) + 1

    async def main() -> None:
        await agent.model()
        await agent.model()

    agent.run(main)
    assert agent.log == ["run"], "it is not run early again"
    assert agent.ledger.refused["unknown"] == 1


@pytest.mark.parametrize("how", ["raises", "takes too long", "gives too much"])
def test_what_fails_early_is_run_for_its_call(how: str) -> None:
    agent = guessing(LOOK, tools=ToolPolicy(eager=False, timeout=2.0, max_result_bytes=100))
    runs = 0

    @agent.accel.tool(name="look", effect="read_local", concurrent=True)
    async def look(key: str) -> str:
        nonlocal runs
        runs += 1
        if runs == 1:
            if how == "raises":
                raise ValueError("not now")
            if how == "takes too long":
                await asyncio.sleep(100.0)
            return "x" * 101
        return "fresh"

    async def main() -> Any:
        await agent.model()
        return await look("a")

    assert agent.run(main) == "fresh"
    assert (agent.ledger.total.failed, agent.ledger.total.served) == (1, 0)


def test_the_exception_of_the_real_call_is_the_tools_own() -> None:
    agent = guessing(LOOK)
    failures = [ValueError("first"), KeyError("second")]

    @agent.accel.tool(name="look", effect="read_local", concurrent=True)
    async def look(key: str) -> str:
        raise failures.pop(0)

    async def main() -> None:
        await agent.model()
        with pytest.raises(KeyError, match="second"):
            await look("a")

    agent.run(main)


def test_a_stalled_guess_delays_its_call_by_no_more_than_a_fresh_run_takes() -> None:
    """The join is hedged: the fresh run that begins then answers the call."""
    agent = guessing(LOOK)
    runs = 0

    @agent.accel.tool(name="look", effect="read_local", concurrent=True)
    async def look(key: str) -> str:
        nonlocal runs
        runs += 1
        await asyncio.sleep(25.0 if runs == 1 else 1.0)
        return "stalled" if runs == 1 else "fresh"

    async def main() -> Any:
        await agent.model()
        return await agent.timed(look("a"))

    for _ in range(20):
        took(agent.accel, "look", 1.0)
    result, seconds = agent.run(main)
    assert result == "fresh"
    assert seconds <= 2.1
    assert agent.ledger.total.unused == 1


def test_of_a_guess_and_its_hedge_the_first_to_end_is_served() -> None:
    agent = guessing(LOOK)
    runs = 0

    @agent.accel.tool(name="look", effect="read_local", concurrent=True)
    async def look(key: str) -> str:
        nonlocal runs
        runs += 1
        mine = runs
        await asyncio.sleep(5.0 if mine == 1 else 10.0)
        return f"run {mine}"

    for _ in range(20):
        took(agent.accel, "look", 1.0)

    async def main() -> Any:
        await agent.model()
        return await agent.timed(look("a"))

    assert agent.run(main) == ("run 1", 2.0)
    assert runs == 2


def test_cancelling_a_caller_leaves_the_run_for_the_next_one() -> None:
    agent = guessing(LOOK)
    look = agent.reads(seconds=4.0)
    took(agent.accel, "look", 4.0)

    async def main() -> Any:
        await agent.model()
        waiting = asyncio.ensure_future(look("a"))
        await asyncio.sleep(0.5)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return await agent.timed(look("a"))

    assert agent.run(main) == ("a=0", 0.5)
    assert agent.log == ["look a"]


@pytest.mark.parametrize("flag", ["sequential", "needs_approval", "stateful", "injected"])
def test_tools_with_people_order_state_or_context_are_never_launched(flag: str) -> None:
    agent = Agent(told=Script({1: [likely(LOOK)]}))
    look = agent.reads(**{flag: True})

    async def main() -> Any:
        await agent.model(LOOK, gap=0.5)
        await asyncio.sleep(5.0)
        assert agent.log == []
        return await look("a")

    assert agent.run(main) == "a=0"
    assert agent.ledger.total.launched == 0


def test_a_tool_that_asks_for_more_than_the_model_gives_is_never_launched() -> None:
    agent = Agent(told=Script({1: [likely(LOOK)]}))

    @agent.accel.tool(name="look", effect="read_local", concurrent=True)
    async def look(context: object, key: str) -> str:
        agent.log.append("run")
        return key

    async def main() -> Any:
        await agent.model(LOOK)
        return await look(object(), "a")

    assert agent.run(main) == "a"
    assert agent.log == ["run"]


def test_leaving_a_session_leaves_no_run() -> None:
    agent = guessing(LOOK)
    agent.reads(seconds=50.0)

    async def main() -> None:
        await agent.model()
        assert len(asyncio.all_tasks()) == 2

    async def outside() -> None:
        async with agent.accel.session("s"):
            await main()
        assert len(asyncio.all_tasks()) == 1

    from agentaccel.testing.virtual import run

    run(outside, agent.clock)
    assert agent.clock.now - 1_700_000_000.0 < 10.0
    assert len(speculator(agent.accel).launcher.serving.buffer) == 0


def test_two_sessions_share_nothing() -> None:
    agent = guessing(LOOK)
    look = agent.reads()

    async def main() -> Any:
        await agent.model()
        async with agent.accel.session("other"):
            return await agent.timed(look("a"))

    assert agent.run(main) == ("a=0", 1.0)


@pytest.mark.parametrize("policy", [{"mode": "observe"}, {"holdout": 0.999999}])
def test_a_session_that_is_only_watched_runs_nothing_early_and_says_what_it_would_have(policy: dict[str, Any]) -> None:
    agent = Agent(told=Script({1: [likely(call("look", key="a"))]}), **policy)
    look = agent.reads()

    async def main() -> Any:
        await agent.model(call("look", key="b"), gap=0.5)
        assert agent.log == []
        return await agent.timed(look("a"))

    assert agent.run(main)[1] == 1.0
    assert (agent.ledger.withheld, agent.ledger.total.launched) == (2, 0)


def test_inside_a_bypass_calls_run_and_writes_still_count() -> None:
    agent = guessing(LOOK)
    look, book = agent.reads(), agent.writes()

    async def main() -> Any:
        await agent.model()
        with agent.accel.bypass():
            _, seconds = await agent.timed(look("a"))
            await book("a")
        return seconds, await look("a")

    assert agent.run(main) == (1.0, "a=1")


def test_audit_hooks_see_each_early_run_once_and_flagged() -> None:
    agent = guessing(LOOK)
    look = agent.reads()

    async def main() -> None:
        await agent.model()
        await look("a")

    agent.run(main)
    heard = [(one.name, one.speculative, one.served_from, one.hidden) for one in agent.heard.heard]
    assert heard == [("look", True, None, None), ("look", False, "predicted", 1.0)]


def test_a_nested_call_that_may_write_ends_the_run_that_nobody_asked_for() -> None:
    """The outer tool is declared a read; it turns out to be none before anything is written."""
    agent = guessing(LOOK)
    book = agent.writes()

    @agent.accel.tool(name="look", effect="read_local", concurrent=True)
    async def look(key: str) -> str:
        try:
            return str(await book(key))
        except Exception:  # noqa: BLE001 - what a careless tool does
            return "a fallback that must not be served"

    async def main() -> Any:
        await agent.model()
        assert agent.state == {}
        return await look("a")

    assert agent.run(main) == "done"
    assert agent.state == {"a": 1}
    assert agent.ledger.total.failed == 1


def test_a_finished_guess_leads_to_the_next_one() -> None:
    """Three steps deep, each while the model is still busy with the first."""
    second, third = call("look", key="b"), call("look", key="c")
    script = Script({1: [likely(LOOK)]}, {"a=0": [likely(second)], "b=0": [likely(third)], "c=0": [likely(LOOK)]})
    agent = Agent(ToolPolicy(eager=False, depth=3), script)
    look = agent.reads()

    async def main() -> Any:
        await agent.model(seconds=5.0)
        return [await agent.timed(look(key)) for key in "abc"]

    assert agent.run(main) == [("a=0", 0.0), ("b=0", 0.0), ("c=0", 0.0)]
    assert agent.ledger.total.launched == 3


def expecting(*steps: list[Prediction], **policy: Any) -> Agent:
    """An agent that expects so much, each time that it is asked."""
    return Agent(ToolPolicy(eager=False, **policy), Script(dict(enumerate(steps, start=1))))


def test_a_slot_that_is_free_again_takes_the_next_guess() -> None:
    """While the model still thinks; the last guess waits for a slot that comes too late."""
    guesses = [likely(call("look", key=key)) for key in "abc"]
    agent = expecting(guesses, guesses, guesses, max_concurrent={"look": 1})
    look = agent.reads(seconds=2.0)

    async def main() -> Any:
        await agent.model(seconds=3.5)
        return [await agent.timed(look(key)) for key in "abc"]

    assert agent.run(main) == [("a=0", 0.0), ("b=0", 0.5), ("c=0", 2.0)]
    assert agent.ledger.total.launched == 2


def test_a_guess_for_a_reply_that_is_nearly_there_is_not_begun() -> None:
    """How long ago the model was asked tells how much of a run would still be hidden."""
    guesses = [Prediction(call=call("look", key=key), probability=0.08, soon=0.08, rule="r") for key in "ab"]
    for seconds, launched in ((1.2, 2), (2.5, 1)):
        agent = expecting(guesses, guesses, max_concurrent={"look": 1})
        look = agent.reads(seconds=seconds)
        for _ in range(50):
            speculator(agent.accel).learning.track.experience.replied(3.0)
            speculator(agent.accel).learning.track.experience.ran("look", seconds)

        async def main(agent: Agent = agent) -> None:
            await agent.model(seconds=3.0)

        agent.run(main)
        assert agent.ledger.total.launched == launched
        assert look is not None


def test_what_nobody_asks_for_in_five_replies_counts_as_wasted_and_may_be_served_all_the_same() -> None:
    agent = guessing(LOOK)
    look = agent.reads()
    known = speculator(agent.accel).learning.track.experience.dump
    settled: list[float] = []

    async def main() -> Any:
        for _ in range(6):
            await agent.model()
            agent.messages.append({"role": "user", "content": "Go on."})
            settled.append(known()["rules"][""]["settled"])
        return await agent.timed(look("a"))

    assert agent.run(main) == ("a=0", 0.0)
    assert settled == [0.0] * 5 + [1.0]
    assert known()["rules"][""]["used"] == 0.0
    assert known()["rules"][""]["settled"] == 1.0
    assert agent.ledger.total.served == 1


def test_the_store_keeps_each_early_run_with_what_came_of_it(tmp_path: Any) -> None:
    from agentaccel import StorePolicy
    from agentaccel.report.aggregate import report
    from agentaccel.store.store import open_reader

    agent = guessing(LOOK, call("look", key="b"), store=StorePolicy(path=tmp_path / "trace.db"))
    look = agent.reads()

    async def main() -> None:
        await agent.model()
        await look("a")

    agent.run(main)
    agent.accel.close()
    with open_reader(tmp_path / "trace.db") as reader:
        records = list(reader.tools())
        found = report(records)
    kept = [(one.speculative, one.fate, one.served_from, one.hidden, one.wasted) for one in records]
    assert sorted(kept, key=str) == [
        (False, None, "predicted", 1.0, None),
        (True, "served", None, None, None),
        (True, "unused", None, None, 1.0),
    ]
    early = found.total.early
    assert (early.launched, early.served, early.unused, early.hidden, early.wasted) == (2, 1, 1, 1.0, 1.0)
    assert early.waste_per_hit == 1.0
    assert found.total.tools.calls == 1, "an early run is no call"


def test_what_has_happened_is_learned_in_order_and_to_its_end() -> None:
    agent = guessing()
    look = agent.reads()

    async def main() -> None:
        await agent.model(LOOK)
        agent.answers(await look("a"))
        await agent.model()

    agent.run(main)
    assert [type(one).__name__ for one in agent.told.events] == ["Said", "Asked", "Returned", "Answered"]
    assert agent.told.events[2].result == "a=0"
