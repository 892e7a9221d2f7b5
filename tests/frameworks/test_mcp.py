"""`agentaccel_mcp`: sessions of MCP, of both major versions, are what they were, and tools begin early where that is
proven. Servers run in this process, over streams in memory."""

from __future__ import annotations

import asyncio
import functools
import inspect
import json
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("mcp", reason="mcp is in another environment")

import anthropic
import mcp
from anyio import ClosedResourceError
from mcp.client.stdio import stdio_client
from mcp.types import ToolAnnotations

from agentaccel import Accel, CachePolicy, ConfigError, Policy, StorePolicy, ToolPolicy, ToolRecord
from agentaccel.effects.spec import running_early
from agentaccel.testing.conformance import GATED, READS, Ask, Setting, assert_conforms, faults
from agentaccel.testing.inside import speculator
from agentaccel_emulator import Conversation, Script, ScriptedReply, call, say, serve
from agentaccel_mcp import unwrap, wrap
from tests.frameworks.early import NO_DECLARATIONS

NEW = hasattr(mcp, "Client")
HOLDERS = ("session", "client") if NEW else ("session",)
"""What may be wrapped: a `ClientSession`, and the `Client` of mcp 2, which speaks a newer protocol."""

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]


def server(name: str) -> Any:
    if NEW:
        from mcp.server.mcpserver import MCPServer

        return MCPServer(name)
    from mcp.server.fastmcp import FastMCP

    return FastMCP(name)


@asynccontextmanager
async def connected(made: Any, holder: str = "session", **options: Any) -> AsyncIterator[Any]:
    """A session with a server of this process."""
    if NEW:
        async with mcp.Client(made, mode="auto" if holder == "client" else "legacy", **options) as client:
            yield client if holder == "client" else client.session
        return
    from mcp.shared.memory import create_connected_server_and_client_session

    async with create_connected_server_and_client_session(made, **options) as session:
        yield session


def hints(**said: bool) -> Any:
    """Annotations, which each version spells in its own way; one of them takes both."""
    return ToolAnnotations.model_validate({f"{name}Hint": value for name, value in said.items()})


@dataclass
class Desk:
    """A server with tools, and what has happened at it, in order."""

    name: str = "desk"
    events: list[str] = field(default_factory=list)
    waiting: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.server = server(self.name)
        for tool, said in (
            ("look", hints(readOnly=True, openWorld=False)),
            ("search", hints(readOnly=True)),
            ("plain", None),
            ("pay", hints(readOnly=False, destructive=True)),
            ("fails", hints(readOnly=True)),
            ("waits", hints(readOnly=True)),
        ):
            self.add(tool, said)

    def add(self, tool: str, said: Any, description: str = "Look at something.") -> None:
        async def run(key: str) -> str:
            self.events.append(f"ran {tool}")
            if tool == "fails":
                raise LookupError(f"no {key}")
            if tool == "waits":
                self.waiting.set()
                await asyncio.Event().wait()
            return f"{self.name}: {tool} {key}"

        self.server.add_tool(run, name=tool, description=description, annotations=said)

    def change(self, tool: str, said: Any, description: str) -> None:
        self.server.remove_tool(tool)
        self.add(tool, said, description)

    def ran(self, tool: str) -> int:
        return self.events.count(f"ran {tool}")

    @property
    def early(self) -> set[str]:
        """Tools that have run before the loop has asked for them."""
        asked = {event.removeprefix("asked ") for event in self.events if event.startswith("asked ")}
        firsts = [
            (self.events.index(f"ran {one}"), self.events.index(f"asked {one}")) for one in asked if self.ran(one)
        ]
        return {self.events[ran].removeprefix("ran ") for ran, one in firsts if ran < one}


STEPS = 300
"""Of the event loop, that a call takes at most to come to a server and back."""


async def settled(accel: Accel | None) -> None:
    """What is begun early has begun, and has come to the server: all of them are in this event loop."""
    while accel is not None and speculator(accel).launcher.serving.judging._waiting:  # noqa: ASYNC110 - of a thread
        await asyncio.sleep(0)
    for _ in range(STEPS):
        await asyncio.sleep(0)


def asks_for(*names: str) -> ScriptedReply:
    return ScriptedReply(content=tuple(block for name in names for block in call(name, {"key": "a"}).content))


INSIDE = Policy(
    cache=CachePolicy(freeze_tools=True),
    tools=ToolPolicy(speculate=False),
    stream_inside=True,
    strict=True,
    store=StorePolicy(enabled=False),
)


@dataclass
class Loop:
    """An agent by hand: its model asks for these tools at once, as often as it is asked."""

    names: tuple[str, ...]
    accel: Accel | None = None
    records: list[ToolRecord] = field(default_factory=list)
    client: Any = None
    before: Callable[[], Awaitable[None]] | None = None
    """Called before each call of a tool."""
    of: Callable[[str], tuple[Desk, Any, str]] = lambda name: (_ for _ in ()).throw(LookupError(name))
    """The desk, the session and the tool that are meant by a name."""

    async def go(self, **options: Any) -> list[Any]:
        tools = [{"name": name, "description": "", "input_schema": {"type": "object"}} for name in self.names]
        reply = await self.client.messages.create(
            model="claude-sonnet-5", max_tokens=500, tools=tools, messages=[{"role": "user", "content": "Go"}]
        )
        results = []
        for asked in [one for one in reply.content if one.type == "tool_use"]:
            await settled(self.accel)
            if self.before is not None:
                await self.before()
            desk, session, tool = self.of(asked.name)
            desk.events.append(f"asked {tool}")
            results.append(await session.call_tool(tool, asked.input, **options))
        return [one.model_dump(mode="json") for one in results]


@asynccontextmanager
async def looping(*names: str, policy: Policy | None = INSIDE) -> AsyncIterator[Loop]:
    """A loop, with agentaccel where there is a policy."""
    loop = Loop(names)
    with serve(
        script=Script(conversations=(Conversation(match="Go", replies=(asks_for(*names), say("Done.")) * 9),))
    ) as emulator:
        async with AsyncExitStack() as stack:
            bare = anthropic.AsyncAnthropic(base_url=emulator.url, api_key="k", max_retries=0)
            loop.client = await stack.enter_async_context(bare)
            if policy is not None:
                loop.accel = stack.enter_context(
                    Accel(policy, environ={}, hooks=[lambda told: loop.records.append(told.record)])
                )
                loop.client = loop.accel.wrap(bare)
            yield loop


def one_desk(loop: Loop, desk: Desk, session: Any) -> None:
    loop.of = lambda name: (desk, session, name)


async def held(
    *names: str, holder: str = "session", policy: Policy | None = INSIDE, times: int = 1, **declared: Any
) -> tuple[Desk, list[Any], list[ToolRecord]]:
    """What comes of asking for these tools so often."""
    desk = Desk()
    async with looping(*names, policy=policy) as loop, connected(desk.server, holder) as session:
        if loop.accel is not None:
            assert await wrap(session, loop.accel, server="desk", **declared) is session
        one_desk(loop, desk, session)
        results = [await loop.go() for _ in range(times)]
        if loop.accel is not None:
            await asyncio.to_thread(loop.accel.flush)
    return desk, results, [one for one in loop.records if isinstance(one, ToolRecord)]


NAMES = ("look", "search", "plain", "pay")


DECLARED: dict[str, tuple[dict[str, Any], set[str]]] = {
    "a server that is trusted": ({"trusted": True}, {"look", "search"}),
    "one that is not": ({"trusted": False}, set()),
    "a tool that somebody may stop": ({"trusted": True, "needs_approval": ["look"]}, {"search"}),
    "the word of the user": ({"reads": ["plain"]}, {"plain"}),
    "what the user says more": ({"reads": {"plain": {"sequential": True}}}, set()),
    "all of them": ({"trusted": True, "reads": ["pay"], "needs_approval": ["search"]}, {"look", "pay"}),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("which", DECLARED)
async def test_what_a_trusted_server_says_that_it_reads_begins_early_and_nothing_else(holder: str, which: str) -> None:
    """Each call runs once, and gives what it gave. The user's word counts also for a tool of which its server says that
    it destroys: behind `plain`, which may write, it begins once that has ended."""
    declared, early = DECLARED[which]
    names = ("plain", "look", "search") if declared.get("reads") == ["plain"] else NAMES
    _, bare, _ = await held(*names, holder=holder, policy=None)
    desk, results, records = await held(*names, holder=holder, **declared)
    assert desk.early == early
    assert results == bare
    assert [desk.ran(name) for name in names] == [1] * len(names)
    assert sorted(one.name for one in records if not one.speculative) == sorted(names)
    assert {one.name for one in records if one.served_from == "asked"} == early


async def test_a_hint_counts_in_either_spelling_and_only_where_it_is_true() -> None:
    """Whichever version is installed; a hint that is a text is none."""
    for said, early in (
        ({"readOnlyHint": True}, True),
        ({"read_only_hint": True}, True),
        ({"readOnlyHint": True, "read_only_hint": False}, False),
        ({"readOnlyHint": "true"}, False),
    ):
        desk = Desk()
        async with looping("other") as loop, connected(desk.server) as session:
            assert loop.accel is not None
            listing = {"name": "other", "inputSchema": {"type": "object"}, "annotations": said}
            desk.add("other", None)
            own = session.list_tools

            async def listed(*args: Any, own: Any = own, listing: Any = listing, **options: Any) -> Any:
                page = await own(*args, **options)
                return page.model_copy(update={"tools": [listing]})  # as a subclass of a session may

            vars(session)["list_tools"] = listed
            await wrap(session, loop.accel, server="desk", trusted=True)
            one_desk(loop, desk, session)
            await loop.go()
            unwrap(session)
            assert vars(session)["list_tools"] is listed
        assert desk.early == ({"other"} if early else set()), said


# --- Lists that change ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", [hints(readOnly=True, openWorld=False), None], ids=["the same", "another word"])
async def test_a_tool_of_which_its_server_says_something_else_is_not_begun_early_again(changed: Any) -> None:
    desk = Desk()
    async with looping("search", "look") as loop, connected(desk.server) as session:
        assert loop.accel is not None
        await wrap(session, loop.accel, server="desk", trusted=True)
        one_desk(loop, desk, session)
        await loop.go()
        assert desk.early == {"look", "search"}
        desk.change("look", changed, "Look at something." if changed else "Look at something, and more.")
        await session.list_tools()
        desk.events.clear()
        await loop.go()
        assert desk.early == ({"look", "search"} if changed else {"search"})
        desk.change("look", hints(readOnly=True, openWorld=False), "Look at something.")
        await session.list_tools()
        desk.events.clear()
        await loop.go()
        assert desk.early == ({"look", "search"} if changed else {"search"})


async def test_it_is_not_either_over_another_session_with_that_server(caplog: pytest.LogCaptureFixture) -> None:
    desk, early = Desk(), []
    async with looping("search", "look") as loop:
        assert loop.accel is not None
        for said in ("Look at something.", "Look at something.", "Look at something else."):
            desk.change("look", hints(readOnly=True, openWorld=False), said)
            desk.events.clear()
            async with connected(desk.server) as session:
                await wrap(session, loop.accel, server="desk", trusted=True)
                one_desk(loop, desk, session)
                await loop.go()
            early.append(desk.early)
    assert early == [{"look", "search"}, {"look", "search"}, {"search"}]
    assert caplog.text.count("'desk' says something else of 'look' than before") == 1


async def test_once_a_server_says_that_its_tools_have_changed_none_begins_early_until_they_are_listed_anew() -> None:
    desk, heard = Desk(), list[str]()

    async def hear(message: Any) -> None:
        heard.append(type(getattr(message, "root", message)).__name__)

    async def announce(key: str, ctx: Any) -> str:
        await ctx.session.send_tool_list_changed()
        return "announced"

    if NEW:
        from mcp.server.mcpserver import Context
    else:
        from mcp.server.fastmcp import Context
    announce.__annotations__["ctx"] = Context
    desk.server.add_tool(announce, name="announce")
    async with looping("look") as loop, connected(desk.server, message_handler=hear) as session:
        assert loop.accel is not None
        await wrap(session, loop.accel, server="desk", trusted=True)
        one_desk(loop, desk, session)
        await session.call_tool("announce", {"key": "a"})
        await settled(loop.accel)
        assert heard == ["ToolListChangedNotification"]
        early = []
        for relists in (False, True, False):
            if relists:
                await session.list_tools()
            desk.events.clear()
            await loop.go()
            early.append(desk.early)
        assert early == [set(), {"look"}, {"look"}]


# --- Calls that are more than their arguments -------------------------------------------------------------------------


async def progress(*said: Any) -> None: ...


MORE: dict[str, Any] = {
    "progress_callback": progress,
    "read_timeout_seconds": 60.0 if NEW else timedelta(seconds=60),
    "meta": {"a": 1},
    **({"input_responses": {}} if NEW else {}),
}


@pytest.mark.parametrize("option", MORE)
@pytest.mark.parametrize("holder", HOLDERS)
async def test_a_call_with_more_than_arguments_always_runs_and_its_tool_does_not_begin_early_again(
    option: str, holder: str
) -> None:
    desk = Desk()
    async with looping("look", "search") as loop, connected(desk.server, holder) as session:
        assert loop.accel is not None
        await wrap(session, loop.accel, server="desk", trusted=True)
        loop.of = lambda name: (desk, session, name)
        await loop.go(**{option: MORE[option]})
        assert desk.events.index("asked look") < len(desk.events) - desk.events[::-1].index("ran look") - 1
        desk.events.clear()
        await loop.go()
        assert desk.early == set()
        assert [desk.ran("look"), desk.ran("search")] == [1, 1]


@pytest.mark.skipif(not NEW, reason="it is of mcp 2")
async def test_a_result_that_asks_for_input_is_neither_served_nor_kept() -> None:
    from mcp.server.mcpserver import Context
    from mcp.types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

    desk, asked = Desk(), list[str]()

    async def quiz(key: str, ctx: Any) -> Any:
        desk.events.append("ran quiz")
        form = ElicitRequestFormParams(message="Sure?", requested_schema={"type": "object", "properties": {}})
        if not ctx.input_responses:
            return InputRequiredResult(input_requests={"sure": ElicitRequest(params=form)}, request_state="s")
        return "sure"

    async def elicit(context: Any, params: Any) -> Any:
        asked.append(desk.events[-1])
        desk.events.append("asked a person")
        return mcp.types.ElicitResult(action="accept", content={})

    quiz.__annotations__["ctx"] = Context
    desk.server.add_tool(quiz, name="quiz", annotations=hints(readOnly=True), structured_output=False)
    async with looping("quiz") as loop, connected(desk.server, "client", elicitation_callback=elicit) as client:
        assert loop.accel is not None
        await wrap(client, loop.accel, server="desk", trusted=True)
        one_desk(loop, desk, client)
        [result] = await loop.go()
        assert result["content"][0]["text"] == "sure"
        assert desk.events == ["ran quiz", "asked quiz", "ran quiz", "asked a person", "ran quiz"]


async def test_a_tool_that_fails_early_runs_again_and_its_error_is_what_it_was() -> None:
    _, bare, _ = await held("fails", policy=None)
    desk, results, records = await held("fails", trusted=True)
    assert desk.events == ["ran fails", "asked fails", "ran fails"]
    assert results == bare
    assert [one.served_from for one in records if not one.speculative] == [None]


# --- Endings ----------------------------------------------------------------------------------------------------------


async def test_cancelling_a_call_that_waits_for_an_early_run_passes_and_leaves_no_task() -> None:
    before = asyncio.all_tasks()
    desk = Desk()
    async with looping("waits") as loop, connected(desk.server) as session:
        assert loop.accel is not None
        await wrap(session, loop.accel, server="desk", trusted=True)
        one_desk(loop, desk, session)
        asked = asyncio.Event()

        async def tell() -> None:
            asked.set()

        loop.before = tell
        async with loop.accel.session("a"):
            task = asyncio.create_task(loop.go())
            await desk.waiting.wait()
            await asked.wait()
            for _ in range(STEPS):
                await asyncio.sleep(0)
            assert desk.events == ["ran waits", "asked waits"]
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    await asyncio.sleep(0)
    assert not {one for one in asyncio.all_tasks() - before if not one.done()}
    assert desk.ran("waits") == 1


@pytest.mark.parametrize("holder", HOLDERS)
async def test_what_a_session_raises_whose_server_is_gone_is_what_it_raised(holder: str) -> None:
    raised = []
    for policy in (None, INSIDE):
        desk = Desk()
        async with looping("look", policy=policy) as loop:
            async with connected(desk.server, holder) as session:
                if loop.accel is not None:
                    await wrap(session, loop.accel, server="desk", trusted=True)
                one_desk(loop, desk, session)
                await loop.go()
                call_tool = session.call_tool
            [told] = await asyncio.gather(call_tool("look", {"key": "a"}), return_exceptions=True)
            assert isinstance(told, Exception)
            raised.append(repr(told))
        assert desk.ran("look") == 1
    assert raised[0] == raised[1]


MORTAL = """
try:
    from mcp.server.mcpserver import MCPServer
except ImportError:
    from mcp.server.fastmcp import FastMCP as MCPServer
import os
from mcp.types import ToolAnnotations

server = MCPServer("mortal")

@server.tool(annotations=ToolAnnotations.model_validate({"readOnlyHint": True}))
async def look(key: str) -> str:
    os._exit(1)

server.run()
"""


async def test_a_server_that_dies_while_it_is_asked_early_fails_the_call_and_nothing_hangs(tmp_path: Path) -> None:
    """A process of its own, over standard input and output."""
    (tmp_path / "server.py").write_text(MORTAL)
    program = mcp.StdioServerParameters(command=sys.executable, args=[str(tmp_path / "server.py")])
    raised = []
    for policy in (None, INSIDE):
        async with (
            asyncio.timeout(60),
            looping("look", policy=policy) as loop,
            stdio_client(program) as (read, write),
            mcp.ClientSession(read, write) as session,
        ):
            await session.initialize()
            if loop.accel is not None:
                await wrap(session, loop.accel, server="mortal", trusted=True)
            one_desk(loop, Desk(), session)
            raised += await asyncio.gather(loop.go(), return_exceptions=True)
    assert type(raised[0]).__name__ in ("MCPError", "McpError")
    assert type(raised[1]) is type(raised[0]) or (not NEW and isinstance(raised[1], ClosedResourceError))


async def test_a_server_that_cannot_list_its_tools_is_called_as_before(caplog: pytest.LogCaptureFixture) -> None:
    from dataclasses import replace

    desk = Desk()
    async with looping("look", policy=replace(INSIDE, strict=False)) as loop, connected(desk.server) as session:
        assert loop.accel is not None

        own, failed = session.list_tools, list[bool]()

        async def refuses(*args: Any, **options: Any) -> Any:
            failed.append(not failed)
            if failed[-1]:
                raise RuntimeError("no")
            return await own(*args, **options)

        vars(session)["list_tools"] = refuses
        await wrap(session, loop.accel, server="desk", trusted=True)
        assert "could not be listed" in caplog.text
        one_desk(loop, desk, session)
        assert (await session.call_tool("look", {"key": "a"})).content[0].text == "desk: look a"


# --- Several sessions -------------------------------------------------------------------------------------------------


async def test_agents_side_by_side_have_each_their_own_session() -> None:
    """With servers of one name: what one is begun for is never given to another."""
    async with looping("look", "search") as loop:
        accel = loop.accel
        assert accel is not None

        async def agent(name: str) -> tuple[set[str], str]:
            desk = Desk(name)
            own = Loop(loop.names, accel, client=loop.client)
            async with connected(desk.server) as session, accel.session(name):
                await wrap(session, accel, server="desk", trusted=True)
                one_desk(own, desk, session)
                [first, _] = await own.go()
                assert desk.ran("look") == desk.ran("search") == 1
                return desk.early, first["content"][0]["text"]

        found = await asyncio.gather(*[agent(name) for name in "abc"])
    assert found == [({"look", "search"}, f"{name}: look a") for name in "abc"]


@pytest.mark.parametrize("prefix", ["", "other_"])
async def test_one_name_at_two_servers_begins_early_at_neither_unless_the_model_knows_them_by_a_prefix(
    prefix: str,
) -> None:
    one, two = Desk("one"), Desk("two")
    async with (
        looping("look", "other_look") as loop,
        connected(one.server) as first,
        connected(two.server) as second,
    ):
        assert loop.accel is not None
        await wrap(first, loop.accel, server="one", trusted=True)
        await wrap(second, loop.accel, server="two", trusted=True, prefix=prefix)
        loop.of = lambda name: (two, second, "look") if name == "other_look" else (one, first, "look")
        texts = [result["content"][0]["text"] for result in await loop.go()]
        assert texts == ["one: look a", "two: look a"]
        assert [one.ran("look"), two.ran("look")] == [1, 1]
        assert [one.early, two.early] == ([{"look"}, {"look"}] if prefix else [set(), set()])


async def test_where_it_is_not_known_which_of_two_sessions_is_meant_nothing_begins_early() -> None:
    one, two = Desk("one"), Desk("two")
    async with looping("look") as loop, connected(one.server) as first, connected(two.server) as second:
        assert loop.accel is not None
        await wrap(first, loop.accel, server="desk", trusted=True)
        await wrap(second, loop.accel, server="desk", trusted=True)
        one_desk(loop, two, second)
        [result] = await loop.go()
        assert result["content"][0]["text"] == "two: look a"
        assert (one.ran("look"), two.early) == (0, set())
        unwrap(first)
        two.events.clear()
        await loop.go()
        assert (one.ran("look"), two.early) == (0, {"look"})


async def test_what_was_begun_over_one_session_is_not_given_to_another() -> None:
    one, two = Desk("one"), Desk("two")
    async with looping("look") as loop, connected(one.server) as first, connected(two.server) as second:
        assert loop.accel is not None
        await wrap(first, loop.accel, server="desk", trusted=True)

        async def change() -> None:
            await wrap(second, loop.accel, server="desk", trusted=True)

        loop.of, loop.before = lambda name: (two, second, name), change
        [result] = await loop.go()
        assert result["content"][0]["text"] == "two: look a"
        assert [one.ran("look"), two.ran("look")] == [1, 1]


async def test_nor_is_it_given_to_a_tool_of_that_name_that_nobody_has_listed() -> None:
    one, two = Desk("one"), Desk("two")
    two.server.remove_tool("look")
    async with looping("look") as loop, connected(one.server) as first, connected(two.server) as second:
        assert loop.accel is not None
        await wrap(first, loop.accel, server="one", trusted=True)
        await wrap(second, loop.accel, server="two", trusted=True)
        two.add("look", hints(readOnly=True))
        one_desk(loop, two, second)
        [result] = await loop.go()
        assert result["content"][0]["text"] == "two: look a"
        assert [one.ran("look"), two.ran("look")] == [1, 1]
        await asyncio.to_thread(loop.accel.flush)
        ran = [one for one in loop.records if isinstance(one, ToolRecord) and not one.speculative]
        assert [one.served_from for one in ran] == [None]


async def test_a_session_that_was_left_is_not_meant_any_more() -> None:
    one, two = Desk("one"), Desk("two")
    async with looping("look") as loop, connected(two.server) as second:
        assert loop.accel is not None
        await wrap(second, loop.accel, server="desk", trusted=True)
        one_desk(loop, two, second)
        async with connected(one.server) as first:
            await wrap(first, loop.accel, server="desk", trusted=True)
            await loop.go()
            assert two.early == set()
        two.events.clear()
        await loop.go()
        assert (one.ran("look"), two.early) == (0, {"look"})


async def test_a_server_is_held_to_its_word_also_where_each_conversation_has_tools_of_its_own() -> None:
    desk, early = Desk(), []
    async with looping("search", "look") as loop:
        assert loop.accel is not None
        for number, said in enumerate(("Look at something.", "Look at something else.", "Look at something else.")):
            desk.change("look", hints(readOnly=True, openWorld=False), said)
            desk.events.clear()
            async with connected(desk.server) as session, loop.accel.session(f"{number}"):
                await wrap(session, loop.accel, server="desk", trusted=True)
                one_desk(loop, desk, session)
                await loop.go()
            early.append(desk.early)
    assert early == [{"look", "search"}, {"search"}, {"search"}]


async def test_lists_in_pages_are_taken_page_by_page() -> None:
    desk = Desk()
    async with looping("look", "search") as loop, connected(desk.server) as session:
        assert loop.accel is not None
        own = session.list_tools

        async def pages(cursor: Any = None, *, params: Any = None) -> Any:
            page = await own()
            at = cursor or (params.cursor if params else None) or "0"
            more = None if int(at) + 1 == len(page.tools) else f"{int(at) + 1}"
            return page.model_copy(update={"tools": [page.tools[int(at)]], NEXT: more})

        vars(session)["list_tools"] = pages
        await wrap(session, loop.accel, server="desk", trusted=True)
        one_desk(loop, desk, session)
        await loop.go()
        assert desk.early == {"look", "search"}
        await session.list_tools()
        desk.events.clear()
        await loop.go()
        assert desk.early == {"look", "search"}


NEXT = "next_cursor" if NEW else "nextCursor"


# --- Wrapping ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("holder", HOLDERS)
async def test_a_session_that_is_unwrapped_is_what_it_was_and_wrapping_twice_is_wrapping_once(holder: str) -> None:
    async with looping("look") as loop, looping("look") as other, connected(Desk().server, holder) as session:
        assert loop.accel is not None
        assert other.accel is not None
        inner = getattr(session, "session", session)
        before = dict(vars(inner))
        assert unwrap(session) is session
        await wrap(session, loop.accel, server="desk")
        once = dict(vars(inner))
        await wrap(inner, loop.accel, server="desk")
        assert vars(inner) == once != before
        with pytest.raises(ConfigError, match="another Accel"):
            await wrap(session, other.accel, server="desk")
        unwrap(session)
        unwrap(session)
        assert {name for name in vars(inner) if vars(inner)[name] is not before.get(name)} <= {
            name for name, value in vars(inner).items() if not callable(value)
        }


@pytest.mark.parametrize("wrong", [{"server": ""}, {"server": 5}, {"server": "desk", "trusted": "yes"}], ids=str)
async def test_settings_that_cannot_be_meant_are_refused(wrong: Any) -> None:
    async with looping("look") as loop, connected(Desk().server) as session:
        with pytest.raises(ConfigError):
            await wrap(session, loop.accel, **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("said", "why"), NO_DECLARATIONS.values(), ids=NO_DECLARATIONS)
async def test_what_cannot_be_declared_of_tools_is_refused_at_once(said: dict[str, Any], why: str) -> None:
    async with looping("look") as loop, connected(Desk().server) as session:
        with pytest.raises(ConfigError, match=re.escape(why)):
            await wrap(session, loop.accel, server="desk", **said)


async def test_a_tool_that_reads_and_is_said_to_need_approval_does_not_begin_early() -> None:
    said = {"look": {"needs_approval": True}}
    async with looping("look") as loop, connected(Desk().server) as session:
        assert loop.accel is not None
        await wrap(session, loop.accel, server="desk", reads=said)
        assert speculator(loop.accel).launcher.serving.tools.of("look", "").spec.needs_approval


async def test_what_holds_no_session_goes_on_as_it_did_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    group = mcp.ClientSessionGroup()
    async with looping("look") as loop:
        assert loop.accel is not None
        assert await wrap(group, loop.accel, server="desk") is group
    assert "ClientSessionGroup goes on as it did" in caplog.text


async def test_agentaccel_that_is_off_leaves_a_session_alone() -> None:
    async with looping("look", policy=Policy(mode="off")) as loop, connected(Desk().server) as session:
        assert loop.accel is not None
        before = dict(vars(session))
        await wrap(session, loop.accel, server="desk", trusted=True)
        assert vars(session) == before


# --- Agents of LangChain, whose tools hold the session ----------------------------------------------------------------

HOW: dict[str, tuple[dict[str, Any] | None, list[str], set[str]]] = {
    "the session alone": (None, [], {"look", "search"}),
    "both": ({"trust_annotations": True}, [], {"look", "search"}),
    "both, and neither trusts": ({"trust_annotations": True, "trusted": False}, [], set()),
    "both, and a limit may stop one": ({"trust_annotations": True}, ["look"], {"search"}),
    "both, and one is gated by name": ({"needs_approval": ["search"]}, [], {"look"}),
}
"""What is declared to `agentaccel_langgraph`, the tools that other middleware may stop, and what begins early."""


@pytest.mark.parametrize("how", HOW)
async def test_an_agent_of_langchain_is_what_it_was_and_the_session_answers(how: str) -> None:
    """Beside `agentaccel_langgraph`, which knows what else may stop a tool, each call is recorded once, too."""
    pytest.importorskip("langchain_mcp_adapters", reason="it needs mcp before 2")
    declared, stopped, early = HOW[how]
    states = []
    for accelerates in (False, True):
        desk = Desk()
        async with looping(*NAMES, policy=INSIDE if accelerates else None) as loop, connected(desk.server) as session:
            if loop.accel is not None:
                trusted = (declared or {}).get("trusted", True)
                await wrap(session, loop.accel, server="desk", trusted=trusted)
            states.append(await langchain_agent(loop, desk, session, declared, stopped))
            if loop.accel is None:
                continue
            await asyncio.to_thread(loop.accel.flush)
        assert desk.early == early
        assert [desk.ran(name) for name in NAMES] == [1] * len(NAMES)
        ran = [one for one in loop.records if isinstance(one, ToolRecord) and not one.speculative]
        assert sorted(one.name for one in ran) == sorted(NAMES)
    assert states[0] == states[1]


async def langchain_agent(
    loop: Loop, desk: Desk, session: Any, declared: dict[str, Any] | None, stopped: list[str]
) -> Any:
    """The messages of an agent that was asked once."""
    from langchain.agents import create_agent
    from langchain.agents.middleware import AgentMiddleware, ToolCallLimitMiddleware
    from langchain_anthropic import ChatAnthropic
    from langchain_mcp_adapters.tools import load_mcp_tools

    from agentaccel.testing.states import same_but_ids
    from agentaccel_langgraph import accelerated, wrap_model

    class Waits(AgentMiddleware):  # type: ignore[type-arg]
        """Of the test, and not told of: what was begun early has begun before each call."""

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            async with one_at_a_time:
                await settled(loop.accel)
                desk.events.append(f"asked {request.tool_call['name']}")
                return await handler(request)

    one_at_a_time = asyncio.Lock()
    model: Any = ChatAnthropic(model="claude-sonnet-5", base_url=str(loop.client.base_url), api_key="k", max_retries=0)
    beside: list[Any] = [ToolCallLimitMiddleware(tool_name=name, run_limit=9) for name in stopped]
    if loop.accel is not None and declared is None:
        model = wrap_model(loop.accel, model)
    elif loop.accel is not None and declared is not None:
        ours = {name: value for name, value in declared.items() if name != "trusted"}
        beside = accelerated(loop.accel, beside, **ours)
    agent = create_agent(model, await load_mcp_tools(session), middleware=[Waits(), *beside])
    said = await agent.ainvoke({"messages": [("user", "Go")]}, {"recursion_limit": 9})
    await model._async_client.close()  # LangChain leaves it to the end of the process
    return same_but_ids([one.model_dump() for one in said["messages"]])


# --- The kit ----------------------------------------------------------------------------------------------------------


@dataclass
class Wrapping:
    """How a loop brings agentaccel into its session; as it is by default, one that is right."""

    needs_approval: frozenset[str] = GATED
    call: Callable[[Any, str, Any], Any] = lambda session, name, given: session.call_tool(name, given)
    holder: str = "session"


@asynccontextmanager
async def agent(setting: Setting, wrapping: Wrapping | None = None) -> AsyncIterator[Ask]:
    """A loop by hand whose tools are those of a server of MCP."""
    how = wrapping or Wrapping()
    desk, asked = server("desk"), Counter[str]()
    for name, tool in setting.tools.items():
        desk.add_tool(told(name, tool, asked), name=name, annotations=hints(readOnly=name in READS | GATED))
    async with (
        connected(desk, how.holder) as session,
        anthropic.AsyncAnthropic(base_url=setting.url, api_key="k") as bare,
    ):
        setting.watch(bare)
        client: Any = bare
        if setting.accel is not None:
            client = setting.accel.wrap(bare)
            gated = how.needs_approval
            await wrap(session, setting.accel, server="desk", reads=READS | GATED, needs_approval=gated)
        tools = [{"name": name, "input_schema": schema(tool)} for name, tool in setting.tools.items()]
        held = dict[str, list[Any]]()

        async def answer(block: Any) -> Any:
            asked[f"{block.name} {block.input}"] += 1
            result = await (how.call if setting.accel else Wrapping().call)(session, block.name, block.input)
            return {"type": "tool_result", "tool_use_id": block.id, "content": result.content[0].text}

        async def ask(question: str, conversation: str) -> Any:
            messages = held.setdefault(conversation, [])
            messages.append({"role": "user", "content": question})
            while True:
                reply = await client.messages.create(
                    model=setting.model, max_tokens=500, system=setting.instructions, tools=tools, messages=messages
                )
                messages.append({"role": "assistant", "content": [one.model_dump() for one in reply.content]})
                blocks = [one for one in reply.content if one.type == "tool_use"]
                if not blocks:
                    return json.loads(json.dumps(messages))
                await settled(setting.accel)
                messages.append({"role": "user", "content": await asyncio.gather(*map(answer, blocks))})

        yield ask


def told(name: str, tool: Any, asked: Counter[str]) -> Any:
    """A tool at the server, to which nothing but the loop can tell whether it was asked for yet."""

    @functools.wraps(tool)
    async def run(**arguments: Any) -> str:
        if asked[f"{name} {arguments}"] > 0:
            asked[f"{name} {arguments}"] -= 1
            return cast(str, await tool(**arguments))
        BEGAN.append(name)
        with running_early():
            return cast(str, await tool(**arguments))

    return run


def schema(tool: Any) -> dict[str, Any]:
    names = list(inspect.signature(tool).parameters)
    return {"type": "object", "properties": {name: {"type": "string"} for name in names}}


BEGAN: list[str] = []
"""Tools that have begun before the loop had asked."""


@pytest.mark.parametrize("policy", [None, INSIDE], ids=["", "inside"])
@pytest.mark.parametrize("holder", HOLDERS)
def test_a_loop_over_a_server_is_what_it_was(holder: str, policy: Policy | None) -> None:
    """The floor: where calls go out streamed, its tools do begin early."""
    BEGAN.clear()
    assert_conforms(functools.partial(agent, wrapping=Wrapping(holder=holder)), policy=policy)
    assert "find_order" in BEGAN or policy is None


async def twice(session: Any, name: str, given: Any) -> Any:
    await session.call_tool(name, given)
    return await session.call_tool(name, given)


async def other(session: Any, name: str, given: Any) -> Any:
    result = await session.call_tool(name, given)
    return result.model_copy(update={"content": [one.model_copy(update={"text": "…"}) for one in result.content]})


BROKEN = {
    "runs a tool twice": (Wrapping(call=twice), r"was run \d times, and \+1"),
    "changes a result": (Wrapping(call=other), "state"),
    "launches a gated tool": (Wrapping(needs_approval=frozenset()), r"pay\('5'\) was begun before"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_the_kit_tells_an_adapter_that_is_broken(how: str) -> None:
    wrapping, said = BROKEN[how]
    found = faults(functools.partial(agent, wrapping=wrapping), policy=INSIDE)
    assert any(re.search(said, one) for one in found), found
