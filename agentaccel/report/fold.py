"""Adding up records: one accumulator per group, in memory that grows with sessions and active days, not with tokens."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.report.bill import Billed, Money
from agentaccel.report.control import Spent, control
from agentaccel.report.figures import CauseRow, Group, Latency, Limits, ModeRow, Tokens, ToolTime
from agentaccel.report.spans import Covered
from agentaccel.types import Cause, Miss

DAY, MINUTE = 86_400, 60
MINUTES_A_DAY = DAY // MINUTE


@dataclass(slots=True)
class Span:
    """One session's part in one group."""

    reported: bool = False
    subagent: bool = False
    active: Covered = field(default_factory=Covered)
    tools: Covered = field(default_factory=Covered)


@dataclass(slots=True)
class ModeSum:
    """What the requests of one mode add up to."""

    requests: int = 0
    known: int = 0
    read: int = 0
    priced: int = 0
    paid: float = 0.0
    sessions: dict[str, Spent] = field(default_factory=dict)
    """Those with a price."""

    def spend(self, session: str, usd: float, tokens: int) -> None:
        """One request with a price."""
        self.priced += 1
        self.paid += usd
        before = self.sessions.get(session, Spent(0.0, 0))
        self.sessions[session] = Spent(before.usd + usd, before.tokens + tokens)

    def row(self, mode: str) -> ModeRow:
        """The figures of `mode`."""
        return ModeRow(
            mode=mode,
            requests=self.requests,
            hit_rate=self.read / self.known if self.known else None,
            paid=self.paid if self.priced else None,
            priced=self.priced,
        )


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


class Sums:
    """Everything that one group adds up."""

    __slots__ = (
        "_attempts",
        "_causes",
        "_cold",
        "_counts",
        "_minutes",
        "_modes",
        "_money",
        "_warm",
        "_write",
        "spans",
    )

    def __init__(self, *, peaks: bool) -> None:
        self.spans: dict[str, Span] = {}
        self._counts: Counter[str] = Counter()
        self._attempts: Counter[str] = Counter()
        self._write: Counter[str] = Counter()
        self._money = Money()
        self._causes: dict[tuple[Cause, bool], tuple[int, int, float | None]] = {}
        self._warm, self._cold = array("d"), array("d")
        self._minutes = Minutes() if peaks else None
        self._modes: dict[str, ModeSum] = {}

    def turn(self, billed: Billed) -> None:
        """One request."""
        turn, usage = billed.turn, billed.turn.usage
        span = self._span(turn.session)
        span.subagent |= turn.parent is not None
        span.reported |= usage.reported
        if turn.outcome != "ok":
            self._attempts[turn.outcome] += 1
            if usage.input is None:
                return
        self._counts["requests"] += 1
        self._counts["unreported"] += not usage.reported
        self._tokens(billed)
        self._mode(billed)
        if usage.input is not None:
            self._money.add(billed)
            self._limit(billed)
        for miss in turn.misses:
            self._miss(miss, billed.miss_usd(miss))
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

    def _tokens(self, billed: Billed) -> None:
        usage, counts = billed.turn.usage, self._counts
        counts["input"] += usage.input or 0
        counts["output"] += usage.output or 0
        if usage.reported:
            counts["known"] += usage.input or 0
            counts["read"] += usage.read or 0
            counts["uncached"] += usage.uncached or 0
            counts["reusable"] += billed.perfect_read
        if usage.write is not None:
            for label, tokens in usage.write.items():
                self._write[label] += tokens
            counts["needed"] += billed.needed

    def _mode(self, billed: Billed) -> None:
        usage, bill = billed.turn.usage, billed.bill
        mode = self._modes.get(billed.turn.mode)
        if mode is None:
            mode = self._modes[billed.turn.mode] = ModeSum()
        mode.requests += 1
        if usage.reported:
            mode.known += usage.input or 0
            mode.read += usage.read or 0
        if bill is not None:
            mode.spend(billed.turn.session, bill.paid, usage.input or 0)

    def _limit(self, billed: Billed) -> None:
        facts, usage, started = billed.facts, billed.turn.usage, billed.turn.started
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

    def _spent(self, mode: str) -> Collection[Spent]:
        return self._modes[mode].sessions.values() if mode in self._modes else ()

    def group(self, name: str) -> Group:
        """The figures of this group."""
        counts, spans = self._counts, self.spans.values()
        peaks = self._minutes.peaks() if self._minutes is not None else None
        limited = bool(counts["limited"])
        rows = sorted(self._causes.items(), key=lambda item: (-item[1][1], item[0]))
        return Group(
            name=name,
            sessions=len(self.spans.keys() - {""}),  # tool calls outside any session have none
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
            modes=tuple(mode.row(name) for name, mode in sorted(self._modes.items())),
            control=control(*(self._spent(mode) for mode in ("on", "holdout"))),
        )


def latency(seconds: array[float]) -> Latency:
    """The middle and the slow end of some times, by nearest rank."""
    ordered = sorted(seconds)

    def rank(share: float) -> float | None:
        return ordered[math.ceil(share * len(ordered)) - 1] if ordered else None

    return Latency(count=len(ordered), p50=rank(0.5), p90=rank(0.9))
