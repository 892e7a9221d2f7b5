"""Touch point 2, the tool call: wrapped tools run exactly as before, and every run is recorded.

A wrapped function keeps its name, signature and docstring, so schema generators see no difference. A coroutine
function stays one; a sync function stays one. Exceptions and cancellation pass untouched.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from agentaccel.clock import Clock
from agentaccel.effects.tools import Declared
from agentaccel.errors import ConfigError
from agentaccel.listening import Listeners, Told
from agentaccel.records import Outcome, ToolRecord
from agentaccel.session.handle import current
from agentaccel.session.registry import Registry, identity_of
from agentaccel.trace.recorder import Recorder
from agentaccel.types import Effect, ToolCall

F = TypeVar("F", bound=Callable[..., Any])

EFFECT_ATTRIBUTE = "__agentaccel_effect__"
"""Where a wrapped tool carries the effect that its owner declared, or the function that tells it."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Wraps tools for one `Accel`."""

    clock: Clock
    recorder: Recorder
    registry: Registry
    listeners: Listeners

    def wrap(self, tool: F, name: str | None = None, effect: Declared = Effect.UNKNOWN) -> F:
        """`tool`, recording each of its runs under `name`. Raises `ConfigError` for what cannot be called."""
        if not callable(tool):
            raise ConfigError(f"a tool must be a function or another callable; got {type(tool).__name__}")
        label = name or getattr(tool, "__name__", None) or type(tool).__name__
        signature = _signature(tool)

        def call_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> ToolCall:
            return ToolCall(name=label, arguments=_arguments(signature, args, kwargs))

        if inspect.iscoroutinefunction(tool):

            @functools.wraps(tool)
            async def run_async(*args: Any, **kwargs: Any) -> Any:
                with self.watch(call_of(args, kwargs)):
                    return await tool(*args, **kwargs)

            wrapped: Any = run_async
        else:

            @functools.wraps(tool, updated=())
            def run(*args: Any, **kwargs: Any) -> Any:
                call = call_of(args, kwargs)
                with self.watch(call) as watch:
                    result = tool(*args, **kwargs)
                    if inspect.isawaitable(result):
                        watch.later = True  # a callable that hands out a coroutine: its run is what is awaited
                        return self._awaited(call, result)
                    return result

            wrapped = run
        setattr(wrapped, EFFECT_ATTRIBUTE, effect)
        return cast(F, wrapped)

    async def _awaited(self, call: ToolCall, result: Awaitable[Any]) -> Any:
        with self.watch(call):
            return await result

    @contextmanager
    def watch(self, call: ToolCall) -> Iterator[Watch]:
        """Record what happens inside as one run of `call`."""
        watch = Watch()
        started, mark = self.clock.wall(), self.clock.monotonic()
        began = self.listeners.begins(started, call.name)
        outcome: Outcome = "ok"
        error: str | None = None
        try:
            yield watch
        except (asyncio.CancelledError, GeneratorExit) as stop:
            outcome, error = "cancelled", type(stop).__name__
            raise
        except BaseException as failure:
            outcome, error = "failed", type(failure).__name__
            raise
        finally:
            if not watch.later:
                finished = started + (self.clock.monotonic() - mark)
                record = self._record(call, started, finished, outcome, error)
                self.recorder.write(record)
                if began is not None:
                    self.listeners.ended(began, Told(record, call.id))
            elif began is not None:
                self.listeners.ended(began, None)

    def _record(
        self, call: ToolCall, started: float, finished: float, outcome: Outcome, error: str | None
    ) -> ToolRecord:
        session = current.get().session
        conversation = session.conversation if session is not None else None
        if conversation is None and (asker := self.registry.asker(call)) is not None:
            conversation = self.registry.named(asker)
        return ToolRecord(
            session=conversation.id if conversation is not None else "",
            name=call.name,
            key=identity_of(call, self.recorder.key).hex(),
            started=started,
            finished=finished,
            outcome=outcome,
            error=error,
            agent=conversation.agent if conversation is not None else None,
            tenant=conversation.tenant if conversation is not None else None,
        )


@dataclass(slots=True)
class Watch:
    """What a run under watch can say of itself."""

    later: bool = False
    """The run goes on after this block; another watch records it."""


def _signature(tool: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(tool)
    except (TypeError, ValueError):  # some builtins have none
        return None


def _arguments(signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Mapping[str, Any]:
    """Arguments by name, as the model gives them; by position where the signature does not say."""
    if signature is not None and args:
        try:
            return dict(signature.bind(*args, **kwargs).arguments)
        except TypeError:  # the tool itself is the one to complain
            pass
    return {**{str(i): value for i, value in enumerate(args)}, **kwargs}
