"""LangChain's tools, run through agentaccel: what the framework does around a tool is done as before."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import CellType
from typing import Any, get_type_hints

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import var_child_runnable_config
from langchain_core.tools import BaseTool, ToolException
from langsmith import tracing_context

from agentaccel import Accel
from agentaccel.effects.spec import spec_of

Later = Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]
Here = Callable[[Callable[[], Any]], Any]


def answered(accel: Accel, tool: BaseTool, call: dict[str, Any]) -> BaseTool:
    """A copy of `tool` for one call of the model: its body may be answered by what ran early. Callbacks, validation,
    artifact and message are made around that as they were."""
    named = call["name"], call["args"]
    return _through(
        tool,
        lambda run: accel.call_tool(*named, run, id=call["id"]),
        lambda run: accel.call_tool_sync(*named, run, id=call["id"]),
    )


def _through(tool: BaseTool, later: Later, here: Here) -> BaseTool:
    """A copy of `tool` whose body, which subclasses define, is run by one of these."""
    run, arun = tool._run, tool._arun

    @functools.wraps(arun)
    async def _arun(*args: Any, **kwargs: Any) -> Any:
        return await later(functools.partial(arun, *args, **kwargs))

    @functools.wraps(run)
    def _run(*args: Any, **kwargs: Any) -> Any:
        return here(functools.partial(run, *args, **kwargs))

    copy = tool.model_copy()
    copy.__dict__.update(_arun=_arun, _run=_run)
    return copy


_BODIES: dict[int, Callable[..., Any]] = {}


def body(tool: BaseTool) -> Callable[..., Any]:
    """What runs the body of `tool` by the arguments of the model, and nothing around it: no callback, no event of a
    stream, no trace. The same function for the same tool, whichever agent has it."""
    if id(tool) not in _BODIES:
        known = weakref.ref(tool)

        async def run_later(**arguments: Any) -> Any:
            with _apart(known(), arguments) as (copy, call, kept):
                await copy.ainvoke(call, {"callbacks": []})
            return kept[0]

        def run_here(**arguments: Any) -> Any:
            with _apart(known(), arguments) as (copy, call, kept):
                copy.invoke(call, {"callbacks": []})
            return kept[0]

        own = tool.coroutine is not None if hasattr(tool, "coroutine") else type(tool)._arun is not BaseTool._arun
        _BODIES[id(tool)] = run_later if own else run_here
        weakref.finalize(tool, _BODIES.pop, id(tool), None).atexit = False
    return _BODIES[id(tool)]


@contextmanager
def _apart(tool: BaseTool | None, arguments: dict[str, Any]) -> Iterator[tuple[BaseTool, dict[str, Any], list[Any]]]:
    """A copy of a tool, a call of it, and where the result of its body will be. Raises where there is none: the real
    call tells why. The context, which is a copy, knows nothing of the run of the graph any more."""
    if tool is None:
        raise LookupError("the agent of this tool is gone")
    kept = list[Any]()

    async def later(run: Callable[[], Awaitable[Any]]) -> Any:
        kept.append(await run())
        return kept[0]

    def here(run: Callable[[], Any]) -> Any:
        kept.append(run())
        return kept[0]

    copy = _through(tool, later, here)
    copy.callbacks = None
    var_child_runnable_config.set({})
    with tracing_context(enabled=False):
        yield copy, {"type": "tool_call", "id": "early", "name": tool.name, "args": arguments}, kept
    if not kept:
        raise ToolException("the tool has failed")


# --- What a tool is ---------------------------------------------------------------------------------------------------


def declares_itself(tool: BaseTool, *, gated: bool = False) -> bool:
    """True if a function of it is a tool of agentaccel's already; or, where nothing may stop it, calls a session of MCP
    that is answered."""
    cells = [cell for one in _functions(tool) for cell in getattr(one, "__closure__", None) or () if cell != CellType()]
    asked = [] if gated else [inspect.getattr_static(cell.cell_contents, "call_tool", None) for cell in cells]
    return any(spec_of(one) is not None for one in (*_functions(tool), *asked))


def is_injected(tool: BaseTool) -> bool:
    """True if the framework gives a tool more than the arguments of the model: state, a store, the run, its config."""
    if tool._injected_args_keys or _names(tool.get_input_schema()) != _names(tool.tool_call_schema):
        return True
    try:
        return any(RunnableConfig in get_type_hints(one).values() for one in _functions(tool))
    except Exception:  # noqa: BLE001 - annotations that nobody can resolve tell nothing
        return True


def _names(schema: Any) -> set[str]:
    return set(schema.get("properties", ()) if isinstance(schema, dict) else schema.model_fields)


def _functions(tool: BaseTool) -> list[Callable[..., Any]]:
    """The user's own: of a tool that is made of functions these, else the methods of its class."""
    made = [one for one in (getattr(tool, "coroutine", None), getattr(tool, "func", None)) if one is not None]
    return made or [tool._arun, tool._run]
