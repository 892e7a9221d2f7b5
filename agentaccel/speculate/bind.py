"""From a tool that is likely to be called to calls with all their arguments, each with what speaks for it.

For each set of arguments that the tool was called with: the best offers of each argument, joined by a beam; the records
that offer several at once; and the last calls of the tool as they were. An argument without an offer gives no call: a
guess with a hole is none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from agentaccel.speculate.scene import Scene, identity, key_of
from agentaccel.speculate.sources import Source
from agentaccel.speculate.tables import Known, Tables, again, records_of
from agentaccel.types import ToolCall

MOST_CALLS = 16
"""Calls bound for one symbol."""
_FORMS = 3
_RAREST = 0.05
"""A set of arguments that is used less often, of all calls of the tool, is not tried."""
_BEAM = 16
_OFFERS = 5
"""Values of one argument that are joined with those of others; a tool of one argument takes all."""
_TRIED = 14
"""Sources of an argument that are asked, those that are right most often first."""


class Offer(NamedTuple):
    """A value for an argument."""

    value: Any
    rate: float
    """How often this offer is right, given that the tool is called."""
    either: float
    """The same for all sources that offer it, as if they were independent."""
    source: str
    kind: str
    rank: int
    size: int
    """How many values its source offers."""
    step: int
    """When the value came up; -1 for a constant."""
    seen: float
    """How often its source was met."""
    agreeing: int
    """Sources that offer it."""


class Bound(NamedTuple):
    """A call with all its arguments, and what speaks for it."""

    symbol: str
    call: ToolCall
    rate: float
    """The product of its offers."""
    weakest: float
    """The least of them."""
    either: float
    rule: str
    kinds: tuple[str, ...]
    rank: int
    size: int
    step: int
    seen: float
    agreeing: int
    ways: int = 1
    """In how many ways it was bound."""


def bind(tables: Tables, scene: Scene, symbol: str, tool: str, before: str) -> list[Bound]:
    """Calls of one symbol, best first; none where an argument has no offer."""
    known = tables.known.get(symbol)
    if known is None:
        return []
    found: dict[str, Bound] = {}
    binder = _Binder(tables, known, scene, symbol, tool, before)
    for one in binder.calls():
        key = identity(one.call)
        other = found.get(key)
        if other is None:
            found[key] = one
        else:
            best, worse = (one, other) if one.rate > other.rate else (other, one)
            found[key] = best._replace(
                ways=other.ways + 1,
                either=1.0 - (1.0 - best.either) * (1.0 - worse.either),
                agreeing=max(best.agreeing, worse.agreeing) + 1,
            )
    return sorted(found.values(), key=lambda one: -one.rate)[:MOST_CALLS]


class _Binder:
    """One run of `bind`."""

    def __init__(self, tables: Tables, known: Known, scene: Scene, symbol: str, tool: str, before: str) -> None:
        self.tables, self.known, self.scene = tables, known, scene
        self.symbol, self.tool, self.before = symbol, tool, before
        self._offers: dict[str, list[Offer]] = {}

    def calls(self) -> Iterator[Bound]:
        total = sum(self.known.forms.values())
        forms = sorted(self.known.forms.items(), key=lambda one: (-one[1], one[0]))[:_FORMS]
        for names, count in forms:
            if count >= _RAREST * total:
                yield from self._joined(names, count / total)
                yield from self._from_records(names, count / total)
        for rank, (call, step) in enumerate(again(self.scene, self.symbol)):
            stat = self.known.again
            rate = stat.rate(self.before, rank)
            offer = Offer(None, rate, rate, "as before", "again", rank, 1, step, stat.seen, 1)
            yield self._bound(dict(call.arguments), [("", offer)], 1.0)

    def _joined(self, names: tuple[str, ...], share: float) -> Iterator[Bound]:
        """The most probable joint assignments."""
        beam: list[tuple[float, list[tuple[str, Offer]]]] = [(share, [])]
        for name in names:
            offers = self.offers(name)
            if len(names) > 1:
                offers = offers[:_OFFERS]
            joined = [(rate * offer.rate, [*taken, (name, offer)]) for rate, taken in beam for offer in offers]
            joined.sort(key=lambda one: -one[0])
            beam = joined[:_BEAM]
        for _, taken in beam:
            yield self._bound({name: offer.value for name, offer in taken}, taken, share)

    def _from_records(self, names: tuple[str, ...], share: float) -> Iterator[Bound]:
        for source, stat in self.known.records.items():
            taken = {name for name, _ in source.fields}
            if not taken <= set(names):
                continue
            rest: list[tuple[str, Offer]] = []
            for name in names:
                if name not in taken:
                    offers = self.offers(name)
                    if not offers:
                        break
                    rest.append((name, offers[0]))
            if len(rest) + len(taken) < len(names):
                continue
            records = records_of(source, self.scene, self.symbol)
            for rank, one in enumerate(records):
                rate = stat.rate(self.before, rank)
                offer = Offer(None, rate, rate, str(source), "record", rank, len(records), one.step, stat.seen, 1)
                arguments = {**one.values, **{name: other.value for name, other in rest}}
                yield self._bound(arguments, [("", offer), *rest], share)

    def _bound(self, arguments: Mapping[str, Any], taken: list[tuple[str, Offer]], share: float) -> Bound:
        offers = [offer for _, offer in taken]
        said = ", ".join(f"{name}={offer.source}" if name else offer.source for name, offer in taken)
        varied = max(offers, key=lambda one: (one.rank, one.size), default=None)
        return Bound(
            symbol=self.symbol,
            call=ToolCall(name=self.tool, arguments=arguments),
            rate=share * math.prod(one.rate for one in offers),
            weakest=min((one.rate for one in offers), default=1.0),
            either=share * math.prod(one.either for one in offers),
            rule=f"{self.symbol}({said})",
            kinds=tuple(sorted({one.kind for one in offers})),
            rank=varied.rank if varied else 0,
            size=varied.size if varied else 1,
            step=max((one.step for one in offers), default=-1),
            seen=min((one.seen for one in offers), default=0.0),
            agreeing=min((one.agreeing for one in offers), default=1),
        )

    def offers(self, name: str) -> list[Offer]:
        """Values for an argument, best first."""
        if name in self._offers:
            return self._offers[name]
        found: dict[str, Offer] = {}
        table = self.known.sources.get(name, {})
        tried = sorted(table, key=lambda one: -table[one].worth) if len(table) > _TRIED else list(table)
        asked = 0
        for source in tried:
            offered = self.tables.offered(source, self.scene, self.symbol, name)
            if not offered:
                continue
            for rank, one in enumerate(offered):
                self._take(found, source, one.value, one.step, rank, len(offered), table[source])
            asked += 1
            if asked == _TRIED:
                break
        offers = sorted(found.values(), key=lambda one: (-one.rate, -one.either))[:12]
        self._offers[name] = offers
        return offers

    def _take(
        self, found: dict[str, Offer], source: Source, value: Any, step: int, rank: int, size: int, stat: Any
    ) -> None:
        rate = stat.rate(self.before, rank)
        key = key_of(value)
        other = found.get(key)
        if other is None:
            found[key] = Offer(value, rate, rate, str(source), source.kind, rank, size, step, stat.seen, 1)
            return
        both = 1.0 - (1.0 - other.either) * (1.0 - rate)
        if rate > other.rate:
            other = Offer(value, rate, both, str(source), source.kind, rank, size, step, stat.seen, other.agreeing)
        found[key] = other._replace(either=both, agreeing=other.agreeing + 1)
