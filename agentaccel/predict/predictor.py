"""The predictor: what a session does next, learned from what sessions did.

    predictor = Predictor()
    history = predictor.session("support", tools)
    history.take(Said("…"))          # everything that happens, in order
    history.predict()                # the calls that the next reply may ask for, best first
    history.take(Asked((call,)))     # learns from it
    history.close()

The next symbol is told by context trees, its arguments by sources that were right before, and the two are weighed by a
small model; every probability is calibrated against what came true. Nothing is known beforehand of any tool: a
predictor that has seen nothing predicts nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from agentaccel.predict.context import Context, identity
from agentaccel.predict.events import Answered, Asked, Event, Returned, Said
from agentaccel.predict.knowledge import Knowledge
from agentaccel.predict.rank import Bound, Fared, RankContext, bind, features
from agentaccel.predict.resources import Resource, Resources
from agentaccel.predict.tokens import FAILED, REPLY, USER, symbol_of, tool_of
from agentaccel.predict.tree import Mixture, Tree
from agentaccel.types import Prediction, ToolCall

# --- The calls that may come next, ranked; and what is learned once it is seen which of them came ---------------------

SOON = 5
"""Replies that count as soon."""
MOST_BOUND = 6
"""Symbols for which calls are bound, the most probable first."""
MOST_CANDIDATES = 24
_RAREST = 0.004
"""Symbols, and calls, that are less probable are not looked at."""


class Moment(NamedTuple):
    """A session that waits for the next reply."""

    scene: Context
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
    around = RankContext(scene, probabilities, tools, before == USER, before.endswith(FAILED), reply, moment.beside)
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


class _OpenGuesses:
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
        self._open: deque[_OpenGuesses] = deque()

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
            self._open.append(_OpenGuesses(found))
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

    def _settle(self, one: _OpenGuesses) -> None:
        knowledge = self._knowledge
        model, stated = knowledge.models["soon"], knowledge.calibration("soon", repeats=self.repeats)
        for guess in one.guesses:
            right = guess.key in one.asked
            stated.learn(guess.soon, right)
            model.learn(guess.given, right)
            knowledge.rule(guess.rule).soon += right


Tools = Mapping[str, Mapping[str, Any]]
"""The schemas of the tools that there are, by name."""
Reads = Callable[[ToolCall], bool]
"""Whether a call is known to write nothing."""

_MOST_NODES = 4000
"""Of the tree of one session."""
_CONTEXT = 8
"""Symbols that are kept: more than any tree looks back."""


class Predictor:
    """Predicts the calls of many sessions, which learn from one another. Thread-safe.

    >>> from agentaccel.predict.events import Asked, Said
    >>> predictor, look = Predictor(), ToolCall(name="look", arguments={})
    >>> for _ in range(20):
    ...     history = predictor.session()
    ...     history.take(Said("hello"))
    ...     history.take(Asked((look,)))
    ...     history.close()
    >>> history = predictor.session()
    >>> history.take(Said("hello"))
    >>> history.predict()[0].call.name
    'look'
    """

    def __init__(self, knowledge: Knowledge | None = None) -> None:
        self.knowledge = knowledge if knowledge is not None else Knowledge()

    def session(self, workload: str = "", tools: Tools | None = None, reads: Reads | None = None) -> SessionHistory:
        """A session that begins.

        `workload`: what statistics are learned for; `tools`: those that there are, so that no other is predicted;
        `reads`: tells calls that write nothing, without which every call may write and `Prediction.soon` looks no
        further than the next one.
        """
        return SessionHistory(self.knowledge, workload, tools, reads)


class SessionHistory:
    """What has happened in one session, and what may happen next. Thread-safe."""

    def __init__(self, knowledge: Knowledge, workload: str, tools: Tools | None, reads: Reads | None) -> None:
        self._knowledge = knowledge
        self._workload = workload
        self._tools = frozenset(tools) if tools else frozenset[str]()
        self._reads = reads
        self._learns = True
        self._opening = ""
        """Hash of what the session began with, until something was learned from it."""
        with knowledge.lock:
            trees = (knowledge.fleet, knowledge.tree_of(workload), Tree(most_nodes=_MOST_NODES))
            for tree in trees:
                tree.knows(sorted({*self._tools, REPLY}))
            self._mixture = Mixture(trees)
            self._scene = Context(knowledge.next_session())
        self._outcomes = Outcomes(knowledge, self._is_read)
        self._resources = Resources()
        self._past: tuple[str, ...] = ()
        self._beside = 0
        self._ready: list[Guess] | None = None

    def take(self, event: Event) -> None:
        """Learn from what has happened, and go on from there."""
        with self._knowledge.lock:
            if isinstance(event, Asked):
                self._asked(event)
            elif isinstance(event, Answered):
                self._replied((), event.text)
                self._push(REPLY)
            elif isinstance(event, Said):
                if not self._past and self._learns:
                    self._opened(event.text)
                self._scene.hear("user", event.text)
                self._resources.named(event.text, "user")
                self._push(USER)
            else:
                self._returned(event)
            self._ready = None

    def predict(self, most: int = 12, admits: Callable[[ToolCall], bool] | None = None) -> tuple[Prediction, ...]:
        """The calls that the next reply may ask for, best first, at most `most`; only those that `admits` allows."""
        with self._knowledge.lock:
            moment = self._moment()
            return predictions(self._knowledge, moment, self._guesses(moment), most, admits)

    def symbols(self) -> dict[str, float]:
        """How probable each symbol is to come next; `REPLY` for an answer in text."""
        with self._knowledge.lock:
            return self._symbols()

    def resources(self, most: int = 10) -> tuple[Resource, ...]:
        """The files and pages that are likely to be read next, best first."""
        with self._knowledge.lock:
            return self._resources.ranked(self._knowledge.resources, most)

    def supposing(self, call: ToolCall, result: str) -> SessionHistory:
        """What would be, had the next reply asked for `call` and it returned `result`. Learns nothing."""
        with self._knowledge.lock:
            other = SessionHistory.__new__(SessionHistory)
            other._knowledge, other._tools, other._reads = self._knowledge, self._tools, self._reads
            other._learns, other._outcomes, other._ready = False, self._outcomes, None
            other._workload, other._opening = self._workload, ""
            other._mixture = Mixture(self._mixture.trees, self._mixture.weights, self._mixture.known)
            other._scene, other._resources = self._scene.copy(), self._resources.copy()
            other._past, other._beside = self._past, self._beside
            other._asked(Asked((call,)))
            other._returned(Returned(call, result))
            return other

    def close(self) -> None:
        """The session has ended: what was not asked for will not be."""
        with self._knowledge.lock:
            if self._learns:
                self._outcomes.close()

    def _opened(self, text: str) -> None:
        """A session that begins like an earlier one will do much the same: that tells little of other sessions."""
        self._opening = self._knowledge.opening_of(text)
        if self._opening in self._knowledge.openings:
            self._scene.repeats = self._outcomes.repeats = True
            again = self._knowledge.tree_again(self._workload)
            again.knows(sorted({*self._tools, REPLY}))
            _, workload, session = self._mixture.trees
            self._mixture = Mixture((workload, again, session), known=1)

    def _asked(self, event: Asked) -> None:
        self._replied(event.calls, event.text)
        self._beside = len(event.calls)
        last = ""
        for call in event.calls:
            symbol = symbol_of(call)
            self._scene.ask(symbol, call, writes=not self._is_read(call))
            if symbol != last:  # a fan-out is one thing that happens
                self._push(symbol)
            last = symbol

    def _replied(self, calls: tuple[ToolCall, ...], text: str) -> None:
        if self._learns:
            if self._opening:
                self._knowledge.began(self._opening)
                self._opening = ""
            self._learn(calls)
        self._resources.learn(self._knowledge.resources if self._learns else None, calls, self._may_read)
        self._scene.step += 1
        self._scene.hear("model", text)
        self._resources.named(text, "model")

    def _returned(self, event: Returned) -> None:
        symbol = symbol_of(event.call)
        self._resources.named(event.result, "result")
        if event.error:
            if self._past and self._past[-1] == symbol:
                self._past = (*self._past[:-1], symbol + FAILED)
            symbol += FAILED
        self._scene.returned(symbol, event.result, failed=event.error)

    def _push(self, symbol: str) -> None:
        self._past = (*self._past, symbol)[-_CONTEXT:]

    def _is_read(self, call: ToolCall) -> bool:
        return self._reads is not None and self._reads(call)

    def _may_read(self, call: ToolCall) -> bool:
        """Whether a call counts as one that reads: where nothing is known of calls, every one."""
        return self._reads is None or self._reads(call)

    def _symbols(self) -> dict[str, float]:
        mixed = self._mixture.predict(self._past)
        tools = self._tools
        return {one: p for one, p in mixed.items() if not tools or one == REPLY or tool_of(one, tools) in tools}

    def _moment(self) -> Moment:
        return Moment(self._scene, self._past, self._symbols(), self._tools, self._beside)

    def _guesses(self, moment: Moment) -> list[Guess]:
        if self._ready is None:
            self._ready = guesses(self._knowledge, moment)
        return self._ready

    def _learn(self, calls: tuple[ToolCall, ...]) -> None:
        """Learn from a reply what it was made from: the scene is still the one before it."""
        knowledge, moment = self._knowledge, self._moment()
        found = self._guesses(moment)
        self._outcomes.learn(found, calls)
        self._scene.expected(guess.key for guess in found)
        by_symbol: dict[str, list[ToolCall]] = {}
        for call in calls:
            by_symbol.setdefault(symbol_of(call), []).append(call)
        self._mixture.update(self._past, by_symbol or (REPLY,))
        for symbol, same in by_symbol.items():
            knowledge.tables.of(symbol).learn(self._scene, moment.before, symbol, same, knowledge.sensitive)
