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

from collections.abc import Callable, Mapping
from typing import Any

from agentaccel.speculate.ctw import Tree
from agentaccel.speculate.events import Answered, Asked, Event, Returned, Said
from agentaccel.speculate.guesses import Guess, Moment, Outcomes, guesses, predictions
from agentaccel.speculate.knowledge import Knowledge
from agentaccel.speculate.mixture import Mixture
from agentaccel.speculate.resources import Resource, Resources
from agentaccel.speculate.scene import Scene
from agentaccel.speculate.symbols import FAILED, REPLY, USER, symbol_of, tool_of
from agentaccel.types import Prediction, ToolCall

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

    >>> from agentaccel.speculate.events import Asked, Said
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

    def session(self, workload: str = "", tools: Tools | None = None, reads: Reads | None = None) -> History:
        """A session that begins.

        `workload`: what statistics are learned for; `tools`: those that there are, so that no other is predicted;
        `reads`: tells calls that write nothing, without which every call may write and `Prediction.soon` looks no
        further than the next one.
        """
        return History(self.knowledge, workload, tools, reads)


class History:
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
            self._scene = Scene(knowledge.next_session())
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

    def supposing(self, call: ToolCall, result: str) -> History:
        """What would be, had the next reply asked for `call` and it returned `result`. Learns nothing."""
        with self._knowledge.lock:
            other = History.__new__(History)
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
