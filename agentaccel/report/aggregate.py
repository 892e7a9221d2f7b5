"""One pass over records, in the order of each session, into a `Report`."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from agentaccel.cache.bills import Cards, answerer, cards_of
from agentaccel.cache.price import Override
from agentaccel.facts import PROVIDERS, CacheFacts, cache_facts, table
from agentaccel.records import OURS, ToolRecord, TurnRecord
from agentaccel.report.bill import billed
from agentaccel.report.figures import By, Example, Group, Report
from agentaccel.report.fold import Sums
from agentaccel.report.numbers import exact, plural
from agentaccel.report.period import EVER, FORMS, Calendar, Period
from agentaccel.trace.importers import ImportTally, some_of
from agentaccel.types import UNSPLIT, Cause

EXAMPLES = 10
"""Largest misses kept to be shown."""

AT_ONCE = 256
"""Records read before they are added up. Reading one is a lot of code and adding it up as much: in turns, each finds
the processor's caches full of the other, and a log takes a tenth longer."""

NOT_KNOWN = "n/a"
"""The group of records that do not say what they belong to."""

_UNKNOWN = "neither Claude Code logs nor agent runs nor spans"


def report(
    records: Iterable[TurnRecord | ToolRecord],
    by: By = "session",
    causes: bool = False,
    *,
    prices: Override | None = None,
    aliases: Mapping[str, str] | None = None,
    tally: ImportTally | None = None,
    period: Period = EVER,
) -> Report:
    """What `records` say, in all and `by` group; of `period`, in whose zone its days are.

    Records of one session come in the order in which they began. `prices` and `aliases` are the user's; `tally` is
    that of the import that the records come from, and is looked at when they are all read.
    """
    fold = _Fold(by, prices, aliases, period)
    coming = iter(records)
    while some := list(itertools.islice(coming, AT_ONCE)):
        for record in some:
            if period.bounded and not fold.inside(record):
                continue
            if isinstance(record, TurnRecord):
                fold.turn(record)
            else:
                fold.tool(record)
    return fold.report(causes, tally)


def unused_prices(prices: Override, names: AbstractSet[str], models: AbstractSet[str]) -> list[str]:
    """A note on those of the user's `prices` whose model is none of `names`, where requests are of `models`."""
    unused = sorted(set(prices) - names)
    if not unused or not models:
        return []
    return [f"no request uses the prices of {some_of(unused)}: the models are {some_of(sorted(models))}"]


class _Fold:
    """The state of the pass."""

    def __init__(
        self, by: By, prices: Override | None, aliases: Mapping[str, str] | None, period: Period = EVER
    ) -> None:
        self._by: By = by
        self._period = period
        self._calendar = Calendar(by, period.zone) if by in FORMS else None
        self._undated = 0
        self._prices, self._aliases = prices, aliases
        self._total, self._groups = Sums(peaks=True), dict[str, Sums]()
        self._times = self._total.timeline
        self._whole = by == "session"  # then each session is in one group, and its times need not be kept twice
        self._largest: dict[str, int] = {}
        self._last_group: dict[str, str] = {}
        self._first_at: float | None = None
        self._last_at: float | None = None
        self._examples: list[tuple[int, int, Example]] = []
        self._causes: dict[str, set[Cause]] = {}
        self._order = 0
        self._unpriced: set[str] = set()
        self._models, self._names = set[str](), set[str]()  # with prices of the user's: models, also as they are known
        self._known: dict[tuple[str, str, str], CacheFacts | None] = {}

    def inside(self, record: TurnRecord | ToolRecord) -> bool:
        """True if the record is of the period; one without a time is of none."""
        if not record.started:
            self._undated += isinstance(record, TurnRecord)
            return False
        return self._period.holds(record.started)

    def turn(self, turn: TurnRecord) -> None:
        total, started, needed = turn.usage.input, turn.started, 0
        if total is not None and turn.mode not in OURS:
            before = self._largest.get(turn.session, 0)
            # A forked session begins with a prompt that another session has already sent.
            needed = max(0, total - max(before, turn.reusable or 0))
            if total > before:
                self._largest[turn.session] = total
        bill = billed(turn, self._cards(turn), self._facts(turn), needed)
        name = self._name(turn, turn.model if turn.answered_by is None else answerer(turn))
        self._last_group[turn.session] = name
        if self._whole:
            self._times.tokens(bill)
        else:
            self._times.turn(bill)
        self._group(name).turn(bill)
        if started and (self._first_at is None or started < self._first_at):
            self._first_at = started
        if started and (self._last_at is None or started > self._last_at):
            self._last_at = started
        if turn.mode not in OURS:
            causes = self._causes.setdefault(turn.agent or NOT_KNOWN, set())
            causes.update(miss.cause for miss in turn.misses)
        if turn.misses:
            self._keep_examples(turn)

    def tool(self, tool: ToolRecord) -> None:
        """A tool belongs where the request before it in its session does: that one asked for it."""
        name = self._last_group.get(tool.session) or self._name(tool, NOT_KNOWN)
        if not (tool.speculative or self._whole):
            self._times.tool(tool)
        self._group(name).tool(tool)

    def report(self, causes: bool, tally: ImportTally | None) -> Report:
        for sums in self._groups.values():
            self._total.add(sums)
            if self._whole:
                self._times.join(sums.timeline)
        groups = [sums.group(name) for name, sums in self._groups.items()]
        if self._calendar is not None:
            groups.sort(key=lambda group: group.name)
        else:
            groups.sort(key=lambda group: (-group.tokens.input, -group.requests, group.name))
        total = self._total.group("total")
        return Report(
            by=self._by,
            causes=causes,
            total=total,
            groups=tuple(groups),
            first=self._first_at,
            last=self._last_at,
            examples=tuple(example for _, _, example in sorted(self._examples, reverse=True)),
            causes_by_agent={name: tuple(sorted(causes)) for name, causes in sorted(self._causes.items())},
            period=self._period,
            notes=(*self._notes(), *_usage_notes(total), *(tally.notes(_UNKNOWN) if tally is not None else ())),
        )

    def _group(self, name: str) -> Sums:
        sums = self._groups.get(name)
        if sums is None:
            # Limits are per model: only there do the groups have minutes of their own.
            sums = self._groups[name] = Sums(peaks=self._by == "model")
        return sums

    def _name(self, record: TurnRecord | ToolRecord, model: str) -> str:
        if self._by == "session":
            return record.session or NOT_KNOWN
        if self._by == "agent":
            return record.agent or NOT_KNOWN
        if self._by == "tenant":
            return record.tenant or NOT_KNOWN
        if self._by == "model":
            return model
        return self._calendar.name(record.started) if record.started and self._calendar is not None else NOT_KNOWN

    def _cards(self, turn: TurnRecord) -> Cards:
        if self._prices:
            known = turn.known_as or (self._aliases or {}).get(turn.model, turn.model)
            self._models |= {turn.model, *([turn.answered_by] if turn.answered_by else [])}
            self._names |= {turn.model, known, *([turn.answered_by] if turn.answered_by else [])}
        if turn.billed.input is None:
            return _NO_CARDS
        cards = cards_of(turn, self._aliases, self._prices)
        if cards.answer is None:
            self._unpriced.add(turn.model)
        for card, part in zip(cards.besides, turn.besides, strict=True):
            if card is None:
                self._unpriced.add(part.model or turn.model)
        return cards

    def _facts(self, turn: TurnRecord) -> CacheFacts | None:
        key = (turn.provider, turn.platform, turn.known_as or turn.model)
        if key not in self._known:
            provider, platform, model = key
            listed = provider in PROVIDERS and platform in table(provider)["platforms"]
            self._known[key] = (
                cache_facts(model, provider=provider, platform=platform, aliases=self._aliases) if listed else None
            )
        return self._known[key]

    def _keep_examples(self, turn: TurnRecord) -> None:
        for miss in turn.misses:
            if miss.cause is Cause.FIRST:
                continue
            self._order -= 1
            drift = turn.drift
            place = f"{drift.where}: {drift.likely}" if drift is not None else ""
            known = drift is not None and miss.detail in (drift.where, drift.level)
            example = Example(
                cause=miss.cause,
                inferred=miss.inferred,
                tokens=miss.tokens,
                session=turn.session,
                started=turn.started,
                detail="; ".join(part for part in (place, "" if known else miss.detail) if part),
            )
            # The order breaks ties, so that examples themselves are never compared.
            keep = heapq.heappush if len(self._examples) < EXAMPLES else heapq.heappushpop
            keep(self._examples, (miss.tokens, self._order, example))

    def _notes(self) -> list[str]:
        notes = unused_prices(self._prices or {}, self._names, self._models)
        if self._undated:
            notes.append(f"requests without a time, which are of no period and were left out: {self._undated:,}")
        if not self._unpriced:
            return notes
        return [f"no price is known for {some_of(sorted(self._unpriced))}: their requests are in no cost", *notes]


_NO_CARDS = Cards(None)


def _usage_notes(total: Group) -> list[str]:
    """What of the provider's counts and terms could not be taken as they are."""
    notes = [
        f"what {term} does to the price is not known: {plural(count, 'request')} with it not priced, in no cost"
        for term, count in sorted(total.unclear.items())
    ]
    if total.doubted:
        names = some_of(sorted(total.doubted))
        count = plural(max(total.doubted.values()), "request")
        notes.append(f"counters of replies contradict one another, in up to {count}: n/a is what {names} would tell")
    if total.tokens.write.get(UNSPLIT):
        tokens = exact(total.tokens.write[UNSPLIT])
        notes.append(f"for which of several lifetimes {tokens} tokens were written is not told: not priced, in no cost")
    return notes
