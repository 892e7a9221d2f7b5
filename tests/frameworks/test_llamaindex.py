"""`agentaccel_llamaindex`: agents of LlamaIndex are what they were, and tools begin early."""

import asyncio
import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("llama_index", reason="llama_index is in another environment")

from anthropic import BadRequestError
from llama_index.core.agent.workflow import AgentStream, AgentWorkflow, FunctionAgent
from llama_index.core.llms import MockLLM
from llama_index.core.objects import ObjectRetriever
from llama_index.core.tools import FunctionTool, ToolMetadata, ToolOutput
from llama_index.core.tools.types import BaseTool
from llama_index.core.workflow import Context
from llama_index.llms.anthropic import Anthropic
from llama_index.llms.openai import OpenAI

from agentaccel import Accel, CachePolicy, ConfigError, Policy, StorePolicy, ToolPolicy, ToolRecord, TurnRecord
from agentaccel.testing.conformance import assert_conforms
from agentaccel.testing.states import differences, same_but_ids
from agentaccel_emulator import Conversation, RunningServer, Script, ScriptedReply, call, say, serve
from agentaccel_llamaindex import accelerated
from tests.frameworks import agents
from tests.frameworks.early import NO_DECLARATIONS, Runs, seen_by_the_kit

# No annotations in strings here: LlamaIndex knows a tool that takes the context by the annotation itself.
pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]


@pytest.fixture(autouse=True)
def _nobody_closes_the_clients_of_llamaindex() -> Iterator[None]:
    """What is lost with them is told here, and not of whatever runs next."""
    yield
    gc.collect()


PLAIN = Policy(cache=CachePolicy(freeze_tools=True), tools=ToolPolicy(speculate=False))
INSIDE = replace(PLAIN, stream_inside=True)


@pytest.mark.parametrize("policy", [None, INSIDE], ids=["", "inside"])
@pytest.mark.parametrize("wire", ["messages", "chat"])
def test_an_agent_with_the_adapter_is_what_it_was(wire: str, policy: Policy | None) -> None:
    assert_conforms(agents.llamaindex, wire=wire, policy=policy)


@pytest.mark.parametrize("wire", ["messages", "chat"])
def test_tools_begin_early_in_it(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The floor of the kit: where nothing is begun early, nothing is told of gates."""
    began = seen_by_the_kit(monkeypatch)
    assert_conforms(agents.llamaindex, wire=wire, policy=INSIDE)
    assert any(began)


# --- One agent, whose model asks for what it is told to ---------------------------------------------------------------


class Sync(BaseTool):
    """A tool of a class of its own that knows nothing of event loops, as query engines were."""

    def __init__(self, desk: "Desk") -> None:
        self.desk = desk

    @property
    def metadata(self) -> ToolMetadata:
        return ToolMetadata(name="search", description="Search.")

    def __call__(self, input: Any) -> ToolOutput:  # noqa: A002 - LlamaIndex's name
        return ToolOutput(content=self.desk.note("search"), tool_name="search", raw_input={}, raw_output=None)


class OwnWay(FunctionTool):
    """Of the user's own: it may ask somebody first."""

    async def acall(self, *args: Any, **kwargs: Any) -> ToolOutput:
        return await super().acall(*args, **kwargs)


@dataclass
class Desk(Runs):
    """Tools of an agent."""

    name: str = "desk"
    told: list[str] = field(default_factory=list)

    def note(self, name: str, said: object = "") -> str:
        return f"{self.name}: {super().note(name, said)}"

    async def look(self, key: str, often: int = 1) -> str:
        """Look at something."""
        return self.note("look", (key, often))

    def look_sync(self, key: str) -> str:
        """Look at something in a thread."""
        return self.note("look_sync", key)

    async def of_user(self, key: str, user: str) -> str:
        """Look at what belongs to a user."""
        return self.note("of_user", user)

    async def peek(self, ctx: Context, key: str) -> str:
        """Read the state of the run."""
        return self.note("peek", await ctx.store.get("num_iterations"))

    async def careful(self, key: str) -> str:
        """Look at something, by a tool of the user's own class."""
        return self.note("careful", key)

    def tools(self) -> list[Any]:
        return [
            FunctionTool.from_defaults(self.look, callback=lambda result: self.told.append(str(result))),
            FunctionTool.from_defaults(self.look_sync),
            FunctionTool.from_defaults(self.of_user, partial_params={"user": "ann"}),
            FunctionTool.from_defaults(self.peek),
            OwnWay.from_defaults(self.careful),
            Sync(self),
        ]


READS = ["look", "look_sync", "of_user", "peek", "careful", "search"]
RULES = "You are the desk of a warehouse, and never guess. " * 400
SAID: dict[str, dict[str, str]] = {"search": {"input": "a"}, "handoff": {"to_agent": "other", "reason": "it knows"}}


def all_at_once(*names: str) -> ScriptedReply:
    asked = [call(name, SAID.get(name, {"key": "a"})) for name in names]
    return ScriptedReply(content=tuple(block for one in asked for block in one.content))


@contextmanager
def warehouse(*names: str, replies: Any = ()) -> Iterator[RunningServer]:
    """A model that asks for these tools, in one message, and then says something, twice over."""
    replies = replies or (all_at_once(*names), say("Done."), all_at_once(*names), say("Done again."))
    with serve(script=Script(conversations=(Conversation(match="Go", replies=replies),))) as server:
        yield server


@contextmanager
def accel_in(folder: Path, policy: Policy = PLAIN) -> Iterator[Accel]:
    with Accel(replace(policy, store=StorePolicy(path=folder / "trace.db"), strict=True), environ={}) as accel:
        yield accel


def model_at(server: RunningServer, wire: str = "messages", **more: Any) -> Any:
    if wire == "messages":
        return Anthropic(
            model="claude-sonnet-5", base_url=server.url, api_key="k", max_tokens=500, max_retries=1, **more
        )
    return OpenAI(model="gpt-4.1", api_base=f"{server.url}/v1", api_key="k", max_retries=1, **more)


def held(agent: Any, *asked: str) -> tuple[Any, list[Any]]:
    """The messages of one conversation, and what a reader of its events sees."""

    async def main() -> Any:
        context, events = Context(agent), list[Any]()
        for one in asked or ("Go", "Go on."):
            handler = agent.run(one, ctx=context)
            events += [event async for event in handler.stream_events()]
            await handler
        memory = await context.store.get("memory")
        messages = [one.model_dump(mode="json", exclude={"additional_kwargs"}) for one in await memory.aget_all()]
        told = [(type(one).__name__, one.delta if isinstance(one, AgentStream) else "") for one in events]
        return messages, sorted(told)

    return asyncio.run(main())


@pytest.mark.parametrize("wire", ["messages", "chat"])
def test_tools_begin_before_the_message_has_ended_and_nobody_can_tell(wire: str, tmp_path: Path) -> None:
    """The floor: plain, in a thread, with arguments of the user's own, of a class of its own. What takes the context,
    or is called in a way of its own, does not."""
    seen = []
    for arm in ("without", "with"):
        desk = Desk()
        with warehouse(*READS) as server, accel_in(tmp_path) as accel:
            agent = FunctionAgent(tools=desk.tools(), llm=model_at(server, wire), system_prompt=RULES)
            seen.append(held(accelerated(accel, agent, reads=READS) if arm == "with" else agent))
        assert sorted(name for name, _ in desk.ran) == sorted(READS * 2)
        assert desk.early == ({"look", "look_sync", "of_user", "search"} if arm == "with" else set())
        assert desk.told == ["desk: look is done ('a', 1)"] * 2
    (was, events), (state, told) = seen
    assert told == events
    assert sorted(str(same_but_ids(one)) for one in state) == sorted(str(same_but_ids(one)) for one in was)


def test_the_agent_that_was_given_its_model_and_its_tools_are_not_changed(tmp_path: Path) -> None:
    for wire in ("messages", "chat"):
        desk = Desk()
        with warehouse("look") as server, accel_in(tmp_path) as accel:
            llm = model_at(server, wire)
            agent = FunctionAgent(tools=desk.tools(), llm=llm, system_prompt=RULES)
            workflow = AgentWorkflow(agents=[agent])
            things: list[Any] = [agent, llm, workflow, *(agent.tools or ())]
            private = dict(llm.__pydantic_private__ or {})
            before = [dict(vars(one)) for one in things]
            held(accelerated(accel, workflow, reads=READS))
            assert [dict(vars(one)) for one in things] == before
            assert llm.__pydantic_private__ == private
            assert desk.early == {"look"}
            held(agent, "Go")
            assert desk.ran[-1] == ("look", False)


def test_where_the_user_calls_tools_none_is_begun_early_unless_he_vouches(tmp_path: Path) -> None:
    class Careful(FunctionAgent):
        async def _call_tool(self, *given: Any) -> Any:
            return await super()._call_tool(*given)

    for vouched in (False, True):
        desk = Desk()
        with warehouse("look", "look_sync") as server, accel_in(tmp_path) as accel:
            agent = Careful(tools=desk.tools(), llm=model_at(server), system_prompt=RULES)
            gated: Any = {"needs_approval": ["look_sync"]} if vouched else {}
            held(accelerated(accel, agent, reads=READS, **gated))
        assert sorted(name for name, _ in desk.ran) == ["look", "look", "look_sync", "look_sync"]
        assert desk.early == ({"look"} if vouched else set())


def test_tools_that_are_looked_up_begin_early_too(tmp_path: Path) -> None:
    class Finds(ObjectRetriever[Any]):
        def __init__(self, tools: list[Any]) -> None:
            self.found = tools

        async def aretrieve(self, asked: Any) -> list[Any]:
            return self.found

    desk = Desk()
    with warehouse("look", "peek") as server, accel_in(tmp_path) as accel:
        agent = FunctionAgent(tool_retriever=Finds(desk.tools()), llm=model_at(server), system_prompt=RULES)
        held(accelerated(accel, agent, reads={"look": {"scope": "desk"}, "peek": {}}))
    assert len(desk.ran) == 4
    assert desk.early == {"look"}


def test_a_tool_that_agentaccel_has_wrapped_is_answered_and_recorded_once(tmp_path: Path) -> None:
    desk, seen = Desk(), list[Any]()
    with warehouse("look") as server, accel_in(tmp_path) as accel:
        accel.add_hook(lambda told: seen.append(told.record))
        look = accel.tool(effect="read_local", concurrent=True)(desk.look)
        agent = FunctionAgent(tools=[look], llm=model_at(server), system_prompt=RULES)
        held(accelerated(accel, agent))
    assert desk.ran == [("look", True)] * 2
    assert [one.served_from for one in seen if isinstance(one, ToolRecord) and not one.speculative] == ["asked"] * 2


# --- Several agents ---------------------------------------------------------------------------------------------------


def two_desks(server: RunningServer, one: Desk, other: Desk) -> AgentWorkflow:
    def desk(tools: Desk, name: str) -> FunctionAgent:
        made: Any = [tools.look, tools.look_sync] if name == "first" else [tools.look]
        return FunctionAgent(name=name, description=name, tools=made, llm=model_at(server), system_prompt=RULES)

    return AgentWorkflow(agents=[desk(one, "first"), desk(other, "other")], root_agent="first")


def test_one_agent_hands_over_to_another_and_two_tools_of_one_name_share_nothing(tmp_path: Path) -> None:
    """The floor: a tool whose name only one of them has begins early, and so does one that both have."""
    replies = (*map(all_at_once, ("look_sync", "look", "handoff", "look")), say("Done."))
    for shared in (False, True):
        seen = []
        for arm in ("without", "with"):
            one = Desk(name="one")
            other = one if shared else Desk(name="other")
            with warehouse(replies=replies) as server, accel_in(tmp_path) as accel:
                workflow: Any = two_desks(server, one, other)
                seen.append(held(accelerated(accel, workflow, reads=READS) if arm == "with" else workflow, "Go"))
                assert {entry.status for entry in server.log} == {200}
            ran = [*one.ran, *(() if shared else other.ran)]
            assert sorted(name for name, _ in ran) == ["look", "look", "look_sync"]
            wanted = {"look", "look_sync"} if shared else {"look_sync"}
            assert {name for name, early in ran if early} == (wanted if arm == "with" else set())
        results = [part["text"] for one in seen[1][0] for part in one["blocks"] if "text" in part]
        assert f"{'one' if shared else 'other'}: look is done ('a', 1)" in results
        assert not [*differences(same_but_ids(seen[0][0]), same_but_ids(seen[1][0]), "state")]


# --- Models -----------------------------------------------------------------------------------------------------------


def test_usage_that_llamaindex_drops_is_recorded(tmp_path: Path) -> None:
    """Its streams of OpenAI's ask for no usage; each request is recorded to the token that was billed."""
    desk, seen = Desk(), list[Any]()
    with warehouse("look") as server, accel_in(tmp_path) as accel:
        accel.add_hook(lambda told: seen.append(told.record))
        agent = FunctionAgent(tools=desk.tools(), llm=model_at(server, "chat"), system_prompt=RULES)
        held(accelerated(accel, agent, reads=READS))
        billed = [(entry.usage.input, entry.usage.read) for entry in server.log if entry.usage is not None]
    recorded = [(one.usage.input, one.usage.read) for one in seen if isinstance(one, TurnRecord)]
    assert len(billed) == 4
    assert recorded == billed
    assert sum(read or 0 for _, read in billed) > 0


def test_markers_that_llamaindex_places_beyond_what_the_provider_takes_are_mended(tmp_path: Path) -> None:
    """The twin: as it is, `cache_idx=-1` has the request refused once there are more messages than that."""
    replies = (*map(all_at_once, ("look", "look_sync", "of_user")), say("Done."))
    for arm in ("without", "with"):
        desk, seen = Desk(), list[Any]()
        with warehouse(replies=replies) as server, accel_in(tmp_path) as accel:
            accel.add_hook(lambda told, seen=seen: seen.append(told.record))
            llm = model_at(server, cache_idx=-1)
            agent = FunctionAgent(tools=desk.tools(), llm=llm, system_prompt=RULES)
            if arm == "without":
                with pytest.raises(BadRequestError, match="cache_control"):
                    held(agent, "Go")
            else:
                messages, _ = held(accelerated(accel, agent, reads=READS), "Go")
                assert messages[-1]["blocks"][0]["text"] == "Done."
                turns = [one for one in seen if isinstance(one, TurnRecord)]
                assert [len(one.markers) for one in turns][-1] == 4
                assert turns[-1].usage.read
            refused = [entry.status for entry in server.log if entry.status != 200]
        assert bool(refused) == (arm == "without")


@pytest.mark.parametrize(
    ("llm", "why"),
    [
        (lambda server: MockLLM(), "MockLLM goes out as it did: its client is not known here"),
        (lambda server: model_at(server, "chat", reuse_client=False), "it makes a client for each request"),
    ],
    ids=["unknown", "a client for each request"],
)
def test_a_model_that_cannot_be_reached_goes_out_as_it_did_and_the_log_says_so(
    llm: Any, why: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with warehouse("look") as server, accel_in(tmp_path) as accel:
        given = llm(server)
        agent = FunctionAgent(tools=[], llm=given, system_prompt=RULES)
        assert accelerated(accel, agent).llm is given
    assert why in caplog.text


@pytest.mark.parametrize(("said", "why"), NO_DECLARATIONS.values(), ids=NO_DECLARATIONS)
def test_what_cannot_be_declared_of_tools_is_refused_at_once(said: dict[str, Any], why: str, tmp_path: Path) -> None:
    with accel_in(tmp_path) as accel, pytest.raises(ConfigError, match=re.escape(why)):
        accelerated(accel, FunctionAgent(tools=[], llm=MockLLM()), **said)
