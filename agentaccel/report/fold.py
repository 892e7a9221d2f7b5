"""Adding up records: one accumulator per group, in memory that grows with sessions and active days, not with tokens."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from dataclasses import dataclass, field

from agentaccel.cache.price import PriceCard, input_cost
from agentaccel.facts import CacheFacts
from agentaccel.report.figures import CauseRow, Costs, Group, Latency, Limits, ModeRow, Tokens, ToolTime
from agentaccel.types import Cause, Miss, ToolRecord, TurnRecord, Usage

DAY, MINUTE = 86_400, 60
MINUTES_A_DAY = DAY // MINUTE


@dataclass(slots=True)
class Covered:
    """The length of a union of intervals that arrive in the order in which they begin."""

    seconds: float = 0.0
    until: float = 0.0

    def add(self, start: float, end: float) -> None:
        """An interval; what the ones before it covered counts once."""
        if end > self.until:
            self.seconds += end - max(start, self.until)
            self.until = end


@dataclass(slots=True)
class Span:
    """One session's part in one group."""

    reported: bool = False
    subagent: bool = False
    active: Covered = field(default_factory=Covered)
    tools: Covered = field(default_factory=Covered)


class Minutes:
    """Tokens by minute: two counts for each minute of the days that have any."""

    def __init__(self) -> None:
        self._days: dict[int, array[int]] = {}

    def add(self, at: float, counted: int, everything: int) -> None:
        """Tokens of a request sent at `at`."""
        day, rest = divmod(int(at), DAY)
        minutes = self._days.get(day)
        if minutes is None:
            minutes = self._days[day] = array("q", bytes(16 * MINUTES_A_DAY))
        minutes[rest // MINUTE] += counted
        minutes[MINUTES_A_DAY + rest // MINUTE] += everything

    def peaks(self) -> tuple[int, int] | None:
        """The largest of each count; None where nothing was added."""
        if not self._days:
            return None
        days = self._days.values()
        return max(max(day[:MINUTES_A_DAY]) for day in days), max(max(day[MINUTES_A_DAY:]) for day in days)


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """A request with everything about it that more than one sum needs."""

    turn: TurnRecord
    card: PriceCard | None
    facts: CacheFacts | None
    needed: int
    """Tokens by which the prompt outgrew the earlier ones of its session."""

    @property
    def perfect_read(self) -> int:
        """What a perfect cache would have read: never less than what this one did."""
        usage = self.turn.usage
        return min(usage.input or 0, max(self.turn.reusable or 0, usage.read or 0))

    def miss_usd(self, miss: Miss) -> float | None:
        """What a miss cost beyond reading: missed tokens paid this request's mix of writing and plain input."""
        usage, card = self.turn.usage, self.card
        unread = (usage.input or 0) - (usage.read or 0)
        if card is None or card.read is None or unread <= 0:
            return None
        cost = input_cost(card, Usage(input=unread, read=0, write=usage.write))
        return None if cost is None else miss.tokens * (cost / unread - card.read)


class Money:
    """Sums in USD, all over the same requests."""

    def __init__(self) -> None:
        self.priced = self.unpriced = self.modelled = self.unmodelled = 0
        self._paid = self._written = self._without = self._perfect = self._output = 0.0
        self._with_output = 0

    def add(self, priced: Priced) -> None:
        turn, card = priced.turn, priced.card
        paid = input_cost(card, turn.usage)
        if card is None or paid is None or turn.usage.input is None:
            self.unpriced += 1
            return
        as_written = paid
        if turn.mode == "on":
            modelled = input_cost(card, turn.as_written) if turn.as_written is not None else None
            self.modelled += modelled is not None
            self.unmodelled += modelled is None
            as_written = paid if modelled is None else modelled
        self.priced += 1
        self._paid += paid
        self._written += as_written
        self._without += turn.usage.input * card.input
        fresh = turn.usage.input - priced.perfect_read
        self._perfect += fresh * card.input + priced.perfect_read * (card.input if card.read is None else card.read)
        if turn.mode != "log" and turn.usage.output is not None and card.output is not None:
            self._output += turn.usage.output * card.output
            self._with_output += 1

    def costs(self) -> Costs:
        def known(value: float) -> float | None:
            return value if self.priced else None

        return Costs(
            priced=self.priced,
            unpriced=self.unpriced,
            modelled=self.modelled,
            unmodelled=self.unmodelled,
            paid=known(self._paid),
            as_written=known(self._written),
            without=known(self._without),
            perfect=known(self._perfect),
            output=self._output if self._with_output else None,
        )


class Sums:
    """Everything that one group adds up."""

    def __init__(self, *, peaks: bool) -> None:
        self.spans: dict[str, Span] = {}
        self._counts: Counter[str] = Counter()
        self._attempts: Counter[str] = Counter()
        self._write: Counter[str] = Counter()
        self._money = Money()
        self._causes: dict[tuple[Cause, bool], tuple[int, int, float | None]] = {}
        self._warm, self._cold = array("d"), array("d")
        self._minutes = Minutes() if peaks else None
        self._modes: dict[str, tuple[Counter[str], Money]] = {}

    def turn(self, priced: Priced) -> None:
        """One request."""
        turn, usage = priced.turn, priced.turn.usage
        span = self._span(turn.session)
        span.subagent |= turn.parent is not None
        span.reported |= usage.reported
        if turn.outcome != "ok":
            self._attempts[turn.outcome] += 1
            if usage.input is None:
                return
        self._counts["requests"] += 1
        self._counts["unreported"] += not usage.reported
        self._tokens(priced)
        mode, money = self._modes.setdefault(turn.mode, (Counter(), Money()))
        mode["requests"] += 1
        if usage.reported:
            mode["known"] += usage.input or 0
            mode["read"] += usage.read or 0
        if usage.input is not None:
            self._money.add(priced)
            money.add(priced)
            self._limit(priced)
        for miss in turn.misses:
            self._miss(miss, priced.miss_usd(miss))
        self._times(turn, span)

    def tool(self, tool: ToolRecord) -> None:
        """One execution of a tool."""
        self._counts["calls"] += 1
        self._counts["failed"] += tool.outcome == "failed"
        self._counts["unfinished"] += tool.finished is None
        span = self._span(tool.session)
        if tool.started and tool.finished is not None:
            span.tools.add(tool.started, tool.finished)
            span.active.add(tool.started, tool.finished)

    def _span(self, session: str) -> Span:
        span = self.spans.get(session)
        if span is None:
            span = self.spans[session] = Span()
        return span

    def _tokens(self, priced: Priced) -> None:
        usage, counts = priced.turn.usage, self._counts
        counts["input"] += usage.input or 0
        counts["output"] += usage.output or 0
        if usage.reported:
            counts["known"] += usage.input or 0
            counts["read"] += usage.read or 0
            counts["uncached"] += usage.uncached or 0
            counts["reusable"] += priced.perfect_read
        if usage.write is not None:
            self._write.update(usage.write)
            counts["needed"] += priced.needed

    def _limit(self, priced: Priced) -> None:
        facts, usage, started = priced.facts, priced.turn.usage, priced.turn.started
        if facts is None or usage.input is None or usage.read is None:
            return
        counted = usage.input - (0 if facts.reads_count_to_rate_limit else usage.read)
        self._counts["limited"] += 1
        self._counts["counted"] += counted
        self._counts["everything"] += usage.input
        if self._minutes is not None and started:
            self._minutes.add(started, counted, usage.input)

    def _miss(self, miss: Miss, usd: float | None) -> None:
        count, tokens, cost = self._causes.get((miss.cause, miss.inferred), (0, 0, None))
        if usd is not None:
            cost = (cost or 0.0) + usd
        self._causes[miss.cause, miss.inferred] = (count + 1, tokens + miss.tokens, cost)

    def _times(self, turn: TurnRecord, span: Span) -> None:
        if turn.started and turn.finished is not None:
            span.active.add(turn.started, turn.finished)
        if turn.first_byte is not None and turn.usage.read is not None and turn.started:
            (self._warm if turn.usage.read else self._cold).append(turn.first_byte - turn.started)

    def group(self, name: str) -> Group:
        """The figures of this group."""
        counts, spans = self._counts, self.spans.values()
        peaks = self._minutes.peaks() if self._minutes is not None else None
        limited = bool(counts["limited"])
        rows = sorted(self._causes.items(), key=lambda item: (-item[1][1], item[0]))
        return Group(
            name=name,
            sessions=len(self.spans),
            sessions_unreported=sum(not span.reported for span in spans),
            subagents=sum(span.subagent for span in spans),
            requests=counts["requests"],
            unreported=counts["unreported"],
            attempts=dict(self._attempts),
            tokens=Tokens(
                write=dict(self._write),
                **{key: counts[key] for key in ("input", "known", "read", "uncached", "output", "needed", "reusable")},
            ),
            costs=self._money.costs(),
            causes=tuple(
                CauseRow(cause=cause, inferred=inferred, misses=count, tokens=tokens, usd=usd)
                for (cause, inferred), (count, tokens, usd) in rows
            ),
            warm=latency(self._warm),
            cold=latency(self._cold),
            tools=ToolTime(
                calls=counts["calls"],
                failed=counts["failed"],
                unfinished=counts["unfinished"],
                seconds=sum(span.tools.seconds for span in spans),
                active=sum(span.active.seconds for span in spans),
            ),
            limits=Limits(
                counted=counts["counted"] if limited else None,
                everything=counts["everything"] if limited else None,
                peak_counted=peaks[0] if peaks else None,
                peak_everything=peaks[1] if peaks else None,
            ),
            modes=tuple(mode_row(mode, *sums) for mode, sums in sorted(self._modes.items())),
        )


def mode_row(mode: str, counts: Counter[str], money: Money) -> ModeRow:
    """The figures of one mode."""
    costs = money.costs()
    return ModeRow(
        mode=mode,
        requests=counts["requests"],
        hit_rate=counts["read"] / counts["known"] if counts["known"] else None,
        paid=costs.paid,
        priced=costs.priced,
    )


def latency(seconds: array[float]) -> Latency:
    """The middle and the slow end of some times, by nearest rank."""
    ordered = sorted(seconds)

    def rank(share: float) -> float | None:
        return ordered[math.ceil(share * len(ordered)) - 1] if ordered else None

    return Latency(count=len(ordered), p50=rank(0.5), p90=rank(0.9))
