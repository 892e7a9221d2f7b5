"""Touch point 2, the tool call: answered by what was begun early, or run exactly as before; every call is recorded.

A wrapped function keeps its name, signature and docstring, so schema generators see no difference. A coroutine
function stays one; a sync function stays one. Exceptions and cancellation pass untouched.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

from agentaccel.checks import is_of_sdk
from agentaccel.effects.spec import ToolSpec, declare, spec_of
from agentaccel.engine.conversation import Conversation
from agentaccel.engine.scope import current
from agentaccel.errors import ConfigError
from agentaccel.tools.call import Calling
from agentaccel.tools.catalog import KnownTool
from agentaccel.tools.serving import MISS
from agentaccel.types import ToolCall

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Toolbox(Calling):
    """Wraps tools for one `Accel`."""

    def wrap(self, tool: F, name: str | None = None, spec: ToolSpec | None = None) -> F:
        """`tool` under `name`, as it is declared by `spec`, or declares itself. A tool that is wrapped is wrapped anew;
        one that is wrapped in a session is that session's own.

        Raises `ConfigError` for what cannot be called, and for a tool object of an SDK.
        """
        if not callable(tool):
            raise ConfigError(f"a tool must be a function or another callable; got {type(tool).__name__}")
        if is_of_sdk(type(tool)):
            kind = type(tool).__name__
            raise ConfigError(
                f"a {kind} is what its SDK makes of a function: wrap the function and make a tool of that"
            )
        spec = spec or spec_of(tool) or ToolSpec()
        tool = _unwrapped(tool)
        label = name or getattr(tool, "__name__", None) or type(tool).__name__
        within = current.get().of(self.registry.owner)
        session = within.session.id if within.session is not None and not within.session.closed else ""
        known = self.serving.tools.add(label, tool, spec, session)
        self.speculator.prepare()
        wrapped = self._async(tool, known) if known.is_async else self._sync(tool, known)
        declare(wrapped, spec)
        setattr(wrapped, _ORIGINAL, _Original(tool, weakref.ref(wrapped)))
        return cast(F, wrapped)

    def _async(self, tool: Callable[..., Any], known: KnownTool) -> Any:
        @functools.wraps(tool)
        async def run_async(*args: Any, **kwargs: Any) -> Any:
            with self.watch(ToolCall(name=known.name, arguments=known.by_name(args, kwargs)), known) as watch:
                if watch.found is not None:
                    result = await watch.answer(functools.partial(tool, *args, **kwargs))
                    if result is not MISS:
                        return result
                return watch.returned(await tool(*args, **kwargs))

        return run_async

    def _sync(self, tool: Callable[..., Any], known: KnownTool) -> Any:
        updated = functools.WRAPPER_UPDATES if inspect.isfunction(tool) else ()

        @functools.wraps(tool, updated=updated)
        def run(*args: Any, **kwargs: Any) -> Any:
            call = ToolCall(name=known.name, arguments=known.by_name(args, kwargs))
            with self.watch(call, known) as watch:
                if watch.found is not None:
                    result = watch.answer_here()
                    if result is not MISS:
                        return result
                result = tool(*args, **kwargs)
                if inspect.isawaitable(result):
                    watch.later = True  # a callable that hands out a coroutine: its run is what is awaited
                    return self._awaited(call, known, result)
                if inspect.isgenerator(result) or inspect.isasyncgen(result):
                    watch.goes_on = result
                return watch.returned(result)

        return run

    async def _awaited(self, call: ToolCall, known: KnownTool, result: Awaitable[Any]) -> Any:
        with self.watch(call, known, looks=False):
            return await result

    async def run(self, call: ToolCall, execute: Callable[[], Awaitable[Any]]) -> Any:
        """`call` through `execute`, as `Session.tool` does it."""
        with self.watch(call, self._known(call)) as watch:
            if watch.found is not None:
                result = await watch.answer(execute)
                if result is not MISS:
                    return result
            return watch.returned(await execute())

    def run_here(self, call: ToolCall, execute: Callable[[], Any]) -> Any:
        """The same without an event loop."""
        with self.watch(call, self._known(call)) as watch:
            if watch.found is not None:
                result = watch.answer_here()
                if result is not MISS:
                    return result
            return watch.returned(execute())

    def _known(self, call: ToolCall) -> KnownTool:
        session = current.get().of(self.registry.owner).session
        return self.serving.tools.of(call.name, session.id if session is not None else "")

    async def run_unrecorded(self, call: ToolCall, execute: Callable[[], Awaitable[Any]]) -> Any:
        """`call` through `execute` in a session that was left: what it may write is seen all the same."""
        writes = self.serving.writes
        mark = writes.begins(self.serving.tools.of(call.name, ""), call)
        try:
            return await execute()
        finally:
            if mark is not None:
                writes.ends(mark)

    def left(self, conversation: Conversation) -> None:
        """The session was left."""
        self.speculator.left(conversation)


class _Original(NamedTuple):
    """What a wrapped tool keeps: a decorator around it copies its attributes, and is no wrapped tool."""

    tool: Any
    wrapped: weakref.ref[Any]


def _unwrapped(tool: F) -> F:
    """The function that we have wrapped; any other as it is."""
    original = getattr(tool, _ORIGINAL, None)
    return original.tool if isinstance(original, _Original) and original.wrapped() is tool else tool


_ORIGINAL = "__agentaccel_original__"
"""Where a wrapped tool keeps the function that it wraps."""
