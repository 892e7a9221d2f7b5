"""Which requests make one session when nobody opened one."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel import Policy
from agentaccel.engine.conversation import own_id
from agentaccel.testing import ManualClock
from tests.driver import Driver, Json, assistant, body, prose, tool, user

NAMES = st.text(alphabet="@/%4a ", min_size=1, max_size=4)


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver(tmp_path)


def sessions(driver: Driver) -> list[str]:
    """The session of each turn, renamed A, B, … in the order of appearance."""
    names: dict[str, str] = {}
    return [names.setdefault(record.session, chr(65 + len(names))) for record in driver.records]


def test_a_conversation_that_grows_is_one_session(driver: Driver) -> None:
    """Chosen: grouped by prefix lineage."""
    driver.ask(body(user("a")))
    driver.ask(body(user("a"), assistant("b"), user("c")))
    driver.ask(body(user("a"), assistant("b"), user("c"), assistant("d"), user("e")))
    assert sessions(driver) == ["A", "A", "A"]


def test_a_clock_in_the_system_prompt_does_not_split_a_session(driver: Driver) -> None:
    """Only messages make lineage."""
    driver.ask(body(user("a"), system="It is 12:00."))
    driver.ask(body(user("a"), assistant("b"), user("c"), system="It is 12:01."))
    assert sessions(driver) == ["A", "A"]


def test_reordered_tools_do_not_split_a_session(driver: Driver) -> None:
    """Nor does what else may change between turns."""
    driver.ask(body(user("a"), tools=[tool("x"), tool("y")]))
    driver.ask(body(user("a"), assistant("b"), user("c"), tools=[tool("y"), tool("x")]))
    assert sessions(driver) == ["A", "A"]


def test_the_same_first_words_begin_two_sessions(driver: Driver) -> None:
    """Many conversations begin alike: a first message is no evidence."""
    driver.ask(body(user("hello")))
    driver.ask(body(user("hello")))
    assert sessions(driver) == ["A", "B"]


def test_two_sessions_with_the_same_first_words_go_on_apart(driver: Driver) -> None:
    """Two sessions share nothing by accident."""
    driver.ask(body(user("hello")))
    driver.ask(body(user("hello")))
    driver.ask(body(user("hello"), assistant("one"), user("1")))
    driver.ask(body(user("hello"), assistant("two"), user("2")))
    driver.ask(body(user("hello"), assistant("one"), user("1"), assistant("ok"), user("3")))
    driver.ask(body(user("hello"), assistant("two"), user("2"), assistant("ok"), user("4")))
    assert sessions(driver) == ["A", "B", "A", "B", "A", "B"]


@pytest.mark.parametrize("processes", [False, True], ids=["one process", "a process each"])
def test_agents_that_are_asked_the_same_go_on_each_in_its_own_session(processes: bool, tmp_path: Path) -> None:
    """A title by a small model, and two agents with tools of their own: in whatever order they go on."""
    agents: list[Json] = [{"model": "claude-haiku-4-5"}, {"tools": [tool("a")]}, {"tools": [tool("b")]}]
    one = Driver(tmp_path)
    said = [user("a"), assistant("b"), user("c"), assistant("d"), user("e")]
    for agent, count in [(0, 1), (1, 1), (2, 1), (2, 3), (0, 3), (1, 3), (2, 5), (1, 5), (0, 5)]:
        if processes:
            one.accel.close()
            one = Driver(tmp_path, clock=one.clock, emulator=one.emulator)
        one.ask(body(*said[:count], **agents[agent]))
    assert sessions(one) == [*"ABC", *"CAB", *"CBA"]


def test_examples_that_every_session_begins_with_do_not_join_them(driver: Driver) -> None:
    """A few-shot prompt is shared by all sessions of an agent."""
    examples = [user("2+2"), assistant("4"), user("3+3"), assistant("6")]
    driver.ask(body(*examples, user("1+1")))
    driver.ask(body(*examples, user("5+5")))
    driver.ask(body(*examples, user("1+1"), assistant("2"), user("and 2+1")))
    driver.ask(body(*examples, user("5+5"), assistant("10"), user("and 5+1")))
    assert sessions(driver) == ["A", "B", "A", "B"]


def test_a_state_dump_that_is_replaced_each_turn_does_not_split_a_session(driver: Driver) -> None:
    """The last reply is the way back where the end is replaced."""
    driver.ask(body(user("task"), assistant("ok"), user("state 1")))
    driver.ask(body(user("task"), assistant("ok"), user("result 1"), assistant("ok"), user("state 2")))
    assert sessions(driver) == ["A", "A"]


def test_an_edited_history_stays_in_its_session(driver: Driver) -> None:
    """The first exchange is the way back where later history is rewritten."""
    start = [user("task"), assistant("first reply"), user("x")]
    driver.ask(body(user("task")))
    driver.ask(body(*start))
    driver.ask(body(*start, assistant("y"), user("z")))
    driver.ask(body(user("task"), assistant("first reply"), user("[cleared]"), assistant("y"), user("z2")))
    assert sessions(driver) == ["A", "A", "A", "A"]


def test_a_rewind_stays_in_its_session(driver: Driver) -> None:
    """Going back to an earlier turn is not a new conversation."""
    driver.ask(body(user("a")))
    driver.ask(body(user("a"), assistant("b"), user("c")))
    driver.ask(body(user("a"), assistant("b"), user("c"), assistant("d"), user("e")))
    driver.ask(body(user("a"), assistant("b"), user("c"), assistant("d"), user("another e")))
    assert sessions(driver) == ["A"] * 4


def test_an_open_session_gathers_what_is_called_in_it(driver: Driver) -> None:
    """The one context variable says what lineage cannot know."""
    with driver.accel.session("ticket-1", agent="desk", tenant="acme"):
        driver.ask(body(user("a")))
        driver.ask(body(user("something else")))
    record = driver.records[-1]
    assert [one.session for one in driver.records] == ["@acme/ticket-1"] * 2
    assert (record.agent, record.tenant, record.parent) == ("desk", "acme", None)


def test_what_two_tenants_call_by_one_id_are_two_conversations(driver: Driver) -> None:
    """And so is what nobody in particular does; in another process, too."""
    other = Driver(driver.store.parent, clock=driver.clock, emulator=driver.emulator)
    for one in (driver, other):
        for tenant in ("acme", "umbrella", None, "acme"):
            with one.accel.session("ticket-1", tenant=tenant) as session:
                assert session.tenant == tenant
                one.ask(body(user(f"I am {tenant}.")))
        one.accel.close()
    found = Counter((record.session, record.tenant) for record in driver.records)
    assert found == {("@acme/ticket-1", "acme"): 4, ("@umbrella/ticket-1", "umbrella"): 2, ("ticket-1", None): 2}


@given(st.lists(st.tuples(NAMES, st.none() | NAMES), unique=True))
def test_no_two_sessions_have_one_id(opened: list[tuple[str, str | None]]) -> None:
    assert len({own_id(name, tenant) for name, tenant in opened}) == len(opened)


def test_a_session_opened_inside_another_names_it_as_its_parent(driver: Driver) -> None:
    """Sub-agents are told apart and kept together."""
    with driver.accel.session("main"):
        with driver.accel.session("helper", agent="helper"):
            driver.ask(body(user("a")))
        driver.ask(body(user("b")))
    assert [(one.session, one.parent) for one in driver.records] == [("helper", "main"), ("main", None)]


def test_bypassed_calls_go_out_as_written_and_say_so(driver: Driver) -> None:
    """One call can be bypassed."""
    request = body(user(prose(1500)))
    with driver.accel.bypass():
        driver.ask(request)
    assert driver.sent == request
    assert driver.records[0].mode == "bypass"


async def _parts(driver: Driver, around: AbstractContextManager[object]) -> AsyncGenerator[int, None]:
    """A sub-agent as a generator, which is inside of something while its reader looks at what it has so far."""
    with around:
        for part in range(3):
            driver.ask(body(user(f"part {part}")))
            yield part


async def _closed(parts: AsyncGenerator[int, None]) -> None:
    await parts.aclose()


def _broken_off(driver: Driver, around: AbstractContextManager[object]) -> None:
    """Inside a session, read a part and no more; asyncio ends the generator in a task, so in a context, of its own."""

    async def main() -> None:
        with driver.accel.session("outer", tenant="acme"):
            parts = _parts(driver, around)
            async for _ in parts:
                break
            await asyncio.create_task(_closed(parts))
            driver.ask(body(user("go on")))

    asyncio.run(main())


def test_a_session_that_was_left_elsewhere_does_not_hide_the_one_around_it(driver: Driver) -> None:
    """What is asked afterwards belongs to it, with its tenant."""
    _broken_off(driver, driver.accel.session("inner"))
    assert [(one.session, one.tenant) for one in driver.records] == [("inner", None), ("@acme/outer", "acme")]


def test_a_bypass_that_was_left_elsewhere_is_over(driver: Driver) -> None:
    """A worker that lives long would else be bypassed from there on, and nobody would be told."""
    _broken_off(driver, driver.accel.bypass())
    assert [one.mode for one in driver.records] == ["bypass", "on"]


def test_a_task_that_outlives_its_session_does_not_go_on_in_the_one_around_it(driver: Driver) -> None:
    """It may be another customer's. What such a task asks makes a session of its own."""

    async def main() -> None:
        async def ask(ready: asyncio.Event) -> None:
            driver.ask(body(user("first")))
            await ready.wait()
            driver.ask(body(user("second")))

        ready = asyncio.Event()
        with driver.accel.session("outer", tenant="acme"):
            with driver.accel.session("inner", tenant="umbrella"):
                task = asyncio.create_task(ask(ready))
                await asyncio.sleep(0)
            ready.set()
            await task
            driver.ask(body(user("third")))

    asyncio.run(main())
    assert [one.tenant for one in driver.records] == ["umbrella", None, "acme"]


@pytest.mark.parametrize("bypasses", [True, False])
def test_what_is_left_out_of_order_ends_and_leaves_the_others(driver: Driver, bypasses: bool) -> None:
    """Two generators that are read side by side: the first one ends before the second."""

    def parts(name: str) -> Iterator[str]:
        with driver.accel.bypass() if bypasses else driver.accel.session(name):
            yield name

    one, other = parts("one"), parts("other")
    with driver.accel.session("outer"):
        next(one)
        next(other)
        one.close()
        driver.ask(body(user("inside the second")))
        other.close()
        driver.ask(body(user("after both")))
    inside = ("bypass", "outer") if bypasses else ("on", "other")
    assert [(record.mode, record.session) for record in driver.records] == [inside, ("on", "outer")]


def test_a_task_that_was_started_in_a_bypass_stays_in_it(driver: Driver) -> None:
    """As it does in a session: what it does was meant to go out as written."""

    async def ask() -> None:
        driver.ask(body(user("go on")))

    async def main() -> None:
        with driver.accel.bypass(), driver.accel.bypass():
            task = asyncio.create_task(ask())
        await task

    asyncio.run(main())
    assert [one.mode for one in driver.records] == ["bypass"]


@pytest.mark.slow
def test_a_holdout_leaves_the_same_sessions_as_written_in_every_process(tmp_path: Path) -> None:
    """Chosen by a keyed hash of the session's id, so that all processes agree."""
    for day in range(2):
        clock = ManualClock(now=1_700_000_000.0 + day * 86_400)
        driver = Driver(tmp_path, policy=Policy(strict=True, holdout=0.5), clock=clock)
        for number in range(30):
            with driver.accel.session(f"session-{number}"):
                driver.ask(body(user(prose(1500, number))))
        driver.accel.close()
    records = driver.records
    modes = [[one.mode for one in records[:30]], [one.mode for one in records[30:]]]
    assert modes[0] == modes[1]
    assert 5 < modes[0].count("holdout") < 25
    assert all(one.markers == () for one in records if one.mode == "holdout")


def test_observe_changes_nothing_and_records_everything(tmp_path: Path) -> None:
    """Contract line 10."""
    driver = Driver(tmp_path, policy=Policy(strict=True, mode="observe"))
    request = body(user(prose(1500)))
    driver.ask(request)
    record = driver.records[0]
    assert driver.sent == request
    assert record.mode == "observe"
    assert record.expected is not None
