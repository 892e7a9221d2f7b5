"""From a tool that is likely to be called to calls with all their arguments, each with what speaks for it.

For each set of arguments that the tool was called with: the best offers of each argument, joined by a beam; the records
that offer several at once; and the last calls of the tool as they were. An argument without an offer gives no call: a
guess with a hole is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from agentaccel.speculate.records import records_of
from agentaccel.speculate.scene import Scene, key_of
from agentaccel.speculate.sources import Argument, yields
from agentaccel.speculate.stats import Stat
from agentaccel.speculate.tables import Known, Tables, again

MOST_CALLS = 14
"""Calls bound for one symbol: the elements of a list, and a few others."""
_FORMS = 3
_RAREST = 0.05
"""A set of arguments that is used less often, of all calls of the tool, is not tried."""
_BEAM = 12
_OFFERS = 4
"""Values of one argument that are joined with those of others; a tool of one argument takes `_ALONE`."""
_ALONE = 12
_TRIED = 8
"""Sources of an argument that are asked, those first that are right most often."""
_RECORDS = 4
"""Sources that offer records, likewise."""
_SESSIONS = 2
"""A constant is offered once so many sessions had it: what one session alone has said stays in it. To a session that
repeats none, those count that did not repeat one another."""
_SLACK = 4.0
"""How far the best offers may beat what their sources are worth on the whole."""
_WORTHLESS = 0.02
"""A source that is right less often is not asked."""


class Offer(NamedTuple):
    """A value for an argument, or, under an empty name, values for several."""

    name: str
    value: Any
    rate: float
    """How often this offer is right, given that the tool is called."""
    either: float
    """The same for all sources that offer it, as if they were independent."""
    stat: Stat
    """Of its source."""
    rank: int
    size: int
    """How many values its source offers."""
    step: int
    """When the value came up; -1 for a constant."""
    agreeing: int
    """Sources that offer it."""


class Bound(NamedTuple):
    """A call with all its arguments, and what speaks for it."""

    symbol: str
    key: str
    """Of the arguments."""
    arguments: dict[str, Any]
    rate: float
    """How probable it is that a call of the symbol is this one."""
    either: float
    """The same, as if all that speak for it were independent."""
    offers: tuple[Offer, ...]
    ways: int = 1
    """In how many ways it was bound."""

    @property
    def rule(self) -> str:
        """The tool and the source of each argument."""
        said = [f"{one.name}={one.stat.name}" if one.name else one.stat.name for one in self.offers]
        return f"{self.symbol}({', '.join(said)})"


def bind(tables: Tables, scene: Scene, symbol: str, before: str, floor: float = 0.0) -> list[Bound]:
    """Calls of one symbol, best first; none where an argument has no offer, and none less probable than `floor`."""
    known = tables.known.get(symbol)
    if known is None:
        return []
    found: dict[str, Bound] = {}
    for one in _Binder(known, scene, symbol, before, floor).calls():
        other = found.get(one.key)
        if other is not None:
            best, worse = (one, other) if one.rate > other.rate else (other, one)
            either = 1.0 - (1.0 - best.either) * (1.0 - worse.either)
            one = best._replace(ways=other.ways + 1, either=either)
        found[one.key] = one
    return sorted(found.values(), key=lambda one: -one.rate)[:MOST_CALLS]


class _Binder:
    """One run of `bind`."""

    __slots__ = ("_offers", "before", "floor", "known", "scene", "symbol")

    def __init__(self, known: Known, scene: Scene, symbol: str, before: str, floor: float) -> None:
        self.known, self.scene = known, scene
        self.symbol, self.before, self.floor = symbol, before, floor
        self._offers: dict[str, list[Offer]] = {}

    def calls(self) -> Iterator[Bound]:
        forms, sources = self.known.forms, self.known.sources
        total = sum(forms.values())
        for names in sorted(forms, key=lambda one: (-forms[one], one))[:_FORMS]:
            share = forms[names] / total
            if share >= _RAREST:
                worth = {name: next((stat.worth for stat in sources.get(name, {}).values()), 0.0) for name in names}
                yield from self._joined(worth, share)
                yield from self._from_records(worth, share)
        stat = self.known.again
        for rank, (call, step) in enumerate(again(self.scene, self.symbol)):
            rate = stat.rate(self.before, rank)
            if rate >= self.floor:
                offer = Offer("", None, rate, rate, stat, rank, 1, step, 1)
                yield self._bound(dict(call.arguments), (offer,), rate, rate)

    def _hopeless(self, worths: Iterable[float], share: float) -> bool:
        """Whether arguments whose best sources are worth this much cannot reach the floor together."""
        return share * _SLACK * math.prod(worths) < self.floor

    def _bound(self, arguments: dict[str, Any], offers: tuple[Offer, ...], rate: float, either: float) -> Bound:
        return Bound(self.symbol, key_of(arguments), arguments, rate, either, offers)

    def _joined(self, worth: dict[str, float], share: float) -> Iterator[Bound]:
        """The most probable joint assignments; the arguments that are hardest to tell come first, to give up early."""
        if self._hopeless(worth.values(), share):
            return
        most = _OFFERS if len(worth) > 1 else _ALONE
        beam: list[tuple[float, tuple[Offer, ...]]] = [(share, ())]
        for name in sorted(worth, key=lambda one: (worth[one], one)):
            joined = [
                (rate * offer.rate, (*taken, offer))
                for rate, taken in beam
                for offer in self.offers(name)[:most]
                if rate * offer.rate >= self.floor
            ]
            if len(joined) > _BEAM:
                joined.sort(key=lambda one: -one[0])
                del joined[_BEAM:]
            beam = joined
        for rate, offers in beam:
            ordered = tuple(sorted(offers, key=lambda one: one.name))
            either = share * math.prod([one.either for one in offers])
            yield self._bound({one.name: one.value for one in ordered}, ordered, rate, either)

    def _from_records(self, worth: dict[str, float], share: float) -> Iterator[Bound]:
        """Calls whose arguments come from one record, as far as it has them."""
        asked = 0
        for source, stat in self.known.records.items():
            taken = {name for name, _ in source.fields}
            names = [name for name in worth if name not in taken]
            if stat.worth < _WORTHLESS or len(names) + len(taken) > len(worth):
                continue
            if self._hopeless([stat.worth, *(worth[name] for name in names)], share):
                continue
            rest = [self.offers(name)[0] for name in names if self.offers(name)]
            if len(rest) < len(names):
                continue
            part = share * math.prod([one.rate for one in rest])
            records = records_of(source, self.scene, self.symbol)
            for rank, (values, step) in enumerate(records):
                rate = stat.rate(self.before, rank)
                if part * rate >= self.floor:
                    offer = Offer("", None, rate, rate, stat, rank, len(records), step, 1)
                    arguments = {**values, **{one.name: one.value for one in rest}}
                    yield self._bound(arguments, (offer, *rest), part * rate, part * rate)
            asked += 1
            if asked == _RECORDS:
                break

    def offers(self, name: str) -> list[Offer]:
        """Values for an argument, best first."""
        offers = self._offers.get(name)
        if offers is not None:
            return offers
        found: dict[str, Offer] = {}
        asked = 0
        for source, stat in self.known.sources.get(name, {}).items():
            if stat.worth < _WORTHLESS:
                break
            if source.place is None and (stat.sessions if self.scene.repeats else stat.openings) < _SESSIONS:
                continue
            offered = yields(source, self.scene, Argument(self.symbol, name))
            for rank, (value, key, step) in enumerate(offered):
                rate = stat.rate(self.before, rank)
                other = found.get(key)
                if other is None:
                    found[key] = Offer(name, value, rate, rate, stat, rank, len(offered), step, 1)
                    continue
                either = 1.0 - (1.0 - other.either) * (1.0 - rate)
                if rate > other.rate:
                    found[key] = Offer(name, value, rate, either, stat, rank, len(offered), step, other.agreeing + 1)
                else:
                    found[key] = other._replace(either=either, agreeing=other.agreeing + 1)
            asked += bool(offered)
            if asked == _TRIED:
                break
        offers = self._offers[name] = sorted(found.values(), key=lambda one: -one.rate)[:_ALONE]
        return offers
