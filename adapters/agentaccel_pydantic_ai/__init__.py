"""agentaccel in an agent of Pydantic AI, as one of its capabilities.

agent = Agent(model, tools=[find_order], capabilities=[AccelCapability(accel, reads=["find_order"])])
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic_ai import RunContext, RunUsage
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models import Model
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool, WrapperToolset
from pydantic_ai.toolsets.function import FunctionToolsetTool

from agentaccel import Accel, ConfigError, DeclaredTools
from agentaccel.beside import ALL, stopped
from agentaccel.effects.spec import spec_of

__all__ = ["AccelCapability"]

log = logging.getLogger("agentaccel")

T = TypeVar("T")
Tools = dict[str, ToolsetTool[Any]]


@dataclass
class AccelCapability(AbstractCapability[Any]):
    """agentaccel in one agent, wherever it stands among the capabilities.

    `reads` names the tools that change nothing; a mapping declares more of each, by the fields of `ToolSpec`:
    `{"find_order": {"max_age": 60}}`. Beside capabilities and toolsets that may stop tools, none is run early;
    `needs_approval` names those that they stop: given, even as an empty list, it is all that may be stopped.
    `trust_annotations` takes the word of the MCP servers that tools come from.
    """

    accel: Accel
    reads: Iterable[str] | Mapping[str, Mapping[str, Any]] = ()
    needs_approval: Iterable[str] | None = None
    trust_annotations: bool = False
    _declared: DeclaredTools = field(init=False, repr=False)
    _told: dict[str, Any] = field(default_factory=dict[str, Any], init=False, repr=False)
    others: tuple[object, ...] = field(default=(), init=False, repr=False)
    """What stands beside this, as the last step had it."""

    def __post_init__(self) -> None:
        self._declared = DeclaredTools(self.reads, self.needs_approval)
        self.reads, self.needs_approval = self._declared.reads, self._declared.needs_approval

    def get_wrapper_model(self, model: Model) -> Model:
        return _Sender(model, self)

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        return _Toolset(toolset, self)

    def safely(self, prepare: Callable[..., T], *given: Any) -> T | None:
        """What `prepare` gives; None where it fails, which is no failure of the agent."""
        try:
            return prepare(*given)
        except Exception:
            if self.accel.policy.strict:
                raise
            log.exception("agentaccel: an agent goes on without it")
            return None

    def declare(self, tools: Tools, toolset: AbstractToolset[Any], ctx: RunContext[Any]) -> None:
        """Tell agentaccel of the tools of a step: of those of which nothing is said, too, so that none is taken for
        another one of its name."""
        gated = self._may_be_stopped(toolset, ctx)
        for name, tool in tools.items():
            leaf, definition = _leaf(tool), tool.tool_def
            said = self._declared.of(
                name,
                gated,
                concurrent=self.trust_annotations,
                listing={"name": name, "metadata": _said_of(definition)},
                server={"name": "pydantic_ai", "trusted": self.trust_annotations},
                injected=ctx.validation_context is not None or not _takes_arguments_only(leaf),
                sequential=definition.sequential,
                needs_approval=definition.kind != "function" or tool.args_validator_func is not None,
            )
            told = early, said = _early(leaf, ctx), said
            if spec_of(_executor(leaf)) is None and self._told.get(name) != told:
                self._told[name] = told
                self.accel.tool(name=name, **said)(early)

    def _may_be_stopped(self, toolset: AbstractToolset[Any], ctx: RunContext[Any]) -> frozenset[str] | None:
        beside = list[object](_within(toolset))
        if ctx.root_capability is not None:
            ctx.root_capability.apply(beside.append)
        self.others = tuple(beside)
        if self.needs_approval is not None:
            return frozenset()  # what is named, and nothing else
        if ctx.usage_limits is not None and ctx.usage_limits.tool_calls_limit is not None:
            return ALL
        return stopped(beside, _may_stop)


@dataclass
class _Toolset(WrapperToolset[Any]):
    """All tools of a run; hooks, limits and traces are around this, as before."""

    ours: AccelCapability

    async def get_tools(self, ctx: RunContext[Any]) -> Tools:
        tools = await super().get_tools(ctx)
        self.ours.safely(self.ours.declare, tools, self.wrapped, ctx)
        return tools

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        run = functools.partial(super().call_tool, name, tool_args, ctx, tool)
        if spec_of(_executor(_leaf(tool))) is not None:  # a tool of agentaccel's already
            return await run()
        written = self.ours.safely(_as_written, tool_args, ctx, tool)
        said = tool_args if written is None else written
        return await self.ours.accel.call_tool(name, said, run, id=ctx.tool_call_id)


class _Sender(WrapperModel):
    """A model whose requests go through agentaccel; its client is opened, closed and renewed as before."""

    def __init__(self, model: Model, ours: AccelCapability) -> None:
        super().__init__(model)
        self.ours = ours

    async def request(self, *given: Any, **named: Any) -> Any:
        with self.ours.accel.beside(self.ours.others):
            return await self._accelerated().request(*given, **named)

    @asynccontextmanager
    async def request_stream(self, *given: Any, **named: Any) -> AsyncGenerator[Any]:
        with self.ours.accel.beside(self.ours.others):
            async with self._accelerated().request_stream(*given, **named) as stream:
                yield stream

    def _accelerated(self) -> Model:
        return self.ours.safely(_accelerated, self.ours.accel, self.wrapped) or self.wrapped


def _accelerated(accel: Accel, model: Model) -> Model:
    """A copy of a model with its client wrapped, which shares the connections of that; the model is not changed."""
    changes = dict[str, Any]()
    if isinstance(model, WrapperModel):
        changes = {"wrapped": _accelerated(accel, model.wrapped)}
    elif isinstance(model, FallbackModel):
        changes = {"models": [_accelerated(accel, one) for one in model.models]}
    elif (provider := model.provider) is not None and "_client" in vars(provider):
        try:
            changes = {"_provider": _copied(provider, _client=accel.wrap(provider.client))}
        except ConfigError as refused:
            log.warning("agentaccel: %s goes out as it did: %s", model.model_id, refused)
    return _copied(model, **changes) if changes else model


def _copied(thing: T, **changes: Any) -> T:
    copy = object.__new__(type(thing))
    vars(copy).update(vars(thing), **changes)
    return copy


# --- What a tool is ---------------------------------------------------------------------------------------------------


def _leaf(tool: ToolsetTool[Any]) -> ToolsetTool[Any]:
    """A tool as the toolset has it that runs it."""
    while isinstance(inner := getattr(tool, "source_tool", None), ToolsetTool):
        tool = inner
    return tool


def _said_of(definition: ToolDefinition) -> dict[str, Any]:
    """The metadata of a tool, with the hints of its server that it has given."""
    metadata = definition.metadata or {}
    hints = {name: said for name, said in (metadata.get("annotations") or {}).items() if said is not None}
    return {**metadata, "annotations": hints}


def _executor(leaf: ToolsetTool[Any]) -> Any:
    """What runs a tool, the same in every agent: the user's function, or the toolset's own."""
    if isinstance(leaf, FunctionToolsetTool):
        return getattr(getattr(leaf.call_func, "__self__", None), "function", leaf.call_func)
    *_, toolset = _within(leaf.toolset)
    return getattr(toolset, "direct_call_tool", toolset.call_tool)


def _takes_arguments_only(leaf: ToolsetTool[Any]) -> bool:
    """True if a tool is given what the model has written, and nothing of the run."""
    if isinstance(leaf, FunctionToolsetTool):
        return getattr(getattr(leaf.call_func, "__self__", None), "takes_ctx", True) is False
    *_, toolset = _within(leaf.toolset)
    return hasattr(toolset, "direct_call_tool") and getattr(toolset, "process_tool_call", True) is None


def _early(leaf: ToolsetTool[Any], ctx: RunContext[Any]) -> Callable[..., Any]:
    """What runs a tool by the arguments of the model, and nothing that is around it in a run. The same function for the
    same tool, whichever agent has it."""
    key, model = (_executor(leaf), leaf.tool_def.name), ctx.model
    if len(_EARLY) >= _MOST and key not in _EARLY:
        _EARLY.clear()

    async def run(**arguments: Any) -> Any:
        nothing = RunContext[Any](deps=None, model=model, usage=RunUsage())
        return await leaf.toolset.call_tool(key[1], _checked(leaf, arguments), nothing, leaf)

    return _EARLY.setdefault(key, run)


_EARLY: dict[Any, Callable[..., Any]] = {}
_MOST = 1024  # tools that are known: agents may be made anew for every question


def _as_written(checked: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]) -> dict[str, Any] | None:
    """The arguments of a call as the model has written them; None where a hook has put others in their place."""
    for part in ctx.messages[-1].parts:
        if part.part_kind == "tool-call" and part.tool_call_id == ctx.tool_call_id:
            written = part.args_as_dict()
            return written if _checked(tool, written) == checked else None
    return None


def _checked(tool: ToolsetTool[Any], written: Mapping[str, Any]) -> Any:
    return tool.args_validator.validate_json(json.dumps(written))


# --- What may stop a tool ---------------------------------------------------------------------------------------------


def _within(toolset: AbstractToolset[Any]) -> Iterator[AbstractToolset[Any]]:
    """A toolset, and those that it is made of; the innermost comes last."""
    yield toolset
    inner = getattr(toolset, "wrapped", None)
    for one in getattr(toolset, "toolsets", ()) if inner is None else [inner]:
        yield from _within(one)


def _may_stop(part: object) -> bool:
    """True if a toolset, or a capability, is not known here to leave tools alone."""
    if isinstance(part, AbstractToolset):
        return not type(part).call_tool.__module__.startswith("pydantic_ai.")
    own = [getattr(type(part), hook, None) is not getattr(AbstractCapability, hook) for hook in _STOPPING]
    return any(own) and not isinstance(part, AccelCapability)


_STOPPING = (
    *("wrap_model_request", "after_model_request", "get_wrapper_toolset"),
    *("before_tool_validate", "wrap_tool_validate", "after_tool_validate"),
    *("before_tool_execute", "wrap_tool_execute"),
)
