"""Adding up records: one accumulator per group, in memory that grows with sessions and active days, not with tokens.

Each record is added to its group alone; what all of them come to is had from the groups, but for what sessions add when
they are over: `parts` has that.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import asdict, dataclass, field

from agentaccel.beside import cost_of
from agentaccel.records import BATCH, KEEP_ALIVE, OURS, PREWARM, Calls, ToolRecord
from agentaccel.report.bill import Billed, Money
from agentaccel.report.control import HOLDOUT, ON, Spendings, control
from agentaccel.report.counts import (
    OF_SESSIONS,
    Counts,
    EarlySum,
    EngineSum,
    KeptSum,
    Minutes,
    add_counts,
    add_up,
    count_in,
)
from agentaccel.report.figures import BesideRow, CauseRow, Group, Holds, Latency, Limits, ModeRow, ToolTime, Verdicts
from agentaccel.report.parts import SessionShare
from agentaccel.types import Cause, Miss

NONE, NOTHING = Spendings(), KeptSum()
"""Of a mode that no session was in, and that no request of our own had."""


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


@dataclass(slots=True)
class CauseSum:
    """What the misses of one cause add up to."""

    misses: int = 0
    tokens: int = 0
    usd: float | None = None
    seconds: float | None = None

    def add(self, miss: Miss, billed: Billed) -> None:
        """A miss of one request."""
        self.misses += 1
        self.tokens += miss.tokens
        if billed.missed is not None:
            self.usd = (self.usd or 0.0) + miss.tokens * billed.missed
        if billed.prefill is not None and billed.prefill[1]:
            seconds, tokens = billed.prefill
            self.seconds = (self.seconds or 0.0) + miss.tokens * seconds / tokens

    def merge(self, other: CauseSum) -> None:
        """Those of another group."""
        self.misses += other.misses
        self.tokens += other.tokens
        if other.usd is not None:
            self.usd = (self.usd or 0.0) + other.usd
        if other.seconds is not None:
            self.seconds = (self.seconds or 0.0) + other.seconds


class CauseSums:
    """What the misses of several causes add up to."""

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        self._sums: dict[tuple[Cause, bool], CauseSum] = {}

    def add(self, miss: Miss, billed: Billed) -> None:
        """A miss of one request."""
        key = miss.cause, miss.inferred
        cause = self._sums.get(key)
        if cause is None:
            cause = self._sums[key] = CauseSum()
        cause.add(miss, billed)

    def merge(self, other: CauseSums) -> None:
        """Those of another group."""
        for key, cause in other._sums.items():
            self._sums.setdefault(key, CauseSum()).merge(cause)

    def rows(self) -> tuple[CauseRow, ...]:
        """By tokens, most first."""
        rows = sorted(self._sums.items(), key=lambda item: (-item[1].tokens, item[0]))
        return tuple(CauseRow(cause=cause, inferred=inferred, **asdict(sums)) for (cause, inferred), sums in rows)


@dataclass(slots=True)
class BesideSum:
    """What the requests add up to that something stood beside."""

    requests: int = 0
    causes: CauseSums = field(default_factory=CauseSums)

    def merge(self, other: BesideSum) -> None:
        """Those of another group."""
        self.requests += other.requests
        self.causes.merge(other.causes)


class Sums:
    """Everything that one group adds up. A log has many requests, so what each of them adds to is a plain slot."""

    __slots__ = (
        "_attempts",
        "_beside",
        "_causes",
        "_cold",
        "_counts",
        "_doubted",
        "_early",
        "_engine",
        "_modes",
        "_money",
        "_ours",
        "_spent",
        "_unclear",
        "_verdicts",
        "_warm",
        "_write",
        "minutes",
    )

    def __init__(self, *, peaks: bool) -> None:
        self.minutes = Minutes() if peaks else None
        self._counts, self._early, self._engine = Counts(), EarlySum(), EngineSum()
        self._ours: dict[str, KeptSum] = {}
        self._attempts: dict[str, int] = {}
        self._unclear: dict[str, int] = {}
        self._doubted: dict[str, int] = {}
        self._write: dict[str, int] = {}
        self._money = Money()
        self._verdicts = Verdicts()
        self._causes = CauseSums()
        self._beside: dict[str, BesideSum] = {}
        self._warm, self._cold = array("d"), array("d")
        self._modes: dict[str, ModeSum] = {}
        self._spent: dict[str, Spendings] = {}

    def turn(self, billed: Billed) -> None:
        """One request."""
        turn, usage = billed.turn, billed.usage
        if self.minutes is not None:
            self.minutes.turn(billed)
        if turn.doubts or billed.unclear:
            count_in(self._doubted, turn.doubts)
            count_in(self._unclear, billed.unclear)
        if turn.mode in OURS:
            self._keep(billed)
            return
        if turn.waited is not None:
            self._counts.held += 1
            self._counts.waited += turn.waited
        if turn.outcome != "ok":
            count_in(self._attempts, (turn.outcome,))
            if usage.input is None:
                return
        self._counts.add(billed, self._write)
        self._mode(billed)
        if usage.input is not None:
            self._money.add(billed)
            self._limit(billed, usage.input)
        if turn.diagnosis is not None:
            self._verdicts.add(turn)
        for miss in turn.misses:
            self._causes.add(miss, billed)
        self._stood_beside(billed)
        self._engine.add(billed)
        self._first_byte(billed)

    def _first_byte(self, billed: Billed) -> None:
        turn, read = billed.turn, billed.usage.read
        if turn.first_byte is None:
            self._counts.unstreamed += not turn.streamed and turn.mode not in ("log", BATCH)
        elif turn.started and read is not None:
            (self._warm if read else self._cold).append(turn.first_byte - turn.started)

    def _keep(self, billed: Billed) -> None:
        """A request of our own: what it cost was paid, and nobody wrote it."""
        usage, bill = billed.usage, billed.bill
        if usage.input is None:
            count_in(self._attempts, (billed.turn.outcome,))
            return
        self._ours.setdefault(billed.turn.mode, KeptSum()).add(billed)
        self._mode(billed)
        self._limit(billed, usage.input)
        if bill is not None:
            self._money.ours(bill)

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

    def calls(self, calls: Calls) -> None:
        """Several calls that nothing had been run early for."""
        self._counts.calls += calls.count
        self._counts.failed += calls.failed
        self._counts.unfinished += calls.unfinished

    def session(self, part: SessionShare, *, named: bool) -> None:
        """What a session that is over added; `named` where it has a name: tool calls outside any session have none."""
        counts = self._counts
        if part.present:
            counts.sessions += named
            counts.blind += named and not part.reported
            counts.subagents += part.subagent
            counts.seconds += part.tools.seconds
            counts.active += part.active.seconds
        for mode, spent in part.spent.items():
            self._spent.setdefault(mode, Spendings()).add(spent)

    def _limit(self, billed: Billed, total: int) -> None:
        if billed.counted is None:
            return
        counts = self._counts
        counts.limited += 1
        counts.counted += billed.counted
        counts.everything += total

    def _mode(self, billed: Billed) -> None:
        turn, bill = billed.turn, billed.bill
        mode = self._modes.get(turn.mode)
        if mode is None:
            mode = self._modes[turn.mode] = ModeSum()
        mode.requests += 1
        if billed.reported:
            mode.known += billed.usage.input or 0
            mode.read += billed.usage.read or 0
        if bill is None:
            return
        mode.priced += 1
        mode.paid += bill.paid

    def _stood_beside(self, billed: Billed) -> None:
        turn = billed.turn
        for name in turn.beside:
            cost = cost_of(name)
            if cost is None:
                continue  # another version knows it
            sums = self._beside.setdefault(name, BesideSum())
            sums.requests += 1
            for miss in turn.misses:
                if cost.may_explain(miss, turn.drift):
                    sums.causes.add(miss, billed)

    def add(self, other: Sums) -> None:
        """All that another group adds up, but for its sessions."""
        add_up(self._counts, other._counts, but=OF_SESSIONS)
        add_up(self._early, other._early)
        add_up(self._engine, other._engine)
        add_up(self._money, other._money)
        for mode, kept in other._ours.items():
            self._ours.setdefault(mode, KeptSum()).merge(kept)
        add_counts(self._attempts, other._attempts)
        add_counts(self._unclear, other._unclear)
        add_counts(self._doubted, other._doubted)
        add_counts(self._write, other._write)
        self._verdicts.merge(other._verdicts)
        self._causes.merge(other._causes)
        for name, beside in other._beside.items():
            self._beside.setdefault(name, BesideSum()).merge(beside)
        self._warm.extend(other._warm)
        self._cold.extend(other._cold)
        for mode, sums in other._modes.items():
            add_up(self._modes.setdefault(mode, ModeSum()), sums)

    @property
    def size(self) -> tuple[int, int]:
        """What groups are sorted by: input tokens, then requests."""
        return self._counts.input, self._counts.requests

    def group(self, name: str) -> Group:
        """The figures of this group."""
        counts, peaks = self._counts, self.minutes.peaks() if self.minutes is not None else None
        return Group(
            name=name,
            sessions=counts.sessions,
            sessions_unreported=counts.blind,
            subagents=counts.subagents,
            requests=counts.requests,
            unreported=counts.unreported,
            attempts=dict(self._attempts),
            unclear=dict(self._unclear),
            doubted=dict(self._doubted),
            tokens=counts.tokens(self._write),
            costs=self._money.costs(),
            verdicts=self._verdicts.rows(),
            causes=self._causes.rows(),
            beside=tuple(_beside_row(name, sums) for name, sums in sorted(self._beside.items())),
            engine=self._engine.figures(),
            warm=latency(self._warm),
            cold=latency(self._cold),
            unstreamed=counts.unstreamed,
            holds=Holds(count=counts.held, seconds=counts.waited),
            kept=self._ours.get(KEEP_ALIVE, NOTHING).kept(),
            prewarmed=self._ours.get(PREWARM, NOTHING).kept(),
            tools=ToolTime(
                calls=counts.calls,
                failed=counts.failed,
                unfinished=counts.unfinished,
                seconds=counts.seconds,
                active=counts.active,
            ),
            early=self._early.early(),
            limits=Limits(
                counted=counts.counted if counts.limited else None,
                everything=counts.everything if counts.limited else None,
                peak_counted=peaks[0] if peaks else None,
                peak_everything=peaks[1] if peaks else None,
            ),
            modes=tuple(mode.row(name) for name, mode in sorted(self._modes.items())),
            control=control(*(self._spent.get(mode, NONE).all() for mode in (ON, HOLDOUT))),
        )


def _beside_row(name: str, sums: BesideSum) -> BesideRow:
    cost = cost_of(name)
    says = cost.says if cost is not None else ""
    return BesideRow(name=name, requests=sums.requests, causes=sums.causes.rows(), says=says)


def latency(seconds: array[float]) -> Latency:
    """The middle and the slow end of some times, by nearest rank."""
    ordered = sorted(seconds)

    def rank(share: float) -> float | None:
        return ordered[math.ceil(share * len(ordered)) - 1] if ordered else None

    return Latency(count=len(ordered), p50=rank(0.5), p90=rank(0.9))
