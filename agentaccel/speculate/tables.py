"""How often each source was right: for every argument of every tool, what is known of where its values come from.

A source is credited when the tool was called and the source offered one of the values that its argument then had, and
debited when it did not, for each place in its order of offers apart: the first of a list may be asked for always and
the fourth never. What was seen after the same symbol weighs more than what was seen at all.

**Memory.** At most `MOST_ARGUMENTS` arguments of `MOST_SOURCES` sources each, after at most `MOST_BEFORE` different
symbols each; of a full table the source that is right least goes, never the one that came last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from agentaccel.speculate.leaves import Record
from agentaccel.speculate.scene import Place, Scene, arguments_of, key_of
from agentaccel.speculate.sources import MOST_YIELDED, Source, Yield, explaining, yields
from agentaccel.types import ToolCall

MOST_ARGUMENTS = 1024
MOST_SOURCES = 40
MOST_BEFORE = 8
MOST_FORMS = 8
MOST_RECORDS = 12
MOST_CONSTANT = 60
"""Characters of a constant."""
_MOST_SEARCHED = 96
_RANKS = (0, 1, 2, 3, 3, 3, 4, 4, 4, 4, 4, 4)
"""Class of a place in the order of offers."""
_CLASSES = 5
_PRIOR, _WORTH = 0.15, 1.5
"""What an offer is expected to be worth before it was seen, and what that weighs, in sightings."""
_GENERAL = 3.0
"""What all that was seen weighs against what was seen after the same symbol, in sightings."""

Sensitive = Callable[[str, str], bool]
"""Whether the value of an argument of a tool must not be learned: tool, argument."""


class Stat:
    """How often offers were made and right, by class of rank; at all, and after each symbol."""

    __slots__ = ("after", "all")

    def __init__(self) -> None:
        self.all = [0.0] * (2 * _CLASSES)
        self.after: dict[str, list[float]] = {}

    def learn(self, before: str, right: Sequence[bool]) -> None:
        """Take in which of the offers made after `before` were right, in order."""
        there = self.after.get(before)
        if there is None:
            if len(self.after) >= MOST_BEFORE:
                del self.after[min(self.after, key=lambda one: (self.after[one][0], one))]
            there = self.after[before] = [0.0] * (2 * _CLASSES)
        for counts in (self.all, there):
            for rank, one in enumerate(right):
                at = 2 * _RANKS[rank]
                counts[at] += 1.0
                counts[at + 1] += one

    def rate(self, before: str, rank: int) -> float:
        """How probable it is that the offer of this rank is right, given that the tool is called."""
        at = 2 * _RANKS[rank]
        every = (self.all[at + 1] + _PRIOR * _WORTH) / (self.all[at] + _WORTH)
        there = self.after.get(before)
        return every if there is None else (there[at + 1] + _GENERAL * every) / (there[at] + _GENERAL)

    @property
    def seen(self) -> float:
        return self.all[0]

    @property
    def worth(self) -> float:
        """What it is kept for: a lower bound of how often it was right in any place."""
        return max((self.all[at + 1] + 0.1) / (self.all[at] + 2.0) for at in range(0, 2 * _CLASSES, 2))


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


class Known:
    """What is known of the calls of one symbol."""

    __slots__ = ("again", "forms", "records", "sources")

    def __init__(self) -> None:
        self.forms: dict[tuple[str, ...], float] = {}
        """Sets of arguments that it was called with."""
        self.sources: dict[str, dict[Source, Stat]] = {}
        """By argument."""
        self.records: dict[FromRecord, Stat] = {}
        self.again = Stat()
        """Its last calls, the newest first, made once more."""


class Tables:
    """What is known of the calls of all symbols, and the constants."""

    __slots__ = ("constants", "known")

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self.constants: dict[str, Any] = {}
        """The values of constants, by their key."""

    def learn(
        self, scene: Scene, before: str, symbol: str, calls: Sequence[ToolCall], sensitive: Sensitive | None
    ) -> None:
        """Learn from calls of one symbol in one reply, made from what `scene` had at hand."""
        known = self.known.get(symbol)
        if known is None:
            self._make_room()
            known = self.known[symbol] = Known()
        known.again.learn(before, _right(again(scene, symbol), calls))
        values: dict[str, dict[str, Any]] = {}
        for call in calls:
            arguments = arguments_of(call)
            form = tuple(sorted(map(str, arguments)))
            known.forms[form] = known.forms.get(form, 0.0) + 1.0
            for name, value in arguments.items():
                values.setdefault(name, {})[key_of(value)] = value
        _limit(known.forms, MOST_FORMS, lambda one: known.forms[one], keep=None)
        for name in sorted(values)[:24]:
            self._learn_argument(known, scene, before, symbol, name, values[name], sensitive)
        _learn_records(known, scene, before, symbol, calls)

    def _learn_argument(
        self,
        known: Known,
        scene: Scene,
        before: str,
        symbol: str,
        name: str,
        values: dict[str, Any],
        sensitive: Sensitive | None,
    ) -> None:
        table = known.sources.setdefault(name, {})
        for source, stat in table.items():
            if offered := self.offered(source, scene, symbol, name):
                stat.learn(before, [key_of(one.value) in values for one in offered])
        for key, value in list(values.items())[:4]:
            found = [(one, rank) for one, rank in explaining(value, scene, symbol, name) if one not in table]
            constant = Source(None, "last", "", key)
            if constant not in table and len(key) <= MOST_CONSTANT and not (sensitive and sensitive(symbol, name)):
                found.append((constant, 0))
                self.constants[key] = value
            for source, _ in found:
                stat = table[source] = Stat()
                offered = self.offered(source, scene, symbol, name)
                stat.learn(before, [key_of(one.value) in values for one in offered])
            _limit(table, MOST_SOURCES, lambda one: table[one].worth, keep={one for one, _ in found})

    def offered(self, source: Source, scene: Scene, symbol: str, name: str) -> list[Yield]:
        """What a source offers now, best first."""
        if source.place is None:
            return [Yield(self.constants[source.constant], -1)] if source.constant in self.constants else []
        return yields(source, scene, symbol, name)

    def _make_room(self) -> None:
        arguments = sum(len(one.sources) + 1 for one in self.known.values())
        while arguments >= MOST_ARGUMENTS and self.known:
            rarest = min(self.known, key=lambda one: (sum(self.known[one].forms.values()), one))
            arguments -= len(self.known.pop(rarest).sources) + 1
        if len(self.constants) > MOST_ARGUMENTS * 4:
            used = {one.constant for known in self.known.values() for table in known.sources.values() for one in table}
            self.constants = {key: value for key, value in self.constants.items() if key in used}


def _limit(table: dict[Any, Any], most: int, worth: Callable[[Any], float], keep: set[Any] | None) -> None:
    """Drop what is worth least, the oldest of equals."""
    excess = len(table) - most
    if excess > 0:
        for one in sorted((one for one in table if not keep or one not in keep), key=worth)[:excess]:
            del table[one]


def again(scene: Scene, symbol: str) -> list[tuple[ToolCall, int]]:
    """The last distinct calls of a symbol, the newest first, each with its step."""
    found: list[tuple[ToolCall, int]] = []
    for past in reversed(scene.asked.values()):
        if past.symbol == symbol:
            found.append((past.call, past.step))
            if len(found) == 4:
                break
    return found


def _right(offered: Iterable[tuple[ToolCall, int]], calls: Sequence[ToolCall]) -> list[bool]:
    made = {key_of(dict(arguments_of(call))) for call in calls}
    return [key_of(dict(arguments_of(call))) in made for call, _ in offered]


# --- records --------------------------------------------------------------------------------------------------------


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


def _learn_records(known: Known, scene: Scene, before: str, symbol: str, calls: Sequence[ToolCall]) -> None:
    made = [arguments_of(call) for call in calls]

    def right(source: FromRecord) -> list[bool]:
        wanted = {key_of({name: one.get(name) for name, _ in source.fields}) for one in made}
        return [key_of(one.values) in wanted for one in records_of(source, scene, symbol)]

    for source, stat in known.records.items():
        if told := right(source):
            stat.learn(before, told)
    for arguments in made[:2]:
        if len(arguments) < 2:
            continue
        found = {one for one in _from_records(arguments, scene) if one not in known.records}
        for source in sorted(found):
            known.records[source] = Stat()
            known.records[source].learn(before, right(source))
        _limit(known.records, MOST_RECORDS, lambda one: known.records[one].worth, keep=found)


def _from_records(arguments: Record, scene: Scene) -> Iterator[FromRecord]:
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
