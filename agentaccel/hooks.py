"""Who is told of requests and tool runs as they end: the hook that exports hang on.

A listener sees what the trace store keeps, and what it noted where the call was made, such as the caller's context.
Whatever fails in a listener stays there. Nobody listening costs one look at an empty tuple.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

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


class Listener(Protocol):
    """Is told of every request and tool run of an `Accel`. Called from any thread, never from two for one call."""

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
