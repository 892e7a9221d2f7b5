"""A result that is no text and no JSON is as large as the texts that it holds."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from agentaccel.tools.running import size_of

LARGE = "x" * 1_000
MOST = 10**9


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
    assert 1_000 * holds <= size_of(result, MOST) < 1_000 * (holds + 1)


def test_what_holds_itself_or_the_whole_program_is_told_at_once() -> None:
    around = Plain(text="ab")
    around.self_again = [around]
    assert size_of(around, MOST) == 2
    assert size_of([sys, Plain, test_texts_in_objects_count], MOST) == 0


def test_an_object_that_tells_nothing_has_no_size() -> None:
    class Closed:
        @property
        def __dict__(self) -> Any:  # type: ignore[override]
            raise RuntimeError("closed")

    assert size_of([Closed()], MOST) == 0


class Order:
    """As an object-relational mapper makes them: it refers to all that its session has read."""

    def __init__(self) -> None:
        self.name = "ab"
        self._session = Plain()


def test_what_a_result_merely_refers_to_is_no_part_of_it() -> None:
    assert size_of(Order(), MOST) == 2


def test_a_result_of_many_parts_is_not_looked_through() -> None:
    """The event loop would stand still for seconds: some thousands of parts are looked at, and then no more."""
    rows = [Plain() for _ in range(50_000)]
    assert 1_000_000 < size_of(rows, MOST) < 20_000_000
    assert size_of(rows, 5_000) < 10_000, "nor beyond what is asked for"
