"""Why tokens of an earlier prompt were not read: every miss of one request, named.

A miss is tokens that an earlier prompt of the session held in the same place and that were not read. Its cause is
found by asking, in this order: was the usage reported; is it the first request; did the prompt change before the
place; was the entry gone by time; was there ever a marker; did this request's markers reach it; could it be seen yet.
What is left was the provider's doing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agentaccel.cache.beliefs import PARAMETERS, TAIL, is_history
from agentaccel.cache.ledger import Bill, in_steps
from agentaccel.cache.observe import broken_place
from agentaccel.cache.prefix import EDITED, Prefixes
from agentaccel.cache.scale import Scale
from agentaccel.cache.sent import Held, Sent
from agentaccel.cache.state import Head, State, shared_length
from agentaccel.facts import CacheFacts
from agentaccel.types import Cause, Miss, Usage


def reusable_of(held: Held, head: Head | None, prefix: Prefixes, tokens: Scale) -> int:
    """Tokens of this prompt that an earlier one of the session began with, where such are kept."""
    if not prefix.facts.assured:
        return 0
    deepest = shared_length(head, prefix) - 1 if head is not None else -1
    return round(in_steps(prefix.facts, tokens(max(deepest, *held, -1))))


def misses_of(state: State, head: Head | None, sent: Sent, predicted: Bill, reusable: int, tokens: Scale) -> list[Miss]:
    """The misses of one request, of whose tokens `reusable` stood at the start of an earlier one."""
    usage = sent.usage
    if usage.read is None or usage.input is None or not sent.prefix.facts.assured:
        return []
    if head is None and not state.turns:
        fresh = usage.input - usage.read
        return [Miss(cause=Cause.FIRST, tokens=fresh)] if fresh > 0 else []
    misses: list[Miss] = []
    if head is not None:
        misses.extend(_changed(head, sent.prefix, usage, max(reusable, usage.read)))
    facts = sent.prefix.facts
    inexact, noise = _inexact(reusable), _noise(reusable, facts)
    lost = reusable - usage.read
    if lost <= (noise if usage.read else inexact):
        return misses
    if facts.physics == "automatic" and reusable - inexact < facts.min_tokens:
        below = Miss(cause=Cause.BELOW_MINIMUM, tokens=lost, detail=_below(facts))
        return _with_change(misses, lost) or [below]
    # What was not expected is short of what could have been on the same scale: there is nothing to round.
    explained = min(lost, reusable - round(predicted.expected.read))
    if explained > inexact or 2 * explained > lost:
        lost -= explained
        cause, detail = _geometry(state, head, sent, predicted, tokens)
        joined = _with_change(misses, explained) if cause is Cause.NOT_MARKED else []
        misses = joined or [*misses, Miss(cause=cause, tokens=explained, detail=detail)]
    if lost > noise:
        misses.append(Miss(cause=Cause.EVICTED, tokens=lost, detail="a prefix that should have been held was not read"))
    return misses


def _with_change(misses: Sequence[Miss], tokens: int) -> list[Miss]:
    """The change among `misses`, if there is one, with `tokens` more: what lies between the longest entry and the place
    where the prompts part went with it."""
    return [replace(one, tokens=one.tokens + tokens) for one in misses]


def _inexact(tokens: int) -> int:
    """Differences up to this are the estimate's, not the cache's."""
    return max(32, tokens // 50)


def _noise(tokens: int, facts: CacheFacts) -> int:
    """Differences up to this may be the estimate's and, because reads come in steps, those of rounding on top of it."""
    return _inexact(tokens) + (facts.step + facts.report_step if facts.step > 1 else 0)


def _changed(head: Head, prefix: Prefixes, usage: Usage, reusable: int) -> list[Miss]:
    """What the prompt before held behind the place where this one left it."""
    shared = shared_length(head, prefix)
    broken = broken_place(head, prefix, shared)
    if broken is None or head.tokens is None:
        return []
    # Both in whole steps: no noise but the estimate's.
    lost = round(in_steps(prefix.facts, min(head.tokens, usage.input or 0))) - reusable
    if lost <= _inexact(head.tokens):
        return []
    if broken == PARAMETERS + "model":
        return [Miss(cause=Cause.MODEL, tokens=lost, detail="caches are kept per model")]
    if broken.startswith(PARAMETERS):
        return [Miss(cause=Cause.PARAMETER, tokens=lost, detail=broken[len(PARAMETERS) :])]
    if _edits(head.arranged) != _edits(prefix.prompt.arranged):
        return [Miss(cause=Cause.COMPACTED, tokens=lost, detail="edited with consent, as this request's plan says")]
    if broken == TAIL and prefix.prompt.messages < head.messages:
        return [Miss(cause=Cause.CHANGED, tokens=lost, detail="edited history")]
    if is_history(broken):
        last = prefix.prompt.opening + prefix.prompt.messages - 1
        at = prefix.prompt.segments[shared].path[1:2] if shared < len(prefix.prompt.segments) else (last,)
        what = "rewound to" if at == (last,) else "edited history:"
        return [Miss(cause=Cause.CHANGED, tokens=lost, detail=f"{what} {broken}")]
    return [Miss(cause=Cause.CHANGED, tokens=lost, detail=broken)]


def _edits(arranged: frozenset[str]) -> frozenset[str]:
    """What tells our own edits of a history apart."""
    return frozenset(name for name in arranged if name.startswith(EDITED))


def _geometry(state: State, head: Head | None, sent: Sent, predicted: Bill, tokens: Scale) -> tuple[Cause, str]:
    """Why the ledger itself did not expect the reusable tokens to be read."""
    prefix, now = sent.prefix, sent.started
    if tokens(len(prefix.hashes) - 1) < prefix.facts.min_tokens:
        return Cause.BELOW_MINIMUM, _below(prefix.facts)
    if not sent.marks:
        return Cause.NOT_MARKED, "this request carried no marker"
    entries = state.ledger.on(prefix)
    longest = max(entries, default=-1)
    if longest <= predicted.hit:
        return Cause.NOT_MARKED, "no earlier request had marked it"
    entry = entries[longest]
    if now >= entry.expires:
        idle = now - (head.started if head is not None else state.last_started or now)
        return Cause.EXPIRED, f"{idle:.0f} s since the last request; entries marked {entry.ttl} were gone"
    if now < entry.visible:
        return Cause.CONCURRENT, "the request that writes it had not been answered yet"
    if prefix.facts.physics == "breakpoints":
        return Cause.LOOKBACK, "no breakpoint of this request stands where an earlier one wrote"
    return Cause.LOOKBACK, f"more than {prefix.facts.lookback} positions from the nearest marker"


def _below(facts: CacheFacts) -> str:
    return f"fewer than {facts.min_tokens} tokens"
