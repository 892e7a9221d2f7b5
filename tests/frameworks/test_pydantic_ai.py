"""`agentaccel_pydantic_ai`: agents of Pydantic AI are what they were, and tools begin early."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic_ai is in another environment")

from anthropic import AsyncAnthropic
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext, Tool, UsageLimits
from pydantic_ai.capabilities import AbstractCapability, Hooks, Instrumentation, PrepareTools, ProcessHistory
from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.instrumented import InstrumentedModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import FunctionToolset, WrapperToolset

from agentaccel import Accel, CachePolicy, ConfigError, Policy, StorePolicy, ToolPolicy, ToolRecord
from agentaccel.report import report
from agentaccel.store.store import open_reader
from agentaccel.testing.conformance import assert_conforms
from agentaccel.types import Cause
from agentaccel_emulator import Conversation, RunningServer, Script, ScriptedReply, call, say, serve
from agentaccel_pydantic_ai import AccelCapability
from tests.frameworks import agents
from tests.frameworks.early import NO_DECLARATIONS, Runs, seen_by_the_kit

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]

INSIDE = Policy(cache=CachePolicy(freeze_tools=True), tools=ToolPolicy(speculate=False), stream_inside=True)


@pytest.mark.parametrize("policy", [None, INSIDE], ids=["", "inside"])
@pytest.mark.parametrize("wire", ["messages", "responses"])
def test_an_agent_with_the_capability_is_what_it_was(wire: str, policy: Policy | None) -> None:
    assert_conforms(agents.pydantic_ai, wire=wire, policy=policy)


@pytest.mark.parametrize("wire", ["messages", "responses"])
def test_tools_begin_early_in_it(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The floor of the kit: where nothing is begun early, nothing is told of gates."""
    began = seen_by_the_kit(monkeypatch)
    assert_conforms(agents.pydantic_ai, wire=wire, policy=INSIDE)
    assert any(began)


# --- One agent, whose model asks for what it is told to ---------------------------------------------------------------


class Desk(Runs):
    """Tools of an agent."""

    async def look(self, key: str) -> str:
        """Look at something."""
        return self.note("look", key)

    def look_sync(self, key: str) -> str:
        """Look at something in a thread."""
        return self.note("look_sync", key)

    async def on_day(self, day: date, days: int = 1) -> str:
        """Look at a day."""
        return self.note("on_day", (day.year, days))

    async def find(self, key: str) -> str:
        """Find something."""
        return self.note("find", key)

    async def peek(self, ctx: RunContext[Any], key: str) -> str:
        """Read the state of the run."""
        return self.note("peek", len(ctx.messages))

    def tools(self) -> list[Any]:
        return [self.look, self.look_sync, self.on_day, self.find, self.peek]


READS = [tool.__name__ for tool in Desk().tools()]
RULES = "You are the desk of a warehouse, and never guess. " * 400
SAID: dict[str, dict[str, Any]] = {"on_day": {"day": "2026-11-28"}}


def all_at_once(*names: str) -> ScriptedReply:
    asked = [call(name, SAID.get(name, {"key": "a"})) for name in names]
    return ScriptedReply(content=tuple(block for one in asked for block in one.content))


@contextmanager
def warehouse(*names: str, one_by_one: bool = False) -> Iterator[RunningServer]:
    """A model that asks for these tools, in one message, and then says something, twice over."""
    asked = [all_at_once(name) for name in names] if one_by_one else [all_at_once(*names)]
    replies = (*asked, say("Done."), *asked, say("Done again."))
    with serve(script=Script(conversations=(Conversation(match="Go", replies=replies),))) as server:
        yield server


@contextmanager
def accel_in(folder: Path, *, strict: bool = True) -> Iterator[Accel]:
    policy = replace(INSIDE, store=StorePolicy(path=folder / "trace.db"), strict=strict)
    with Accel(policy, environ={}) as accel:
        yield accel


def model_of(client: AsyncAnthropic) -> AnthropicModel:
    return AnthropicModel("claude-sonnet-5", provider=AnthropicProvider(anthropic_client=client))


def client_of(server: RunningServer) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=server.url, api_key="k", max_retries=1)


def held(server: RunningServer, made: Any, **given: Any) -> Any:
    """What an agent says, asked twice in one conversation; its model is the one that `made` makes of a client's."""

    async def main() -> Any:
        async with client_of(server) as client:
            agent, model = made, model_of(client)
            first = await agent.run("Go", model=model, **given)
            return await agent.run("Go on.", model=model, message_history=first.all_messages(), **given)

    return asyncio.run(main())


def agent_with(accel: Accel, tools: Any, *beside: Any, reads: Any = READS, **more: Any) -> Any:
    declared = {name: more.pop(name) for name in ("needs_approval", "trust_annotations") if name in more}
    ours = AccelCapability(accel, reads=reads, **declared)
    return Agent(instructions=RULES, tools=tools, capabilities=[*beside, ours], **more)


def test_tools_begin_before_the_message_has_ended_and_nobody_can_tell(tmp_path: Path) -> None:
    """The floor: plain, in a thread, with arguments made of those of the model. What takes the run does not."""
    seen = []
    for arm in ("without", "with"):
        desk = Desk()
        with warehouse(*READS) as server, accel_in(tmp_path) as accel:
            agent = Agent(instructions=RULES, tools=desk.tools())
            ended = held(server, agent_with(accel, desk.tools()) if arm == "with" else agent)
        parts = [part for message in ended.all_messages() for part in message.parts]
        seen.append([(part.part_kind, part.content) for part in parts if part.part_kind != "tool-call"])
        assert ended.usage.tool_calls == len(READS)
        assert sorted(name for name, _ in desk.ran) == sorted(READS * 2)
        assert desk.early == ({"look", "look_sync", "on_day", "find"} if arm == "with" else set())
    assert seen[0] == seen[1]


async def anything_goes(*_: Any, **__: Any) -> None:
    """A validator of the user's own, which may stop a call."""


@pytest.mark.parametrize("gate", ["approval", "sequential", "validator"])
def test_a_tool_that_is_gated_is_never_begun_early(gate: str, tmp_path: Path) -> None:
    desk = Desk()
    gates: dict[str, dict[str, Any]] = {
        "approval": {"requires_approval": True},
        "sequential": {"sequential": True},
        "validator": {"args_validator": anything_goes},
    }
    tools = [Tool(desk.look, **gates[gate]), desk.find]
    with warehouse("look", "find") as server, accel_in(tmp_path) as accel:
        agent = agent_with(accel, tools, output_type=[str, DeferredToolRequests])

        async def main() -> Any:
            async with client_of(server) as client:
                ended = await agent.run("Go", model=model_of(client))
                if isinstance(ended.output, DeferredToolRequests):
                    assert "look" not in {name for name, _ in desk.ran}
                    allowed = DeferredToolResults(approvals={ended.output.approvals[0].tool_call_id: True})
                    ended = await agent.run(
                        model=model_of(client), message_history=ended.all_messages(), deferred_tool_results=allowed
                    )
                return ended.output

        assert asyncio.run(main()) == "Done."
    assert sorted(name for name, _ in desk.ran) == ["find", "look"]
    assert desk.early == {"find"}


class Guard(AbstractCapability[Any]):
    """Of the user's own: it looks at each call."""

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        return await handler(args)


class Logged(WrapperToolset[Any]):
    """Of the user's own: it is told of each call."""

    async def call_tool(self, *given: Any) -> Any:
        return await super().call_tool(*given)


@pytest.mark.parametrize("gate", ["a capability", "a toolset", "approval of a toolset", "a limit", "hooks"])
def test_beside_what_may_stop_tools_none_is_begun_early_unless_the_user_vouches(gate: str, tmp_path: Path) -> None:
    for vouched in (False, True):
        desk, given = Desk(), dict[str, Any]()
        beside = {"a capability": [Guard()], "hooks": [Hooks()]}.get(gate, [])
        tools = FunctionToolset(desk.tools()[:4])
        toolset: Any = {"a toolset": Logged(tools)}.get(gate, tools)
        if gate == "approval of a toolset":
            toolset = tools.approval_required(lambda ctx, definition, arguments: False)
        if gate == "a limit":
            given["usage_limits"] = UsageLimits(tool_calls_limit=9)
        with warehouse("look", "find") as server, accel_in(tmp_path) as accel:
            declared: Any = {"needs_approval": ["find"]} if vouched else {}
            held(server, agent_with(accel, [], *beside, toolsets=[toolset], **declared), **given)
        assert sorted(name for name, _ in desk.ran) == ["find", "find", "look", "look"]
        assert desk.early == ({"look"} if vouched else set())


def test_what_is_known_to_leave_tools_alone_keeps_none_from_beginning_early(tmp_path: Path) -> None:
    desk = Desk()
    with warehouse("of_desk_look", "find") as server, accel_in(tmp_path) as accel:
        prefixed = FunctionToolset([desk.look]).filtered(lambda *_: True).prefixed("of_desk")
        agent = agent_with(
            accel,
            [desk.find],
            Instrumentation(),
            toolsets=[prefixed],
            reads={"of_desk_look": {"scope": "desk"}, "find": {}},
        )
        held(server, agent)
    assert sorted(desk.ran) == [("find", True)] * 2 + [("look", True)] * 2


def test_a_call_that_a_hook_has_changed_is_not_answered_by_what_the_model_has_written(tmp_path: Path) -> None:
    desk = Desk()

    class Corrects(AbstractCapability[Any]):
        async def after_tool_validate(self, ctx: Any, *, call: Any, tool_def: Any, args: Any) -> Any:
            return {"key": "b"}

    with warehouse("look") as server, accel_in(tmp_path) as accel:
        ended = held(server, agent_with(accel, desk.tools(), Corrects(), needs_approval=[]))
    returned = [part for message in ended.all_messages() for part in message.parts if part.part_kind == "tool-return"]
    assert [part.content for part in returned] == ["look is done b"] * 2
    assert ("look", True) in desk.ran
    assert desk.ran.count(("look", False)) == 2


def test_two_agents_with_a_tool_of_one_name_share_nothing(tmp_path: Path) -> None:
    """The floor: agents with one tool share it, and it begins early in both."""
    one, other = Desk(), Desk()
    for second in (other, one):
        one.ran.clear()
        with warehouse("look") as server, accel_in(tmp_path) as accel:
            held(server, agent_with(accel, [one.look]))
            began = set(one.early)
            held(server, agent_with(accel, [second.look]))
        assert began == {"look"}
        assert len(one.ran) + len(other.ran) == 4
        assert second.early == ({"look"} if second is one else set())
        other.ran.clear()


@pytest.mark.parametrize("trusted", [False, True])
def test_what_servers_say_counts_where_the_user_trusts_them(trusted: bool, tmp_path: Path) -> None:
    desk = Desk()
    hints = {"annotations": {"readOnlyHint": True}}
    with warehouse("look", "find") as server, accel_in(tmp_path) as accel:
        tools = [Tool(desk.look, metadata=hints), Tool(desk.find, metadata={"annotations": {"readOnlyHint": False}})]
        held(server, agent_with(accel, tools, reads=[], trust_annotations=trusted))
    assert desk.early == ({"look"} if trusted else set())
    assert len(desk.ran) == 4


@pytest.mark.parametrize("told", ["trusted", "not trusted", "behind a hook"])
def test_tools_of_a_server_begin_early_where_the_user_trusts_it(told: str, tmp_path: Path) -> None:
    """Two of one server, under names of their own."""
    pytest.importorskip("fastmcp", reason="pydantic_ai has no client of MCP here")
    from mcp.server.mcpserver import MCPServer
    from mcp.types import ToolAnnotations
    from pydantic_ai.mcp import MCPToolset

    server, ran = MCPServer("desk"), list[str]()

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def look(key: str) -> str:
        ran.append("look")
        return f"looked at {key}"

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def find(key: str) -> str:
        ran.append("find")
        return f"found {key}"

    @server.tool()
    async def move(key: str) -> str:
        ran.append("move")
        return f"moved {key}"

    async def hook(ctx: Any, through: Any, name: str, arguments: Any) -> Any:
        return await through(name, arguments)

    with warehouse("at_look", "at_find", "at_move", one_by_one=True) as provider, accel_in(tmp_path) as accel:
        seen = list[Any]()
        accel.add_hook(lambda told: seen.append(told.record))
        toolset = MCPToolset(server, process_tool_call=hook if told == "behind a hook" else None).prefixed("at")
        agent = agent_with(accel, [], toolsets=[toolset], reads=[], trust_annotations=told != "not trusted")
        ended = held(provider, agent)
    returned = [part for message in ended.all_messages() for part in message.parts if part.part_kind == "tool-return"]
    assert [str(part.content) for part in returned] == ["looked at a", "found a", "moved a"] * 2
    assert sorted(ran) == ["find", "find", "look", "look", "move", "move"]
    early = {one.name for one in seen if isinstance(one, ToolRecord) and one.speculative}
    assert early == ({"at_look", "at_find"} if told == "trusted" else set())


def test_a_tool_that_agentaccel_has_wrapped_is_answered_and_recorded_once(tmp_path: Path) -> None:
    desk = Desk()
    with warehouse("look") as server, accel_in(tmp_path) as accel:
        seen = []
        accel.add_hook(lambda told: seen.append(told.record))
        look = accel.tool(effect="read_local", concurrent=True)(desk.look)
        held(server, agent_with(accel, [look], reads=[]))
    assert desk.ran == [("look", True)] * 2
    assert [one.served_from for one in seen if isinstance(one, ToolRecord) and not one.speculative] == ["asked"] * 2


# --- Models -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("around", ["none", "fallback", "traces"])
def test_requests_of_models_around_models_go_through_and_the_model_is_not_changed(around: str, tmp_path: Path) -> None:
    desk = Desk()
    with warehouse("look") as server, accel_in(tmp_path) as accel:
        seen = []
        accel.add_hook(lambda told: seen.append(told))
        agent = agent_with(accel, desk.tools())

        async def main() -> None:
            async with client_of(server) as client:
                inner = model_of(client)
                provider: Any = inner.provider
                inner.profile  # noqa: B018 - it is worked out when it is asked for, and kept
                before = vars(inner) | vars(provider)
                model: Any = {"fallback": FallbackModel(inner, TestModel()), "traces": InstrumentedModel(inner)}.get(
                    around, inner
                )
                async with agent:
                    await agent.run("Go", model=model)
                assert vars(inner) | vars(provider) == before
                assert inner.client is client
                assert not client.is_closed()

        asyncio.run(main())
        assert desk.early == {"look"}
        assert "cache_control" in str(server.log[-1].request)


def test_a_model_that_is_not_known_goes_out_as_it_did(tmp_path: Path) -> None:
    with accel_in(tmp_path) as accel:
        desk = Desk()
        ended = asyncio.run(agent_with(accel, [desk.look]).run("Go", model=TestModel()))
    assert ended.usage.tool_calls == 1
    assert desk.ran == [("look", False)]


def test_a_failure_of_ours_is_a_line_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The twin: where the policy is strict, it is raised."""

    def broken(*_: Any, **__: Any) -> Any:
        raise LookupError("ours")

    monkeypatch.setattr(Accel, "tool", broken)
    desk = Desk()
    with warehouse("look") as server, accel_in(tmp_path, strict=False) as accel, caplog.at_level(logging.ERROR):
        held(server, agent_with(accel, desk.tools()))
    assert desk.ran == [("look", False)] * 2
    assert "an agent goes on without it" in caplog.text
    with warehouse("look") as server, accel_in(tmp_path) as accel, pytest.raises(LookupError, match="ours"):
        held(server, agent_with(accel, desk.tools()))


@pytest.mark.parametrize(("said", "why"), NO_DECLARATIONS.values(), ids=NO_DECLARATIONS)
def test_what_cannot_be_declared_of_tools_is_refused_at_once(said: dict[str, Any], why: str) -> None:
    with Accel(Policy(store=StorePolicy(enabled=False))) as accel, pytest.raises(ConfigError, match=re.escape(why)):
        AccelCapability(accel, **said)


def test_agents_built_for_each_request_begin_early_what_are_the_same_functions(tmp_path: Path) -> None:
    """The twin: a method of what is made in each request may be of a user, and does not."""
    for same in (True, False):
        desk = Desk()
        with warehouse("look") as server, accel_in(tmp_path / str(same)) as accel:
            for _ in range(3):
                held(server, agent_with(accel, [desk.look if same else Desk(desk.ran).look]))
        assert [early for _, early in desk.ran] == [True, True, *[same] * 4]


def shorter(messages: list[ModelMessage]) -> list[ModelMessage]:
    """The first message and the last two, once there are more."""
    return messages if len(messages) < 5 else [messages[0], *messages[-2:]]


async def other_tools(ctx: RunContext[Any], tools: list[ToolDefinition]) -> list[ToolDefinition]:
    """One tool less from the third request on."""
    return tools if len(ctx.messages) < 5 else tools[:-1]


@pytest.mark.parametrize(
    ("capability", "cause"),
    [(ProcessHistory(shorter), Cause.FIRST), (PrepareTools(other_tools), Cause.CHANGED), (None, None)],
    ids=["history", "tools", "neither"],
)
@pytest.mark.parametrize("vouched", [False, True])
def test_the_report_names_what_stood_beside_the_requests_and_what_was_missed_then(
    capability: Any, cause: Cause | None, vouched: bool, tmp_path: Path
) -> None:
    """The third is the twin."""
    said: dict[str, Any] = {"needs_approval": []} if vouched else {}
    policy = Policy(store=StorePolicy(path=tmp_path / "trace.db"), strict=True)
    with warehouse("find", "look", "find", one_by_one=True) as server, Accel(policy, environ={}) as accel:
        agent = agent_with(accel, Desk().tools(), *([] if capability is None else [capability]), **said)
        with suppress(UsageLimitExceeded):  # where the history stays short, the script does not come to its end
            held(server, agent, usage_limits=UsageLimits(request_limit=8))
        accel.flush()
        with open_reader(tmp_path / "trace.db") as store:
            rows = report(store.turns()).total.beside
    assert [one.name for one in rows] == ([] if capability is None else [type(capability).__name__])
    for one in rows:
        assert one.requests
        assert {row.cause for row in one.causes} == {cause}
