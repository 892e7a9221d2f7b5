"""Calls that look alike and are not the same call: each gets its own answer, and nothing of ours is raised."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from agentaccel import Accel, Policy, StorePolicy, ToolCall
from agentaccel.errors import ConfigError
from agentaccel.policy import ToolPolicy
from agentaccel.predict.identity import plain_bytes

CALL = ToolCall(name="find", arguments={"key": "x"})
ASKED = CALL.name, CALL.arguments


def accel(environ: dict[str, str] | None = None, **tools: Any) -> Accel:
    return Accel(Policy(tools=ToolPolicy(**tools), store=StorePolicy(enabled=False)), environ=environ or {})


def finds(accel: Accel, where: str) -> Callable[[str], Awaitable[str]]:
    """A tool called "find" that looks in its own place."""

    @accel.tool(name="find", effect="pure")
    async def find(key: str) -> str:
        return f"{key} in {where}"

    return find


def test_two_functions_of_one_name_answer_for_themselves() -> None:
    one = accel()
    here, there = finds(one, "here"), finds(one, "there")

    async def main() -> list[str]:
        async with one.session("s"):
            return [await here("x"), await there("x")]

    assert asyncio.run(main()) == ["x in here", "x in there"]


def test_a_function_from_outside_is_not_answered_by_the_session_s_own() -> None:
    one = accel()
    outer = finds(one, "the world")

    async def main() -> list[str]:
        async with one.session("s"):
            own = finds(one, "the session")
            return [await own("x"), await outer("x")]

    assert asyncio.run(main()) == ["x in the session", "x in the world"]


def test_the_same_function_wrapped_again_is_still_remembered() -> None:
    one, ran = accel(), list[str]()

    async def find(key: str) -> str:
        ran.append(key)
        return key

    declared = one.tool(effect="pure")(find)

    async def main() -> None:
        async with one.session("s"):
            await declared("x")
            for again in one.tools([declared, declared]):
                await again("x")

    asyncio.run(main())
    assert ran == ["x"]


def test_a_call_belongs_to_the_session_that_it_is_made_through() -> None:
    one = accel(effects={"find": "pure"})

    async def found(what: str) -> str:
        return what

    async def main() -> list[str]:
        async with one.session("a", tenant="a") as a, one.session("b", tenant="b") as b:
            of_b = await b.tool(*ASKED, lambda: found("for b"))
            return [
                of_b,
                await a.tool(*ASKED, lambda: found("for a")),
                await b.tool(*ASKED, lambda: found("again")),
            ]

    assert asyncio.run(main()) == ["for b", "for a", "for b"]


def test_an_answer_of_one_tenant_never_reaches_another_by_the_id_of_a_session() -> None:
    one = accel(effects={"find": "pure"})

    async def found(what: str) -> str:
        return what

    async def main() -> list[str]:
        async with one.session("s", tenant="a") as a, one.session("s", tenant="b") as b, one.session("s") as nobody:
            return [await each.tool(*ASKED, partial(found, f"{each.tenant}'s")) for each in (a, b, nobody, a)]

    assert asyncio.run(main()) == ["a's", "b's", "None's", "a's"]


def test_removed_means_that_nothing_is_remembered() -> None:
    async def main(one: Accel) -> int:
        ran = list[int]()

        async def find() -> int:
            ran.append(1)
            return len(ran)

        async with one.session("s") as session:
            await session.tool(*ASKED, find)
            return await session.tool(*ASKED, find)

    assert asyncio.run(main(accel({"AGENTACCEL_DISABLE": "1"}, effects={"find": "pure"}))) == 2
    assert asyncio.run(main(accel(effects={"find": "pure"}))) == 1


def test_arguments_of_any_name_are_not_taken_for_one_of_that_name() -> None:
    one = accel()

    @one.tool(effect="pure")
    async def find(key: str, **more: Any) -> str:
        return f"{key} {more}"

    async def main() -> list[str]:
        async with one.session("s"):
            return [await find("x", a=1), await find(key="x", more={"a": 1}), await find(key="x", a=1)]

    first, second, third = asyncio.run(main())
    assert (first, third) == ("x {'a': 1}",) * 2
    assert second == "x {'more': {'a': 1}}"


def test_a_call_that_the_tool_would_refuse_is_not_answered() -> None:
    one = accel()

    @one.tool(effect="pure")
    async def find(key: str, /, limit: int = 1) -> str:
        return key

    async def main() -> None:
        async with one.session("s"):
            await find("x", limit=2)
            with pytest.raises(TypeError, match="positional-only"):
                await find(key="x", limit=2)  # type: ignore[call-arg]

    asyncio.run(main())


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("not to be shown")


def inside_itself() -> list[Any]:
    whole: list[Any] = []
    whole.append(whole)
    return whole


def deep(levels: int) -> list[Any]:
    whole: list[Any] = []
    for _ in range(levels):
        whole = [whole]
    return whole


ODD = [Unshowable(), {1: "a", "b": 2}, inside_itself(), deep(5000)]


@pytest.mark.parametrize("odd", ODD, ids=["unshowable", "mixed keys", "inside itself", "deep"])
@pytest.mark.parametrize("declared", [{}, {"effect": "pure"}], ids=["may write", "pure"])
def test_whatever_is_given_and_returned_goes_through_untouched(odd: Any, declared: dict[str, Any]) -> None:
    one = accel()

    @one.tool(**declared)
    async def echo(what: Any) -> Any:
        return what

    async def main() -> bool:
        async with one.session("s"):
            inside = await echo(odd)
        return inside is odd and await echo(what=odd) is odd

    assert asyncio.run(main())


@pytest.mark.parametrize("odd", ODD[1:], ids=["mixed keys", "inside itself", "deep"])
def test_a_result_that_is_not_plain_is_not_remembered(odd: Any) -> None:
    one, ran = accel(), list[str]()

    @one.tool(effect="pure")
    async def find(key: str) -> Any:
        ran.append(key)
        return odd

    async def main() -> None:
        async with one.session("s"):
            await find("x")
            assert await find("x") is odd

    asyncio.run(main())
    assert len(ran) == 2


def test_what_is_remembered_is_bounded_in_size() -> None:
    """And the look at a large result ends there, so it costs its caller nothing."""
    assert plain_bytes(["x" * 40] * 2, 100) is not None
    assert plain_bytes(["x" * 40] * 3, 100) is None
    shared: Any = ["x"]
    for _ in range(200):
        shared = [shared, shared]
    assert plain_bytes(shared, 1_000_000) is None, "it would be as long as 2 to the 200"


@pytest.mark.parametrize(
    "value", [1, True, 1.0, -0.0, "é", "e\u0301", 2**70, "\ud800", None, [1e300], {"b": 1, "a": 2}]
)
def test_what_is_remembered_comes_back_as_it_was(value: Any) -> None:
    one = accel()

    @one.tool(effect="pure")
    async def echo(what: Any) -> Any:
        return what

    async def main() -> list[str]:
        async with one.session("s"):
            return [repr(await echo(value)) for _ in range(3)]

    assert asyncio.run(main()) == [repr(value)] * 3


def test_versions_that_cannot_be_compared_serve_nothing() -> None:
    class Stubborn:
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            raise ValueError("more than one value")

    one, ran = accel(), list[str]()

    @one.tool(effect="read_local", validator=lambda arguments: Stubborn())  # type: ignore[arg-type, return-value]
    async def find(key: str) -> str:
        ran.append(key)
        return key

    async def main() -> None:
        async with one.session("s"):
            await find("x")
            await find("x")

    asyncio.run(main())
    assert len(ran) == 2


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"max_age": 0}, "a number of seconds above 0"),
        ({"max_age": float("nan")}, "a number of seconds above 0"),
        ({"max_age": "60"}, "a number of seconds above 0"),
        ({"concurrent": "yes"}, "True or False"),
        ({"validator": 5}, "a function"),
        ({"scope": ["mails"]}, "a name"),
        ({"kind": "bash"}, "'shell', 'sql', 'http', 'mcp'"),
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_is_declared(declared: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        accel().tool(name="find", **declared)
