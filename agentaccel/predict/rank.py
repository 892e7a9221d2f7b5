"""Which of the calls that were bound comes next: a small logistic model over what speaks for each.

Learned online, one candidate after another, with a step of its own for every weight (AdaGrad: Duchi, Hazan and Singer,
2011): a feature that is seen seldom keeps learning. It has no weight for a tool, a value or a workload; those speak
through the rates that are among its features.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from operator import mul
from typing import Any, NamedTuple

from agentaccel.predict.context import Context, key_of
from agentaccel.predict.offers import Stat
from agentaccel.predict.sources import Argument, yields
from agentaccel.predict.tables import SymbolTables, Tables, again, records_of

# --- From a tool that is likely to be called to calls with all their arguments, each with what speaks for it ----------
# For each set of arguments that the tool was called with: the best offers of each argument, joined by a beam; the
# records that offer several at once; and the last calls of the tool as they were. An argument without an offer gives
# no call: a guess with a hole is none.

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


def bind(tables: Tables, scene: Context, symbol: str, before: str, floor: float = 0.0) -> list[Bound]:
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

    def __init__(self, known: SymbolTables, scene: Context, symbol: str, before: str, floor: float) -> None:
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


KINDS = ("constant", "argument", "result", "text", "user", "model", "changed", "record", "again")

NAMES = (
    "one", "log p", "log rate", "log either", "log weakest", "beyond", "rule seen", "share", "rank", "size", "first",
    "age", "fresh step", "agreeing", "ways", "seen", "arguments", "none", "dup", "asked", "by user", "by model",
    "after user", "after error", "reply", "order", "beside", "passed", *KINDS,
)  # fmt: skip
"""What is told of a candidate, in order."""

_STEP = 0.4
_FADE = 1e-5
_SETTLED = 0.004
"""An error below which there is nothing to learn."""


class RankContext(NamedTuple):
    """What is the same for all candidates of one moment."""

    scene: Context
    probabilities: dict[str, float]
    """Of the symbols."""
    tools: dict[str, str]
    """The tool of each symbol that calls were bound for."""
    after_user: bool
    after_error: bool
    reply: float
    """That the model answers in text."""
    beside: int
    """Calls in the reply before."""


class Fared(NamedTuple):
    """What became of the candidates of a rule."""

    right: float = 0.0
    met: float = 0.0
    expected: float = 0.0
    """How many were expected to be right, by the probability of the tool and the rate of the arguments."""


def logit(p: float) -> float:
    """Log odds, bounded."""
    p = min(max(p, 1e-4), 1.0 - 1e-4)
    return math.log(p / (1.0 - p))


def features(bound: Bound, around: RankContext, rule: Fared, order: int, best: float) -> list[float]:
    """What speaks for a candidate, each about between -1 and 1 or a few.

    `rule`: how its rule fared; `order`: among the calls of its tool; `best`: the highest
    prior of all candidates.
    """
    scene, offers = around.scene, bound.offers
    p = around.probabilities.get(bound.symbol, 0.0)
    right, met, expected = rule
    prior = p * bound.rate
    call = f"{around.tools[bound.symbol]}\0{bound.key}"
    past = scene.asked.get(call)
    mentioned = [scene.mentions(value, key_of(value)) for value in bound.arguments.values()]
    count = len(mentioned) or 1
    varied = max(offers, key=lambda one: one.rank) if offers else None
    rank, size = (varied.rank, max(one.size for one in offers)) if varied else (0, 1)
    step = max([one.step for one in offers], default=-1)
    age = scene.step - step if step >= 0 else 12
    kinds = {one.stat.kind for one in offers}
    log, log1p = math.log, math.log1p
    return [
        1.0,
        0.5 * log(p + 1e-4) + 1.0,
        0.5 * log(bound.rate + 1e-3) + 1.0,
        0.5 * log(bound.either + 1e-3) + 1.0,
        0.5 * log(min([one.rate for one in offers], default=1.0) + 1e-3) + 1.0,
        0.5 * log((right + 1.0) / (expected + 1.0)),
        0.3 * log1p(met),
        log((prior + 1e-4) / (best + 1e-4)) * 0.3,
        0.4 * log1p(rank),
        0.4 * log(size),
        1.0 if rank == 0 else 0.0,
        0.4 * log1p(max(age, 0)),
        1.0 if age <= 0 else 0.0,
        0.3 * log(min([one.agreeing for one in offers], default=1)),
        0.5 * log(bound.ways),
        0.2 * log1p(min([one.stat.seen for one in offers], default=0.0)),
        0.3 * len(mentioned),
        0.0 if mentioned else 1.0,
        1.0 if past is not None and past.number > scene.wrote else 0.0,
        1.0 if past is not None else 0.0,
        sum([user for user, _ in mentioned]) / count,
        sum([model for _, model in mentioned]) / count,
        1.0 if around.after_user else 0.0,
        1.0 if around.after_error else 0.0,
        around.reply,
        0.4 * log1p(order),
        0.4 * log1p(around.beside),
        0.4 * log1p(scene.passed.get(call, 0)),
        *[1.0 if kind in kinds else 0.0 for kind in KINDS],
    ]


class Logistic:
    """An online logistic regression that states what the mean of its weights states.

    The weights that learn go on swinging around the best ones by as much as a step; their mean, in which later ones
    weigh more, does not (Polyak and Juditsky, 1992; weights that rise linearly: Lacoste-Julien and others, 2012).

    >>> model = Logistic([0.0, 0.0])
    >>> for _ in range(300):
    ...     model.learn([1.0, 1.0], True), model.learn([1.0, -1.0], False)  # doctest: +ELLIPSIS
    (...)
    >>> model.of([1.0, 1.0]) > 0.8
    True
    """

    __slots__ = ("_moving", "seen", "squares", "weights")

    def __init__(self, weights: Sequence[float]) -> None:
        self.weights = list(weights)
        """The mean."""
        self._moving = list(weights)
        self.squares = [1.0] * len(self.weights)
        """Sums of squared gradients."""
        self.seen = 0.0

    def of(self, given: Sequence[float]) -> float:
        """The probability that it states."""
        return _sigmoid(sum(map(mul, self.weights, given)))

    def learn(self, given: Sequence[float], right: bool) -> None:
        """Take in one outcome."""
        moving, squares = self._moving, self.squares
        error = _sigmoid(sum(map(mul, moving, given))) - right
        self.seen += 1.0
        if -_SETTLED < error < _SETTLED:
            return
        for at, value in enumerate(given):
            if value:
                gradient = error * value
                squares[at] += gradient * gradient
                moving[at] -= _STEP * (gradient / math.sqrt(squares[at]) + _FADE * moving[at])
        part = 2.0 / (self.seen + 1.0)
        self.weights = [mean + part * (now - mean) for mean, now in zip(self.weights, moving, strict=True)]

    def resume(self) -> None:
        """Learn on from the mean, after that was changed from outside."""
        self._moving = list(self.weights)


def _sigmoid(total: float) -> float:
    return 1.0 / (1.0 + math.exp(-max(-20.0, min(20.0, total))))


def beginning() -> Logistic:
    """A model that has learned nothing: the product of the probability of the tool and the rate of the arguments."""
    start = dict.fromkeys(NAMES, 0.0)
    start.update({"one": -4.0, "log p": 2.0, "log rate": 2.0})
    return Logistic([start[name] for name in NAMES])
