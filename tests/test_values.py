"""Values that are made quickly are made as `dataclasses` makes them."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import pickle
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest

from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.turn import Turn
from agentaccel.types import CachePlan, Expected, Marker, Miss, Prompt, Usage
from agentaccel.values import maker, quickly_made


@quickly_made
@dataclass(frozen=True, slots=True)
class Quick:
    where: str
    many: list[int] = field(default_factory=list)
    near: bool = field(default=True, kw_only=True)


def test_it_holds_what_it_was_given_and_the_rest_by_default() -> None:
    quick = Quick("here", [1], near=False)
    assert (quick.where, quick.many, quick.near) == ("here", [1], False)
    quick = Quick(where="there")
    assert (quick.where, quick.many, quick.near) == ("there", [], True)


def test_each_has_a_list_of_its_own() -> None:
    assert Quick("a").many is not Quick("b").many


@pytest.mark.parametrize("kind", [TurnRecord, ToolRecord, Usage, Miss, Prompt, CachePlan, Expected, Marker])
def test_its_signature_is_that_of_the_dataclass(kind: type) -> None:
    kept = {one.name: one for one in dataclasses.fields(kind)}
    parameters = inspect.signature(kind).parameters
    assert list(parameters) == list(kept)
    for name, parameter in parameters.items():
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        has_default = kept[name].default is not dataclasses.MISSING
        has_default |= kept[name].default_factory is not dataclasses.MISSING
        assert (parameter.default is inspect.Parameter.empty) is not has_default


def test_it_can_be_copied_replaced_pickled_compared_and_not_changed() -> None:
    usage = Usage(input=7, write={"5m": 3})
    assert copy.copy(usage) == pickle.loads(pickle.dumps(usage)) == dataclasses.replace(usage) == usage
    assert dataclasses.replace(usage, input=8).input == 8
    with pytest.raises(dataclasses.FrozenInstanceError):
        usage.input = 9  # type: ignore[misc]
    with pytest.raises(TypeError, match="unexpected keyword argument 'inputs'"):
        Usage(inputs=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="missing 2 required keyword-only arguments"):
        Miss()  # type: ignore[call-arg]


def test_one_without_slots_keeps_what_is_worked_out_later() -> None:
    @quickly_made
    @dataclass(frozen=True)
    class Square:
        side: int

        @functools.cached_property
        def area(self) -> int:
            return self.side**2

    square = Square(3)
    assert (square.area, square, repr(square)) == (9, Square(side=3), f"{Square.__qualname__}(side=3)")
    assert dataclasses.replace(square, side=4).area == 16
    with pytest.raises(dataclasses.FrozenInstanceError):
        square.side = 5  # type: ignore[misc]


def test_a_class_that_does_more_than_keep_is_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Checked:
        size: int

        def __post_init__(self) -> None:
            assert self.size > 0

    with pytest.raises(TypeError, match="Checked does more than keep what it is given"):
        quickly_made(Checked)


class Pair(NamedTuple):
    one: int
    other: int = 2


@dataclass(slots=True, kw_only=True)
class Changing:
    many: list[int] = field(default_factory=list)
    kind: str
    seen: set[int] = field(init=False, default_factory=set)


@pytest.mark.parametrize(
    ("kind", "given", "named"),
    [
        (Pair, (1,), {}),
        (Pair, (1,), {"other": 3}),
        (Quick, ("here", [1]), {"near": False}),
        (Quick, ("here",), {}),
        (Changing, (), {"kind": "a"}),
        (Changing, (), {"kind": "a", "many": [1]}),
        (Marker, (), {"path": ("system",), "ttl": "5m"}),
        (CachePlan, (), {"saving": 1.0}),
        (Turn, (), {"request": {}, "plan": CachePlan(), "on_end": print}),
    ],
)
def test_a_maker_makes_what_the_class_does(kind: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    made = maker(kind)(*given, **named)
    assert type(made) is kind
    assert made == kind(*given, **named)
    assert repr(made) == repr(kind(*given, **named))
    with pytest.raises(TypeError, match="unexpected keyword argument 'unknown'"):
        maker(kind)(*given, **named, unknown=1)
    if not named:
        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            maker(kind)()


def test_each_that_is_made_has_a_list_of_its_own() -> None:
    make = maker(Changing)
    one, other = make(kind="a"), make(kind="a")
    assert one.many is not other.many
    assert one.seen is not other.seen


def test_no_maker_leaves_out_what_a_class_does_beside_keeping() -> None:
    @dataclass
    class Checked:
        side: int

        def __post_init__(self) -> None:
            assert self.side

    with pytest.raises(TypeError, match="does more than keep"):
        maker(Checked)
