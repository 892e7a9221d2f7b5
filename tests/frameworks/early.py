"""Whether tools were begun before the model's message had ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from agentaccel.effects.spec import is_early
from agentaccel.testing import conformance


@dataclass
class Runs:
    """What the tools of an agent have run, and whether each run was begun early."""

    ran: list[tuple[str, bool]] = field(default_factory=list)

    @property
    def early(self) -> set[str]:
        return {name for name, early in self.ran if early}

    def note(self, name: str, said: object = "") -> str:
        self.ran.append((name, is_early()))
        return f"{name} is done {said}"


def seen_by_the_kit(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each run of a tool in the conformance kit from here on, whether it was begun early."""
    began = list[bool]()

    def told() -> bool:
        began.append(is_early())
        return began[-1]

    monkeypatch.setattr(conformance, "is_early", told)
    return began


NO_DECLARATIONS: dict[str, tuple[dict[str, Any], str]] = {
    "a text for reads": ({"reads": "look"}, "reads is 'look'; give a list of names"),
    "a text for approvals": ({"needs_approval": "look"}, "needs_approval is 'look'; give a list of names"),
    "no name": ({"reads": ["look", 7]}, "reads is ['look', 7]; give a list of names"),
    "no fields": ({"reads": {"look": 60}}, "reads of 'look' is 60; give fields of ToolSpec"),
    "another field": ({"reads": {"look": {"max_agee": 60}}}, "reads of 'look': a tool declares the fields of ToolSpec"),
    "another value": ({"reads": {"look": {"max_age": -1}}}, "reads of 'look': max_age of a tool is -1"),
}
"""What no adapter takes, and what each says of it."""
