"""agentaccel in agents of LlamaIndex: one function gives a copy of an agent, or of a workflow of several.

agent = accelerated(accel, FunctionAgent(tools=[find_order], llm=llm), reads=["find_order"])
"""

from __future__ import annotations

import copy
import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import getattr_static
from typing import Any, TypeVar

from llama_index.core.agent.workflow import AgentWorkflow, BaseWorkflowAgent
from llama_index.core.llms import LLM
from llama_index.core.objects import ObjectRetriever
from llama_index.core.tools import AsyncBaseTool, BaseTool, FunctionTool, adapt_to_async_tool

from agentaccel import Accel, ConfigError, DeclaredTools
from agentaccel.beside import stopped
from agentaccel.effects.spec import spec_of

__all__ = ["accelerated"]

log = logging.getLogger("agentaccel")

A = TypeVar("A", bound=BaseWorkflowAgent | AgentWorkflow)


def accelerated(
    accel: Accel,
    agent: A,
    *,
    reads: Iterable[str] | Mapping[str, Mapping[str, Any]] = (),
    needs_approval: Iterable[str] | None = None,
) -> A:
    """A copy of `agent` whose requests and tool calls go through `accel`; the agent given, its model and its tools are
    not changed.

    `reads` names the tools that change nothing; a mapping declares more of each, by the fields of `ToolSpec`:
    `{"find_order": {"max_age": 60}}`. Where a class of your own calls the tools of an agent, none is run early;
    `needs_approval` names those that it stops: given, even as an empty list, it is all that may be stopped.
    """
    declared = DeclaredTools(reads, needs_approval)
    several = [agent, *agent.agents.values()] if isinstance(agent, AgentWorkflow) else [agent]
    tools = _Tools(accel, declared, stopped(several, _may_stop) if needs_approval is None else frozenset())
    if isinstance(agent, AgentWorkflow):
        workflow = copy.copy(agent)
        workflow.agents = {name: _copied(one, tools) for name, one in agent.agents.items()}
        return workflow
    return _copied(agent, tools)


def _copied(agent: A, tools: _Tools) -> A:
    assert isinstance(agent, BaseWorkflowAgent)
    changes: dict[str, Any] = {"llm": _wrapped(tools.accel, agent.llm)}
    if agent.tools is not None:
        changes["tools"] = [tools.answered(tool) for tool in agent.tools if isinstance(tool, BaseTool)]
    if agent.tool_retriever is not None:
        changes["tool_retriever"] = _retriever(agent.tool_retriever, tools)
    return agent.model_copy(update=changes)


def _retriever(retriever: ObjectRetriever[Any], tools: _Tools) -> ObjectRetriever[Any]:
    """A copy that finds the same tools, which are answered then."""
    made, known = copy.copy(retriever), dict[int, tuple[Any, Any]]()

    async def aretrieve(asked: Any) -> list[Any]:
        found = await retriever.aretrieve(asked)
        if len(known) >= _MOST:
            known.clear()
        known.update({id(tool): (tool, tools.answered(tool)) for tool in found if id(tool) not in known})
        return [known[id(tool)][1] for tool in found]

    vars(made)["aretrieve"] = aretrieve
    return made


def _wrapped(accel: Accel, llm: LLM) -> LLM:
    """A copy of a model whose clients go through `accel`, and share the connections of those that it has."""
    if not getattr(llm, "reuse_client", True):
        return _as_it_is(llm, "with reuse_client=False it makes a client for each request")
    made = llm.model_copy()
    if hasattr(made, "_get_aclient"):
        made._get_aclient()  # OpenAI's makes one when it is first needed: here, the copy does
    clients = {name: client for name in ("_client", "_aclient") if (client := getattr(made, name, None)) is not None}
    try:
        for name, client in clients.items():
            setattr(made, name, accel.wrap(client))
    except ConfigError as refused:
        return _as_it_is(llm, str(refused))
    return made if clients else _as_it_is(llm, "its client is not known here")


def _as_it_is(llm: LLM, why: str) -> LLM:
    log.warning("agentaccel: %s goes out as it did: %s", type(llm).__name__, why)
    return llm


# --- Tools ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Tools:
    """What is known of the tools of an agent."""

    accel: Accel
    declared: DeclaredTools
    gated: frozenset[str] | None

    def answered(self, tool: BaseTool) -> BaseTool:
        """A copy of a tool whose calls may be answered by what ran early. agentaccel is told of it: of those of which
        nothing is said, too, so that none is taken for another one of its name."""
        known, name = adapt_to_async_tool(tool), tool.metadata.get_name()
        if spec_of(getattr(tool, "real_fn", None)) is not None:  # a tool of agentaccel's already
            return tool
        own_way = isinstance(tool, FunctionTool) and getattr_static(type(tool), "acall") is not _ACALL
        injected = isinstance(tool, FunctionTool) and tool.requires_context
        said = self.declared.of(name, self.gated, injected=injected, needs_approval=own_way)
        self.accel.tool(name=name, **said)(_early(tool, known))
        made = copy.copy(known)
        vars(made)["acall"] = functools.partial(_call, self.accel, known)
        return made


async def _call(accel: Accel, tool: AsyncBaseTool, *args: Any, **named: Any) -> Any:
    """One call of a tool. Of a function only the body is answered: defaults and callbacks are around it as before."""
    said = {str(at): one for at, one in enumerate(args)} | named
    if not isinstance(tool, FunctionTool):
        return await accel.call_tool(tool.metadata.get_name(), said, functools.partial(tool.acall, *args, **named))
    said.pop(tool.ctx_param_name or "", None)
    body, once = tool.async_fn, copy.copy(tool)

    async def answered(*args: Any, **named: Any) -> Any:
        return await accel.call_tool(tool.metadata.get_name(), said, functools.partial(body, *args, **named))

    vars(once)["_async_fn"] = answered
    return await once.acall(*args, **named)


def _early(given: BaseTool, tool: AsyncBaseTool) -> Callable[..., Any]:
    """What runs a tool by the arguments of the model, and nothing that is around it. The same function for the same
    tool, whichever agent has it."""
    key: Any = id(given)
    if isinstance(tool, FunctionTool) and not tool.partial_params:
        key = tool.real_fn, getattr(tool.async_fn, "__code__", tool.async_fn), tool.metadata.get_name()
    if len(_EARLY) >= _MOST and key not in _EARLY:
        _EARLY.clear()

    async def run(**arguments: Any) -> Any:
        if isinstance(tool, FunctionTool):
            return await tool.async_fn(**{**getattr(tool, "_field_defaults", {}), **tool.partial_params, **arguments})
        return await tool.acall(**arguments)

    return _EARLY.setdefault(key, run)


_ACALL = getattr_static(FunctionTool, "acall")  # tracing puts a new object around it for each look at it
_EARLY: dict[Any, Callable[..., Any]] = {}  # by what keeps the tool, so that no other one has its id
_MOST = 1024  # agents may be made anew for every question


def _may_stop(part: object) -> bool:
    """True if an agent or a workflow calls tools by a method of its own."""
    own = [getattr(type(part), name, None) for name in ("call_tool", "_call_tool", "get_tools")]
    return not all(getattr(one, "__module__", "").startswith("llama_index.core.") for one in own)
