"""What happens in an agent's loop, as the predictor of tool calls sees it: four events, whatever the wire.

    Said ─▶ Asked ─▶ Returned* ─▶ Asked ─▶ Returned* ─▶ Answered ─▶ Said ─▶ …

They come from the requests that go out (what the user said, what tools returned) and from the replies that come in, so
that a second process which sees the same requests sees the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agentaccel.predict.resources import Resource
from agentaccel.types import Prediction, ToolCall


@dataclass(frozen=True, slots=True)
class Said:
    """The user said something; also what a framework or a sub-agent says in the user's place."""

    text: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A reply of the model that asks for tools, all of its calls in order: they are made from one state."""

    calls: tuple[ToolCall, ...]
    """At least one."""
    text: str = ""
    """What the model said beside them."""


@dataclass(frozen=True, slots=True)
class Returned:
    """A tool has returned, as the model will see it."""

    call: ToolCall
    result: str
    """The text of the result; JSON where the tool returned a structure."""
    error: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """A reply of the model in text that asks for no tool."""

    text: str


Event = Said | Asked | Returned | Answered


# --- What the runtime asks of whoever predicts tool calls -------------------------------------------------------------


class SessionPredictor(Protocol):
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

    def supposing(self, call: ToolCall, result: str) -> SessionPredictor:
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
    ) -> SessionPredictor:
        """A session that begins; `tools` are the schemas of arguments by name of the tool, `reads` tells of a call
        whether it is proven to read."""
        ...
