"""What happens in an agent's loop, as the predictor of tool calls sees it: four events, whatever the wire.

    Said ─▶ Asked ─▶ Returned* ─▶ Asked ─▶ Returned* ─▶ Answered ─▶ Said ─▶ …

They come from the requests that go out (what the user said, what tools returned) and from the replies that come in, so
that a second process which sees the same requests sees the same events.
"""

from __future__ import annotations

from dataclasses import dataclass

from agentaccel.types import ToolCall


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
