"""The five forms in which the same support desk is run, each with what it does to a prompt cache."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from agentaccel.demo.desk import CLOSING, STEPS, SYSTEM, TOOLS
from agentaccel_emulator import ScriptedReply, Turn, say

TURNS = len(STEPS) + 1
"""Model calls per run: one per step and one that closes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One way to run the desk. All are functions of the turn and the time, so that every column sees the same."""

    name: str
    what: str
    """What it does, in a few words."""
    system: Callable[[int, float], str]
    """The system prompt of a turn, given its index and the wall time."""
    tools: Callable[[int], list[dict[str, Any]]]
    """The tool list of a turn."""
    pairs: int = 0
    """Text and tool call pairs per turn in place of the step's own calls; 0 leaves the step as it is."""
    pause_before: int = -1
    """The turn before which the user is away for seven minutes; -1 for never."""
    earlier: int = 0
    """Sessions just like it on the days before, which are not counted: agentaccel learns from them."""


def _plain_system(turn: int, now: float) -> str:
    return SYSTEM


def _clock_system(turn: int, now: float) -> str:
    shown = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return SYSTEM.replace("How to work\n", f"It is {shown} UTC.\n\nHow to work\n")


def _plain_tools(turn: int) -> list[dict[str, Any]]:
    return list(TOOLS)


def _shuffled_tools(turn: int) -> list[dict[str, Any]]:
    return random.Random(turn).sample(TOOLS, len(TOOLS))


FORMS: tuple[Form, ...] = (
    Form(name="plain loop", what="history only grows", system=_plain_system, tools=_plain_tools),
    Form(name="clock in system", what="seconds in the one system string", system=_clock_system, tools=_plain_tools),
    Form(name="shuffled tools", what="a new random tool order every turn", system=_plain_system, tools=_shuffled_tools),
    Form(
        name="30 pairs a turn", what="text and tool_use interleaved", system=_plain_system, tools=_plain_tools, pairs=30
    ),
    Form(
        name="7-minute pause", what="as in the session the day before", system=_plain_system, tools=_plain_tools,
        pause_before=6, earlier=1,
    ),
)  # fmt: skip


def scripted(form: Form) -> Callable[[Turn], ScriptedReply]:
    """The model's side of `form`."""

    def answer(turn: Turn) -> ScriptedReply:
        if turn.index >= len(STEPS):
            return say(CLOSING)
        text, calls = STEPS[turn.index]
        if not form.pairs:
            blocks: list[Mapping[str, Any]] = [{"type": "text", "text": text}]
            blocks += [{"type": "tool_use", "name": name, "input": dict(arguments)} for name, arguments in calls]
            return ScriptedReply(content=tuple(blocks))
        blocks = []
        for i in range(form.pairs):
            blocks.append({"type": "text", "text": f"{text} Check {i + 1} of {form.pairs}."})
            blocks.append({"type": "tool_use", "name": "get_order", "input": {"order_id": 1001 + (turn.index + i) % 9}})
        return ScriptedReply(content=tuple(blocks))

    return answer
