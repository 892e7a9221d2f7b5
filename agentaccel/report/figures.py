"""What a report says, as values: every figure is exact, and None where it is not known, never zero."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from agentaccel.records import TurnRecord
from agentaccel.report.bill import Costs, Tokens
from agentaccel.report.numbers import Block, clean
from agentaccel.report.period import Period
from agentaccel.types import Cause

if TYPE_CHECKING:
    from agentaccel.report.advise.nouns import Advice


# --- The provider's own reason for a missed prefix, beside the cause that we name: how often they say the same --------

Verdict = Literal["same", "differs", "provider only", "not compared"]

_CHANGED = frozenset({Cause.CHANGED})
_PARAMETER = frozenset({Cause.PARAMETER})
_SAME = {
    "model_changed": frozenset({Cause.MODEL}),
    "system_changed": _CHANGED,
    "tools_changed": _CHANGED,
    "messages_changed": frozenset({Cause.CHANGED, Cause.COMPACTED}),
    "input_changed": frozenset({Cause.CHANGED, Cause.COMPACTED}),
    "context_compacted": frozenset({Cause.COMPACTED}),
    "prompt_cache_key_changed": _PARAMETER,
    "text_format_changed": _PARAMETER,
    "reasoning_effort_changed": _PARAMETER,
    "verbosity_changed": _PARAMETER,
    "service_tier_changed": _PARAMETER,
}
"""Our causes that say what a reason says. Source: Anthropic, build-with-claude/cache-diagnostics (2026-09-26); OpenAI,
`prompt_cache_diagnostics` of the Responses API (2026-11). A reason that is not here says nothing of the prompt, as
`unavailable`, or is new."""

NOTHING = "nothing missed"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictRow:
    """Requests of which the provider named a reason, by that and by what we say of them."""

    reason: str
    """The provider's word."""
    ours: str
    """Our cause of the most tokens that were missed, or "nothing missed"."""
    requests: int
    verdict: Verdict
    """"provider only" where we have no explanation, "not compared" where the reason says nothing of the prompt."""


class Verdicts:
    """Adds up what both say."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, turn: TurnRecord) -> None:
        """One request of which the provider named a reason."""
        largest = max(turn.misses, key=lambda miss: miss.tokens, default=None)
        self._counts[turn.diagnosis or "", NOTHING if largest is None else str(largest.cause)] += 1

    def merge(self, other: Verdicts) -> None:
        """Those of another group."""
        if other._counts:
            self._counts += other._counts

    def rows(self) -> tuple[VerdictRow, ...]:
        """The most frequent first."""
        return tuple(
            VerdictRow(reason=reason, ours=ours, requests=count, verdict=_verdict(reason, ours))
            for (reason, ours), count in sorted(self._counts.items(), key=lambda item: (-item[1], item[0]))
        )


def _verdict(reason: str, ours: str) -> Verdict:
    same = _SAME.get(reason)
    if same is None:
        return "not compared"
    if ours == Cause.UNKNOWN:
        return "provider only"
    return "same" if ours in same else "differs"


def verdict_block(rows: tuple[VerdictRow, ...]) -> Block:
    """Where the provider said why, and where it says something else than we do."""
    shown = tuple((clean(row.reason), f"{row.requests:,}", row.ours, row.verdict) for row in rows)
    differ = sum(row.requests for row in rows if row.verdict == "differs")
    after = f"In {differ:,} of {sum(row.requests for row in rows):,} requests the two differ." if rows else ""
    return Block(
        title="The provider's own reason", header=("reason", "requests", "cause", "verdict"), rows=shown, after=after
    )


By = Literal["session", "agent", "model", "tenant", "day", "week", "month"]
"""What the groups of a report are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRow:
    """What one cause cost."""

    cause: Cause
    inferred: bool
    """Concluded from usage and times, without having seen the prompts."""
    misses: int
    tokens: int
    usd: float | None
    """Beyond the price of reading them; None where none of them has a known price."""
    seconds: float | None = None
    """In which a server of the user's own computed them again; None at providers'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BesideRow:
    """What was missed beside something that is known to cost something at the cache, as middleware of a framework."""

    name: str
    requests: int
    """Those that it stood beside."""
    causes: tuple[CauseRow, ...]
    """Misses of the kinds that it brings about, by tokens, most first; others may have brought about some of them."""
    says: str
    """What its settings cost, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One of the largest misses."""

    cause: Cause
    inferred: bool
    tokens: int
    session: str
    started: float
    """When the request was sent, in seconds since the epoch; 0.0 where not known."""
    detail: str
    """What is known about it: a place in the prompt, a pause, two sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """Seconds from the request to the first byte of the reply."""

    count: int
    p50: float | None
    p90: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFigures:
    """The work of servers that the user runs, over the requests of which their time is known."""

    requests: int
    input: int
    """Tokens of the prompts."""
    computed: int
    """Those of them that were not kept."""
    prefill: float
    """Seconds in which they were computed."""
    as_written: int | None
    """What would have been computed of the prompts as the user wrote them; None where no request was modelled."""
    saved: float | None
    """Seconds that this would have taken longer, by what one more token takes; negative where less. None as above."""
    output: int | None
    """Tokens of those replies of which the time that they took is known."""
    decode: float
    """Seconds in which they were made."""
    drafted: int | None
    """Tokens that were drafted; None where no reply tells."""
    accepted: int | None
    tokens_per_step: float | None
    """Tokens of drafted replies for each pass of the model; None where no reply tells."""
    at_most: bool
    """True if passes that checked drafts are not told everywhere, so that there may have been more of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """Requests that were held back for another one to write the prefix that both begin with."""

    count: int
    seconds: float
    """Of all of them; before they were sent, and in no latency."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRequestFigures:
    """Requests of our own, of one kind. Part of what was paid, and of no other figure."""

    requests: int
    tokens: Tokens
    usd: float | None
    """None where none of them has a known price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTime:
    """How tools took part in the time that agents were at work."""

    calls: int
    failed: int
    unfinished: int
    """Calls without a result."""
    seconds: float
    """Time in which at least one tool was running; overlapping ones count once."""
    active: float
    """Time in which a model or a tool was running. Gaps between them are taken to be waits for people."""

    @property
    def share(self) -> float | None:
        """Share of the active time spent in tools; None without times."""
        return self.seconds / self.active if self.active else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Early:
    """Tools that were run before their call, and calls that were answered without a run of their own."""

    launched: int
    """Runs begun early; none of them is in `ToolTime`."""
    served: int
    """Calls that one of them answered."""
    remembered: int
    """Calls that were answered by the result of an earlier call."""
    stale: int
    failed: int
    unused: int
    hidden: float
    """Seconds of runs for which no call waited: overlapped with other work, which need not be time saved."""
    wasted: float
    """Seconds of early runs that answered no call."""

    @property
    def waste_per_hit(self) -> float | None:
        """Early runs that answered no call for each one that did; None where none did."""
        return (self.stale + self.failed + self.unused) / self.served if self.served else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Input tokens that count against a limit per minute, over requests whose rules are known."""

    counted: int | None
    """As the provider counts them: without cache reads where those are free."""
    everything: int | None
    """Had cache reads counted, too."""
    peak_counted: int | None
    """The same in the busiest minute; None for groups that share a limit with others, or without times."""
    peak_everything: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRow:
    """Requests of one mode: "on", "observe", "holdout", "bypass", "batch", or "log" for imported ones."""

    mode: str
    requests: int
    hit_rate: float | None
    paid: float | None
    """USD of input tokens of those that have a price."""
    priced: int
    """How many have one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Sessions that `holdout` left as written beside those that agentaccel acted on; USD per 1,000 input tokens."""

    sessions: int
    """In the control group, of those that have a price."""
    others: int
    """Sessions that agentaccel acted on."""
    usd_control: float
    usd_others: float
    saved: float
    """By how much the others were cheaper; negative where they were dearer."""
    low: float | None
    """Of the 95 % interval of `saved`; None where a group is too small for one."""
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The figures of one session, agent, model, tenant, day, week or month, or of everything."""

    name: str
    sessions: int
    sessions_unreported: int
    """Sessions in which no request reported what the cache did: n/a, not zero."""
    subagents: int
    """Those of `sessions` that were opened from another session."""
    requests: int
    """Answered requests, and others that have usage."""
    unreported: int
    """Those of `requests` that did not report what the cache did."""
    attempts: Mapping[str, int]
    """Requests that did not end well, by outcome. Those without usage are not part of `requests`."""
    unclear: Mapping[str, int]
    """Requests that have no cost because nobody knows what a term of theirs does to the price, by term."""
    doubted: Mapping[str, int]
    """Requests of which counters contradict one another or are not understood, by the name of the counter: what that
    would tell is n/a."""
    tokens: Tokens
    costs: Costs
    causes: tuple[CauseRow, ...]
    """By tokens, most first."""
    beside: tuple[BesideRow, ...]
    """By name; the JSON form has it where there are some."""
    verdicts: tuple[VerdictRow, ...]
    """The provider's own reasons, where it was asked for them, beside our causes."""
    engine: EngineFigures | None
    """None where no request went to a server of the user's own whose time is known."""
    warm: Latency
    """Of requests that read from the cache."""
    cold: Latency
    """Of requests that read nothing."""
    unstreamed: int
    """Requests whose reply was recorded as it came, and was not asked for as a stream: it has no first byte."""
    holds: Holds
    kept: OwnRequestFigures
    """Those that kept entries alive."""
    prewarmed: OwnRequestFigures
    """Those that had a prefix written ahead of its request."""
    tools: ToolTime
    early: Early
    limits: Limits
    modes: tuple[ModeRow, ...]
    control: Control | None
    """None without priced sessions in both groups."""

    @property
    def metered(self) -> int:
        """Those of `requests` that have usage: only they are in a sum of tokens."""
        return self.costs.priced + self.costs.unpriced


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the records say, in all and by group."""

    by: By
    causes: bool
    """Whether the causes of every group are to be shown, and examples."""
    total: Group
    more: int
    """Groups that are left out of `groups`, which has the first so many that were asked for."""
    groups: tuple[Group, ...]
    """By input tokens, most first; days, weeks and months in their order."""
    first: float | None
    """When the first request was sent, in seconds since the epoch."""
    last: float | None
    examples: tuple[Example, ...]
    """The largest misses that are not first requests."""
    causes_by_agent: Mapping[str, tuple[Cause, ...]]
    """The causes of misses that each agent met, whatever the groups are."""
    period: Period
    """What it was to be over, and the zone of its days."""
    advice: tuple[Advice, ...] | None = None
    """What to change first; None where nobody asked."""
    notes: tuple[str, ...]
    """What the reader should know about the input: files and lines that were skipped, prices that are missing."""
    gaps: tuple[str, ...] = ()
    """Those of `notes` that say what could not be read or understood: the figures are of the rest."""

    @property
    def empty(self) -> bool:
        return not self.total.requests and not self.total.attempts and not self.total.tools.calls
