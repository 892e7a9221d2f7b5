"""What the runtime asks of whoever predicts tool calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from agentaccel.speculate.events import Event
from agentaccel.speculate.resources import Resource
from agentaccel.types import Prediction, ToolCall


class Foresees(Protocol):
    """What has happened in one session, and what is expected next. Used by one thread at a time."""

    def take(self, event: Event) -> None:
        """Learn from what has happened, and go on from there."""
        ...

    def predict(self, most: int = 12, admits: Callable[[ToolCall], bool] | None = None) -> tuple[Prediction, ...]:
        """The calls that are expected, best first."""
        ...

    def resources(self, most: int = 10) -> tuple[Resource, ...]:
        """The files and pages that are likely to be touched next, best first."""
        ...

    def supposing(self, call: ToolCall, result: str) -> Foresees:
        """What would be expected if `call` were made and returned `result`; learns nothing."""
        ...

    def close(self) -> None:
        """The session was left: what was expected and not asked for is counted as such."""
        ...


class Predicts(Protocol):
    """Where sessions begin. Thread-safe."""

    def session(
        self,
        workload: str = "",
        tools: Mapping[str, Mapping[str, Any]] | None = None,
        reads: Callable[[ToolCall], bool] | None = None,
    ) -> Foresees:
        """A session that begins; `tools` are the schemas of arguments by name of the tool, `reads` tells of a call
        whether it is proven to read."""
        ...
