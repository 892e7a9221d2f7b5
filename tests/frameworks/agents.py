"""The desk of the conformance kit in each framework, as its documentation builds an agent."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from agentaccel.testing.conformance import GATED, READS, Ask, Setting


@asynccontextmanager
async def langchain(setting: Setting) -> AsyncIterator[Ask]:
    """`create_agent`, with a checkpointer: the state is what the checkpoint has."""
    from langchain.agents import create_agent
    from langgraph.checkpoint.memory import InMemorySaver

    agent = create_agent(
        _chat_model(setting),
        tools=_langchain_tools(setting),
        system_prompt=setting.instructions,
        checkpointer=setting.conversations.setdefault("all", InMemorySaver()),
        middleware=_langchain_middleware(setting),
    )
    yield _graph(agent)


@asynccontextmanager
async def langgraph(setting: Setting) -> AsyncIterator[Ask]:
    """A graph written by hand: a model, and a node of tools."""
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    tools, chat, around = _langchain_tools(setting), _chat_model(setting), dict[str, Any]()
    if setting.accel is not None:
        from agentaccel_langgraph import AccelMiddleware, wrap_model

        ours = AccelMiddleware(setting.accel, tools=tools, beside=[], reads=READS | GATED, needs_approval=GATED)
        chat, around = wrap_model(setting.accel, chat), {"awrap_tool_call": ours.awrap_tool_call}
    model = chat.bind_tools(tools)

    async def think(state: MessagesState) -> Any:
        return {"messages": [await model.ainvoke([("system", setting.instructions), *state["messages"]])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(tools, handle_tool_errors=False, **around))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    yield _graph(graph.compile(checkpointer=setting.conversations.setdefault("all", InMemorySaver())))


@asynccontextmanager
async def deepagents(setting: Setting) -> AsyncIterator[Ask]:
    from deepagents import create_deep_agent
    from langgraph.checkpoint.memory import InMemorySaver

    agent = create_deep_agent(
        model=_chat_model(setting),
        tools=_langchain_tools(setting),
        system_prompt=setting.instructions,
        checkpointer=setting.conversations.setdefault("all", InMemorySaver()),
        middleware=_langchain_middleware(setting),
    )
    yield _graph(agent)


def _langchain_middleware(setting: Setting) -> list[Any]:
    from agentaccel_langgraph import accelerated

    return [] if setting.accel is None else accelerated(setting.accel, reads=READS | GATED, needs_approval=GATED)


def _chat_model(setting: Setting) -> Any:
    if setting.model.startswith("claude"):
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(
            model=setting.model, base_url=setting.url, api_key="k", max_retries=1, max_tokens=setting.max_tokens
        )
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(
        model=setting.model, base_url=f"{setting.url}/v1", api_key="k", max_retries=1, max_tokens=setting.max_tokens
    )


def _langchain_tools(setting: Setting) -> list[Any]:
    from langchain_core.tools import StructuredTool

    return [
        StructuredTool.from_function(coroutine=tool, name=name, description=tool.__doc__)
        for name, tool in setting.tools.items()
    ]


def _graph(agent: Any) -> Ask:
    """What is asked of a graph, its chunks being part of the state."""

    async def ask(question: str, conversation: str) -> Any:
        config = {"configurable": {"thread_id": conversation}}
        nodes = [
            list(chunk)
            async for chunk in agent.astream({"messages": [("user", question)]}, config, stream_mode="updates")
        ]
        state = await agent.aget_state(config)
        return {"messages": [one.model_dump() for one in state.values["messages"]], "nodes": nodes}

    return ask


@asynccontextmanager
async def pydantic_ai(setting: Setting) -> AsyncIterator[Ask]:
    from pydantic_ai import Agent

    async with _pydantic_model(setting) as model:
        agent: Any = Agent(
            model,
            instructions=setting.instructions,
            tools=[*setting.tools.values()],
            model_settings={"max_tokens": setting.max_tokens},
            capabilities=_pydantic_capabilities(setting),
        )
        histories = setting.conversations

        async def ask(question: str, conversation: str) -> Any:
            result = await agent.run(question, message_history=histories.get(conversation))
            histories[conversation] = result.all_messages()
            return json.loads(result.all_messages_json())

        yield ask


def _pydantic_capabilities(setting: Setting) -> list[Any]:
    if setting.accel is None:
        return []
    from agentaccel_pydantic_ai import AccelCapability

    return [AccelCapability(setting.accel, reads=READS | GATED, needs_approval=GATED)]


@asynccontextmanager
async def _pydantic_model(setting: Setting) -> AsyncIterator[Any]:
    """With a client of the user's."""
    if setting.model.startswith("claude"):
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        async with AsyncAnthropic(base_url=setting.url, api_key="k", max_retries=1) as client:
            setting.watch(client)
            yield AnthropicModel(setting.model, provider=AnthropicProvider(anthropic_client=client))
        return
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async with AsyncOpenAI(base_url=f"{setting.url}/v1", api_key="k", max_retries=1) as client:
        setting.watch(client)
        yield OpenAIResponsesModel(setting.model, provider=OpenAIProvider(openai_client=client))


@asynccontextmanager
async def openai_agents(setting: Setting, wrap: Callable[[Any], Any] = lambda client: client) -> AsyncIterator[Ask]:
    """`wrap` is what is done with the client that its model is given."""
    from agents import Agent, ModelSettings, OpenAIResponsesModel, RunConfig, Runner, function_tool
    from openai import AsyncOpenAI

    async with AsyncOpenAI(base_url=f"{setting.url}/v1", api_key="k", max_retries=1) as client:
        setting.watch(client)
        agent = Agent(
            name="desk",
            instructions=setting.instructions,
            model=OpenAIResponsesModel(setting.model, openai_client=wrap(client)),
            model_settings=ModelSettings(max_tokens=setting.max_tokens),
            tools=[function_tool(tool, failure_error_function=None) for tool in setting.tools.values()],
        )
        histories = setting.conversations

        async def ask(question: str, conversation: str) -> Any:
            asked = [*histories.get(conversation, ()), {"role": "user", "content": question}]
            result = await Runner.run(agent, asked, run_config=RunConfig(tracing_disabled=True))
            histories[conversation] = result.to_input_list()
            return json.loads(json.dumps(histories[conversation]))

        yield ask


@asynccontextmanager
async def llamaindex(setting: Setting) -> AsyncIterator[Ask]:
    """`FunctionAgent`, not streamed: what it keeps of a reply is the whole of it."""
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.memory import ChatMemoryBuffer
    from llama_index.core.tools import FunctionTool

    tools = [
        FunctionTool.from_defaults(async_fn=tool, name=name, description=tool.__doc__)
        for name, tool in setting.tools.items()
    ]
    llm = _llama_model(setting)
    agent = FunctionAgent(tools=tools, llm=llm, system_prompt=setting.instructions, streaming=False)
    setting.watch(agent, llm, *tools)
    if setting.accel is not None:
        from agentaccel_llamaindex import accelerated

        agent = accelerated(setting.accel, agent, reads=READS | GATED, needs_approval=GATED)
        llm = agent.llm

    async def ask(question: str, conversation: str) -> Any:
        memory = setting.conversations.setdefault(conversation, ChatMemoryBuffer.from_defaults(llm=llm))
        await agent.run(question, memory=memory)
        return [one.model_dump(mode="json", exclude={"additional_kwargs"}) for one in await memory.aget_all()]

    yield ask
    if llm._aclient is not None:
        await llm._aclient.close()


def _llama_model(setting: Setting) -> Any:
    if setting.model.startswith("claude"):
        from llama_index.llms.anthropic import Anthropic

        return Anthropic(
            model=setting.model, base_url=setting.url, api_key="k", max_tokens=setting.max_tokens, max_retries=1
        )
    from llama_index.llms.openai import OpenAI

    known = "gpt-4.1"  # the class refuses a model that it does not know
    return OpenAI(model=known, api_base=f"{setting.url}/v1", api_key="k", max_retries=1, max_tokens=setting.max_tokens)
