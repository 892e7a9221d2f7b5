"""Uses the public API and is never run: mypy and pyright check that users get the types that they gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, assert_type

from anthropic import Anthropic, AsyncAnthropic

import agentaccel
from agentaccel import (
    Accel,
    CachePlan,
    CachePolicy,
    ConfigError,
    Effect,
    HistoryPolicy,
    Policy,
    Session,
    StorePolicy,
    ToolPolicy,
    ToolRecord,
    ToolSpec,
    Turn,
    TurnRecord,
    Usage,
)
from agentaccel.errors import UnknownModel
from agentaccel.hooks import Listener, Told
from agentaccel.otel import export
from agentaccel.rewrite import extractive
from agentaccel.selfhost.hints import Hints
from agentaccel.testing import ManualClock, SystemClock
from agentaccel.turn import Command, Finished, Reported, Started
from agentaccel.types import Cause, Drift, Expected, Marker, Miss


class OwnClient(AsyncAnthropic):
    """A class of the user's own."""


def search(query: str, limit: int = 10) -> list[str]:
    return [query] * limit


async def book(seat: int) -> bool:
    return seat > 0


def clients(accel: Accel) -> None:
    """A wrapped client has the class of the one that was given."""
    assert_type(accel.wrap(AsyncAnthropic()), AsyncAnthropic)
    assert_type(accel.wrap(Anthropic()), Anthropic)
    assert_type(accel.wrap(OwnClient()), OwnClient)
    assert_type(accel.wrap(Anthropic()).with_options(timeout=5.0), Anthropic)


async def tools(accel: Accel) -> None:
    """Tools have the signatures that they had."""
    found = accel.tools({"search": search})["search"]
    assert_type(found("lamps", limit=3), list[str])
    assert_type(await accel.tools([book])[0](7), bool)

    @accel.tool
    def bare(number: int) -> str:
        return str(number)

    @accel.tool(name="look_up", effect=Effect.READ_LOCAL)
    async def declared(number: int) -> bytes:
        return bytes(number)

    assert_type(bare(1), str)
    assert_type(await declared(1), bytes)
    mixed: dict[str, Callable[..., Any]] = {"search": search, "book": book}
    assert_type(accel.tools(mixed), dict[str, Callable[..., Any]])


class Box:
    """Callable objects, and methods of theirs."""

    def __call__(self, number: int) -> int:
        return number

    def look(self, name: str) -> bytes:
        return name.encode()

    async def wait(self) -> None:
        pass


def mixed_tables(accel: Accel, box: Box) -> list[Callable[..., Any]]:
    """A table may hold functions of several kinds and signatures: each can then be called with anything."""
    table: Mapping[str, Callable[..., Any]] = accel.tools({"search": search, "book": book})
    assert table
    accel.tools({"search": search, "box": box, "look": box.look, "wait": box.wait, "same": lambda it: it})
    accel.tools((search, book))
    return [*accel.tools([search, book]), *accel.tools([search, box, box.look, lambda it: it])]


def effects(accel: Accel, anywhere: Callable[..., Any]) -> list[Policy]:
    """Every effect can be said by its value, by its member, or by a function; no other word can."""
    accel.tool(effect="pure")(search)
    accel.tool(effect="read_local")(search)
    accel.tool(effect="read_remote")(search)
    accel.tool(effect="sandboxable")(search)
    accel.tool(effect="reversible")(search)
    accel.tool(effect="unknown")(search)
    accel.tool(effect=lambda given: "read_remote" if given.get("method") == "GET" else "unknown")(search)
    accel.tool(effect=lambda given: Effect.PURE if given else "unknown")(search)
    ToolSpec(effect="read_local", kind="sql")
    return [Policy(tools=ToolPolicy(effects={"search": "read_remote", "book": Effect.UNKNOWN}))]


def what_no_checker_takes(accel: Accel) -> None:
    """Each of these lines is an error; mypy says so where an ignore is not needed."""
    accel.tool(effect="reed")(search)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    accel.tool(effect=lambda given: "reed")(search)  # type: ignore[arg-type, return-value]  # pyright: ignore[reportArgumentType]
    ToolSpec(effect="reed")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ToolSpec(kind="sqll")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ToolPolicy(effects={"search": "reed"})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    Policy(mode="obsrve")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    accel.tools({"search": 3})  # type: ignore[type-var]  # pyright: ignore[reportCallIssue, reportArgumentType]
    accel.tools("search")  # type: ignore[type-var]  # pyright: ignore[reportCallIssue, reportArgumentType]


async def sessions(accel: Accel) -> None:
    """Sessions are context managers of both kinds, and hand back what a tool returned."""
    with accel.session("one", agent="a", tenant="t", parent="p") as session:
        assert_type(session, Session)
        assert_type((session.id, session.agent), tuple[str, str | None])
        assert_type(
            session.prewarm(AsyncAnthropic().messages.create, model="claude-sonnet-5", system="Be brief."), None
        )
    async with accel.session("two") as session:
        assert_type(await session.tool("book", {"seat": 1}, lambda: book(1)), bool)
    with accel.bypass():
        pass


def own_http(accel: Accel) -> None:
    """Plans and turns of people with their own HTTP."""
    request: dict[str, Any] = {"model": "claude-sonnet-5", "max_tokens": 1, "messages": []}
    plan = accel.plan(request, provider="anthropic", platform="api")
    assert_type(plan, CachePlan)
    assert_type(plan.markers, tuple[Marker, ...])
    assert_type(plan.expected, Expected | None)
    assert_type(plan.apply(request)["model"], Any)
    turn = accel.turn(request)
    assert_type(turn, Turn)
    assert_type(turn.handle(Started(0.0)), list[Command])
    turn.handle(Reported(usage=Usage(input=3, read=0, write={"5m": 3}, output=1)))
    turn.handle(Finished(1.0))
    assert_type(Usage().uncached, int | None)


async def servers(accel: Accel) -> None:
    backend = accel.backend(["http://127.0.0.1:8000/v1"], headers={"authorization": "Bearer k"})
    assert_type(await backend.ready(), bool)
    async with backend.observe() as seen:
        assert_type(seen.figures.hit_rate, float | None)
    async with backend.observe(since=seen):
        pass
    assert_type(backend.server.version, str | None)
    assert_type(dict(backend.hints(Hints(priority=1)).headers), dict[str, str])


def settings() -> Accel:
    """Every choice that a policy offers."""
    policy = Policy(
        mode="observe",
        holdout=0.05,
        cache=CachePolicy(ttl="1h", diagnostics=True),
        history=HistoryPolicy(clear_results=True, keep_results=5, pinned_tools=("read",), distil=extractive),
        store=StorePolicy(path=Path("trace.db"), enabled=True, content=False, max_bytes=2**20),
        aliases={"prod": "claude-opus-5"},
        prices={"prod": {"input": 3, "output": 15.0, "read": 0.3, "write": {"5m": 3.75}}},
        strict=True,
    )
    with Accel(policy, clock=ManualClock()) as accel:
        assert_type(accel, Accel)
    return Accel(clock=SystemClock())


def records(turn: TurnRecord, tool: ToolRecord, drift: Drift) -> tuple[str, ...]:
    """What readers of the trace store get."""
    assert_type(turn.usage.read, int | None)
    assert_type(turn.misses, tuple[Miss, ...])
    causes: list[Cause] = [miss.cause for miss in turn.misses]
    return (tool.key, drift.likely, *causes)


def errors(accel: Accel) -> str:
    """Errors say what to do, and some carry what they are about."""
    try:
        accel.plan({})
    except UnknownModel as error:
        return error.model
    except ConfigError as error:
        return str(error)
    return agentaccel.__version__


class Counting:
    """A listener of the user's own."""

    tokens = 0

    def begins(self, at: float, tool: str | None) -> object:
        return tool

    def ended(self, began: object, told: Told | None) -> None:
        if told is not None and isinstance(told.record, TurnRecord):
            self.tokens += told.record.usage.input or 0


def listening(accel: Accel) -> None:
    """Functions are hooks, and so is any object with the two methods; exports need no arguments."""
    listener: Listener = Counting()
    accel.add_hook(listener)
    accel.add_hook(Counting())
    accel.add_hook(print)
    export(accel)
    told: list[Told] = []
    Accel(hooks=[told.append, Counting()])


async def left(policy: Policy) -> None:
    """Both kinds of `with`, and both ways to close."""
    async with Accel(policy) as accel:
        assert_type(accel, Accel)
    assert_type(await accel.aclose(), None)
