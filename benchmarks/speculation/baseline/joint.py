"""The joint baseline: the likeliest tools, the likeliest arguments of each, and one confidence for both.

The confidence is cross-fitted: the rows that it is fitted on are candidates that were made without the task that they
are made for. Learned run by run (online), a run's candidates are made before it is learned, which is as good.
"""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from agentaccel.hashing import identity_bytes
from agentaccel.types import ToolCall
from benchmarks.speculation.baseline.backoff import Backoff, Outlook
from benchmarks.speculation.baseline.context import TEXT, USER, Context, Place, arguments_of
from benchmarks.speculation.baseline.logistic import Logistic, fit
from benchmarks.speculation.baseline.rules import Offer, Rules, best
from benchmarks.speculation.calls import Key
from benchmarks.speculation.guesses import Before, Guess
from benchmarks.speculation.protocols import by_folds
from benchmarks.speculation.read import Run
from benchmarks.speculation.resources import by_recency

TOOLS, OFFERS, JOINT = 5, 3, 3
"""Tools that are considered, values of each argument, and combinations of them."""

CROSS_FOLDS = 5

_UNOFFERED = 0.02
"""The score of a value that no rule offers, in a recent call."""

MOST_MISSES = 6_000
"""Rows of candidates that did not come which the confidence is fitted on; they stand for all of them by weight."""


class Candidate(NamedTuple):
    """A call that may come, and what speaks for it."""

    key: Key
    features: tuple[float, ...]


class _Draft(NamedTuple):
    tool: str
    rank: int
    """Of the tool among the likely ones."""
    place: int
    """Among the calls of this tool."""
    offers: tuple[Offer, ...]


class Rows(NamedTuple):
    """What the confidence is fitted on."""

    came: list[tuple[float, ...]]
    missed: list[tuple[float, ...]]


@dataclass(slots=True)
class Counts:
    """What is counted from runs. Mutable: it learns."""

    contexts: dict[str, tuple[Context, ...]]
    """By run; shared by all counts of a source."""
    tools: Backoff = field(default_factory=Backoff)
    names: dict[str, Counter[tuple[str, ...]]] = field(default_factory=dict)
    """By tool, how often it was called with exactly these arguments."""
    rules: dict[Place, Rules] = field(default_factory=dict)

    def learn(self, run: Run) -> None:
        for turn, context in zip(run.turns, self.known(run), strict=True):
            self.tools.learn(context.symbols, [key[0] for key in turn.keys] or [TEXT])
            for key in turn.keys:
                arguments = arguments_of(key)
                self.names.setdefault(key[0], Counter())[tuple(arguments)] += 1
                for name, value in arguments.items():
                    place = (key[0], name)
                    self.rules.setdefault(place, Rules()).learn(value, place, context)

    def known(self, run: Run) -> tuple[Context, ...]:
        """What was known before each turn of `run`."""
        if run.id not in self.contexts:
            self.contexts[run.id] = tuple(_contexts(run))
        return self.contexts[run.id]

    def likely(self, context: Context) -> tuple[str, ...]:
        """Tools that may come, likeliest first."""
        return _likely(self.tools.outlook(context.symbols))

    def candidates(self, context: Context) -> list[Candidate]:
        """Every distinct call that is considered in `context`."""
        drafts: dict[Key, _Draft] = {}
        outlook = self.tools.outlook(context.symbols)
        for rank, tool in enumerate(_likely(outlook)[:TOOLS]):
            for place, (key, offers) in enumerate(self._bound(tool, context)):
                drafts.setdefault(key, _Draft(tool, rank, place, offers))
        joint = {
            key: outlook.probability[one.tool] * math.prod(offer.score for offer in one.offers)
            for key, one in drafts.items()
        }
        total = sum(joint.values())
        return [
            Candidate(key, _features(outlook, one, joint[key] / total, key, context)) for key, one in drafts.items()
        ]

    def _bound(self, tool: str, context: Context) -> Iterator[tuple[Key, tuple[Offer, ...]]]:
        """Calls of a tool with the likeliest values, best first, then its recent calls as they were."""
        if tool not in self.names:
            return
        names = max(self.names[tool].items(), key=lambda one: (one[1], one[0]))[0]
        offers = {name: best(self.rules[tool, name].offers((tool, name), context)) for name in names}
        fewer = _fewer([list(one.values()) for one in offers.values()])
        joint = sorted(itertools.product(*fewer), key=lambda one: -math.prod(offer.score for offer in one))
        for chosen in joint[:JOINT]:
            arguments = {name: orjson.loads(offer.value) for name, offer in zip(names, chosen, strict=True)}
            yield (tool, identity_bytes(arguments)), chosen
        for key in context.recent.get(tool, ()):
            values = arguments_of(key)
            yield (
                key,
                tuple(
                    offers.get(name, {}).get(value, Offer(value, _UNOFFERED, "argument"))
                    for name, value in values.items()
                ),
            )


def _likely(outlook: Outlook) -> tuple[str, ...]:
    tools = (name for name in outlook.probability if name not in (TEXT, USER))
    return tuple(sorted(tools, key=lambda name: (-outlook.probability[name], name)))


def _fewer(offers: Sequence[Sequence[Offer]]) -> list[Sequence[Offer]]:
    """So few of each that all combinations can be looked at."""
    most = OFFERS if len(offers) <= 5 else 2 if len(offers) <= 8 else 1
    return [one[:most] for one in offers]


def _contexts(run: Run) -> Iterator[Context]:
    context, turns = Context(), {turn.at for turn in run.turns}
    for i, event in enumerate(run.events):
        if i in turns:
            yield context
        context = context.after(event)


def _features(outlook: Outlook, draft: _Draft, share: float, key: Key, context: Context) -> tuple[float, ...]:
    """The fourteen; `share` is the candidate's of all of them, by the product of what speaks for each."""
    scores = [offer.score for offer in draft.offers]
    kinds = Counter(offer.kind for offer in draft.offers)
    count = max(len(scores), 1)
    return (
        math.log(outlook.probability[draft.tool]),
        1 / (1 + draft.rank),
        outlook.probability.get(TEXT, 0.0),
        math.log(share + 1e-6),
        outlook.order / 5,
        sum(math.log(score) for score in scores),
        min(scores, default=1.0),
        share,
        float(not scores),
        kinds["constant"] / count,
        (kinds["path"] + kinds["unused"]) / count,
        (kinds["user"] + kinds["result"]) / count,
        1 / (1 + draft.place),
        float(key in context.made),
    )


@dataclass(slots=True)
class Joint:
    """The baseline. Mutable: it learns; runs that it learns one at a time are learned online."""

    contexts: dict[str, tuple[Context, ...]] = field(default_factory=dict)
    """Shared by every baseline of a source, since they do not depend on what is learned."""
    recent: dict[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """The resources that were named last, by run; shared likewise."""
    confidence: Logistic | None = None
    _counts: Counts = field(init=False)
    _rows: Rows = field(default_factory=lambda: Rows([], []))
    _learned: int = 0

    def __post_init__(self) -> None:
        self._counts = Counts(self.contexts)

    def learn(self, runs: Sequence[Run]) -> None:
        """The confidence is fitted on candidates for tasks that were not learned: in folds, or before learning."""
        if len(runs) == 1:
            self._note(self._counts, runs)
        else:
            for part in by_folds(runs, CROSS_FOLDS):
                others = Counts(self.contexts)
                for run in part.learned:
                    others.learn(run)
                self._note(others, part.judged)
        for run in runs:
            self._counts.learn(run)
        if self._due(len(runs)):
            self.confidence = _fitted(self._rows, self.confidence)

    def _due(self, more: int) -> bool:
        """Whether to fit again: after every batch, and online whenever a fifth has come to what was learned."""
        before, self._learned = self._learned, self._learned + more
        return more > 1 or (more == 1 and int(math.log(self._learned, 1.2)) > int(math.log(max(before, 1), 1.2)))

    def _note(self, counts: Counts, runs: Iterable[Run]) -> None:
        for run in runs:
            for turn, context in zip(run.turns, counts.known(run), strict=True):
                for candidate in counts.candidates(context):
                    (self._rows.came if candidate.key in turn.keys else self._rows.missed).append(candidate.features)

    def before(self, run: Run) -> tuple[Before, ...]:
        if run.id not in self.recent:
            self.recent[run.id] = by_recency(run)
        return tuple(
            Before(tuple(self._guesses(run, context)), self._counts.likely(context), recent)
            for context, recent in zip(self._counts.known(run), self.recent[run.id], strict=True)
        )

    def _guesses(self, run: Run, context: Context) -> list[Guess]:
        if self.confidence is None:
            return []
        found = []
        for key, features in self._counts.candidates(context):
            probability = self.confidence.probability(features)
            reads = run.only_reads(ToolCall(name=key[0], arguments=orjson.loads(key[1])))
            found.append(Guess(key, probability, probability, reads))
        return sorted(found, key=lambda guess: (-guess.probability, guess.key))


def _fitted(rows: Rows, before: Logistic | None) -> Logistic | None:
    if not rows.came or not rows.missed:
        return before
    missed = random.Random(0).sample(rows.missed, min(len(rows.missed), MOST_MISSES))
    weight = len(rows.missed) / len(missed)
    return fit(
        [*rows.came, *missed],
        [True] * len(rows.came) + [False] * len(missed),
        [1.0] * len(rows.came) + [weight] * len(missed),
    )
