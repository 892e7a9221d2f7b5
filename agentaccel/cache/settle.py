"""What a reply taught: the bill reconciled with the expectation, every miss named, and the next state.

A miss is tokens that an earlier prompt of the session held in the same place and that were not read. Its cause is
found by asking, in this order: was the usage reported; is it the first request; did the prompt change before the
place; was the entry gone by time; was there ever a marker; did this request's markers reach it; could it be seen yet.
What is left was the provider's doing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from agentaccel.cache.beliefs import IN_TIME, SHARED, Beliefs, Observation, goes_on_topic, is_history
from agentaccel.cache.ledger import Bill, Entry, Ledger, Mark, after, bill
from agentaccel.cache.marks import reaching, turn_of
from agentaccel.cache.observe import Observed, broken_place
from agentaccel.cache.places import PARAMETERS, TAIL
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.scale import Scale, scale
from agentaccel.cache.state import Head, State, shared_length
from agentaccel.facts import priors
from agentaccel.types import Cause, Expected, Miss, Usage

Held = Mapping[int, Entry]
"""Entries by the segment of this prompt that they end with."""


class Sent(NamedTuple):
    """One request as it went out and came back."""

    prefix: Prefixes
    """The prompt as sent, which is the prompt as written: markers are no part of it."""
    marks: tuple[Mark, ...]
    """All markers as sent."""
    written_marks: tuple[Mark, ...]
    """The user's markers alone."""
    started: float
    visible: float
    """When the reply began; entries can be read from then on."""
    usage: Usage
    ours: bool
    """Whether a marker of ours was among them."""


class Settled(NamedTuple):
    """What one reply amounts to."""

    state: State
    """The session's state for the next turn."""
    expected: Expected
    """What the ledger expected, with this request's exact total."""
    as_written: Usage | None
    """The bill of the request as the user wrote it; None where the provider reported nothing to scale it by."""
    reusable: int | None
    misses: tuple[Miss, ...]
    learned: tuple[Observation, ...]
    """What the workload's statistics gain by it."""


def settle(state: State, head: Head | None, sent: Sent, observed: Observed) -> Settled:
    """Fold one answered request into `state`; `head` is the prompt before it, if there was one."""
    prefix, usage = sent.prefix, sent.usage
    held = state.ledger.on(prefix)
    known = {i: entry.tokens for i, entry in held.items()}
    ratio = state.seen.bytes_per_token(prefix.prompt.model)
    tokens = scale(prefix, known, ratio, usage.input)
    predicted = _bill(prefix, sent.marks, state.ledger, tokens, sent.started)
    actual, exact = _actual(held, predicted, sent, tokens)
    ledger = after(state.ledger, prefix, actual, held, started=sent.started, visible=sent.visible, exact=exact)
    if exact:
        known |= exact
        tokens = scale(prefix, known, ratio, usage.input)
    ours = state.ours or sent.ours
    shadow, as_written = ledger, usage
    if ours and not sent.written_marks and not state.shadow.entries:
        # Nothing of the user's was ever cached: all of it would have been sent anew.
        shadow, as_written = state.shadow, Usage(input=usage.input, read=0, write={}, output=usage.output)
    elif ours:
        shadow_bill = _as_written(state, sent, actual.hit, tokens)
        there = state.shadow.on(prefix)
        shadow = after(state.shadow, prefix, shadow_bill, there, started=sent.started, visible=sent.visible, exact={})
        as_written = _usage(shadow_bill.expected, usage)
    turn, size, pace = turn_of(prefix.prompt), _size(prefix, usage), _pace(observed, usage)
    reusable = _reusable(held, head, prefix, tokens)
    return Settled(
        state=State(
            turns=state.turns + 1,
            ledger=ledger,
            shadow=shadow,
            seen=_seen(state, observed, pace).after(size),
            variants=observed.variants,
            cut=observed.cut,
            ours=ours,
            last_started=sent.started,
            last_visible=sent.visible,
            last_lifetime=_lifetime(sent),
            last_turn=turn,
            born=state.born if state.turns else prefix.prompt.messages,
        ),
        expected=predicted.expected,
        as_written=as_written if usage.input is not None else None,
        reusable=None if usage.input is None else reusable,
        misses=tuple(_misses(state, head, sent, predicted, reusable, tokens)),
        learned=(*_lasting(observed), *size, *_going_on(state, turn, observed, pace)),
    )


# --- the bill -------------------------------------------------------------------------------------------------------


def _bill(prefix: Prefixes, marks: Sequence[Mark], ledger: Ledger, tokens: Scale, now: float) -> Bill:
    valid = reaching(tokens, marks, prefix.facts.min_tokens)
    return bill(prefix, valid, lambda i: ledger.live(prefix.hashes[i], now), tokens, prefix.facts.positions)


def _as_written(state: State, sent: Sent, hit: int, tokens: Scale) -> Bill:
    """The bill of the request with the user's own markers alone.

    Where such a marker stands at or before the place that was read, its entry was held: had we not been there, the
    user's marker would have written it, in whichever session came first.
    """
    prefix, now = sent.prefix, sent.started
    valid = reaching(tokens, sent.written_marks, prefix.facts.min_tokens)
    held = {mark.at for mark in valid if mark.at <= hit}

    def live(i: int) -> bool:
        return i in held or state.shadow.live(prefix.hashes[i], now)

    return bill(prefix, valid, live, tokens, prefix.facts.positions)


def _actual(held: Held, predicted: Bill, sent: Sent, tokens: Scale) -> tuple[Bill, Mapping[int, int]]:
    """What the usage says that the request did, and the prefixes whose tokens it told exactly."""
    usage = sent.usage
    if usage.read is None:
        return predicted, {}
    written = usage.written or 0
    if not usage.read and not written:
        # Nothing was cached: the prefix was below the minimum, or nothing was marked.
        return predicted._replace(hit=-1, written=()), {}
    hit = _hit_of(held, predicted, sent, usage.read, tokens)
    marks = predicted.written or reaching(tokens, sent.marks, 0)
    kept = tuple(mark for mark in marks if written or mark.at <= hit)
    exact = {hit: usage.read} if hit >= 0 and usage.read else {}
    if written and marks:
        exact[marks[-1].at] = usage.read + written
    return Bill(hit=hit, expected=predicted.expected, written=kept), exact


def _hit_of(held: Held, predicted: Bill, sent: Sent, read: int, tokens: Scale) -> int:
    """The segment whose prefix the provider read: the entry with exactly that count, else the nearest by size."""
    if not read:
        return -1
    live = sorted(i for i, entry in held.items() if entry.live(sent.started))
    counted = [i for i in live if held[i].tokens == read]
    if counted:
        return counted[-1]
    near = live or range(len(sent.prefix.hashes))
    return min(near, key=lambda i: (abs(tokens(i) - read), i != predicted.hit), default=-1)


def _usage(expected: Expected, usage: Usage) -> Usage:
    """An expectation in whole tokens that add up to the provider's total."""
    total = usage.input or 0
    write = {label: round(tokens) for label, tokens in expected.write.items() if round(tokens) > 0}
    read = min(round(expected.read), total)
    excess = read + sum(write.values()) - total
    if excess > 0 and write:
        label = max(write, key=lambda label: write[label])
        write[label] = max(write[label] - excess, 0)
    return Usage(input=total, read=read, write=write, output=usage.output)


def _size(prefix: Prefixes, usage: Usage) -> tuple[Observation, ...]:
    if not usage.input:
        return ()
    return (Observation(f"bytes/{prefix.prompt.model}", float(prefix.size), float(usage.input)),)


# --- what was learned -----------------------------------------------------------------------------------------------


def _lasting(observed: Observed) -> tuple[Observation, ...]:
    """What other sessions can learn from: not where in its history this one was edited."""
    return tuple(one for one in observed.stability if not is_history(one.topic.removeprefix("stable/")))


def _seen(state: State, observed: Observed, pace: Sequence[Observation]) -> Beliefs:
    """The session's own observations after this request; a gap is remembered longer than a change."""
    return state.seen.after(observed.stability, priors().memory).after(pace, priors().pace_memory)


def _going_on(state: State, turn: int, observed: Observed, pace: Sequence[Observation]) -> tuple[Observation, ...]:
    """That this request was made, that the one before was followed by it, and what the gap between them showed."""
    made = Observation(goes_on_topic(turn), 0.0, 1.0)
    if observed.in_time is None:
        return (made,)
    return made, Observation(goes_on_topic(state.last_turn), 1.0, 0.0), *pace


def _pace(observed: Observed, usage: Usage) -> tuple[Observation, ...]:
    """What the gap before a request showed; a session's own gaps are the best guide to its next one."""
    if observed.in_time is None:
        return ()
    if observed.in_time:
        return (Observation(IN_TIME, 1.0),)
    if usage.read is None:
        return (Observation(IN_TIME, 0.0),)  # not reported is not zero: it says nothing of who shares
    # Too late for its own entries. What is read all the same, another session has kept warm.
    return Observation(IN_TIME, 0.0), Observation(SHARED, float(bool(usage.read)))


def _lifetime(sent: Sent) -> float:
    facts = sent.prefix.facts
    ttl = facts.ttl(sent.marks[-1].ttl) if sent.marks else None
    return (ttl or facts.ttls[0]).seconds


# --- misses ---------------------------------------------------------------------------------------------------------


def _reusable(held: Held, head: Head | None, prefix: Prefixes, tokens: Scale) -> int:
    """Tokens of this prompt that an earlier one of the session began with."""
    deepest = shared_length(head, prefix) - 1 if head is not None else -1
    return round(tokens(max(deepest, *held, -1)))


def _misses(state: State, head: Head | None, sent: Sent, predicted: Bill, reusable: int, tokens: Scale) -> list[Miss]:
    usage = sent.usage
    if usage.read is None or usage.input is None:
        return []
    if head is None and not state.turns:
        fresh = usage.input - usage.read
        return [Miss(cause=Cause.FIRST, tokens=fresh)] if fresh > 0 else []
    misses: list[Miss] = []
    if head is not None:
        misses.extend(_changed(head, sent.prefix, usage, max(reusable, usage.read)))
    lost = reusable - usage.read
    if lost <= _noise(reusable):
        return misses
    explained = min(lost, reusable - round(predicted.expected.read))
    if explained > _noise(reusable):
        lost -= explained
        cause, detail = _geometry(state, head, sent, predicted, tokens)
        if misses and cause is Cause.NOT_MARKED:
            # What lies between the longest entry and the place where the prompts part went with the change.
            misses[0] = replace(misses[0], tokens=misses[0].tokens + explained)
        else:
            misses.append(Miss(cause=cause, tokens=explained, detail=detail))
    if lost > _noise(reusable):
        misses.append(Miss(cause=Cause.EVICTED, tokens=lost, detail="a prefix that should have been held was not read"))
    return misses


def _noise(tokens: int) -> int:
    """Differences below this are the estimate's, not the cache's."""
    return max(32, tokens // 50)


def _changed(head: Head, prefix: Prefixes, usage: Usage, reusable: int) -> list[Miss]:
    """What the prompt before held behind the place where this one left it."""
    shared = shared_length(head, prefix)
    broken = broken_place(head, prefix, shared)
    if broken is None or head.tokens is None:
        return []
    lost = min(head.tokens, usage.input or 0) - reusable
    if lost <= _noise(head.tokens):
        return []
    if broken == PARAMETERS + "model":
        return [Miss(cause=Cause.MODEL, tokens=lost, detail="caches are kept per model")]
    if broken.startswith(PARAMETERS):
        return [Miss(cause=Cause.PARAMETER, tokens=lost, detail=broken[len(PARAMETERS) :])]
    if broken == TAIL and prefix.prompt.messages < head.messages:
        return [Miss(cause=Cause.CHANGED, tokens=lost, detail="edited history")]
    return [Miss(cause=Cause.CHANGED, tokens=lost, detail=broken)]


def _geometry(state: State, head: Head | None, sent: Sent, predicted: Bill, tokens: Scale) -> tuple[Cause, str]:
    """Why the ledger itself did not expect the reusable tokens to be read."""
    prefix, now = sent.prefix, sent.started
    minimum = prefix.facts.min_tokens
    if tokens(len(prefix.hashes) - 1) < minimum:
        return Cause.BELOW_MINIMUM, f"fewer than {minimum} tokens"
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
    return Cause.LOOKBACK, f"more than {prefix.facts.lookback} positions from the nearest marker"
