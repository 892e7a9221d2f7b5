"""Two predictors to compare with, which know no more than what the literature's simplest ones do.

Both take the tools that followed the last one (first-order Markov), by how often each did. One fills arguments with
what they were most often in training. The other takes for each argument the source that was right most often: such a
constant, an argument of an earlier call, or a place in the last result of an earlier tool, by position (the templates
of PASTE, 2603.18897). A call of which an argument is not known is not predicted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import orjson

from agentaccel.predict.events import Asked, Event, Returned
from agentaccel.types import Prediction, ToolCall

MOST_TOOLS = 3
_MOST_LEAVES = 400
_START = ""
_NONE = object()

Source = tuple[str, ...]
"""What a value is taken from: ("constant", JSON), ("argument", tool, name) or ("result", tool, path)."""


class Simple:
    """What was counted over training sessions."""

    def __init__(self, *, templates: bool) -> None:
        self._templates = templates
        self._next: dict[str, Counter[str]] = defaultdict(Counter)
        self._shapes: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
        self._tried: dict[tuple[str, str, str], Counter[Source]] = defaultdict(Counter)
        self._right: dict[tuple[str, str, str], Counter[Source]] = defaultdict(Counter)

    def learn(self, events: Iterable[Event]) -> None:
        """One training session."""
        state = State()
        for event in events:
            if isinstance(event, Asked):
                for call in event.calls:
                    self._next[state.last][call.name] += 1
                    self._shapes[call.name][tuple(sorted(call.arguments))] += 1
                    for name, value in call.arguments.items():
                        self._credit((state.last, call.name, name), _text(value), state)
            elif not isinstance(event, Returned):
                self._next[state.last][_START] += 1
            state.take(event)

    def _credit(self, key: tuple[str, str, str], value: str, state: State) -> None:
        self._tried[key][("constant", value)] += 1
        self._right[key][("constant", value)] += 1
        if self._templates:
            for source, known in state.values.items():
                self._tried[key][source] += 1
                self._right[key][source] += known == value

    def predict(self, state: State) -> tuple[Prediction, ...]:
        """The likeliest calls after `state`, best first."""
        follows = self._next[state.last]
        seen = sum(follows.values())
        found = []
        for tool, count in follows.most_common(MOST_TOOLS + 1):
            bound = self._bind(tool, state) if tool != _START else None
            if bound is not None:
                arguments, right = bound
                found.append(_said(tool, arguments, count / (seen + 2) * right))
        return tuple(sorted(found, key=lambda one: -one.probability))

    def _bind(self, tool: str, state: State) -> tuple[Mapping[str, Any], float] | None:
        arguments, right = {}, 1.0
        for name in self._shapes[tool].most_common(1)[0][0]:
            key = (state.last, tool, name)
            tried, hits = self._tried[key], self._right[key]
            times = sum(count for source, count in tried.items() if source[0] == "constant")
            best, value = 0.0, _NONE
            for source, count in hits.items():
                known = orjson.loads(source[1]) if source[0] == "constant" else state.loaded(source)
                rate = count / ((times if source[0] == "constant" else tried[source]) + 2)
                if rate > best and known is not _NONE:
                    best, value = rate, known
            if value is _NONE:
                return None
            arguments[name], right = value, right * best
        return arguments, right


def _said(tool: str, arguments: Mapping[str, Any], probability: float) -> Prediction:
    call = ToolCall(name=tool, arguments=arguments)
    return Prediction(call=call, probability=probability, soon=probability, rule=tool)


class State:
    """What is known in a session: the last tool, and the values that may be taken."""

    def __init__(self) -> None:
        self.last = _START
        self.values: dict[Source, str] = {}

    def take(self, event: Event) -> None:
        """Go on by one event."""
        if isinstance(event, Asked):
            for call in event.calls:
                self.last = call.name
                for name, value in call.arguments.items():
                    self.values["argument", call.name, name] = _text(value)
        elif isinstance(event, Returned) and not event.error:
            tool = event.call.name
            self.values = {s: v for s, v in self.values.items() if s[0] != "result" or s[1] != tool}
            for path, value in islice(_leaves(event.result), _MOST_LEAVES):
                self.values["result", tool, path] = value

    def loaded(self, source: Source) -> Any:
        """The value of a source; `_NONE` where it has none."""
        return orjson.loads(self.values[source]) if source in self.values else _NONE


def _leaves(result: str) -> Iterator[tuple[str, str]]:
    try:
        whole = orjson.loads(result)
    except ValueError:
        return
    waiting = [("", whole)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{path}/{name}", inner) for name, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{path}/{at}", inner) for at, inner in enumerate(value)]
        else:
            yield path, _text(value)


def _text(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
