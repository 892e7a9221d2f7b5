"""A result that is no text and no JSON is as large as the texts that it holds."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from agentaccel.session.sizes import size_of

LARGE = "x" * 1_000


@dataclass
class Plain:
    text: str = LARGE
    self_again: Any = None


@dataclass(slots=True)
class Slotted:
    text: str = LARGE


class Modelled(BaseModel):
    text: str = LARGE


@dataclass
class Parts:
    """As a result of MCP is: an object, a list, objects with texts."""

    content: list[Any] = field(default_factory=lambda: [Plain(), Slotted()])


@pytest.mark.parametrize(
    ("result", "holds"),
    [
        ([Plain()], 1),
        ((Slotted(),), 1),
        ({"a": Modelled()}, 1),
        (Parts(), 2),
        ({1: LARGE}, 1),
        ([Plain(text=LARGE.encode())], 1),  # type: ignore[arg-type]
    ],
)
def test_texts_in_objects_count(result: Any, holds: int) -> None:
    assert 1_000 * holds <= size_of(result) < 1_000 * (holds + 1)


def test_what_holds_itself_or_the_whole_program_is_told_at_once() -> None:
    around = Plain(text="ab")
    around.self_again = [around]
    assert size_of(around) == 2
    assert size_of([sys, Plain, test_texts_in_objects_count]) == 0


def test_an_object_that_tells_nothing_has_no_size() -> None:
    class Closed:
        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            raise RuntimeError("closed")

    assert size_of([Closed()]) == 0
