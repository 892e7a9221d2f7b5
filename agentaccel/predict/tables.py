"""How often each source was right: for every argument of every tool, what is known of where its values come from.

A source is credited when the tool was called and the source offered one of the values that its argument then had, and
debited when it offered others.

**Memory.** At most `MOST_ARGUMENTS` arguments of `MOST_SOURCES` sources each, each counted after at most `MOST_BEFORE`
different symbols; of a full table the source that is right least goes, never the one that came last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agentaccel.predict.context import Context, Place, arguments_of, key_of
from agentaccel.predict.offers import Sensitive, Stat, limit
from agentaccel.predict.sources import MOST_YIELDED, Argument, ValueSource, explaining, yields
from agentaccel.predict.tokens import MOST_RESOURCE
from agentaccel.types import ToolCall

# --- Arguments that come from one record: one element of a list of objects, one result --------------------------------
# An agent that looks at each flight of a trip takes number and day from the same one. Bound one by one they would be
# crossed; bound together they are right or wrong together.

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


def records_of(source: FromRecord, scene: Context, symbol: str) -> list[Offered]:
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
    known: dict[FromRecord, Stat], scene: Context, before: str, symbol: str, calls: Sequence[ToolCall]
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


def _from_records(arguments: Mapping[str, Any], scene: Context) -> Iterator[FromRecord]:
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


MOST_ARGUMENTS = 1024
MOST_SOURCES = 40
MOST_NAMES = 24
"""Arguments of one symbol."""
MOST_FORMS = 8
_MOST_EXPLAINED = 4
"""Values of one argument in one reply whose sources are looked for."""
MOST_CONSTANT = 60
"""Characters of a constant."""


class SymbolTables:
    """What is known of the calls of one symbol."""

    __slots__ = ("again", "forms", "records", "sources")

    def __init__(self) -> None:
        self.forms: dict[tuple[str, ...], float] = {}
        """Sets of arguments that it was called with."""
        self.sources: dict[str, dict[ValueSource, Stat]] = {}
        """By argument, those first that are right most often."""
        self.records: dict[FromRecord, Stat] = {}
        self.again = Stat("as before", "again")
        """Its last calls, the newest first, made once more."""

    def learn(
        self, scene: Context, before: str, symbol: str, calls: Sequence[ToolCall], sensitive: Sensitive | None
    ) -> None:
        """Learn from calls of this symbol in one reply, made from what `scene` had at hand."""
        self.again.learn(before, _right(again(scene, symbol), calls), scene.session, repeats=scene.repeats)
        values: dict[str, dict[str, Any]] = {}
        for call in calls:
            arguments = arguments_of(call)
            form = tuple(sorted(map(str, arguments)))
            self.forms[form] = self.forms.get(form, 0.0) + 1.0
            for name, value in arguments.items():
                values.setdefault(name, {})[key_of(value)] = value
        for name in sorted(values)[:MOST_NAMES]:
            secret = sensitive is not None and sensitive(calls[0].name, name)
            self._learn_argument(scene, before, Argument(symbol, name), values[name], secret=secret)
        learn_records(self.records, scene, before, symbol, calls)
        self.limit(keep=values)

    def _learn_argument(
        self, scene: Context, before: str, argument: Argument, values: dict[str, Any], *, secret: bool
    ) -> None:
        table = self.sources.setdefault(argument.name, {})
        for source, stat in table.items():
            if offered := yields(source, scene, argument):
                stat.learn(before, [one.key in values for one in offered], scene.session, repeats=scene.repeats)
        for key, value in list(values.items())[:_MOST_EXPLAINED]:
            if isinstance(value, str) and len(value) > MOST_RESOURCE:
                continue  # prose or code: nothing offers it
            found = [one for one in explaining(value, scene, argument) if not (secret and one.is_literal)]
            if len(key) <= MOST_CONSTANT and not secret:
                found.append(ValueSource(None, "last", "", key))
            found = [one for one in found if one not in table]
            for source in found:
                stat = table[source] = Stat(str(source), source.kind)
                offered = yields(source, scene, argument)
                stat.learn(before, [one.key in values for one in offered], scene.session, repeats=scene.repeats)
            limit(table, MOST_SOURCES, lambda one: table[one].worth, keep=found)

    def limit(self, keep: Iterable[str] = ()) -> None:
        """Keep within the bounds, the names of `keep` in any case, and put the best sources first."""
        limit(self.forms, MOST_FORMS, lambda one: self.forms[one])
        limit(self.records, MOST_RECORDS, lambda one: self.records[one].worth)
        limit(self.sources, MOST_NAMES, lambda one: sum(stat.seen for stat in self.sources[one].values()), keep)
        for name in list(keep) or list(self.sources):
            if name in self.sources:
                best = sorted(self.sources[name].items(), key=lambda one: -one[1].worth)
                self.sources[name] = dict(best[:MOST_SOURCES])


class Tables:
    """What is known of the calls of all symbols."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[str, SymbolTables] = {}

    def of(self, symbol: str) -> SymbolTables:
        """What is known of a symbol, from now on; those called least often make room for it."""
        known = self.known.get(symbol)
        if known is None:
            arguments = sum(len(one.sources) + 1 for one in self.known.values())
            while arguments >= MOST_ARGUMENTS and self.known:
                rarest = min(self.known, key=lambda one: (sum(self.known[one].forms.values()), one))
                arguments -= len(self.known.pop(rarest).sources) + 1
            known = self.known[symbol] = SymbolTables()
        return known


def again(scene: Context, symbol: str) -> list[tuple[ToolCall, int]]:
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
