"""Whoever calls a tool gets what it would have got without us: other users, decorators, threads, forks, those who give
up, and tools that leave something running."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.effects.spec import spec_of
from agentaccel.policy import Mode, ToolPolicy
from agentaccel.testing.inside import speculator
from agentaccel.testing.virtual import run
from agentaccel.turn import CallClosed, Finished, Started
from tests.mutants import Mutant, running, survives
from tests.predict.scripted import Agent, Script, call, likely, took

HERE = "tests/predict/test_callers.py"


# --- whose call it is -------------------------------------------------------------------------------------------------


async def orders_of(agent: Agent, whom: str, tool: Callable[[], Any], met: asyncio.Barrier) -> str:
    """A conversation without a session: its model asks for the user's orders, at the same time as the other's."""
    user.set(whom)
    turn = agent.accel.turn(
        {"model": "claude-sonnet-5", "max_tokens": 9, "messages": [{"role": "user", "content": f"I am {whom}."}]}
    )
    turn.handle(Started(agent.clock.monotonic()))
    turn.handle(CallClosed(call("my_orders"), agent.clock.monotonic()))
    await asyncio.sleep(1)
    turn.handle(Finished(agent.clock.monotonic()))
    await met.wait()
    return str(await tool())


user: contextvars.ContextVar[str] = contextvars.ContextVar("user")


@pytest.mark.parametrize("declared", [{}, {"max_age": 1000.0}], ids=["early", "remembered"])
def test_a_call_that_two_conversations_have_asked_for_is_run_for_each(declared: dict[str, Any]) -> None:
    agent = Agent()

    @agent.accel.tool(effect="read_local", concurrent=True, **declared)
    async def my_orders() -> str:
        return f"orders of {user.get()}"

    async def main() -> list[str]:
        met = asyncio.Barrier(2)
        both = (orders_of(agent, whom, my_orders, met) for whom in ("alice", "bob"))
        return await asyncio.gather(*both)

    assert run(main, agent.clock) == ["orders of alice", "orders of bob"]


def test_a_call_that_one_conversation_has_asked_for_is_served() -> None:
    agent = Agent()
    look = agent.reads(seconds=0.5)

    async def main() -> tuple[Any, float]:
        await agent.model(call("look", key="a"), gap=1.0)
        return await agent.timed(look("a"))

    assert run(main, agent.clock) == ("a=0", 0.0)
    assert agent.log == ["look a"]


def test_a_write_through_a_session_that_was_left_is_seen() -> None:
    agent = Agent(ToolPolicy(eager=False, speculate=False))
    look = agent.reads(max_age=1000.0)

    async def book() -> str:
        agent.state["a"] = 9
        return "booked"

    async def main() -> list[str]:
        async with agent.accel.session("old") as old:
            pass
        first = await look("a")
        await old.tool("book", {"key": "a"}, book)
        return [first, await look("a")]

    assert agent.run(main) == ["a=0", "a=9"]


def asks(accel: Accel) -> None:
    """A reply that asks for `look("a")`, all of it at once."""
    turn = accel.turn({"model": "claude-sonnet-5", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]})
    turn.handle(Started(0.0))
    turn.handle(CallClosed(call("look", key="a"), 0.0))
    turn.handle(Finished(0.0))


# --- decorators -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["off", "observe", "on"])
def test_a_decorator_around_a_tool_stays_around_it(mode: Mode) -> None:
    accel = Accel(Policy(mode=mode, store=StorePolicy(enabled=False)))

    def checked(tool: Callable[[str], str]) -> Callable[[str], str]:
        @functools.wraps(tool)
        def check(whom: str) -> str:
            if whom != "admin":
                raise PermissionError(whom)
            return tool(whom)

        return check

    @checked
    @accel.tool
    def wipe(whom: str) -> str:
        return f"wiped for {whom}"

    table = accel.tools({"wipe": wipe})
    assert table["wipe"]("admin") == "wiped for admin"
    with pytest.raises(PermissionError):
        table["wipe"]("mallory")
    accel.close()


def test_what_a_tool_declares_is_not_declared_of_what_is_put_around_it() -> None:
    agent = Agent(ToolPolicy(speculate=False))
    look = agent.reads()

    @functools.wraps(look)
    async def counted(key: str) -> Any:
        agent.state["count"] = agent.state.get("count", 0) + 1
        return await look(key)

    around = agent.accel.tools({"find": counted})["find"]

    async def main() -> Any:
        await agent.model(call("find", key="a"), gap=5.0, seconds=5.0)
        assert agent.state == {}
        return await around("a")

    assert agent.run(main) == "a=0"
    assert agent.state == {"count": 1}


def test_nothing_is_declared_of_what_outlives_the_function_that_was_declared() -> None:
    def look(key: str) -> str:
        return key

    def instead(key: str) -> str:
        return key

    agent = Agent()
    declared = agent.accel.tool(effect="read_local")(look)
    functools.update_wrapper(instead, declared)
    del instead.__wrapped__, declared  # type: ignore[attr-defined]
    gc.collect()
    assert spec_of(instead) is None


def test_a_tool_that_is_wrapped_again_is_called_once_and_keeps_its_attributes() -> None:
    agent = Agent()

    def find(key: str) -> str:
        agent.log.append(key)
        return key

    find.schema = {"type": "object"}  # type: ignore[attr-defined]
    once = agent.accel.tool(effect="read_local")(find)
    [twice] = agent.accel.tools([once])
    assert twice("a") == "a"
    assert agent.log == ["a"]
    assert twice.schema == {"type": "object"}  # type: ignore[attr-defined]
    assert len(agent.heard.heard) == 1


# --- runs that go on --------------------------------------------------------------------------------------------------


def test_a_run_that_is_asked_for_before_it_has_begun_is_the_calls_own_however_long_it_takes() -> None:
    agent = Agent(ToolPolicy(speculate=False, timeout=5.0))
    look = agent.reads(seconds=40.0)

    async def main() -> tuple[Any, float]:
        asks(agent.accel)
        return await agent.timed(look("a"))

    assert agent.run(main) == ("a=0", 40.0)
    assert agent.log == ["look a"]


def test_a_worker_that_a_served_run_has_left_behind_may_write() -> None:
    agent = Agent(ToolPolicy(speculate=False))
    book = agent.writes()

    async def main() -> None:
        jobs, begun = asyncio.Queue[str](), list[asyncio.Task[None]]()

        async def work() -> None:
            while True:
                await book(await jobs.get())
                jobs.task_done()

        @agent.accel.tool(effect="read_local", concurrent=True)
        async def look(key: str) -> str:
            if not begun:
                begun.append(asyncio.create_task(work()))
            return key

        await agent.model(call("look", key="a"), gap=0.5)
        await look("a")
        await jobs.put("a")
        await asyncio.wait([begun[0], asyncio.ensure_future(jobs.join())], return_when=asyncio.FIRST_COMPLETED)
        begun[0].cancel()

    agent.run(main)
    assert agent.state == {"a": 1}
    assert [one.speculative for one in agent.heard.heard if one.name == "book"] == [False]


def stalled(agent: Agent, end: Callable[[], Any]) -> Callable[..., Any]:
    """A read that is known to take a second: the guess takes twenty, the run beside it five, and then comes `end`."""
    runs = list[int]()

    @agent.accel.tool(effect="read_local", concurrent=True)
    async def look(key: str) -> Any:
        runs.append(1)
        await asyncio.sleep(20 if len(runs) == 1 else 5)
        return end()

    took(agent.accel, "look", 1.0)
    return look


def test_a_caller_that_outlives_the_session_gets_its_answer() -> None:
    agent = Agent(ToolPolicy(eager=False), Script({1: [likely(call("look", key="a"))]}))
    look = stalled(agent, lambda: "answer")

    async def main() -> Any:
        async with agent.accel.session("x"):
            await agent.model(call("look", key="a"))
            waiting = asyncio.ensure_future(look(key="a"))
            await asyncio.sleep(3)
        return await waiting

    assert run(main, agent.clock) == "answer"


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError])
def test_whatever_the_run_beside_a_stalled_guess_raises_its_caller_can_catch(kind: type[BaseException]) -> None:
    agent = Agent(ToolPolicy(eager=False), Script({1: [likely(call("look", key="a"))]}))

    def fail() -> None:
        raise kind("the tool's own")

    look = stalled(agent, fail)

    async def main() -> str:
        await agent.model(call("look", key="a"))
        try:
            await look(key="a")
        except BaseException as end:  # noqa: BLE001 - whatever it is
            return repr(end)
        return "nothing"

    assert agent.run(main) == repr(kind("the tool's own"))


# --- callers that give up ---------------------------------------------------------------------------------------------


async def given_up(agent: Agent, look: Callable[..., Any], *, after: float) -> None:
    """The model has asked for a call, and whoever made it waits no longer."""
    await agent.model(call("look", key="a"), gap=1.0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(after):
            await look("a")


def test_a_run_whose_caller_has_given_up_ends_after_the_timeout() -> None:
    agent = Agent(ToolPolicy(speculate=False, timeout=30.0))
    look = agent.reads(seconds=1e6)

    async def main() -> None:
        await given_up(agent, look, after=5)
        await asyncio.sleep(31)
        assert speculator(agent.accel).launcher.runner.under_way() == 0

    agent.run(main)
    assert agent.ledger.asked.failed == 1


def test_what_an_earlier_caller_has_waited_is_not_hidden() -> None:
    agent = Agent(ToolPolicy(speculate=False))
    look = agent.reads(seconds=11.0)

    async def main() -> None:
        await given_up(agent, look, after=6)
        await look("a")

    agent.run(main)
    assert agent.ledger.asked.hidden == 1.0


def test_a_coroutine_that_is_closed_while_it_waits_gives_its_run_back() -> None:
    agent = Agent(ToolPolicy(speculate=False))
    look = agent.reads()

    async def main() -> Any:
        await agent.model(call("look", key="a"), gap=0.25)
        waiting = look("a")
        waiting.send(None)
        waiting.close()
        return await look("a")

    assert agent.run(main) == "a=0"
    assert agent.ledger.asked.served == agent.ledger.asked.launched == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_does_not_wait_for_what_its_parent_runs() -> None:
    accel, parent, over = Accel(Policy(store=StorePolicy(enabled=False))), os.getpid(), threading.Event()

    @accel.tool(effect="read_local", concurrent=True, in_thread=True)
    def look(key: str) -> str:
        if os.getpid() == parent:
            over.wait()
        return key

    with accel.session("s"):
        asks(accel)
        child = os.fork()
        if child == 0:
            os._exit(0 if look("a") == "a" else 1)
        _, status = os.waitpid(child, 0)
        over.set()
        assert look("a") == "a"
    accel.close()
    assert status == 0


# --- the guards -------------------------------------------------------------------------------------------------------

MUTANTS = (
    (
        "test_a_call_that_two_conversations_have_asked_for_is_run_for_each",
        Mutant(
            guard="a call that may be another user's",
            at="agentaccel.tools.call:Call._look",
            old="self._here = box.conversation(self._call, within, surely=True)",
            new="self._here = box.conversation(self._call, within)",
        ),
    ),
    (
        "test_a_write_through_a_session_that_was_left_is_seen",
        Mutant(
            guard="a write through a session that was left",
            at="agentaccel.engine.scope:Session.tool",
            old="return await self._calls.run_unrecorded(call, execute)",
            new="return await execute()",
        ),
    ),
    (
        "test_a_decorator_around_a_tool_stays_around_it",
        Mutant(
            guard="a decorator around a tool",
            at="agentaccel.tools.toolbox:_unwrapped",
            old=" and original.wrapped() is tool else tool",
            new=" else tool",
        ),
    ),
    (
        "test_what_a_tool_declares_is_not_declared_of_what_is_put_around_it",
        Mutant(
            guard="what a decorator does",
            at="agentaccel.effects.spec:spec_of",
            old='return carried.spec if carried.of() is getattr(tool, "__func__", tool) else None',
            new="return carried.spec",
        ),
    ),
    (
        "test_a_run_that_is_asked_for_before_it_has_begun_is_the_calls_own_however_long_it_takes",
        Mutant(
            guard="a caller that comes before the run begins",
            at="agentaccel.tools.running:Runner._run_async",
            old="limit = None if entry.handle.patient else self.policy.timeout",
            new="limit = self.policy.timeout",
        ),
    ),
    (
        "test_a_caller_that_outlives_the_session_gets_its_answer",
        Mutant(
            guard="a real run that ends with the session",
            at="agentaccel.tools.serving:Serving._hedge",
            old="self.background.spawn(None, run,",
            new="self.background.spawn(entry.key.principal.session, run,",
        ),
    ),
    (
        "test_a_run_whose_caller_has_given_up_ends_after_the_timeout",
        Mutant(
            guard="a run that nobody waits for any more",
            at="agentaccel.tools.serving:Serving._given_up",
            old="            entry.handle.unawaited(self.policy.timeout)\n",
            new="            pass\n",
        ),
    ),
)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("test", "mutant"), MUTANTS, ids=[mutant.guard for _, mutant in MUTANTS])
def test_without_its_guard_the_test_fails(test: str, mutant: Mutant, tmp_path: Path) -> None:
    assert survives(mutant, tmp_path, running(f"{HERE}::{test}")) is None


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_with_all_guards_the_tests_pass(tmp_path: Path) -> None:
    assert survives(None, tmp_path, running(*{f"{HERE}::{test}" for test, _ in MUTANTS})) is not None
