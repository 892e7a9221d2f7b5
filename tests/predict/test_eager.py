"""Tier 1: what the model has asked for begins as soon as its arguments close, in the order that the message has."""

from __future__ import annotations

import asyncio
from typing import Any

from agentaccel import Policy, StorePolicy, ToolCall
from agentaccel.policy import ToolPolicy
from agentaccel.turn import CallClosed, Failed, Started
from tests.predict.scripted import Agent, call, took

LOOK, LOOK_B, BOOK = call("look", key="a"), call("look", key="b"), call("book", key="a")


def test_a_read_begins_when_its_arguments_close_and_runs_once() -> None:
    agent = Agent()
    look = agent.reads(seconds=2.0)

    async def main() -> Any:
        await agent.model(LOOK, LOOK_B, gap=1.5)
        return [await agent.timed(look("a")), await agent.timed(look("b"))]

    assert agent.run(main) == [("a=0", 0.0), ("b=0", 0.5)]
    assert agent.log == ["look a", "look b"]
    assert (agent.ledger.asked.launched, agent.ledger.asked.served, agent.ledger.asked.hidden) == (2, 2, 3.5)


def test_a_remote_read_may_begin_because_the_model_did_ask() -> None:
    agent = Agent()
    look = agent.reads(effect="read_remote")

    async def main() -> Any:
        await agent.model(LOOK, gap=1.0)
        return await agent.timed(look("a"))

    assert agent.run(main) == ("a=0", 0.0)


def test_a_slow_run_that_the_model_asked_for_is_the_calls_own_and_never_doubled() -> None:
    agent = Agent(ToolPolicy(timeout=5.0))
    look = agent.reads(seconds=40.0)
    took(agent.accel, "look", 0.01)

    async def main() -> Any:
        await agent.model(LOOK, gap=1.0)
        return await agent.timed(look("a"))

    assert agent.run(main) == ("a=0", 39.0)
    assert agent.log == ["look a"]


def test_the_same_call_twice_in_a_message_runs_twice_and_no_more() -> None:
    agent = Agent()
    look = agent.reads()

    async def main() -> Any:
        await agent.model(LOOK, LOOK, gap=1.0)
        return [await agent.timed(look("a")) for _ in range(3)]

    assert agent.run(main) == [("a=0", 0.0), ("a=0", 0.0), ("a=0", 1.0)]
    assert len(agent.log) == 3


def test_a_read_after_a_write_in_the_same_message_waits_for_it() -> None:
    """Once the write has run, all reads up to the next write begin together."""
    agent = Agent()
    look, book = agent.reads(), agent.writes()

    async def main() -> Any:
        await agent.model(LOOK, BOOK, LOOK, LOOK_B, BOOK, LOOK_B, gap=1.0)
        assert agent.log == ["look a"]
        results = [await look("a"), await book("a"), await agent.timed(look("a")), await agent.timed(look("b"))]
        assert agent.log[-2:] == ["look a", "look b"]
        return results

    assert agent.run(main) == ["a=0", "done", ("a=1", 1.0), ("b=0", 0.0)]


def test_a_dropped_stream_that_is_retried_runs_each_call_once() -> None:
    agent = Agent()
    look = agent.reads()

    async def main() -> Any:
        request = {"model": "claude-sonnet-5", "max_tokens": 100, "messages": list(agent.messages)}
        turn = agent.accel.turn(request)
        turn.handle(Started(agent.clock.monotonic()))
        turn.handle(CallClosed(ToolCall(name="look", arguments={"key": "a"}, id="first"), agent.clock.monotonic()))
        await asyncio.sleep(0.2)
        turn.handle(Failed(at=agent.clock.monotonic(), error="ConnectError"))
        await agent.model(LOOK, LOOK_B, gap=1.0)
        return [await agent.timed(look("a")), await agent.timed(look("b"))]

    assert agent.run(main) == [("a=0", 0.0), ("b=0", 0.0)]
    assert agent.log == ["look a", "look b"]


def test_early_runs_without_a_session_are_found_by_the_call_that_the_model_made() -> None:
    """The quickstart: a client, a table of tools, and nothing else."""
    from agentaccel.testing.virtual import run

    agent = Agent()
    look = agent.reads(seconds=2.0)

    async def main() -> Any:
        await agent.model(LOOK, gap=1.5)
        return await agent.timed(look("a"))

    assert run(main, agent.clock) == ("a=0", 0.5)
    assert agent.log == ["look a"]


def test_a_loop_that_gives_a_tool_other_arguments_makes_it_stop() -> None:
    agent = Agent()
    look = agent.reads(seconds=0.1)

    async def main() -> None:
        for number in range(60):
            await agent.model(call("look", key=f"k{number}"), gap=1.0)
            agent.answers(await look(f"K{number}"))

    agent.run(main)
    assert agent.ledger.asked.launched < 30
    assert agent.ledger.asked.served == 0


def test_a_call_through_the_sessions_own_method_is_served_too() -> None:
    agent = Agent()
    look = agent.reads(seconds=2.0)

    async def main() -> Any:
        async with agent.accel.session("s") as session:
            await agent.model(LOOK, gap=1.5)
            return await agent.timed(session.tool(LOOK.name, LOOK.arguments, lambda: look("a")))

    assert agent.run(main) == ("a=0", 0.5)
    assert agent.log == ["look a"]


def test_a_call_of_a_framework_that_runs_tools_itself_is_served_too() -> None:
    """`Accel.call_tool`, in no session: the conversation is the one whose model has asked."""
    from agentaccel.testing.virtual import run

    agent = Agent()
    look = agent.reads(seconds=2.0)

    async def main() -> Any:
        await agent.model(LOOK, gap=1.5)
        return await agent.timed(agent.accel.call_tool(LOOK.name, LOOK.arguments, lambda: look("a"), id=LOOK.id))

    assert run(main, agent.clock) == ("a=0", 0.5)
    assert agent.log == ["look a"]


def test_switched_off_nothing_begins_before_its_call() -> None:
    agent = Agent(ToolPolicy(eager=False))
    look = agent.reads()

    async def main() -> Any:
        await agent.model(LOOK, gap=1.0)
        assert agent.log == []
        return await agent.timed(look("a"))

    assert agent.run(main) == ("a=0", 1.0)


def test_no_more_runs_at_once_than_the_policy_allows() -> None:
    agent = Agent(ToolPolicy(concurrency=2))
    agent.reads(seconds=9.0)

    async def main() -> None:
        await agent.model(*(call("look", key=str(number)) for number in range(5)), gap=0.1)
        assert len(agent.log) == 2

    agent.run(main)


def test_a_name_that_stands_for_two_functions_is_never_run_early() -> None:
    agent = Agent()
    agent.reads()
    agent.reads()

    async def main() -> None:
        await agent.model(LOOK, gap=1.0)

    agent.run(main)
    assert agent.log == []


def test_sync_tools_run_early_in_threads_only_where_their_owner_allows_it(tmp_path: Any) -> None:
    """With real threads and no event loop."""
    from agentaccel import Accel

    accel = Accel(Policy(strict=True, store=StorePolicy(path=tmp_path / "trace.db")))
    runs: list[str] = []

    @accel.tool(effect="read_local", concurrent=True, in_thread=True)
    def look(key: str) -> str:
        runs.append(key)
        return key.upper()

    @accel.tool(effect="read_local", concurrent=True)
    def peek(key: str) -> str:
        runs.append(key)
        return key

    with accel.session("s") as session:
        turn = accel.turn({"model": "claude-sonnet-5", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]})
        turn.handle(Started(0.0))
        turn.handle(CallClosed(call("look", key="a"), 0.1))
        turn.handle(CallClosed(call("peek", key="b"), 0.2))
        assert (look("a"), peek("b")) == ("A", "b")
    assert sorted(runs) == ["a", "b"]
    assert (session.speculation.asked.launched, session.speculation.asked.served) == (1, 1)
    accel.close()


def test_tools_that_are_wrapped_in_a_session_are_its_own() -> None:
    """A server makes its tools anew for each user: one name, two functions, no doubt which."""
    agent = Agent()

    async def main() -> Any:
        found = []
        for user in ("ann", "bob"):
            async with agent.accel.session(user):

                @agent.accel.tool(name="look", effect="read_local", concurrent=True)
                async def look(key: str, user: str = user) -> str:
                    agent.log.append(user)
                    return f"{user}'s {key}"

                await agent.model(LOOK, gap=1.0)
                found.append(await look("a"))
        return found

    assert agent.run(main) == ["ann's a", "bob's a"]
    assert agent.log == ["ann", "bob"]
    assert [one.served_from for one in agent.heard.heard if not one.speculative] == ["asked", "asked"]


def test_what_hands_out_something_that_is_still_to_run_is_not_served_early(tmp_path: Any) -> None:
    from agentaccel import Accel

    accel = Accel(Policy(strict=True, store=StorePolicy(path=tmp_path / "trace.db")))

    @accel.tool(name="look", effect="read_local", concurrent=True, in_thread=True)
    def look(key: str) -> Any:
        return (part for part in key)

    with accel.session("s") as session:
        turn = accel.turn({"model": "claude-sonnet-5", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]})
        turn.handle(Started(0.0))
        turn.handle(CallClosed(call("look", key="ab"), 0.1))
        assert list(look("ab")) == ["a", "b"]
    assert (session.speculation.asked.launched, session.speculation.asked.served) == (1, 0)
    accel.close()


def test_sessions_in_several_threads_are_served_their_own(tmp_path: Any) -> None:
    """Sixteen threads, one `Accel`, real time: each call has exactly one run, and nobody sees another's result."""
    import threading
    from collections import Counter
    from concurrent.futures import ThreadPoolExecutor

    from agentaccel import Accel

    accel = Accel(Policy(strict=True, store=StorePolicy(enabled=False), tools=ToolPolicy(concurrency=64)))
    runs, lock = Counter[str](), threading.Lock()

    @accel.tool(effect="read_local", concurrent=True, in_thread=True, scope="a")
    def look(key: str) -> str:
        with lock:
            runs[key] += 1
        return key

    @accel.tool(scope="b")
    def book(key: str) -> str:
        return key

    def agent(number: int) -> int:
        with accel.session(f"s{number}") as session:
            for step in range(10):
                key = f"{number}.{step}"
                messages = [{"role": "user", "content": "x"}] * (2 * step + 1)
                turn = accel.turn({"model": "claude-sonnet-5", "max_tokens": 1, "messages": messages})
                turn.handle(Started(0.0))
                turn.handle(CallClosed(call("look", key=key), 0.1))
                assert (look(key), book(key)) == (key, key)
            return session.speculation.asked.served

    with ThreadPoolExecutor(16) as pool:
        served = list(pool.map(agent, range(16)))
    assert runs == Counter({f"{number}.{step}": 1 for number in range(16) for step in range(10)})
    assert sum(served) >= 100
    accel.close()


def test_a_write_ends_the_wait_of_a_sync_caller_for_an_early_run(tmp_path: Any) -> None:
    """With real threads: what it waits for has read what is not there any more, and never ends by itself."""
    import threading

    from agentaccel import Accel

    accel = Accel(Policy(strict=True, store=StorePolicy(path=tmp_path / "trace.db")))
    here, answered, ended_by_itself = threading.get_ident(), threading.Event(), list[bool]()

    @accel.tool(effect="read_local", concurrent=True, in_thread=True)
    def look(key: str) -> str:
        if threading.get_ident() == here:
            return "fresh"
        ended_by_itself.append(not answered.wait(5.0))
        return "early"

    @accel.tool
    def book(key: str) -> None:
        """It writes."""

    class Writes:
        """Begins a write in another thread once the call has found its early run."""

        def begins(self, at: float, tool: str | None) -> None:
            if tool == "look" and threading.get_ident() == here:
                threading.Thread(target=book, args=("a",)).start()

        def ended(self, began: object, told: object) -> None:
            """Nothing to do."""

    accel.add_hook(Writes())
    with accel.session("s") as session:
        turn = accel.turn({"model": "claude-sonnet-5", "max_tokens": 1, "messages": [{"role": "user", "content": "x"}]})
        turn.handle(Started(0.0))
        turn.handle(CallClosed(call("look", key="a"), 0.1))
        assert look("a") == "fresh"
        answered.set()
    accel.close()
    assert ended_by_itself == [False]
    assert (session.speculation.asked.served, session.speculation.asked.stale) == (0, 1)


def test_a_write_begins_the_fresh_run_of_a_read_that_waits_for_its_early_one() -> None:
    """What the early run reads will not be served, so waiting for its end would only cost time."""
    agent = Agent()
    look, book = agent.reads(seconds=4.0), agent.writes(seconds=1.0)

    async def main() -> Any:
        await agent.model(LOOK, BOOK, gap=0.5)
        return await asyncio.gather(agent.timed(look("a")), agent.timed(book("a")))

    assert agent.run(main) == [("a=1", 4.0), ("done", 1.0)], "as long as without us"
    assert agent.log == ["look a", "book a", "look a"]
    assert (agent.ledger.asked.launched, agent.ledger.asked.stale) == (1, 1)


def test_a_write_elsewhere_leaves_a_caller_waiting_for_the_early_run() -> None:
    agent = Agent()
    look, book = agent.reads(seconds=4.0, scope="files"), agent.writes(seconds=1.0, scope="mails")

    async def main() -> Any:
        await agent.model(LOOK, BOOK, gap=1.0)
        return await asyncio.gather(agent.timed(look("a")), agent.timed(book("a")))

    assert agent.run(main) == [("a=0", 2.0), ("done", 1.0)]
    assert agent.log == ["look a", "book a"]


def test_what_the_model_had_asked_for_is_remembered_as_any_run_is() -> None:
    """Until something writes."""
    agent = Agent()
    look, book = agent.reads(max_age=60.0), agent.writes()

    async def main() -> Any:
        await agent.model(LOOK, gap=0.5)
        first = await look("a")
        again = await agent.timed(look("a"))
        await book("a")
        return [first, again, await agent.timed(look("a"))]

    assert agent.run(main) == ["a=0", ("a=0", 0.0), ("a=1", 1.0)]
    assert agent.log == ["look a", "book a", "look a"]
    assert agent.ledger.memo.served == 1
