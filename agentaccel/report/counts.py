"""Plain sums of requests: counts and tokens, tokens by minute, and requests of our own apart."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TypeVar

from agentaccel.records import ToolRecord
from agentaccel.report.bill import Billed, Money, Tokens
from agentaccel.report.figures import Early, EngineFigures, OwnRequestFigures

DAY, MINUTE = 86_400, 60
MINUTES_A_DAY = DAY // MINUTE


T = TypeVar("T")


def add_up(sums: T, more: T, *, but: AbstractSet[str] = frozenset()) -> None:
    """Add to each of some plain sums, the slots of one object, what another one has there, `but` for some."""
    for name in type(sums).__slots__:  # type: ignore[attr-defined]  # of dataclasses with slots
        value = getattr(more, name)
        if value and name not in but:
            setattr(sums, name, getattr(sums, name) + value)


def add_counts(counts: dict[str, int], more: Mapping[str, int]) -> None:
    """Add to `counts` what others come to under the same names."""
    for name, count in more.items():
        counts[name] = counts.get(name, 0) + count


def count_in(counts: dict[str, int], names: Iterable[str]) -> None:
    """Count each of `names` once more."""
    for name in names:
        counts[name] = counts.get(name, 0) + 1


class Minutes:
    """Tokens by minute: two counts for each minute of the days that have any."""

    def __init__(self) -> None:
        self._days: dict[int, array[int]] = {}

    def turn(self, billed: Billed) -> None:
        """The tokens of a request that count against a limit, where that and its time are known."""
        turn, counted = billed.turn, billed.counted
        if counted is not None and turn.started:
            self.add(turn.started, counted, billed.usage.input or 0)

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


OF_SESSIONS = frozenset({"sessions", "blind", "subagents", "seconds", "active"})
"""Sums of what sessions add when they are over."""


@dataclass(slots=True)
class Counts:
    """Plain sums of one group; those of tokens are called as in `Tokens`, which says what they mean."""

    requests: int = 0
    unreported: int = 0
    input: int = 0
    known: int = 0
    read: int = 0
    uncached: int = 0
    output: int = 0
    outputs: int = 0
    partial: int = 0
    needed: int = 0
    reusable: int = 0
    told: int = 0
    limited: int = 0
    counted: int = 0
    everything: int = 0
    calls: int = 0
    failed: int = 0
    unfinished: int = 0
    unstreamed: int = 0
    held: int = 0
    waited: float = 0.0
    sessions: int = 0
    blind: int = 0
    subagents: int = 0
    seconds: float = 0.0
    active: float = 0.0

    def add(self, billed: Billed, write: dict[str, int]) -> None:
        """The tokens of one request; what it wrote goes into `write`, by lifetime."""
        usage = billed.usage
        total = usage.input or 0
        self.requests += 1
        self.input += total
        self.partial += not billed.whole
        if usage.output is not None:
            self.outputs += 1
            self.output += usage.output
        if billed.reported:
            self.known += total
            self.read += usage.read or 0
            self.uncached += billed.uncached
            self.reusable += billed.perfect_read
        else:
            self.unreported += 1
        if usage.write is not None:
            self.told += 1
            add_counts(write, usage.write)
            self.needed += billed.needed

    def tokens(self, write: dict[str, int]) -> Tokens:
        """The sums so far."""
        return Tokens(
            write=dict(write),
            told=self.told,
            input=self.input,
            known=self.known,
            read=self.read,
            uncached=self.uncached,
            output=self.output,
            outputs=self.outputs,
            partial=self.partial,
            needed=self.needed,
            reusable=self.reusable,
        )


@dataclass(slots=True)
class KeptSum:
    """Requests of our own, of one kind."""

    counts: Counts = field(default_factory=Counts)
    write: dict[str, int] = field(default_factory=dict)
    money: Money = field(default_factory=Money)

    def add(self, billed: Billed) -> None:
        """One of them, answered."""
        self.counts.add(billed, self.write)
        self.money.add(billed)

    def merge(self, other: KeptSum) -> None:
        """Those of another group."""
        add_up(self.counts, other.counts)
        add_up(self.money, other.money)
        add_counts(self.write, other.write)

    def kept(self) -> OwnRequestFigures:
        """The figures so far."""
        return OwnRequestFigures(
            requests=self.counts.requests, tokens=self.counts.tokens(self.write), usd=self.money.costs().paid
        )


@dataclass(slots=True)
class EngineSum:
    """The work of servers that the user runs; a field each of `EngineFigures`, which says what it means."""

    requests: int = 0
    input: int = 0
    computed: int = 0
    prefill: float = 0.0
    squares: int = 0
    """Of the tokens computed, each request's squared."""
    products: float = 0.0
    """Of the tokens computed and the seconds for them, each request's multiplied."""
    modelled: int = 0
    as_written: int = 0
    outputs: int = 0
    output: int = 0
    decode: float = 0.0
    told: int = 0
    drafted: int = 0
    accepted: int = 0
    made: int = 0
    """Tokens of the replies that tell what was drafted for them."""
    passes: int = 0
    """Passes of the model for those: where they are not told, a pass for each token that no draft has saved."""
    untold: int = 0
    """Replies of which they are not."""

    def add(self, billed: Billed) -> None:
        """One request of which it is known how long its prompt took."""
        if billed.prefill is None:
            return
        turn, (seconds, tokens) = billed.turn, billed.prefill
        self.requests += 1
        self.input += turn.usage.input or 0
        self.computed += tokens
        self.prefill += seconds
        self.squares += tokens * tokens
        self.products += tokens * seconds
        written = turn.as_written.uncached if turn.as_written is not None else None
        if turn.mode != "on":
            written = tokens
        if written is not None:
            self.modelled += turn.mode == "on"
            self.as_written += written
        else:
            self.as_written += tokens
        work, made = turn.work, turn.usage.output
        if work is None or made is None:
            return
        if work.decode is not None:
            self.outputs += 1
            self.output += made
            self.decode += work.decode
        if work.drafted and work.accepted is not None and work.accepted <= work.drafted:
            self.told += 1
            self.drafted += work.drafted
            self.accepted += work.accepted
            self.made += made
            # Drafts that reach beyond the end of a reply are counted as accepted, too.
            self.passes += max(work.steps or 0, made - work.accepted, 1)
            self.untold += work.steps is None

    @property
    def each(self) -> float:
        """Seconds for one more token of a prompt: the slope of a line through all requests, because some of the time
        of each is what any request takes; the mean where they do not tell these apart."""
        spread = self.requests * self.squares - self.computed * self.computed
        slope = (self.requests * self.products - self.computed * self.prefill) / spread if spread else 0.0
        mean = self.prefill / self.computed if self.computed else 0.0
        return slope if 0.0 < slope < mean else mean

    def figures(self) -> EngineFigures | None:
        """The figures so far."""
        if not self.requests:
            return None
        return EngineFigures(
            requests=self.requests,
            input=self.input,
            computed=self.computed,
            prefill=self.prefill,
            as_written=self.as_written if self.modelled else None,
            saved=(self.as_written - self.computed) * self.each if self.modelled else None,
            output=self.output if self.outputs else None,
            decode=self.decode,
            drafted=self.drafted if self.told else None,
            accepted=self.accepted if self.told else None,
            tokens_per_step=self.made / self.passes if self.told else None,
            at_most=bool(self.untold),
        )


# --- Sums of tools that were run early, and of calls that were answered by such runs ----------------------------------


@dataclass(slots=True)
class EarlySum:
    """Early runs and served calls of one group."""

    launched: int = 0
    served: int = 0
    remembered: int = 0
    stale: int = 0
    failed: int = 0
    unused: int = 0
    hidden: float = 0.0
    wasted: float = 0.0

    def run(self, tool: ToolRecord) -> None:
        """An early run, which is no call."""
        self.launched += 1
        self.stale += tool.fate == "stale"
        self.failed += tool.fate == "failed"
        self.unused += tool.fate == "unused"
        self.wasted += tool.wasted or 0.0

    def call(self, tool: ToolRecord) -> None:
        """A call, which may have been answered early."""
        self.remembered += tool.served_from == "memo"
        if tool.served_from in ("predicted", "asked"):
            self.served += 1
            self.hidden += tool.hidden or 0.0

    def early(self) -> Early:
        """The figures so far."""
        return Early(
            launched=self.launched,
            served=self.served,
            remembered=self.remembered,
            stale=self.stale,
            failed=self.failed,
            unused=self.unused,
            hidden=self.hidden,
            wasted=self.wasted,
        )
