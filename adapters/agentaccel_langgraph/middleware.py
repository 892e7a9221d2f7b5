"""The two touch points of an agent of LangChain: its model call, and its tool calls."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from langchain.agents.middleware import AgentMiddleware, ModelRequest
from langchain_core.language_models import BaseChatModel
from langchain_core.tools import BaseTool
from langgraph.config import get_config
from langgraph.prebuilt.tool_node import ToolCallRequest

from agentaccel import Accel, DeclaredTools
from agentaccel.beside import ALL, stopped
from agentaccel_langgraph.models import wrap_model
from agentaccel_langgraph.tools import answered, body, declares_itself, is_injected

log = logging.getLogger("agentaccel")

R = TypeVar("R", ModelRequest[Any], ToolCallRequest)
Middleware = AgentMiddleware[Any, Any, Any]
Later = Callable[..., Awaitable[Any]]
Reads = Iterable[str] | Mapping[str, Mapping[str, Any]]


class AccelMiddleware(AgentMiddleware[Any, Any, Any]):
    """agentaccel in one agent, wherever it stands in the list of middleware.

    `reads` names the tools that change nothing; a mapping declares more of each, by the fields of `ToolSpec`:
    `{"find_order": {"max_age": 60}}`. `beside` is the other middleware of the agent: what it may stop is never run
    early, nor is anything beside middleware that is not known. `needs_approval` names tools that something else may
    stop; given, even as an empty list, it is all that may. `trust_annotations` takes the word of the MCP servers that
    tools come from. `tools` are those of a graph that is written by hand.
    """

    def __init__(
        self,
        accel: Accel,
        *,
        beside: Sequence[Middleware],
        reads: Reads = (),
        needs_approval: Iterable[str] | None = None,
        trust_annotations: bool = False,
        tools: Sequence[BaseTool] = (),
    ) -> None:
        super().__init__()
        self._accel, self._trusted, self._others = accel, trust_annotations, tuple(beside)
        self._declared = DeclaredTools(reads, needs_approval)
        self._vouched = needs_approval is not None
        self._beside = {one.name for one in beside} | {self.name}
        self._stops = stopped(beside, self._may_stop)
        self._seen = dict[int, BaseTool]()
        self._models = dict[int, tuple[BaseChatModel, BaseChatModel]]()
        self._declare(tools)

    def wrap_model_call(self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Any]) -> Any:
        with self._accel.beside(self._others):
            return handler(self._safely(self._prepared, request))

    async def awrap_model_call(self, request: ModelRequest[Any], handler: Later) -> Any:
        with self._accel.beside(self._others):
            return await handler(self._safely(self._prepared, request))

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        return handler(self._safely(self._answered, request))

    async def awrap_tool_call(self, request: ToolCallRequest, handler: Later) -> Any:
        return await handler(self._safely(self._answered, request))

    def _safely(self, prepare: Callable[[R], R], request: R) -> R:
        """What is to be called, or the request as it was: a failure of ours is no failure of the agent."""
        try:
            return prepare(request)
        except Exception:
            if self._accel.policy.strict:
                raise
            log.exception("agentaccel: a call of %s goes on without it", type(request).__name__)
            return request

    def _prepared(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        """The same request, of a model that is wrapped."""
        if self._stops is not ALL and not self._vouched and stopped(_nodes() - self._beside, self._may_stop) is ALL:
            self._stops, self._seen = ALL, {}
        self._declare(request.tools)
        known = self._models.get(id(request.model))
        if known is None:
            if len(self._models) >= _MOST_MODELS:
                self._models.clear()
            known = self._models[id(request.model)] = (request.model, wrap_model(self._accel, request.model))
        return request.override(model=known[1])

    def _answered(self, request: ToolCallRequest) -> ToolCallRequest:
        if request.tool is None or request.tool_call["id"] is None or declares_itself(request.tool):
            return request
        return request.override(tool=answered(self._accel, request.tool, dict(request.tool_call)))

    def _declare(self, tools: Iterable[Any]) -> None:
        """Tell agentaccel of tools that it has not seen: those of which nothing is said, too, so that none is taken for
        another one of its name. They may run in a thread, as the framework has them do."""
        for tool in tools:
            if not isinstance(tool, BaseTool) or id(tool) in self._seen:
                continue
            self._seen[id(tool)] = tool
            declared = self._declared.of(
                tool.name,
                self._stops,
                concurrent=self._trusted,
                in_thread=True,
                listing={"name": tool.name, "metadata": tool.metadata or {}},
                server={"name": "langchain", "trusted": self._trusted},
                injected=is_injected(tool),
            )
            if not declares_itself(tool, gated=declared["needs_approval"]):
                self._accel.tool(name=tool.name, **declared)(body(tool))

    def _may_stop(self, part: object) -> bool:
        """True if middleware looks at tool calls, or at what the model says; where only its name is known, it does."""
        own = [getattr(type(part), hook, None) is not getattr(AgentMiddleware, hook) for hook in _STOPPING]
        return not self._vouched and any(own)


_STOPPING = ("wrap_tool_call", "awrap_tool_call", "after_model", "aafter_model")
_MOST_MODELS = 8  # of one agent that are kept wrapped: middleware may choose among several


def _nodes() -> set[str]:
    """Middleware with a node behind the model in the graph that runs here, by name: functions that build an agent add
    some of their own. LangGraph has a channel for each; where they cannot be seen, a name that nobody knows."""
    read = get_config().get("configurable", {}).get("__pregel_read")
    channels = [name for one in getattr(read, "args", ()) if isinstance(one, Mapping) for name in one]
    nodes = {str(name).removeprefix("branch:to:") for name in channels}
    if "model" not in nodes:
        return {"what cannot be seen here"}
    return {node.removesuffix(".after_model") for node in nodes if node.endswith(".after_model")}


def accelerated(accel: Accel, middleware: Sequence[Middleware] = (), **declared: Any) -> list[Middleware]:
    """The middleware of an agent, and agentaccel behind it, next to its model; `declared` as `AccelMiddleware`."""
    return [*middleware, AccelMiddleware(accel, beside=middleware, **declared)]
