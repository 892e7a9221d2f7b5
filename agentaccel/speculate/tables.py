"""How often each source was right: for every argument of every tool, what is known of where its values come from.

A source is credited when the tool was called and the source offered one of the values that its argument then had, and
debited when it offered others.

**Memory.** At most `MOST_ARGUMENTS` arguments of `MOST_SOURCES` sources each, each counted after at most `MOST_BEFORE`
different symbols; of a full table the source that is right least goes, never the one that came last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from agentaccel.speculate.records import MOST_RECORDS, FromRecord, learn_records
from agentaccel.speculate.scene import Scene, arguments_of, key_of
from agentaccel.speculate.shape import MOST_RESOURCE
from agentaccel.speculate.sources import Argument, Source, explaining, yields
from agentaccel.speculate.stats import Sensitive, Stat, limit
from agentaccel.types import ToolCall

MOST_ARGUMENTS = 1024
MOST_SOURCES = 40
MOST_NAMES = 24
"""Arguments of one symbol."""
MOST_FORMS = 8
_MOST_EXPLAINED = 4
"""Values of one argument in one reply whose sources are looked for."""
MOST_CONSTANT = 60
"""Characters of a constant."""


class Known:
    """What is known of the calls of one symbol."""

    __slots__ = ("again", "forms", "records", "sources")

    def __init__(self) -> None:
        self.forms: dict[tuple[str, ...], float] = {}
        """Sets of arguments that it was called with."""
        self.sources: dict[str, dict[Source, Stat]] = {}
        """By argument, those first that are right most often."""
        self.records: dict[FromRecord, Stat] = {}
        self.again = Stat("as before", "again")
        """Its last calls, the newest first, made once more."""

    def learn(
        self, scene: Scene, before: str, symbol: str, calls: Sequence[ToolCall], sensitive: Sensitive | None
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
        self, scene: Scene, before: str, argument: Argument, values: dict[str, Any], *, secret: bool
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
                found.append(Source(None, "last", "", key))
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
        self.known: dict[str, Known] = {}

    def of(self, symbol: str) -> Known:
        """What is known of a symbol, from now on; those called least often make room for it."""
        known = self.known.get(symbol)
        if known is None:
            arguments = sum(len(one.sources) + 1 for one in self.known.values())
            while arguments >= MOST_ARGUMENTS and self.known:
                rarest = min(self.known, key=lambda one: (sum(self.known[one].forms.values()), one))
                arguments -= len(self.known.pop(rarest).sources) + 1
            known = self.known[symbol] = Known()
        return known


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
