"""What the owner of a tool says of it: one noun, whoever writes it down."""

from __future__ import annotations

import weakref
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, get_args, runtime_checkable

from agentaccel.effects.verdict import Verdict
from agentaccel.errors import ConfigError
from agentaccel.former import former_fields
from agentaccel.types import EffectSaid

Arguments = Mapping[str, Any]
"""The arguments of one call, by name."""

Kind = Literal["shell", "sql", "http", "mcp"]
"""What the arguments of a tool are written in, where that is a language that can be analysed."""


@former_fields(domain="scope", fresh_for="max_age", witness="validator")
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """What is declared of one tool. Silence never permits: a tool of which nothing is said is never run early."""

    effect: EffectSaid | None = None
    """What a run may do to the world, or a function that tells it from the arguments; None where nothing is said."""
    concurrent: bool = False
    """Safe to run beside anything, itself included, and in a copy of the context in which the model is called."""
    in_thread: bool = False
    """A sync function that may run in another thread than the one that calls it."""
    sequential: bool = False
    """Its runs have an order. Such a tool is never launched; nor is one of the next three."""
    needs_approval: bool = False
    """A person is asked before it runs."""
    stateful: bool = False
    """It keeps state between its runs, or moves something on: a cursor, a browser."""
    injected: bool = False
    """A framework gives it more than the arguments of the model: a session, a store, the state of the run."""
    scope: str | None = None
    """The part of the world that it touches: what is written elsewhere leaves its results fresh. None is all of it."""
    max_age: float | None = None
    """Seconds that a result may wait for its call; None is as long as nothing that may write has run."""
    validator: Callable[[Arguments], Hashable] | None = None
    """Tells the version of what a call would read, quickly and without waiting (a file's stat, a git HEAD, an ETag). A
    result is served only where it is equal before and after. Where it raises, the result is not served."""
    prefetch_key: str | None = None
    """The argument that names the resource, such as a path or an address, where all arguments cannot be predicted."""
    prefetch: Callable[[str], Awaitable[None]] | None = None
    """Warms the resource that this value of `prefetch_key` names, with the effect of a call and no result: the call
    itself is then answered sooner by the tool."""
    prewarm: Callable[[], Awaitable[None]] | None = None
    """Opens what the tool needs before any call (a connection, a sandbox), without a result and without an effect that
    anybody would notice. Called at most once in a while, beside anything."""
    kind: Kind | None = None
    """What its arguments are written in; proves nothing by itself where the executor is not ours."""
    judge: Callable[[Arguments], Verdict] | None = None
    """The analyser of its own executor: only executors that we provide have one (`agentaccel.executors`)."""
    own: bool = False
    """Whether it is one of these, which are known to change nothing where they may be run early: what changes beside
    them, something else has changed."""
    server: Mapping[str, Any] | None = None
    """The MCP server it comes from: `name`, and `trusted` where the user trusts its hints."""
    listing: Mapping[str, Any] | None = None
    """The tool as its server lists it, or the metadata that a framework keeps of it."""
    earlier_listing: Mapping[str, Any] | None = None
    """How the server listed it before, where it did."""

    def __post_init__(self) -> None:
        """Raises `ConfigError` for what cannot be meant. An effect that is none proves nothing, and stays as it is."""
        for name in ("concurrent", "in_thread", "sequential", "needs_approval", "stateful", "injected"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigError(f"{name} of a tool is {getattr(self, name)!r}; give True or False")
        for name in ("validator", "prefetch", "prewarm", "judge"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ConfigError(f"{name} of a tool is {getattr(self, name)!r}; give a function")
        for name in ("scope", "prefetch_key"):
            if getattr(self, name) is not None and not (isinstance(getattr(self, name), str) and getattr(self, name)):
                raise ConfigError(f"{name} of a tool is {getattr(self, name)!r}; give a name")
        if self.kind is not None and self.kind not in get_args(Kind):
            raise ConfigError(f"kind of a tool is {self.kind!r}; give one of {', '.join(map(repr, get_args(Kind)))}")
        limit = self.max_age
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float) or not limit > 0):
            raise ConfigError(f"max_age of a tool is {limit!r}; give a number of seconds above 0")


SPEC_ATTRIBUTE = "__agentaccel_spec__"
"""Where a function carries its `ToolSpec`, or what `declare` has put there."""


@runtime_checkable
class ToolProvider(Protocol):
    """An object whose methods are tools, and which declares them: `{"read_file": ToolSpec(…)}`."""

    @property
    def specs(self) -> Mapping[str, ToolSpec]: ...


class _Declaration(NamedTuple):
    """What a function that we have made carries; `functools.wraps` copies it to what is put around that function."""

    spec: ToolSpec
    of: weakref.ref[Any]


def declare(tool: Callable[..., Any], spec: ToolSpec) -> None:
    """Let `tool`, and nothing that is put around it, be declared by `spec`."""
    setattr(tool, SPEC_ATTRIBUTE, _Declaration(spec, weakref.ref(tool)))


def spec_of(tool: object) -> ToolSpec | None:
    """What a function, or a method of a `ToolProvider`, declares of itself; None where it declares nothing.

    >>> def look() -> str: ...
    >>> setattr(look, SPEC_ATTRIBUTE, ToolSpec(effect="read_local", concurrent=True))
    >>> spec_of(look).concurrent, spec_of(print)
    (True, None)
    """
    carried = getattr(tool, SPEC_ATTRIBUTE, None)
    if isinstance(carried, _Declaration):  # it is said of one function: a decorator around that may do more
        return carried.spec if carried.of() is getattr(tool, "__func__", tool) else None
    if isinstance(carried, ToolSpec):
        return carried
    owner = getattr(tool, "__self__", None)
    said = owner.specs if isinstance(owner, ToolProvider) else None
    found = said.get(getattr(tool, "__name__", "")) if isinstance(said, Mapping) else None
    return found if isinstance(found, ToolSpec) else None


_early: ContextVar[Callable[[], bool] | None] = ContextVar("agentaccel_running_early", default=None)
"""Tells whether the early run is over that the context is of: what a tool has started in it, such as a pool, may live
on for the calls that follow."""


def _never() -> bool:
    return False


@contextmanager
def running_early(is_over: Callable[[], bool] = _never) -> Iterator[None]:
    """Around a run that the model has not asked for, or not yet: in its own, copied context, until `is_over`.

    Our executors look at their verdict again right before they start anything. In here they raise `NotProven` where it
    no longer holds, and `TimeoutError` instead of a text that tells of one; outside they go on as the model asked.
    """
    token = _early.set(is_over)
    try:
        yield
    finally:
        with suppress(ValueError):  # what was under way when its event loop was closed ends wherever it is dropped
            _early.reset(token)


def is_early() -> bool:
    """Whether this run was begun before the model asked for it: for audit hooks, and for tools that log."""
    is_over = _early.get()
    return is_over is not None and not is_over()


class NotProven(Exception):
    """An early run that is not proven to be a read any more when it would start; nothing was run."""
