"""The provider's own reason for a missed prefix, beside the cause that we name: how often they say the same."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from agentaccel.records import TurnRecord
from agentaccel.report.block import Block
from agentaccel.report.numbers import clean
from agentaccel.types import Cause

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
