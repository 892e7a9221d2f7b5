"""What a session has at hand: the values that have come up so far, by the place where they did.

A *place* is where values of one kind keep turning up: a path in the results of a tool, an argument of a tool, a shape
of token in what the user or the model said. It holds *groups*, the newest first: the values of one result or message.
Values stay the caller's; nothing of a scene is kept beyond its session.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from agentaccel.hashing import identity_bytes
from agentaccel.predict.flatten import Record, leaves_of
from agentaccel.predict.tokens import MOST_LENGTH, MOST_RESOURCE, excerpt, shape, values_in
from agentaccel.types import ToolCall

MOST_PLACES = 768
MOST_GROUPS = 8
MOST_VALUES = 4096
"""Distinct values of which it is known where they came up."""
MOST_CALLS = 64
"""Distinct calls that are remembered."""
MOST_PASSED = 512
"""Distinct calls of which it is known that they were not made."""
_MOST_SAID = 20_000


Kind = Literal["result", "argument", "user", "model"]


class Place(NamedTuple):
    """Where values turn up."""

    kind: Kind
    tool: str
    """The symbol of the call; empty for what was said."""
    path: str
    """In the result; the argument's name; the shape."""


class ValueGroup(NamedTuple):
    """Values that came up together."""

    step: int
    values: tuple[Any, ...]
    keys: tuple[str, ...]
    """Of the values."""


class Rows(NamedTuple):
    """Records that came up together."""

    step: int
    records: tuple[Record, ...]


class Past(NamedTuple):
    """A call that was made."""

    symbol: str
    call: ToolCall
    step: int
    number: int
    """Of all calls of the session, from 1."""


def key_of(value: Any) -> str:
    """What tells values apart: 1 and "1" are two, and so are 1 and 1.0, as they are in a call.

    >>> key_of("mia"), value_of(key_of([1, "a"])), value_of(key_of("mia"))
    ('mia', [1, 'a'], 'mia')
    """
    if type(value) is str and value[:1] != "\0":
        return value
    return "\0" + identity_bytes(value).decode("utf-8", "replace")


def value_of(key: str) -> Any:
    """The value that has a key. Raises `ValueError` for what is no key."""
    if key[:1] != "\0":
        return key
    try:
        # Not orjson: it takes neither `Infinity` nor half of a surrogate pair, and makes floats of large integers.
        return json.loads(key[1:])
    except RecursionError:
        raise ValueError("a value that is nested too deeply") from None


def identity(call: ToolCall) -> str:
    """What tells calls apart."""
    return f"{call.name}\0{key_of(dict(arguments_of(call)))}"


class Context:
    """The values at hand in one session. Bounded; `copy` is cheap and shares what does not change."""

    __slots__ = (
        "_mentions",
        "asked",
        "calls",
        "offered",
        "passed",
        "places",
        "records",
        "repeats",
        "said",
        "session",
        "step",
        "told",
        "used",
        "where",
        "wrote",
    )

    def __init__(self, session: int = 0) -> None:
        self._mentions: dict[str, tuple[bool, bool]] = {}
        self.offered: dict[object, Any] = {}
        """What sources offer at this moment, as far as they were asked: forgotten whenever something happens."""
        self.session = session
        """Tells sessions apart in which something was seen."""
        self.repeats = False
        """Whether an earlier session began with the same words: what holds in both may hold nowhere else."""
        self.step = 0
        """How many replies there were."""
        self.places: dict[Place, tuple[ValueGroup, ...]] = {}
        self.records: dict[Place, tuple[Rows, ...]] = {}
        self.where: dict[str, tuple[Place, ...]] = {}
        """Places of a value, by its key, the newest last."""
        self.used: dict[tuple[str, str], dict[str, int]] = {}
        """Values that an argument has had, by symbol and name of the argument, with the step."""
        self.asked: dict[str, Past] = {}
        """Calls made so far, by identity, the newest last."""
        self.passed: dict[str, int] = {}
        """How often a call could have been expected and was not made, since it last was, by identity."""
        self.calls = 0
        """How many calls there were."""
        self.wrote = 0
        """Which of them was the last that may have written; 0 for none."""
        self.told = ""
        """What the user said, the newest first."""
        self.said = ""
        """What the model said, the newest first."""

    def copy(self) -> Context:
        """One that can go on by itself."""
        scene = Context(self.session)
        scene.repeats = self.repeats
        scene.step, scene.told, scene.said = self.step, self.told, self.said
        scene.places, scene.records = dict(self.places), dict(self.records)
        scene.where = dict(self.where)
        scene.used = {place: dict(values) for place, values in self.used.items()}
        scene.passed = dict(self.passed)
        scene.asked, scene.calls, scene.wrote = dict(self.asked), self.calls, self.wrote
        return scene

    def hear(self, kind: Literal["user", "model"], text: str) -> None:
        """Take in what the user or the model said."""
        if not text:
            return
        self._mentions.clear()
        self.offered.clear()
        read = excerpt(text)
        if kind == "user":
            self.told = f"{read}\n{self.told}"[:_MOST_SAID]
        else:
            self.said = f"{read}\n{self.said}"[:_MOST_SAID]
        for path, values in values_in(read).items():
            self._put(Place(kind, "", path), values)

    def ask(self, symbol: str, call: ToolCall, *, writes: bool) -> None:
        """Take in a call."""
        self.offered.clear()
        for name, value in arguments_of(call).items():
            if isinstance(value, str) and len(value) > 400:
                continue
            self._put(Place("argument", symbol, name), [value])
            used = self.used.setdefault((symbol, name), {})
            key = key_of(value)
            used.pop(key, None)
            used[key] = self.step
            if len(used) > MOST_CALLS:
                del used[next(iter(used))]
        key = identity(call)
        self.asked.pop(key, None)
        self.passed.pop(key, None)
        self.calls += 1
        self.asked[key] = Past(symbol, call, self.step, self.calls)
        if len(self.asked) > MOST_CALLS:
            del self.asked[next(iter(self.asked))]
        if writes:
            self.wrote = self.calls

    def expected(self, keys: Iterable[str]) -> None:
        """Take in that calls with these identities could have been expected of the reply that has come."""
        passed = self.passed
        for key in keys:
            passed[key] = passed.pop(key, 0) + 1
        while len(passed) > MOST_PASSED:
            del passed[next(iter(passed))]

    def returned(self, symbol: str, result: str, *, failed: bool = False) -> None:
        """Take in the result of a call. What an error says is no value like those of other results."""
        self.offered.clear()
        leaves = leaves_of(result)
        for look, values in ({} if failed else _alike(leaves.values)).items():
            self._put(Place("result", "", look), values)
        for path, values in leaves.values.items():
            self._put(Place("result", symbol, path), values)
        for path, records in leaves.records.items():
            if records:
                place = Place("result", symbol, path)
                rows = Rows(self.step, tuple(records))
                self.records[place] = (rows, *self.records.pop(place, ())[: MOST_GROUPS - 1])

    def _put(self, place: Place, values: list[Any]) -> None:
        if len(values) > 36:
            values = values[:36]
        keys = tuple(map(key_of, values))
        self.places[place] = (
            ValueGroup(self.step, tuple(values), keys),
            *self.places.pop(place, ())[: MOST_GROUPS - 1],
        )
        if len(self.places) > MOST_PLACES:
            del self.places[next(iter(self.places))]
        where = self.where
        for key in keys:
            known = where.pop(key, ())
            where[key] = known if place in known else (*known[-15:], place)
        while len(where) > MOST_VALUES:
            del where[next(iter(where))]

    def mentions(self, value: Any, key: str) -> tuple[bool, bool]:
        """Whether the user and the model have said a value, which has this key."""
        known = self._mentions.get(key)
        if known is None:
            text = value if isinstance(value, str) else "" if isinstance(value, bool | None) else str(value)
            says = 1 <= len(text) <= MOST_RESOURCE
            known = self._mentions[key] = (says and text in self.told, says and text in self.said)
        return known

    def rows(self, place: Place) -> Iterator[tuple[int, Record]]:
        """The records of a place with their step, the newest group first."""
        for group in self.records.get(place, ()):
            for record in group.records:
                yield group.step, record


def arguments_of(call: ToolCall) -> Mapping[str, Any]:
    """The arguments of a call; none where they are no object."""
    return call.arguments if isinstance(call.arguments, Mapping) else {}


def _alike(leaves: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """The values of a result by what they look like, wherever they stand in it."""
    found: dict[str, list[Any]] = {}
    for path, values in leaves.items():
        _, marked, kind = path.rpartition("~")
        for value in values:
            plain = isinstance(value, str) and len(value) <= MOST_LENGTH and " " not in value
            if look := f"~{kind}" if marked else shape(value) if plain else "":
                known = found.setdefault(look, [])
                if value not in known:
                    known.append(value)
    return found
