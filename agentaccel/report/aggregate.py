"""One pass over records, in the order of each session, into a `Report`."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

from agentaccel.cache.bills import Cards, answerer, cards_of
from agentaccel.cache.price import Override
from agentaccel.facts import PROVIDERS, CacheFacts, cache_facts, table
from agentaccel.records import BATCH, OURS, Calls, SessionOver, ToolRecord, TurnRecord
from agentaccel.report.bill import billed
from agentaccel.report.figures import By, Example, Group, Report
from agentaccel.report.fold import Sums
from agentaccel.report.numbers import exact, plural
from agentaccel.report.parts import OpenSession
from agentaccel.report.period import EVER, FORMS, Calendar, Period
from agentaccel.sources.tally import ImportTally, some_of
from agentaccel.types import UNSPLIT, Cause, Miss

# --- The largest misses of a report, as examples ----------------------------------------------------------------------

EXAMPLES = 10
"""Largest misses kept to be shown."""


class Largest:
    """The largest misses so far that are not first requests; of equal ones the earliest."""

    def __init__(self) -> None:
        self._kept: list[tuple[int, int, Example]] = []
        self._order = 0

    def take(self, turn: TurnRecord) -> None:
        """The misses of one request."""
        for miss in turn.misses:
            if miss.cause is Cause.FIRST:
                continue
            self._order -= 1
            full = len(self._kept) >= EXAMPLES
            if full and miss.tokens <= self._kept[0][0]:
                continue
            # The order breaks ties, so that examples themselves are never compared.
            keep = heapq.heappushpop if full else heapq.heappush
            keep(self._kept, (miss.tokens, self._order, _example(turn, miss)))

    def all(self) -> tuple[Example, ...]:
        """The largest first."""
        return tuple(example for _, _, example in sorted(self._kept, reverse=True))


def _example(turn: TurnRecord, miss: Miss) -> Example:
    drift = turn.drift
    place = f"{drift.where}: {drift.likely}" if drift is not None else ""
    known = drift is not None and miss.detail in (drift.where, drift.level)
    return Example(
        cause=miss.cause,
        inferred=miss.inferred,
        tokens=miss.tokens,
        session=turn.session,
        started=turn.started,
        detail="; ".join(part for part in (place, "" if known else miss.detail) if part),
    )


NOT_KNOWN = "n/a"
"""The group of records that do not say what they belong to."""

_UNKNOWN = "neither Claude Code logs nor agent runs nor spans"


Told = TurnRecord | ToolRecord | Calls | SessionOver
"""What a report is made of."""


def report(
    records: Iterable[Told],
    by: By = "session",
    causes: bool = False,
    *,
    prices: Override | None = None,
    aliases: Mapping[str, str] | None = None,
    tally: ImportTally | None = None,
    period: Period = EVER,
    most: int | None = None,
) -> Report:
    """What `records` say, in all and `by` group; of `period`, in whose zone its days are.

    Records of one session come in the order in which they began. `prices` and `aliases` are the user's; `tally` is
    that of the import that the records come from, and is looked at when they are all read. Only `most` groups are
    kept, the first ones; the others are part of the total alone. A session takes no more memory once it is over.
    """
    fold = _Fold(by, prices, aliases, period)
    fold.most = most
    for record in records:
        fold.take(record)
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
        self._period, self._bounded = period, period.bounded
        self._calendar = Calendar(by, period.zone) if by in FORMS else None
        self._undated = 0
        self._prices, self._aliases = prices, aliases
        self.most: int | None = None
        """How many groups are wanted; None for all."""
        self._total, self._groups = Sums(peaks=True), dict[str, Sums]()
        self._sessions: dict[str, OpenSession] = {}
        self._done: list[tuple[str, Sums]] = []
        """Groups that nothing is added to any more, and that are part of the total."""
        self._left_out = 0
        self._first_at: float | None = None
        self._last_at: float | None = None
        self._largest = Largest()
        self._causes: dict[str, set[Cause]] = {}
        self._unpriced: set[str] = set()
        self._models, self._names = set[str](), set[str]()  # with prices of the user's: models, also as they are known
        self._known: dict[tuple[str, str, str], CacheFacts | None] = {}

    def inside(self, record: TurnRecord | ToolRecord | Calls) -> bool:
        """True if the record is of the period; one without a time is of none."""
        if not record.started:
            self._undated += isinstance(record, TurnRecord)
            return False
        return self._period.holds(record.started)

    def take(self, record: Told) -> None:
        """One record."""
        if isinstance(record, SessionOver):
            self.over(record.session)
        elif self._bounded and not self.inside(record):
            return
        elif isinstance(record, TurnRecord):
            self.turn(record)
        elif isinstance(record, Calls):
            self.calls(record)
        else:
            self.tool(record)

    def turn(self, turn: TurnRecord) -> None:
        total, started, needed = turn.usage.input, turn.started, 0
        session = self._session(turn.session)
        if total is not None and turn.mode == BATCH:
            needed = total  # it goes on from none of the others
        elif total is not None and turn.mode not in OURS:
            # A forked session begins with a prompt that another session has already sent.
            needed = max(0, total - max(session.largest, turn.reusable or 0))
            if total > session.largest:
                session.largest = total
        bill = billed(turn, self._cards(turn), self._facts(turn), needed)
        name = session.last = self._name(turn, turn.model if turn.answered_by is None else answerer(turn))
        part = session.part(name)
        part.turn(bill)
        if session.whole is not part:
            session.whole.turn(bill)
        if self._total.minutes is not None:
            self._total.minutes.turn(bill)
        self._group(name).turn(bill)
        if started and (self._first_at is None or started < self._first_at):
            self._first_at = started
        if started and (self._last_at is None or started > self._last_at):
            self._last_at = started
        if turn.mode not in OURS:
            causes = self._causes.setdefault(turn.agent or NOT_KNOWN, set())
            causes.update(miss.cause for miss in turn.misses)
        if turn.misses:
            self._largest.take(turn)

    def tool(self, tool: ToolRecord) -> None:
        """A tool belongs where the request before it in its session does: that one asked for it."""
        session = self._session(tool.session)
        name = session.last or self._name(tool, NOT_KNOWN)
        self._group(name).tool(tool)
        if tool.speculative:
            return
        part = session.part(name)
        part.tool(tool)
        if session.whole is not part:
            session.whole.tool(tool)

    def calls(self, calls: Calls) -> None:
        """Several calls of tools, which all belong there."""
        session = self._session(calls.session)
        name = session.last or self._name(calls, NOT_KNOWN)
        self._group(name).calls(calls)
        part = session.part(name)
        part.calls(calls)
        if session.whole is not part:
            session.whole.calls(calls)

    def over(self, name: str) -> None:
        """Nothing more comes of a session."""
        session = self._sessions.pop(name, None)
        if session is None:
            return
        for group, part in session.parts.items():
            self._group(group).session(part, named=bool(name))
        self._total.session(session.whole, named=bool(name))
        if self._by == "session":
            self._close(name or NOT_KNOWN)

    def _close(self, name: str) -> None:
        """Nothing more comes of a group."""
        sums = self._groups.pop(name)
        self._total.add(sums)
        self._done.append((name, sums))
        if self.most is not None and len(self._done) > 2 * self.most + 8:
            self._keep_first()

    def _keep_first(self) -> None:
        """Sort the groups, and leave out those that are not wanted."""
        if self._calendar is not None:
            self._done.sort(key=lambda pair: pair[0])
        else:
            self._done.sort(key=lambda pair: (-pair[1].size[0], -pair[1].size[1], pair[0]))
        if self.most is not None:
            self._left_out += len(self._done[self.most :])
            del self._done[self.most :]

    def report(self, causes: bool, tally: ImportTally | None) -> Report:
        for session in tuple(self._sessions):
            self.over(session)
        for name in tuple(self._groups):
            self._close(name)
        self._keep_first()
        total = self._total.group("total")
        gaps = [] if tally is None else tally.gaps(_UNKNOWN)
        if self._undated:
            gaps.append(f"requests without a time, which are of no period and were left out: {self._undated:,}")
        rest = [] if tally is None else tally.others()
        return Report(
            by=self._by,
            causes=causes,
            total=total,
            more=self._left_out,
            groups=tuple(sums.group(name) for name, sums in self._done),
            first=self._first_at,
            last=self._last_at,
            examples=self._largest.all(),
            causes_by_agent={name: tuple(sorted(causes)) for name, causes in sorted(self._causes.items())},
            period=self._period,
            notes=(*self._notes(), *_usage_notes(total), *gaps, *rest),
            gaps=tuple(gaps),
        )

    def _session(self, name: str) -> OpenSession:
        session = self._sessions.get(name)
        if session is None:
            session = self._sessions[name] = OpenSession()
        return session

    def _group(self, name: str) -> Sums:
        sums = self._groups.get(name)
        if sums is None:
            # Limits are per model: only there do the groups have minutes of their own.
            sums = self._groups[name] = Sums(peaks=self._by == "model")
        return sums

    def _name(self, record: TurnRecord | ToolRecord | Calls, model: str) -> str:
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
        if turn.besides:
            parts = zip(cards.besides, turn.besides, strict=True)
            self._unpriced.update(part.model or turn.model for card, part in parts if card is None)
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

    def _notes(self) -> list[str]:
        notes = unused_prices(self._prices or {}, self._names, self._models)
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
        what = "counters of replies contradict one another or are not understood"
        notes.append(f"{what}, in up to {count}: n/a is what {names} would tell")
    if total.tokens.write.get(UNSPLIT):
        tokens = exact(total.tokens.write[UNSPLIT])
        notes.append(f"for which of several lifetimes {tokens} tokens were written is not told: not priced, in no cost")
    return notes
