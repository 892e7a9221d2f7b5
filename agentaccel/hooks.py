"""Hooks: functions of the user, called with each request and each tool run once it has ended. Exports are hooks.

A hook sees what the trace store keeps. A `Listener` is a hook that is told of the beginning, too, where the call was
made, and gets back what it noted there, such as the caller's context. An exception of a hook is logged and never
reaches the caller. Without hooks, a call costs one look at an empty tuple.
"""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, cast

from agentaccel.errors import ConfigError
from agentaccel.once import Once
from agentaccel.records import ToolRecord, TurnRecord


class Told(NamedTuple):
    """One request or tool run that has ended."""

    record: TurnRecord | ToolRecord
    id: str | None = None
    """The provider's id of the reply, or of the tool call; None where nobody said."""
    model: str | None = None
    """The model that answered, as the reply names it; None where it does not."""
    server: tuple[str, int] | None = None
    """Host and port that the request went to; None where not known."""


Hook = Callable[[Told], object]
"""Is called with each request and each tool run of an `Accel` once it has ended. Called from any thread."""


class Listener(Protocol):
    """A hook that is told of the beginning, too. Called from any thread, never from two for one call."""

    def begins(self, at: float, tool: str | None) -> object:
        """A request, or a run of `tool`, begins here, in the caller's context; what is returned comes back.

        `at` is in seconds since the epoch.
        """
        ...

    def ended(self, began: object, told: Told | None) -> None:
        """It has ended; None where it turned out to be no run of its own.

        A tool run ends in the context that it began in; a request may end anywhere.
        """
        ...


@dataclass(frozen=True, slots=True)
class _AtTheEnd:
    """A hook as a listener that needs no beginning."""

    hook: Hook

    def begins(self, at: float, tool: str | None) -> object:
        return None

    def ended(self, began: object, told: Told | None) -> None:
        if told is not None:
            self.hook(told)


def listener_of(hook: object) -> Listener:
    """`hook` as a listener. Raises `ConfigError` if `hook` is neither a plain function nor a listener."""
    if all(callable(getattr(hook, name, None)) for name in ("begins", "ended")):
        return cast(Listener, hook)
    if not callable(hook) or inspect.iscoroutinefunction(hook):
        raise ConfigError(
            "a hook is a plain function that takes what has ended (agentaccel.hooks.Told), or has the methods begins "
            f"and ended (agentaccel.hooks.Listener); got {hook!r}"
        )
    return _AtTheEnd(hook)


Began = tuple[tuple[Listener, object], ...]
"""Who was there when a call began, each with what it noted."""


class HookList:
    """Those of one `Accel`. Thread-safe."""

    def __init__(self, *, strict: bool = False) -> None:
        self._all: tuple[Listener, ...] = ()
        self._strict = strict
        self._once = Once()
        self._late: deque[tuple[Began, Told | None]] = deque()
        """Ends of what was abandoned, not told yet."""

    def add(self, listener: Listener) -> None:
        """`listener` hears of what begins from now on."""
        self._all = (*self._all, listener)

    def begins(self, at: float, tool: str | None = None) -> Began | None:
        """A call begins; None where nobody listens."""
        if not self._all:
            return None
        self.flush()
        noted = []
        for listener in self._all:
            try:
                noted.append((listener, listener.begins(at, tool)))
            except Exception:
                if self._strict:
                    raise
                self._failed()
        return tuple(noted)

    def ended(self, began: Began, told: Told | None) -> None:
        """A call has ended: those who were there are told, the last one first.

        What was abandoned is told with whatever begins or ends next: the garbage collector may have ended it, anywhere,
        also inside a lock that a listener's own library would need.
        """
        if told is not None and told.record.outcome == "abandoned":
            self._late.append((began, told))
        else:
            self.flush()
            self._tell(began, told)

    def flush(self) -> None:
        """Tell of what has ended and was not told yet."""
        while self._late:
            try:
                began, told = self._late.popleft()
            except IndexError:  # another thread was faster
                return
            self._tell(began, told)

    def _tell(self, began: Began, told: Told | None) -> None:
        for listener, noted in reversed(began):
            try:
                listener.ended(noted, told)
            except Exception:
                if self._strict:
                    raise
                self._failed()

    def _failed(self) -> None:
        self._once.failed("a listener failed; calls go on, and it may miss some")
