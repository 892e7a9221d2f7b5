"""Arguments that come from one record: one element of a list of objects, one result.

An agent that looks at each flight of a trip takes number and day from the same one. Bound one by one they would be
crossed; bound together they are right or wrong together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agentaccel.speculate.scene import Place, Scene, arguments_of, key_of
from agentaccel.speculate.sources import MOST_YIELDED
from agentaccel.speculate.stats import Stat, limit
from agentaccel.types import ToolCall

MOST_RECORDS = 12
"""Sources of one symbol."""
_MOST_SEARCHED = 96
"""Records that are searched for the values of a call."""


class FromRecord(NamedTuple):
    """Several arguments that come from one record."""

    place: Place
    fields: tuple[tuple[str, str], ...]
    """Argument and field."""
    fresh: bool
    """Without the records whose values were asked for already."""

    def __str__(self) -> str:
        fields = ", ".join(name if name == field else f"{name}={field}" for name, field in self.fields)
        return (
            f"one record of {self.place.tool}{self.place.path or '.'} ({fields}), {'fresh' if self.fresh else 'last'}"
        )


class Offered(NamedTuple):
    """What a record offers."""

    values: dict[str, Any]
    step: int


def records_of(source: FromRecord, scene: Scene, symbol: str) -> list[Offered]:
    """What the records of a place offer, best first, without repeats."""
    found: list[Offered] = []
    seen = set[str]()
    if source.fresh:
        names = [name for name, _ in source.fields]
        seen = {
            key_of({name: arguments_of(past.call).get(name) for name in names})
            for past in scene.asked.values()
            if past.symbol == symbol
        }
    newest: int | None = None
    for step, record in scene.rows(source.place):
        if not source.fresh and newest is not None and step != newest:
            break
        newest = step
        values = {name: record[field] for name, field in source.fields if field in record}
        if len(values) == len(source.fields) and (key := key_of(values)) not in seen:
            seen.add(key)
            found.append(Offered(values, step))
            if len(found) == MOST_YIELDED:
                break
    return found


def learn_records(
    known: dict[FromRecord, Stat], scene: Scene, before: str, symbol: str, calls: Sequence[ToolCall]
) -> None:
    """Learn from calls of one symbol in one reply which records their arguments came from."""
    made = [arguments_of(call) for call in calls]

    def right(source: FromRecord) -> list[bool]:
        wanted = {key_of({name: one.get(name) for name, _ in source.fields}) for one in made}
        return [key_of(one.values) in wanted for one in records_of(source, scene, symbol)]

    for source, stat in known.items():
        if told := right(source):
            stat.learn(before, told, scene.session, repeats=scene.repeats)
    for arguments in made[:2]:
        if len(arguments) < 2:
            continue
        found = {one for one in _from_records(arguments, scene) if one not in known}
        for source in sorted(found):
            known[source] = Stat(str(source), "record")
            known[source].learn(before, right(source), scene.session, repeats=scene.repeats)
        limit(known, MOST_RECORDS, lambda one: known[one].worth, keep=found)


def _from_records(arguments: Mapping[str, Any], scene: Scene) -> Iterator[FromRecord]:
    """Records that hold at least two of the arguments' values; those with most of them."""
    wanted = {name: key_of(value) for name, value in arguments.items() if not isinstance(value, bool | dict | list)}
    best: dict[Place, tuple[tuple[str, str], ...]] = {}
    searched = 0
    for place in reversed(scene.records):
        for _, record in scene.rows(place):
            searched += 1
            fields: dict[str, str] = {}
            for field, value in record.items():
                key = key_of(value)
                if key not in fields or field in wanted:
                    fields[key] = field
            pairs = tuple(
                (name, name if name in record and key_of(record[name]) == key else fields[key])
                for name, key in sorted(wanted.items())
                if key in fields
            )
            if len(pairs) >= 2 and len(pairs) > len(best.get(place, ())):
                best[place] = pairs
        if searched > _MOST_SEARCHED:
            break
    most = max(map(len, best.values()), default=0)
    for place, pairs in list(best.items())[:6]:
        if len(pairs) == most:
            yield FromRecord(place, pairs, fresh=False)
            yield FromRecord(place, pairs, fresh=True)
