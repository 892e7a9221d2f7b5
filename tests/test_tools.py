"""Touch point 2: tools run as before, and every run is recorded."""

from __future__ import annotations

import asyncio
import functools
import inspect
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentaccel import Accel, ConfigError, Effect, Policy, StorePolicy, ToolCall, ToolRecord
from agentaccel.effects.spec import ToolSpec, spec_of
from agentaccel.store.store import open_reader
from agentaccel.testing.inside import engine


@pytest.fixture
def accel(tmp_path: Path) -> Accel:
    return Accel(Policy(strict=True, store=StorePolicy(path=tmp_path / "trace.db")))


def recorded(accel: Accel) -> list[ToolRecord]:
    store = engine(accel).recorder.store
    assert store is not None
    with open_reader(store.path) as reader:
        return list(reader.tools())


def search(query: str, limit: int = 10) -> str:
    """Find things."""
    return f"{query}:{limit}"


async def search_async(query: str, limit: int = 10) -> str:
    """Find things, later."""
    return f"{query}:{limit}"


def test_a_wrapped_table_is_a_table_of_the_same_functions(accel: Accel) -> None:
    """Name, docstring and signature stay, so schema generators see no difference."""
    tools = accel.tools({"find": search, "find_later": search_async})
    assert list(tools) == ["find", "find_later"]
    for original, wrapped in zip((search, search_async), tools.values(), strict=True):
        assert wrapped.__name__ == original.__name__
        assert wrapped.__doc__ == original.__doc__
        assert inspect.signature(wrapped) == inspect.signature(original)
        assert inspect.iscoroutinefunction(wrapped) == inspect.iscoroutinefunction(original)


def test_a_list_of_tools_stays_a_list(accel: Accel) -> None:
    """Typed to return what they got."""
    assert [tool("a") for tool in accel.tools([search])] == ["a:10"]


async def test_runs_are_recorded_under_the_table_name_with_outcome_and_times(accel: Accel) -> None:
    """Sync and async alike."""
    tools = accel.tools({"find": search, "find_later": search_async})
    assert tools["find"]("a") == "a:10"
    assert await tools["find_later"](query="a") == "a:10"
    first, second = recorded(accel)
    assert (first.name, first.outcome, second.name, second.outcome) == ("find", "ok", "find_later", "ok")
    assert first.finished is not None
    assert first.finished >= first.started


def test_arguments_by_position_and_by_name_are_one_call(accel: Accel) -> None:
    """The key is of the call that the model made."""
    find = accel.tools({"find": search})["find"]
    find("a", 5)
    find(query="a", limit=5)
    find(limit=5, query="a")
    assert len({record.key for record in recorded(accel)}) == 1


async def test_exceptions_pass_untouched_and_are_recorded(accel: Accel) -> None:
    """The very object, sync and async."""
    failure = RuntimeError("no such order")

    def broken() -> None:
        raise failure

    async def broken_later() -> None:
        raise failure

    tools: dict[str, Any] = accel.tools({"broken": broken, "broken_later": broken_later})
    with pytest.raises(RuntimeError) as caught:
        tools["broken"]()
    assert caught.value is failure
    with pytest.raises(RuntimeError) as caught:
        await tools["broken_later"]()
    assert caught.value is failure
    assert [(one.outcome, one.error) for one in recorded(accel)] == [("failed", "RuntimeError")] * 2


def test_a_tool_that_is_interrupted_is_recorded_as_cancelled(accel: Accel) -> None:
    """As a request to a model is: nobody has failed, somebody wants it to end."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        accel.tools({"t": interrupted})["t"]()
    assert [(one.outcome, one.error) for one in recorded(accel)] == [("cancelled", "KeyboardInterrupt")]


async def test_a_cancelled_tool_is_recorded_as_cancelled(accel: Accel) -> None:
    """And stays cancelled."""
    began = asyncio.Event()

    async def slow() -> None:
        began.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(accel.tools({"slow": slow})["slow"]())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [one.outcome for one in recorded(accel)] == ["cancelled"]


async def test_a_callable_that_hands_out_a_coroutine_is_recorded_once_when_it_is_done(accel: Accel) -> None:
    """`functools.partial` and callable objects."""
    tools = accel.tools({"partial": functools.partial(search_async, "a")})
    pending = tools["partial"]()
    assert recorded(accel) == []
    assert await pending == "a:10"
    assert [one.name for one in recorded(accel)] == ["partial"]


def test_none_is_a_result_like_any_other(accel: Accel) -> None:
    """A tool may return None."""
    assert accel.tools({"nothing": lambda: None})["nothing"]() is None
    assert recorded(accel)[0].outcome == "ok"


def test_wrong_arguments_raise_what_the_tool_raises(accel: Accel) -> None:
    """The tool itself is the one to complain."""
    find: Any = accel.tools({"find": search})["find"]
    with pytest.raises(TypeError, match="unexpected keyword"):
        find("a", nonsense=1)


def test_the_decorator_takes_a_declaration_and_keeps_it(accel: Accel) -> None:
    """Declared in code is user policy."""

    @accel.tool(effect="read_local", name="finder")
    def find(query: str) -> str:
        return query

    @accel.tool
    def plain(query: str) -> str:
        return query

    assert (find("a"), plain("b")) == ("a", "b")
    assert spec_of(find) == ToolSpec(effect=Effect.READ_LOCAL)
    assert spec_of(plain) == ToolSpec()
    assert [one.name for one in recorded(accel)] == ["finder", "plain"]


def test_an_unknown_effect_is_a_clear_error(accel: Accel) -> None:
    """At construction, with what there is."""
    with pytest.raises(ConfigError, match="read_local"):
        accel.tool(effect="harmless")


def test_what_cannot_be_called_is_no_tool(accel: Accel) -> None:
    """At construction."""
    wrong: Any = {"x": 3}
    with pytest.raises(ConfigError, match="callable"):
        accel.tools(wrong)


async def test_a_session_runs_a_call_through_its_executor_and_records_it(accel: Accel) -> None:
    """`Session.tool`, for loops with an executor of their own."""
    async with accel.session("s") as session:
        result = await session.tool("t", {"a": 1}, lambda: search_async("x"))
    assert result == "x:10"
    assert [(one.session, one.name) for one in recorded(accel)] == [("s", "t")]
    assert await session.tool("t", {}, lambda: search_async("y")) == "y:10"
    assert len(recorded(accel)) == 1


async def test_the_former_form_of_a_sessions_tool_runs_the_call_and_says_so(accel: Accel) -> None:
    """A `ToolCall` and a function, by place or by name, for one minor version."""
    one = ToolCall(name="t", arguments={"a": 1}, id="toolu_1")
    async with accel.session("s") as session:
        former: Any = session.tool
        run = partial(search_async, "x")
        for given, named in (((one, run), {}), ((one,), {"execute": run}), ((), {"call": one, "execute": run})):
            with pytest.warns(DeprecationWarning, match=r"is now Session\.tool\(name, arguments, execute\)"):
                assert await former(*given, **named) == "x:10"
    assert [(row.session, row.name) for row in recorded(accel)] == [("s", "t")] * 3


async def test_what_a_sessions_tool_cannot_run_is_refused_in_words(accel: Accel) -> None:
    """Without a name or a function there is nothing to answer by."""
    async with accel.session("s") as session:
        wrong: Any = session.tool
        for given in (("t", {"a": 1}), (7, {}, partial(search_async, "x")), ()):
            with pytest.raises(ConfigError, match="tool takes a name, arguments and a function"):
                await wrong(*given)
    assert not recorded(accel)


async def test_a_framework_runs_a_call_through_its_executor_and_has_it_recorded(accel: Accel) -> None:
    """`Accel.call_tool`, in a session and in none, and its twin for plain functions; what is raised is raised."""
    async with accel.session("s"):
        assert await accel.call_tool("t", {"a": 1}, partial(search_async, "x"), id="toolu_1") == "x:10"
    assert accel.call_tool_sync("u", {}, lambda: "here") == "here"
    with pytest.raises(ZeroDivisionError):
        accel.call_tool_sync("v", {}, lambda: 1 // 0)
    rows = [(one.session, one.name, one.outcome) for one in recorded(accel)]
    assert rows == [("s", "t", "ok"), ("", "u", "ok"), ("", "v", "failed")]
    wrong: Any = accel.call_tool_sync
    with pytest.raises(ConfigError, match="tool takes a name, arguments and a function"):
        wrong(7, {}, lambda: None)


async def test_switched_off_a_framework_runs_its_tools_and_nothing_else() -> None:
    with Accel(Policy(mode="off")) as off:
        assert await off.call_tool("t", {}, partial(search_async, "x")) == "x:10"
        assert off.call_tool_sync("t", {}, lambda: 7) == 7


async def test_concurrent_sessions_record_their_own_tools(accel: Accel) -> None:
    """One context variable, two tasks held in mid-flight."""
    gate = asyncio.Event()
    ready = [asyncio.Event(), asyncio.Event()]

    async def tool(number: int) -> int:
        ready[number].set()
        await gate.wait()
        return number

    run = accel.tools({"t": tool})["t"]

    async def agent(number: int) -> None:
        async with accel.session(f"s{number}"):
            assert await run(number) == number

    async with asyncio.TaskGroup() as group:
        for number in range(2):
            group.create_task(agent(number))
        for event in ready:
            await event.wait()
        gate.set()
    assert sorted(one.session for one in recorded(accel)) == ["s0", "s1"]


def test_off_hands_tools_back_as_they_were(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`AGENTACCEL_DISABLE=1` removes us."""
    monkeypatch.setenv("AGENTACCEL_DISABLE", "1")
    accel = Accel(Policy(store=StorePolicy(path=tmp_path / "trace.db")))
    assert accel.tools({"find": search})["find"] is search
    assert accel.tool(search) is search
    with accel.session("s"):
        pass
    assert not (tmp_path / "trace.db").exists()
