"""What was learned, for people: what follows what, where arguments come from, and every value that is kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agentaccel.predict.context import value_of
from agentaccel.predict.knowledge import Knowledge, Pattern
from agentaccel.predict.tokens import REPLY, USER
from agentaccel.predict.tree import Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonStep:
    """What often comes next."""

    after: str
    then: str
    times: int
    of: int
    """How often anything came after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A value that is kept, because calls have it in common."""

    tool: str
    argument: str
    value: object
    sessions: int
    """In how many it was right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What is known of one workload, or of all."""

    workloads: tuple[str, ...]
    """Those that are known."""
    steps: tuple[CommonStep, ...]
    patterns: tuple[Pattern, ...]
    values: tuple[Value, ...]


def show(knowledge: Knowledge, workload: str | None = None, most: int = 20) -> Shown:
    """What `knowledge` holds, the most frequent first, at most `most` of each kind but of values, which are all told.

    Where a workload is named: what follows what in it, and the patterns and values of the tools that it uses.
    """
    with knowledge.lock:
        if workload is None:
            trees = [knowledge.fleet, *knowledge.again.values()]
        else:
            trees = [one[workload] for one in (knowledge.workloads, knowledge.again) if workload in one]
        tools = {symbol for tree in trees for symbol in tree.symbols}
        steps = [
            CommonStep(after=_said(after), then=_said(then), times=times, of=sum(counts.values()))
            for after, counts in _followers(trees).items()
            for then, times in counts.items()
        ]
        values = [
            Value(tool=symbol, argument=argument, value=value_of(source.constant), sessions=stat.sessions)
            for symbol, known in knowledge.tables.known.items()
            if symbol in tools
            for argument, table in known.sources.items()
            for source, stat in table.items()
            if source.place is None
        ]
        names = tuple(sorted(knowledge.workloads))
    patterns = [one for one in knowledge.patterns(10_000) if one.words.partition("(")[0] in tools]
    return Shown(
        workloads=names,
        steps=tuple(sorted(steps, key=lambda one: (-one.times, one.after, one.then))[:most]),
        patterns=tuple(patterns[:most]),
        values=tuple(sorted(values, key=lambda one: (one.tool, one.argument, -one.sessions, str(one.value)))),
    )


def _followers(trees: Iterable[Tree]) -> dict[str, Counter[str]]:
    """By symbol, what followed it and how often."""
    found: dict[str, Counter[str]] = {}
    for tree in trees:
        for after, node in tree.root.below.items():
            found.setdefault(after, Counter()).update(node.counts)
    return found


_SAYINGS: Mapping[str, str] = {USER: "the user has spoken", REPLY: "an answer in text"}


def _said(symbol: str) -> str:
    return _SAYINGS.get(symbol, symbol)
