"""The calls that may come next, ranked; and what is learned once it is seen which of them came."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from agentaccel.speculate.bind import Bound, bind
from agentaccel.speculate.knowledge import Knowledge
from agentaccel.speculate.rank import Around, Fared, features
from agentaccel.speculate.scene import Scene, identity
from agentaccel.speculate.symbols import FAILED, REPLY, USER, tool_of
from agentaccel.types import Prediction, ToolCall

SOON = 5
"""Replies that count as soon."""
MOST_BOUND = 6
"""Symbols for which calls are bound, the most probable first."""
MOST_CANDIDATES = 24
_RAREST = 0.004
"""Symbols, and calls, that are less probable are not looked at."""


class Moment(NamedTuple):
    """A session that waits for the next reply."""

    scene: Scene
    past: Sequence[str]
    """The symbols so far, the newest last."""
    probabilities: dict[str, float]
    """Of the symbols that may come next."""
    tools: frozenset[str]
    """Names of the tools that there are; empty where that is not known."""
    beside: int
    """Calls in the reply before."""

    @property
    def before(self) -> str:
        """The newest symbol."""
        return self.past[-1] if self.past else ""


class Guess(NamedTuple):
    """A call that may come next."""

    bound: Bound
    call: ToolCall
    key: str
    """As `identity` of the call."""
    rule: str
    given: list[float]
    """What the models are told of it."""
    prior: float
    """The probability of its tool times the rate of its arguments."""
    next: float
    """What the models state: that the next reply asks for it."""
    soon: float
    """That one of the next `SOON` does, before anything may have written."""


def guesses(knowledge: Knowledge, moment: Moment) -> list[Guess]:
    """The calls that may come next, best first."""
    probabilities, scene = moment.probabilities, moment.scene
    likely = [(p, symbol) for symbol, p in probabilities.items() if symbol != REPLY and p >= _RAREST]
    likely.sort(key=lambda one: (-one[0], one[1]))
    tools: dict[str, str] = {}
    bound: list[tuple[float, int, Bound]] = []
    before = moment.before
    for p, symbol in likely[:MOST_BOUND]:
        tools[symbol] = tool_of(symbol, moment.tools)
        calls = bind(knowledge.tables, scene, symbol, before, _RAREST / p)
        bound += [(p * one.rate, order, one) for order, one in enumerate(calls)]
    bound.sort(key=lambda one: -one[0])
    best = bound[0][0] if bound else 0.0
    reply = probabilities.get(REPLY, 0.0)
    around = Around(scene, probabilities, tools, before == USER, before.endswith(FAILED), reply, moment.beside)
    found: list[Guess] = []
    for prior, order, one in bound[:MOST_CANDIDATES]:
        name = one.rule
        rule = knowledge.rules.get(name)
        given = features(one, around, Fared(rule.right, rule.met, rule.expected) if rule else Fared(), order, best)
        call = ToolCall(name=tools[one.symbol], arguments=one.arguments)
        stated = knowledge.models["next"].of(given), knowledge.models["soon"].of(given)
        found.append(Guess(one, call, f"{call.name}\0{one.key}", name, given, prior, *stated))
    found.sort(key=lambda one: -one.next)
    return found


def predictions(
    knowledge: Knowledge, moment: Moment, found: Sequence[Guess], most: int, admits: Callable[[ToolCall], bool] | None
) -> tuple[Prediction, ...]:
    """The first `most` guesses that are admitted, with calibrated probabilities and what speaks for them in words."""
    told: list[Prediction] = []
    repeats = moment.scene.repeats
    coming, soon = knowledge.calibration("next", repeats=repeats), knowledge.calibration("soon", repeats=repeats)
    highest = 1.0
    for guess in found:
        if len(told) >= most:
            break
        if admits is not None and not admits(guess.call):
            continue
        highest = min(highest, coming.of(guess.next))
        told.append(
            Prediction(
                call=guess.call,
                probability=highest,
                soon=max(highest, soon.of(guess.soon)),
                rule=guess.rule,
                evidence=_evidence(knowledge, moment, guess),
            )
        )
    return tuple(told)


def _evidence(knowledge: Knowledge, moment: Moment, guess: Guess) -> tuple[str, ...]:
    bound = guess.bound
    words = [f"{bound.symbol} comes next in {moment.probabilities.get(bound.symbol, 0.0):.0%} of such places"]
    for offer in bound.offers:
        what = f"{offer.name} from " if offer.name else ""
        place = f", number {offer.rank + 1} of {offer.size}" if offer.size > 1 else ""
        words.append(f"{what}{offer.stat.name}{place}: right in {offer.rate:.0%}, met {offer.stat.seen:.0f} times")
    if bound.ways > 1:
        words.append(f"found in {bound.ways} ways")
    rule = knowledge.rules.get(guess.rule)
    if rule is not None and rule.met:
        words.append(f"this pattern was right {rule.right:.0f} of {rule.met:.0f} times")
    return tuple(words)


class _Open:
    """Guesses of one moment, of which it is not yet known whether they were asked for soon."""

    __slots__ = ("asked", "guesses", "left")

    def __init__(self, found: list[Guess]) -> None:
        self.guesses = found
        self.left = SOON
        """Replies that still count."""
        self.asked = set[str]()


class Outcomes:
    """Learns what became of guesses: at once whether they came next, later whether soon."""

    __slots__ = ("_is_read", "_knowledge", "_open", "repeats")

    def __init__(self, knowledge: Knowledge, is_read: Callable[[ToolCall], bool]) -> None:
        self._knowledge, self._is_read = knowledge, is_read
        self.repeats = False
        """Whether the session repeats an earlier one."""
        self._open: deque[_Open] = deque()

    def learn(self, found: list[Guess], calls: Sequence[ToolCall]) -> None:
        """Take in the calls that the next reply asked for; none where it was text."""
        knowledge = self._knowledge
        model, stated = knowledge.models["next"], knowledge.calibration("next", repeats=self.repeats)
        asked = {identity(call) for call in calls}
        for guess in found:
            right = guess.key in asked
            stated.learn(guess.next, right)
            model.learn(guess.given, right)
            rule = knowledge.rule(guess.rule)
            rule.met += 1.0
            rule.right += right
            rule.expected += guess.prior
        if found:
            self._open.append(_Open(found))
        for one in self._open:
            one.left -= 1
            for call in calls:
                one.asked.add(identity(call))
                if not self._is_read(call):
                    one.left = 0  # what is asked for from here on would see another world
                    break
        while self._open and self._open[0].left <= 0:
            self._settle(self._open.popleft())

    def close(self) -> None:
        """No reply comes any more."""
        while self._open:
            self._settle(self._open.popleft())

    def _settle(self, one: _Open) -> None:
        knowledge = self._knowledge
        model, stated = knowledge.models["soon"], knowledge.calibration("soon", repeats=self.repeats)
        for guess in one.guesses:
            right = guess.key in one.asked
            stated.learn(guess.soon, right)
            model.learn(guess.given, right)
            knowledge.rule(guess.rule).soon += right
