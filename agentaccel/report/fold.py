"""Adding up records: one accumulator per group, in memory that grows with sessions and active days, not with tokens."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from dataclasses import dataclass, field

from agentaccel.records import OURS, PREWARM, ToolRecord, TurnRecord
from agentaccel.report.bill import Billed, Money
from agentaccel.report.control import Spent, control
from agentaccel.report.counts import Counts, KeptSum, Minutes
from agentaccel.report.early import EarlySum
from agentaccel.report.figures import CauseRow, Group, Holds, Latency, Limits, ModeRow, ToolTime
from agentaccel.report.spans import Covered
from agentaccel.types import Cause, Miss

COMPARED = ("on", "holdout")
"""The modes whose sessions are compared: what agentaccel acts on, and its control group."""


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

    def row(self, mode: str) -> ModeRow:
        """The figures of `mode`."""
        return ModeRow(
            mode=mode,
            requests=self.requests,
            hit_rate=self.read / self.known if self.known else None,
            paid=self.paid if self.priced else None,
            priced=self.priced,
        )


class Sums:
    """Everything that one group adds up. A log has many requests, so what each of them adds to is a plain slot."""

    __slots__ = (
        "_attempts",
        "_causes",
        "_cold",
        "_counts",
        "_early",
        "_kept",
        "_minutes",
        "_modes",
        "_money",
        "_prewarmed",
        "_spans",
        "_spent",
        "_warm",
        "_write",
    )

    def __init__(self, *, peaks: bool) -> None:
        self._spans: dict[str, Span] = {}
        self._counts, self._early = Counts(), EarlySum()
        self._kept, self._prewarmed = KeptSum(), KeptSum()
        self._attempts: Counter[str] = Counter()
        self._write: dict[str, int] = {}
        self._money = Money()
        self._causes: dict[tuple[Cause, bool], tuple[int, int, float | None]] = {}
        self._warm, self._cold = array("d"), array("d")
        self._minutes = Minutes() if peaks else None
        self._modes: dict[str, ModeSum] = {}
        self._spent: dict[str, dict[str, Spent]] = {mode: {} for mode in COMPARED}

    def turn(self, billed: Billed) -> None:
        """One request."""
        turn, usage = billed.turn, billed.turn.usage
        if turn.mode in OURS:
            self._keep(billed)
            return
        span = self._spans.get(turn.session)
        if span is None:
            span = self._spans[turn.session] = Span()
        if turn.parent is not None:
            span.subagent = True
        if turn.waited is not None:
            self._counts.held += 1
            self._counts.waited += turn.waited
        if turn.outcome != "ok":
            self._attempts[turn.outcome] += 1
            if usage.input is None:
                return
        self._counts.add(billed, self._write)
        span.reported = span.reported or billed.reported
        self._mode(billed)
        if usage.input is not None:
            self._money.add(billed)
            self._limit(billed, usage.input)
        for miss in turn.misses:
            self._miss(miss, billed.missed)
        if turn.started:
            self._times(turn, span)

    def _keep(self, billed: Billed) -> None:
        """A request of our own: what it cost was paid, and nobody wrote it."""
        usage, bill = billed.turn.usage, billed.bill
        if usage.input is None:
            self._attempts[billed.turn.outcome] += 1
            return
        (self._prewarmed if billed.turn.mode == PREWARM else self._kept).add(billed)
        self._mode(billed)
        self._limit(billed, usage.input)
        if bill is None:
            return
        self._money.paid += bill.paid
        spent = self._spent["on"]
        usd, tokens = spent.get(billed.turn.session, Spent(0.0, 0))
        spent[billed.turn.session] = Spent(usd + bill.paid, tokens)

    def tool(self, tool: ToolRecord) -> None:
        """One execution of a tool."""
        if tool.speculative:
            self._early.run(tool)
            return
        self._early.call(tool)
        counts = self._counts
        counts.calls += 1
        counts.failed += tool.outcome == "failed"
        counts.unfinished += tool.finished is None
        span = self._spans.get(tool.session)
        if span is None:
            span = self._spans[tool.session] = Span()
        if tool.started and tool.finished is not None:
            span.tools.add(tool.started, tool.finished)
            span.active.add(tool.started, tool.finished)

    def _limit(self, billed: Billed, total: int) -> None:
        if billed.counted is None:
            return
        counts, started = self._counts, billed.turn.started
        counts.limited += 1
        counts.counted += billed.counted
        counts.everything += total
        if self._minutes is not None and started:
            self._minutes.add(started, billed.counted, total)

    def _mode(self, billed: Billed) -> None:
        turn, bill = billed.turn, billed.bill
        mode = self._modes.get(turn.mode)
        if mode is None:
            mode = self._modes[turn.mode] = ModeSum()
        mode.requests += 1
        if billed.reported:
            mode.known += turn.usage.input or 0
            mode.read += turn.usage.read or 0
        if bill is None:
            return
        mode.priced += 1
        mode.paid += bill.paid
        spent = self._spent.get(turn.mode)
        if spent is not None:
            usd, tokens = spent.get(turn.session, Spent(0.0, 0))
            spent[turn.session] = Spent(usd + bill.paid, tokens + (turn.usage.input or 0))

    def _miss(self, miss: Miss, missed: float | None) -> None:
        count, tokens, cost = self._causes.get((miss.cause, miss.inferred), (0, 0, None))
        if missed is not None:
            cost = (cost or 0.0) + miss.tokens * missed
        self._causes[miss.cause, miss.inferred] = (count + 1, tokens + miss.tokens, cost)

    def _times(self, turn: TurnRecord, span: Span) -> None:
        if turn.finished is not None:
            span.active.add(turn.started, turn.finished)
        if turn.first_byte is not None and turn.usage.read is not None:
            (self._warm if turn.usage.read else self._cold).append(turn.first_byte - turn.started)

    def group(self, name: str) -> Group:
        """The figures of this group."""
        counts, spans = self._counts, self._spans.values()
        peaks = self._minutes.peaks() if self._minutes is not None else None
        rows = sorted(self._causes.items(), key=lambda item: (-item[1][1], item[0]))
        return Group(
            name=name,
            sessions=len(self._spans.keys() - {""}),  # tool calls outside any session have none
            sessions_unreported=sum(not span.reported for span in spans),
            subagents=sum(span.subagent for span in spans),
            requests=counts.requests,
            unreported=counts.unreported,
            attempts=dict(self._attempts),
            tokens=counts.tokens(self._write),
            costs=self._money.costs(),
            causes=tuple(
                CauseRow(cause=cause, inferred=inferred, misses=count, tokens=tokens, usd=usd)
                for (cause, inferred), (count, tokens, usd) in rows
            ),
            warm=latency(self._warm),
            cold=latency(self._cold),
            holds=Holds(count=counts.held, seconds=counts.waited),
            kept=self._kept.kept(),
            prewarmed=self._prewarmed.kept(),
            tools=ToolTime(
                calls=counts.calls,
                failed=counts.failed,
                unfinished=counts.unfinished,
                seconds=sum(span.tools.seconds for span in spans),
                active=sum(span.active.seconds for span in spans),
            ),
            early=self._early.early(),
            limits=Limits(
                counted=counts.counted if counts.limited else None,
                everything=counts.everything if counts.limited else None,
                peak_counted=peaks[0] if peaks else None,
                peak_everything=peaks[1] if peaks else None,
            ),
            modes=tuple(mode.row(name) for name, mode in sorted(self._modes.items())),
            control=control(*(spent.values() for spent in self._spent.values())),
        )


def latency(seconds: array[float]) -> Latency:
    """The middle and the slow end of some times, by nearest rank."""
    ordered = sorted(seconds)

    def rank(share: float) -> float | None:
        return ordered[math.ceil(share * len(ordered)) - 1] if ordered else None

    return Latency(count=len(ordered), p50=rank(0.5), p90=rank(0.9))
