"""Why tokens were not read, concluded from usage and times alone: logs do not hold the prompts.

Every conclusion is labelled `inferred`. A cause is named only where the log shows it; what has no visible reason is
`UNKNOWN`, because a cause that is wrong half of the time is worth less than none.

The same place also says what a perfect cache would have read. That is the prompt before, as far as this one is as
long; after a switch of the model, what the new model had last seen; after a compaction at most the first prompt,
because the summary is new text. So a compaction or a switch can miss more tokens than a perfect cache would read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from agentaccel.facts import CacheFacts
from agentaccel.types import Cause, Miss, Usage

NAMED_SHARE = 0.1
"""A loss below this share of what could be read is not named: the end of a prompt lies behind its last marker, and
block boundaries and reminders that clients add move a few per cent in every request."""

NAMED_TOKENS = 1024
"""Nor is a loss below this: most models cache nothing shorter, so it cannot have been an entry of its own."""

SHRUNK_SHARE = 0.1
"""A prompt that is shorter by more than this than the one before was rewound or edited, not just trimmed."""


MENTIONED = 120.0
"""Seconds from which a pause is mentioned beside a loss that it does not explain."""


@dataclass(slots=True, kw_only=True)
class LoggedConversation:
    """What the requests of one conversation so far say about the next; changes with every request."""

    total: int | None = None
    """Input tokens of the last request."""
    first: int | None = None
    """Input tokens of the first one."""
    held: int = 0
    """Tokens that the last request read or wrote: the prefix that it left in the cache."""
    model: str = ""
    started: float = 0.0
    by_model: dict[str, int] = field(default_factory=dict)
    """Input tokens of the last request to each model."""
    lifetimes: set[str] = field(default_factory=set)
    """Labels of the lifetimes that the entries in use were written with."""


class Arrival(NamedTuple):
    """A request as far as the log tells of it; a named tuple, because a log has many and they are made faster."""

    model: str
    usage: Usage
    started: float
    """Seconds since the epoch; 0.0 where not known."""
    compacted: bool = False
    """Whether the log says that the history was compacted since the request before."""


def settle(before: LoggedConversation, now: Arrival, facts: CacheFacts | None) -> tuple[int | None, tuple[Miss, ...]]:
    """What a perfect cache would have read of `now`, and why the rest was missed; brings `before` up to date."""
    usage = now.usage
    if usage.input is None:
        return None, ()
    reusable = _reusable(before, now, usage.input)
    misses = _misses(before, now, facts) if usage.reported else ()
    _remember(before, now)
    return reusable, misses


def _reusable(before: LoggedConversation, now: Arrival, total: int) -> int:
    known = min(before.by_model.get(now.model, 0), total)
    return min(known, before.first or 0) if now.compacted else known


def _misses(before: LoggedConversation, now: Arrival, facts: CacheFacts | None) -> tuple[Miss, ...]:
    total, read = now.usage.input or 0, now.usage.read or 0
    if before.total is None:
        return (_miss(Cause.FIRST, total - read, ""),) if total > read else ()
    allowed = min(before.total, total)
    lost = allowed - read
    threshold = max(NAMED_SHARE * allowed, NAMED_TOKENS)
    if lost < threshold:
        return ()
    # Only where caching is asked for by markers does a prefix that was neither read nor written mean anything.
    unmarked = max(0, allowed - before.held) if facts is not None else 0
    if lost - unmarked < threshold:
        return (_miss(*_unmarked(allowed, lost, facts)),)
    named, detail = _cause(before, now, facts)
    if unmarked < threshold:
        return (_miss(named, lost, detail),)
    return (_miss(named, lost - unmarked, detail), _miss(*_unmarked(allowed, unmarked, facts)))


def _unmarked(allowed: int, tokens: int, facts: CacheFacts | None) -> tuple[Cause, int, str]:
    if facts is not None and allowed < facts.min_tokens:
        return Cause.BELOW_MINIMUM, tokens, f"prompts below {facts.min_tokens} tokens are not cached"
    return Cause.NOT_MARKED, tokens, "the request before neither read nor wrote these"


def _cause(before: LoggedConversation, now: Arrival, facts: CacheFacts | None) -> tuple[Cause, str]:
    """The one cause that the log shows, the most certain first."""
    previous, total, read = before.total or 0, now.usage.input or 0, now.usage.read or 0
    if now.compacted:
        return Cause.COMPACTED, f"history compacted: {previous:,} to {total:,} tokens"
    if now.model != before.model:
        return Cause.MODEL, f"{before.model} to {now.model}"
    expired = _expired(before, now, facts)
    if expired:
        return Cause.EXPIRED, expired
    if total < previous * (1 - SHRUNK_SHARE):
        return Cause.CHANGED, f"prompt shrank from {previous:,} to {total:,} tokens: rewound or edited"
    kept = f"the first {read:,} tokens were read" if read else "nothing was read"
    pause = now.started - before.started if before.started and now.started else 0.0
    return Cause.UNKNOWN, f"{kept}, after {pause / 60:.0f} min" if pause >= MENTIONED else kept


def _expired(before: LoggedConversation, now: Arrival, facts: CacheFacts | None) -> str:
    """What the pause outlived; empty where it did not, or where times or lifetimes are not known."""
    if facts is None or not before.started or not now.started:
        return ""
    pause = now.started - before.started
    known = [ttl for ttl in facts.ttls if ttl.label in before.lifetimes]
    gone = [ttl for ttl in known if pause > ttl.seconds]
    return f"pause of {pause / 60:.0f} min, entries live {gone[-1].label}" if gone else ""


def _remember(before: LoggedConversation, now: Arrival) -> None:
    total, read, write = now.usage.input, now.usage.read, now.usage.write or {}
    if total is not None and read == 0:
        before.lifetimes.clear()  # nothing older is in use any more
    held = read or 0
    for label, tokens in write.items():
        held += tokens
        if tokens:
            before.lifetimes.add(label)
    before.held, before.total = held, total
    if before.first is None:
        before.first = total
    before.model, before.started = now.model, now.started
    before.by_model[now.model] = total or 0


def _miss(cause: Cause, tokens: int, detail: str) -> Miss:
    return Miss(cause=cause, tokens=tokens, detail=detail, inferred=True)
