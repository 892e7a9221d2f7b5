"""`agentaccel_langgraph`: agents of LangChain, deepagents and LangGraph are what they were, and tools begin early."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import pytest

pytest.importorskip("langchain", reason="langchain is in another environment")

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    AutoModeMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    ModelRetryMiddleware,
    SummarizationMiddleware,
    TodoListMiddleware,
    ToolCallLimitMiddleware,
    ToolRetryMiddleware,
)
from langchain.tools import ToolRuntime
from langchain_anthropic import ChatAnthropic
from langchain_anthropic.middleware import AnthropicPromptCachingMiddleware
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import InjectedToolArg, InjectedToolCallId, StructuredTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.errors import GraphRecursionError
from langgraph.types import Command, interrupt

from agentaccel import Accel, CachePolicy, ConfigError, Policy, StorePolicy, ToolPolicy
from agentaccel.report import render_text, report
from agentaccel.store.store import open_reader
from agentaccel.testing.conformance import assert_conforms
from agentaccel.testing.states import differences, same_but_ids
from agentaccel.types import Cause
from agentaccel_emulator import Conversation, RunningServer, Script, ScriptedReply, call, say, serve
from agentaccel_langgraph import AccelMiddleware, accelerated, wrap_model
from tests.frameworks import agents
from tests.frameworks.early import NO_DECLARATIONS, Runs

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]


@pytest.fixture(autouse=True)
def _nobody_closes_the_clients_of_langchain() -> Iterator[None]:
    """What is lost with them is told here, and not of whatever runs next."""
    yield
    gc.collect()


INSIDE = Policy(cache=CachePolicy(freeze_tools=True), tools=ToolPolicy(speculate=False), stream_inside=True)
CASES = [(name, wire) for name in ("langchain", "langgraph") for wire in ("messages", "chat")]
CASES.append(("deepagents", "messages"))


@pytest.mark.parametrize("policy", [None, INSIDE], ids=["", "inside"])
@pytest.mark.parametrize(("name", "wire"), CASES)
def test_an_agent_with_the_adapter_is_what_it_was(name: str, wire: str, policy: Policy | None) -> None:
    assert_conforms(getattr(agents, name), wire=wire, policy=policy)


# --- One agent, whose model asks for what it is told to ---------------------------------------------------------------


class Desk(Runs):
    """Tools of an agent."""

    def tools(self) -> list[Any]:
        desk = self

        @tool
        async def look(key: str) -> str:
            """Look at something."""
            return desk.note("look")

        @tool
        def look_sync(key: str) -> str:
            """Look at something in a thread."""
            return desk.note("look_sync")

        @tool(response_format="content_and_artifact")
        async def find(key: str) -> tuple[str, dict[str, str]]:
            """Find something, with an artifact."""
            return desk.note("find"), {"key": key}

        @tool
        async def jump(key: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
            """Change the state."""
            return Command(update={"messages": [ToolMessage(desk.note("jump"), tool_call_id=tool_call_id)]})

        @tool
        async def peek(key: str, runtime: ToolRuntime) -> str:
            """Read the state of the run."""
            return f"{desk.note('peek')}: {len(runtime.state['messages'])}"

        @tool
        async def configured(key: str, config: RunnableConfig) -> str:
            """Read the configuration of the run."""
            return f"{desk.note('configured')}: {config['configurable']['thread_id']}"

        @tool
        async def tells(key: str) -> str:
            """Write to the stream of the graph."""
            get_stream_writer()({"key": key})
            return desk.note("tells")

        @tool
        async def asks(key: str) -> str:
            """Ask a person."""
            return f"{interrupt('May I?')}: {desk.note('asks')}"

        async def of_user(key: str, user: Annotated[str, InjectedToolArg] = "ann") -> str:
            """Read what belongs to a user."""
            return f"{desk.note('of_user')} for {user}"

        return [look, look_sync, find, jump, peek, configured, tells, asks, StructuredTool.from_function(
            coroutine=of_user, name="of_user"
        )]  # fmt: skip


NAMES = [one.name for one in Desk().tools()]
RULES = "You are the desk of a warehouse, and never guess. " * 400


def all_at_once(*names: str) -> ScriptedReply:
    return ScriptedReply(content=tuple(block for name in names for block in call(name, {"key": "a"}).content))


@contextmanager
def warehouse(*names: str) -> Iterator[RunningServer]:
    """A model that asks for these tools, in one message, and then says something, twice over."""
    replies = (all_at_once(*names), say("Done."), all_at_once(*names), say("Done again."))
    with serve(script=Script(conversations=(Conversation(match="Go", replies=replies),))) as server:
        yield server


def chat(server: RunningServer) -> ChatAnthropic:
    return ChatAnthropic(model="claude-sonnet-5", base_url=server.url, api_key="k", max_retries=1, max_tokens=500)


@contextmanager
def accel_in(folder: Path, policy: Policy = INSIDE) -> Iterator[Accel]:
    with Accel(replace(policy, store=StorePolicy(path=folder / "trace.db"), strict=True), environ={}) as accel:
        yield accel


CONFIG: Any = {"configurable": {"thread_id": "t"}}
GO: Any = {"messages": [("user", "Go")]}


def state_of(agent: Any) -> Any:
    return same_but_ids([one.model_dump() for one in agent.get_state(CONFIG).values["messages"]])


async def chunks(agent: Any) -> list[str]:
    """What a reader of updates, custom events and callbacks sees, in any order: tools end as they end."""
    seen = [one async for one in agent.astream(GO, CONFIG, stream_mode=["updates", "custom"])]
    seen += [(one["event"], one["name"]) async for one in agent.astream_events(GO, CONFIG, version="v2")]
    return sorted(json.dumps(without_ids(one)) for one in seen)


NOT_OURS = ("id", "tool_call_id", "usage", "usage_metadata")
"""What is made anew each time, and what the cache is for."""


def without_ids(one: Any) -> Any:
    if isinstance(one, BaseMessage):
        one = one.model_dump()
    if isinstance(one, dict):
        return {name: without_ids(value) for name, value in one.items() if name not in NOT_OURS}
    return [without_ids(part) for part in one] if isinstance(one, list | tuple) else one


def build(server: RunningServer, desk: Desk, accel: Accel | None, beside: Any = (), **declared: Any) -> Any:
    middleware = list(beside) if accel is None else accelerated(accel, beside, reads=NAMES, **declared)
    tools = desk.tools()
    return create_agent(chat(server), tools, system_prompt=RULES, middleware=middleware, checkpointer=InMemorySaver())


def test_tools_begin_before_the_message_has_ended_and_nobody_can_tell(tmp_path: Path) -> None:
    """The floor: plain, in a thread, with an artifact. What a graph gives more to, or what speaks to it, does not."""
    names = ["look", "look_sync", "find", "jump", "peek", "configured", "tells", "of_user"]
    seen = []
    for arm in ("without", "with"):
        desk = Desk()
        with warehouse(*names) as server, accel_in(tmp_path) as accel:
            agent = build(server, desk, accel if arm == "with" else None)

            async def main(agent: Any = agent) -> list[Any]:
                return await chunks(agent)

            seen.append((asyncio.run(main()), state_of(agent)))
        assert sorted(name for name, _ in desk.ran) == sorted(names * 2)
        assert desk.early == ({"look", "look_sync", "find"} if arm == "with" else set())
    assert seen[0][0] == seen[1][0]
    assert not [*differences(seen[0][1], seen[1][1], "state")]


def test_an_agent_that_is_invoked_without_an_event_loop_is_what_it_was(tmp_path: Path) -> None:
    states = []
    for arm in ("without", "with"):
        desk = Desk()
        with warehouse("look_sync") as server, accel_in(tmp_path) as accel:
            agent = build(server, desk, accel if arm == "with" else None)
            agent.invoke(GO, CONFIG)
            states.append(state_of(agent))
        assert [name for name, _ in desk.ran] == ["look_sync"]
        assert desk.early == ({"look_sync"} if arm == "with" else set())
    assert states[0] == states[1]


class Refuses:
    """A decision model: whatever is asked, it is too risky."""

    async def ainvoke(self, asked: Any) -> Any:
        return SimpleNamespace(nouls=defaultdict(lambda: SimpleNamespace(noul=0.9)))


GATES: dict[str, Any] = {
    "a person": lambda: HumanInTheLoopMiddleware(interrupt_on={"look": True}),
    "a model": lambda: AutoModeMiddleware(tools=["look "], classifier=Refuses()),  # type: ignore[arg-type]
    "a limit of one tool": lambda: ToolCallLimitMiddleware(tool_name="look", run_limit=9),
    "a limit of all": lambda: ToolCallLimitMiddleware(run_limit=9),
}


@pytest.mark.parametrize("gate", GATES)
def test_what_a_gate_may_stop_is_never_begun_early(gate: str, tmp_path: Path) -> None:
    desk = Desk()
    with warehouse("look", "find") as server, accel_in(tmp_path) as accel:
        agent = build(server, desk, accel, [GATES[gate]()])
        asyncio.run(agent.ainvoke(GO, CONFIG))
        if gate == "a person":
            assert "look" not in {name for name, _ in desk.ran}
            asyncio.run(agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), CONFIG))
    assert "look" not in desk.early
    assert {name for name, _ in desk.ran} == ({"find"} if gate == "a model" else {"look", "find"})
    assert ("find" in desk.early) == (gate != "a limit of all")


def test_a_gate_that_a_framework_adds_itself_is_seen_in_the_graph(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """`create_deep_agent(interrupt_on=…)`: nobody tells the adapter of it. The floor: without it, tools begin early."""
    from deepagents import create_deep_agent

    for number, (gated, given) in enumerate(((False, False), (True, False), (True, True))):
        desk = Desk()
        tools = desk.tools()
        with warehouse("look", "find") as server, accel_in(tmp_path) as accel:
            agent = create_deep_agent(
                model=chat(server),
                tools=tools,
                middleware=[AccelMiddleware(accel, beside=[], reads=NAMES, tools=tools if given else ())],
                interrupt_on={"look": True} if gated else None,
                checkpointer=InMemorySaver(),
            )
            asyncio.run(agent.ainvoke(GO, CONFIG))
            if gated:
                asyncio.run(agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), CONFIG))
        assert {name for name, _ in desk.ran} == {"look", "find"}
        assert desk.early == (set() if gated else {"look", "find"}), number


def test_beside_middleware_that_nobody_knows_nothing_is_begun_early_unless_the_user_vouches(
    tmp_path: Path,
) -> None:
    class Guard(AgentMiddleware):  # type: ignore[type-arg]
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return await handler(request)

    for vouched in (False, True):
        desk = Desk()
        with warehouse("look", "find") as server, accel_in(tmp_path) as accel:
            declared: Any = {"needs_approval": ["find"]} if vouched else {}
            agent = build(server, desk, accel, [Guard()], **declared)
            asyncio.run(agent.ainvoke(GO, CONFIG))
        assert {name for name, _ in desk.ran} == {"look", "find"}
        assert desk.early == ({"look"} if vouched else set())


def test_a_person_may_answer_in_another_process_than_the_one_that_asked(tmp_path: Path) -> None:
    """What was begun early is gone with it, and what is left runs once."""
    saver, states = InMemorySaver(), []
    for arm in ("without", "with"):
        desk = Desk()
        with warehouse("asks", "look") as server:
            saver = InMemorySaver()
            for asked in (GO, Command(resume="yes")):
                with accel_in(tmp_path) as accel:  # another Accel: nothing is shared but the checkpoint and the store
                    middleware = accelerated(accel, reads=NAMES) if arm == "with" else []
                    agent = create_agent(
                        chat(server), desk.tools(), system_prompt=RULES, middleware=middleware, checkpointer=saver
                    )
                    asyncio.run(agent.ainvoke(asked, CONFIG))
            states.append(state_of(agent))
        assert [name for name, _ in desk.ran].count("asks") == 1
    assert states[0] == states[1]


# --- The order of middleware ------------------------------------------------------------------------------------------


def others(server: RunningServer) -> list[Any]:
    return [
        AnthropicPromptCachingMiddleware(),
        ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=200, keep=1)], token_count_method="approximate"),
        SummarizationMiddleware(FakeListChatModel(responses=["a summary"]), trigger=("messages", 40)),
        ModelRetryMiddleware(max_retries=1),
        ToolRetryMiddleware(max_retries=1),
        TodoListMiddleware(),
        HumanInTheLoopMiddleware(interrupt_on={"jump": True}),
    ]


@pytest.mark.parametrize("seed", range(12))
def test_the_same_bytes_go_out_wherever_ours_stands_among_the_others(seed: int, tmp_path: Path) -> None:
    """For random orders of them: legal, equal to the byte, and the state is what it is without."""
    chance = random.Random(seed)
    order = chance.sample(range(7), chance.randint(1, 7))
    seen: list[tuple[list[bytes], Any]] = []
    for place in (None, *range(len(order) + 1)):
        desk = Desk()
        with warehouse("look", "find", "look_sync") as server, accel_in(tmp_path / str(place)) as accel:
            stack = [others(server)[number] for number in order]
            agent_of = (
                stack
                if place is None
                else [*stack[:place], AccelMiddleware(accel, beside=stack, reads=NAMES), *stack[place:]]
            )
            agent = create_agent(
                chat(server), desk.tools(), system_prompt=RULES, middleware=agent_of, checkpointer=InMemorySaver()
            )

            async def twice(agent: Any = agent) -> None:
                for _ in range(2):
                    await agent.ainvoke(GO, CONFIG)

            asyncio.run(twice())
            assert {entry.status for entry in server.log} == {200}
            seen.append(([json.dumps(entry.request).encode() for entry in server.log], state_of(agent)))
        assert len(desk.ran) == 6
    bare, *placed = seen
    assert all(one[0] == placed[0][0] for one in placed)
    assert all(not [*differences(bare[1], one[1], "state")] for one in placed)


def editing() -> list[Any]:
    edit = ClearToolUsesEdit(trigger=200, keep=1)
    return [TodoListMiddleware(), ContextEditingMiddleware(edits=[edit], token_count_method="approximate")]


def summaries() -> list[Any]:
    model = FakeListChatModel(responses=["Go on: a summary."])
    return [SummarizationMiddleware(model, trigger=("messages", 6), keep=("messages", 2))]


@pytest.mark.parametrize(
    ("middleware", "name", "cause"),
    [
        (editing, "ContextEditingMiddleware", Cause.CHANGED),
        (summaries, "SummarizationMiddleware", Cause.FIRST),
        (list, None, None),
    ],
    ids=["editing", "summaries", "neither"],
)
def test_the_report_names_what_stood_beside_the_calls_of_an_agent_and_what_was_missed_then(
    middleware: Any, name: str | None, cause: Cause | None, tmp_path: Path
) -> None:
    """Of an agent with it, and not of another one with the same `Accel`; the third is the twin."""

    @tool
    async def page(number: int) -> str:
        """Read a page."""
        return f"page {number} " * 400

    replies = (*(call("page", {"number": number}) for number in range(4)), say("Done."), say("Done again."))
    with (
        serve(script=Script(conversations=(Conversation(match="Go", replies=replies),))) as server,
        accel_in(tmp_path) as accel,
    ):
        for beside in (middleware(), []):
            agent = create_agent(
                chat(server), [page], system_prompt=RULES, middleware=accelerated(accel, beside, reads=["page"])
            )
            with suppress(GraphRecursionError):  # where the history stays short, the script does not come to its end
                asyncio.run(agent.ainvoke(GO, {"recursion_limit": 24}))
        accel.flush()
        with open_reader(tmp_path / "trace.db") as store:
            turns = list(store.turns())
    total = report(turns).total
    assert [one.name for one in total.beside] == ([name] if name else [])
    assert ("Beside other middleware" in render_text(report(turns))) == bool(name)
    for one in total.beside:
        assert 0 < one.requests <= len(turns) - 5
        assert {row.cause for row in one.causes} == {cause}
        assert sum(row.tokens for row in one.causes) == sum(
            miss.tokens for turn in turns if turn.beside for miss in turn.misses if miss.cause is cause
        )


# --- Models -----------------------------------------------------------------------------------------------------------


def test_a_model_that_is_not_known_goes_out_as_it_did_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    model = FakeListChatModel(responses=["a"])
    with Accel(Policy(store=StorePolicy(enabled=False)), environ={}) as accel:
        assert wrap_model(accel, model) is model
    assert "FakeListChatModel goes out as it did" in caplog.text


def test_the_model_that_was_given_is_not_changed(tmp_path: Path) -> None:
    with warehouse("look") as server, accel_in(tmp_path) as accel:
        model = chat(server)
        before = dict(model.__dict__)
        wrapped = wrap_model(accel, model)
        assert type(wrapped) is type(model)
        assert wrapped is not model
        assert {name: value for name, value in model.__dict__.items() if name in before} == before
        assert wrapped._async_client is not model._async_client
        assert wrapped._async_client._client is model._async_client._client


@pytest.mark.parametrize(("said", "why"), NO_DECLARATIONS.values(), ids=NO_DECLARATIONS)
def test_what_cannot_be_declared_of_tools_is_refused_at_once(said: dict[str, Any], why: str) -> None:
    with Accel(Policy(store=StorePolicy(enabled=False))) as accel, pytest.raises(ConfigError, match=re.escape(why)):
        accelerated(accel, **said)


def test_of_agents_built_for_each_request_tools_made_once_begin_early_each_time_and_others_in_a_session(
    tmp_path: Path,
) -> None:
    """A function given to `create_agent` becomes another tool each time, and one made in a request may be of a user."""
    for arm in ("made once", "a function", "made in each", "made in each, in a session"):
        desk = Desk()
        function = looking(desk)
        given = {"made once": tool(function), "a function": function}
        with warehouse("look") as server, accel_in(tmp_path / arm) as accel:
            for request in range(3):
                tools = [given[arm] if arm in given else tool(looking(desk))]
                middleware = accelerated(accel, reads=["look"])
                agent = create_agent(chat(server), tools, system_prompt=RULES, middleware=middleware)
                with accel.session(str(request)) if arm.endswith("session") else nullcontext():
                    asyncio.run(agent.ainvoke(GO))
        begun = [early for _, early in desk.ran]
        assert begun == [True, *[arm in ("made once", "made in each, in a session")] * 2], arm


def looking(desk: Desk) -> Any:
    async def look(key: str) -> str:
        """Look at something."""
        return desk.note("look")

    return look
