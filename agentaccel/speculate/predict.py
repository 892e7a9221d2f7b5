"""The predictor."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from agentaccel.speculate.bind import Bound, bind
from agentaccel.speculate.ctw import Tree
from agentaccel.speculate.events import Answered, Asked, Event, Returned, Said
from agentaccel.speculate.knowledge import Knowledge, Rule
from agentaccel.speculate.mixture import Mixture
from agentaccel.speculate.rank import Around, features
from agentaccel.speculate.scene import Scene, identity
from agentaccel.speculate.symbols import FAILED, REPLY, USER, symbol_of, tool_of
from agentaccel.types import Prediction, ToolCall

SOON = 5
MOST_SYMBOLS = 6
MOST_CANDIDATES = 24
_LEAST = 0.004
_CONTEXT = 8


class Candidate(NamedTuple):
    bound: Bound
    key: str
    given: list[float]
    next: float
    soon: float


class _Pending:
    __slots__ = ("candidates", "left", "right")

    def __init__(self, candidates: list[Candidate]) -> None:
        self.candidates, self.left, self.right = candidates, SOON, set[str]()


class Predictor:
    def __init__(self, knowledge: Knowledge | None = None) -> None:
        self.knowledge = knowledge if knowledge is not None else Knowledge()

    def session(
        self,
        workload: str = "",
        tools: Mapping[str, Mapping[str, Any]] | None = None,
        reads: Callable[[ToolCall], bool] | None = None,
    ) -> History:
        return History(self.knowledge, workload, tools, reads)


class History:
    def __init__(
        self,
        knowledge: Knowledge,
        workload: str,
        tools: Mapping[str, Mapping[str, Any]] | None,
        reads: Callable[[ToolCall], bool] | None,
    ) -> None:
        self._knowledge = knowledge
        self._tools = frozenset(tools) if tools else frozenset[str]()
        self._reads = reads
        with knowledge.lock:
            tree = knowledge.tree_of(workload)
            own = Tree()
            for one in (knowledge.fleet, tree, own):
                one.knows(sorted({*self._tools, REPLY}))
            self._mixture = Mixture((knowledge.fleet, tree, own))
        self._past: list[str] = []
        self._scene = Scene()
        self._beside = 0
        self._pending: deque[_Pending] = deque()
        self._ready: list[Candidate] | None = None

    def take(self, event: Event) -> None:
        with self._knowledge.lock:
            if isinstance(event, Asked):
                self._asked(event)
            elif isinstance(event, Answered):
                self._learn(())
                self._scene.step += 1
                self._scene.hear("model", event.text)
                self._push(REPLY)
            elif isinstance(event, Said):
                self._scene.hear("user", event.text)
                self._push(USER)
            elif isinstance(event, Returned):
                self._returned(event)
            self._ready = None

    def _push(self, symbol: str) -> None:
        self._past.append(symbol)
        del self._past[:-_CONTEXT]

    def _asked(self, event: Asked) -> None:
        self._learn(event.calls)
        scene = self._scene
        scene.step += 1
        scene.hear("model", event.text)
        self._beside = len(event.calls)
        last = ""
        for call in event.calls:
            symbol = symbol_of(call)
            scene.ask(symbol, call, writes=not self._is_read(call))
            if symbol != last:
                self._push(symbol)
            last = symbol

    def _returned(self, event: Returned) -> None:
        symbol = symbol_of(event.call)
        if event.error:
            if self._past and self._past[-1] == symbol:
                self._past[-1] = symbol + FAILED
            self._scene.hear("model", event.result[:500])
        else:
            self._scene.returned(symbol, event.result)

    def _is_read(self, call: ToolCall) -> bool:
        return self._reads is not None and self._reads(call)

    @property
    def _before(self) -> str:
        return self._past[-1] if self._past else ""

    def symbols(self) -> dict[str, float]:
        with self._knowledge.lock:
            return self._symbols()

    def _symbols(self) -> dict[str, float]:
        mixed = self._mixture.predict(self._past)
        if self._tools:
            mixed = {one: p for one, p in mixed.items() if one == REPLY or tool_of(one, self._tools) in self._tools}
        return mixed

    def predict(self, most: int = 12, admits: Callable[[ToolCall], bool] | None = None) -> tuple[Prediction, ...]:
        with self._knowledge.lock:
            knowledge = self._knowledge
            found: list[Prediction] = []
            for one in self._candidates():
                if admits is not None and not admits(one.bound.call):
                    continue
                p = knowledge.next_said.of(one.next)
                soon = max(knowledge.soon_said.of(one.soon), p)
                found.append(Prediction(call=one.bound.call, probability=p, soon=soon, rule=one.bound.rule))
                if len(found) == most:
                    break
            return tuple(found)

    def _candidates(self) -> list[Candidate]:
        if self._ready is not None:
            return self._ready
        knowledge, scene = self._knowledge, self._scene
        probabilities = self._symbols()
        likely = sorted(
            ((p, one) for one, p in probabilities.items() if one != REPLY and p > _LEAST), key=lambda x: (-x[0], x[1])
        )
        bound: list[tuple[float, int, Bound]] = []
        for p, symbol in likely[:MOST_SYMBOLS]:
            tool = tool_of(symbol, self._tools)
            for order, one in enumerate(bind(knowledge.tables, scene, symbol, tool, self._before)):
                bound.append((p * one.rate, order, one))
        bound.sort(key=lambda one: -one[0])
        best = bound[0][0] if bound else 0.0
        around = Around(scene, probabilities, self._before == USER, probabilities.get(REPLY, 0.0), self._beside)
        found: list[Candidate] = []
        for _, order, one in bound[:MOST_CANDIDATES]:
            rule = knowledge.rules.get(one.rule)
            given = features(one, around, (rule.right, rule.met) if rule else (0.0, 0.0), order, best)
            found.append(Candidate(one, identity(one.call), given, knowledge.next.of(given), knowledge.soon.of(given)))
        found.sort(key=lambda one: -one.next)
        self._ready = found
        return found

    def _learn(self, calls: tuple[ToolCall, ...]) -> None:
        knowledge = self._knowledge
        candidates = self._candidates()
        made = {identity(call) for call in calls}
        for one in candidates:
            right = one.key in made
            knowledge.next_said.learn(one.next, right)
            knowledge.next.learn(one.given, right)
            rule = knowledge.rule(one.bound.rule)
            rule.met += 1
            rule.right += right
        self._settle(calls)
        if candidates:
            self._pending.append(_Pending(candidates))
            self._mark(self._pending[-1], calls)
        by_symbol: dict[str, list[ToolCall]] = {}
        for call in calls:
            by_symbol.setdefault(symbol_of(call), []).append(call)
        self._mixture.update(self._past, by_symbol or (REPLY,))
        for symbol, same in by_symbol.items():
            knowledge.tables.learn(self._scene, self._before, symbol, same, knowledge.sensitive)

    def _settle(self, calls: tuple[ToolCall, ...]) -> None:
        for pending in self._pending:
            self._mark(pending, calls)
        while self._pending and self._pending[0].left <= 0:
            self._close(self._pending.popleft())

    def _mark(self, pending: _Pending, calls: tuple[ToolCall, ...]) -> None:
        if pending.left <= 0:
            return
        pending.left -= 1
        for call in calls:
            if not self._is_read(call):
                pending.right.add(identity(call)) if pending.left == SOON - 1 else None
                pending.left = 0
                break
            pending.right.add(identity(call))

    def _close(self, pending: _Pending) -> None:
        knowledge = self._knowledge
        for one in pending.candidates:
            right = one.key in pending.right
            knowledge.soon_said.learn(one.soon, right)
            knowledge.soon.learn(one.given, right)
