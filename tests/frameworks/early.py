"""Whether tools were begun before the model's message had ended."""

from __future__ import annotations

from dataclasses import dataclass, field

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
