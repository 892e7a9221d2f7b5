"""What a source cost as recorded, and what it would cost: one column for each policy, one table for each pace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from agentaccel.cache.bills import answerer, as_of, cards_of, paid_for
from agentaccel.cache.price import Override
from agentaccel.facts import CacheFacts
from agentaccel.records import TurnRecord
from agentaccel.replay.hindsight import best
from agentaccel.replay.pace import Pace, placed
from agentaccel.replay.placements import PLACEMENTS
from agentaccel.replay.runs import Run, Step
from agentaccel.replay.simulate import Allowed, Simulated, accelerate, simulate
from agentaccel.replay.source import Source
from agentaccel.types import Usage

# --- What requests of a replay cost, in uncached input tokens ---------------------------------------------------------


def has_cost(usage: Usage, facts: CacheFacts) -> bool:
    """Whether `usage` tells what its input costs by `facts`; of what is written at no charge, nobody has to tell."""
    if usage.uncached is None:
        return False
    if usage.write is None:
        return all(ttl.write == 1 for ttl in facts.ttls)
    return all(facts.ttl(label) is not None for label, tokens in usage.write.items() if tokens)


def cost_of(usage: Usage, facts: CacheFacts) -> float:
    """The input side of `usage`, by the multiples that `facts` state.

    Raises ValueError for a usage that does not tell it (`has_cost`).
    """
    cost = cost_or_none(usage, facts)
    if cost is None:
        raise ValueError("the provider did not report what its cache did, or names a lifetime without a price")
    return cost


def cost_or_none(usage: Usage, facts: CacheFacts) -> float | None:
    """The same; None for such a usage."""
    uncached = usage.uncached
    if uncached is None or (usage.write is None and not has_cost(usage, facts)):
        return None
    written = 0.0
    for label, tokens in (usage.write or {}).items():
        if tokens:
            ttl = facts.ttl(label)
            if ttl is None:
                return None
            written += tokens * ttl.write
    return uncached + (usage.read or 0) * facts.read + written


def cost_of_steps(steps: Iterable[Step], usages: Iterable[Usage]) -> float:
    """The same of several requests, one usage each. Raises ValueError where there are not as many."""
    return sum(cost_of(usage, step.prefix.facts) for step, usage in zip(steps, usages, strict=True))


def cost_of_kept(run: Run, usages: Iterable[Usage]) -> float:
    """The same of requests of our own that kept the entries of `run` alive."""
    return sum(cost_of(usage, run.steps[-1].prefix.facts) for usage in usages)


AS_RECORDED, ACCELERATED, BEST = "as recorded", "agentaccel", "best"

Billed = Sequence[tuple[Step, Usage | None]]
"""Requests and what they are billed for; None where the source does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The bill of all requests of a source under one policy. None: not known, because some request's bill is not."""

    name: str
    read: int | None
    """Input tokens read from the cache."""
    write: Mapping[str, int] | None
    """Input tokens written to it, by the label of the lifetime."""
    units: float | None
    """Cost of the input in uncached input tokens, by the multiples of each request's model."""
    usd: float | None
    """Cost of the input at the prices of each request's model; also None where some price is not known."""
    bound: float | None = None
    """For the best: no legal plan costs less units; None where this one is proven to be the cheapest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The columns of one source at one pace."""

    pace: str | None
    """The stated pace that missing times were drawn from; None where all were recorded."""
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column:
        """The column called `name`. Raises KeyError where there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One source under every policy."""

    name: str
    sessions: int
    requests: int
    tokens: int
    """Input tokens of all requests."""
    models: Mapping[str, int]
    """Requests by the model whose rules were applied."""
    tables: tuple[Table, ...]
    notes: tuple[str, ...]


def compare(
    source: Source,
    paces: Sequence[Pace],
    *,
    seed: int = 0,
    ttl: str = "auto",
    prices: Override | None = None,
    tell: Callable[[], None] = lambda: None,
) -> Compared:
    """Replay `source`, drawing missing times from each of `paces`.

    `ttl` is the policy's choice of lifetime for agentaccel. `tell` is called after each column, of which `columns_of`
    says how many there will be.
    """
    tables = []
    for pace in _paces(source, paces):
        runs = source.runs if pace is None else placed(source.runs, source.untimed, pace, seed)
        columns = []
        for column in _columns(runs, ttl, prices):
            columns.append(column)
            tell()
        tables.append(Table(pace=pace.name if pace is not None else None, columns=tuple(columns)))
    steps = [step for run in source.runs for step in run.steps]
    return Compared(
        name=source.name,
        sessions=len(source.runs),
        requests=len(steps),
        tokens=sum(step.total for step in steps),
        models=dict(Counter(step.prefix.prompt.model for step in steps)),
        tables=tuple(tables),
        notes=tuple(_notes(source, steps, seed, prices)),
    )


def columns_of(source: Source, paces: Sequence[Pace]) -> int:
    """How many columns a comparison of `source` has in all its tables."""
    return len(_paces(source, paces)) * (len(PLACEMENTS) + 3)


def _paces(source: Source, paces: Sequence[Pace]) -> Sequence[Pace | None]:
    return paces if source.untimed else [None]


def _columns(runs: Sequence[Run], ttl: str, prices: Override | None) -> Iterator[Column]:
    steps = [step for run in runs for step in run.steps]
    yield _column(AS_RECORDED, [(step, step.recorded) for step in steps], prices)
    for name, placement in PLACEMENTS.items():
        yield _column(name, _billed(steps, simulate(runs, placement)), prices)
    yield _column(ACCELERATED, _billed(steps, accelerate(runs, Allowed(ttl=ttl))), prices)
    found = best(steps)
    bound = None if found.exact else found.bound
    yield _column(BEST, list(zip(steps, found.usages, strict=True)), prices, bound)


def _billed(steps: Sequence[Step], simulated: Simulated) -> Billed:
    usages = [usage for run in simulated.usages for usage in run]
    return list(zip(steps, usages, strict=True))


def _column(name: str, billed: Billed, prices: Override | None, bound: float | None = None) -> Column:
    if not all(_told(step, usage) for step, usage in billed):
        return Column(name=name, read=None, write=None, units=None, usd=None)
    write: Counter[str] = Counter()
    read, units, usd = 0, 0.0, 0.0
    priced = True
    for step, usage in billed:
        assert usage is not None
        read += usage.read or 0
        write.update(usage.write or {})
        units += cost_of(usage, step.prefix.facts)
        cost = _usd(step, usage, prices)
        priced = priced and cost is not None
        usd += cost or 0.0
    return Column(name=name, read=read, write=dict(write), units=units, usd=usd if priced else None, bound=bound)


def _usd(step: Step, usage: Usage, prices: Override | None) -> float | None:
    """What a request costs that is billed for `usage`, and for what else its reply took whatever the policy."""
    turn = _turn(step)
    return paid_for(turn, cards_of(turn, None, prices, usage.input), usage)


def _turn(step: Step) -> TurnRecord:
    """The record of a request under the rules of the replay, at the latest prices known."""
    prompt = step.prefix.prompt
    if step.turn is None:
        return TurnRecord(
            session="", provider=prompt.provider, model=prompt.model, started=0.0, platform=prompt.platform
        )
    return replace(as_of(step.turn, prompt.model), platform=prompt.platform, started=0.0)


def _unpriced(step: Step, prices: Override | None) -> list[str]:
    """What has no price of a request: models, and terms of which nobody knows what they do to one."""
    turn = _turn(step)
    cards = cards_of(turn, None, prices, step.total)
    parts = zip((cards.answer, *cards.besides), (answerer(turn), *(one.model for one in turn.besides)), strict=True)
    return [*(name or answerer(turn) for card, name in parts if card is None), *cards.unknown]


def _told(step: Step, usage: Usage | None) -> bool:
    """Whether a bill is known and has a meaning under the rules of the replay."""
    return usage is not None and has_cost(usage, step.prefix.facts)


def _notes(source: Source, steps: Sequence[Step], seed: int, prices: Override | None) -> Iterator[str]:
    if source.inferred:
        yield (
            f"prompts of {source.inferred:,} of {len(source.runs):,} sessions are inferred from usage alone: "
            "the source has no bodies, or its text cannot have been the prompt"
        )
    if source.untimed:
        some = f"{len(source.untimed):,} of {len(source.runs):,}"
        yield f"times of {some} sessions are not recorded and drawn from stated paces, seed {seed}"
    for replayed in dict.fromkeys(replayed for _, replayed in source.models):
        names = ", ".join(name or "an unnamed model" for name, other in source.models if other == replayed)
        yield f"replayed under the rules of {replayed}: {names}"
    if cautious := {step.prefix.prompt.model: None for step in steps if step.prefix.facts.family}:
        yield f"not listed, so their family's cautious figures hold: {', '.join(cautious)}"
    if unpriced := dict.fromkeys(name for step in steps for name in _unpriced(step, prices)):
        yield f"no price is known, so USD are n/a: {', '.join(unpriced)}"
    if more := sum(bool(step.turn and step.turn.besides) for step in steps):
        yield (
            f"replies that took more than their answer (a compaction, an advisor): {more:,}; what else they took is in "
            "the USD of every policy alike, and in no count of tokens"
        )
    reported = sum(_told(step, step.recorded) for step in steps)
    if 0 < reported < len(steps):
        yield f"only {reported:,} of {len(steps):,} requests say what their cache did: no bill as recorded"
    yield from source.notes
