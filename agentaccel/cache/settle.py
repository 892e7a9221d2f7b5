"""What a reply taught: the bill reconciled with the expectation, and the next state; `misses` has what was not read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from agentaccel.cache.beginnings import beginning_ends
from agentaccel.cache.beliefs import Observation
from agentaccel.cache.ledger import Bill, Entry, Ledger, Mark, after, bill, counted, in_steps
from agentaccel.cache.marks import reaching
from agentaccel.cache.misses import misses_of, reusable_of
from agentaccel.cache.observe import Observed
from agentaccel.cache.prefix import Prefixes, turn_of
from agentaccel.cache.scale import Scale, scale
from agentaccel.cache.sent import Held, Sent
from agentaccel.cache.state import Head, State, shared_length
from agentaccel.cache.teach import teach
from agentaccel.types import Expected, Miss, Usage


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
    if head is not None and (prefix.facts.physics == "automatic" or prefix.facts.ages == "blocks"):
        state = _with_shared(state, head, prefix)
    held = state.ledger.on(prefix)
    known = {i: entry.tokens for i, entry in held.items()}
    ratio = state.seen.bytes_per_token(prefix.prompt.model)
    tokens = scale(prefix, known, ratio, usage.input)
    predicted = _bill(prefix, sent.marks, state.ledger, tokens, sent.started)
    actual, exact = _actual(state, held, predicted, sent, tokens)
    ledger = after(state.ledger, prefix, actual, held, started=sent.started, visible=sent.visible, exact=exact)
    if exact:
        known |= exact
        tokens = scale(prefix, known, ratio, usage.input)
    ours = state.ours or sent.ours
    shadow, as_written = ledger, usage
    if ours:
        shadow, as_written = _unaided(state, sent, actual.hit, tokens)
    told = usage.input is not None and not (ours and _may_be_others(state, sent, actual.hit, as_written))
    taught = teach(state, sent, observed, predicted, None if head is None else head.tokens)
    reusable = reusable_of(held, head, prefix, tokens)
    misses = tuple(misses_of(state, head, sent, predicted, reusable, tokens))
    return Settled(
        state=State(
            turns=state.turns + 1,
            ledger=ledger,
            shadow=shadow,
            seen=taught.seen,
            variants={**state.variants, **observed.variants} if state.variants else observed.variants,
            cut=observed.cut,
            ours=ours,
            last_started=sent.started,
            last_visible=sent.visible,
            last_lifetime=_lifetime(sent),
            last_turn=prefix.turn,
            awaits=sent.awaits,
            born=state.born if state.turns else prefix.prompt.messages,
            cleared=state.cleared,
            route=state.route,
            standing=None if misses else sent.standing,
        ),
        expected=predicted.expected,
        as_written=as_written if told else None,
        reusable=None if usage.input is None else reusable,
        misses=misses,
        learned=taught.lasting,
    )


def _with_shared(state: State, head: Head, prefix: Prefixes) -> State:
    """Where every prefix is kept, what this prompt shares with the one before is held as long as that one."""
    shared = shared_length(head, prefix) - 1
    whole = state.ledger.entries.get(head.hashes[-1]) if shared >= 0 else None
    if whole is None or prefix.hashes[shared] in state.ledger.entries:
        return state
    entry = Entry(whole.ttl, whole.expires, whole.visible, at=shared)
    return replace(state, ledger=Ledger({**state.ledger.entries, prefix.hashes[shared]: entry}))


# --- the bill -------------------------------------------------------------------------------------------------------


def _bill(prefix: Prefixes, marks: Sequence[Mark], ledger: Ledger, tokens: Scale, now: float) -> Bill:
    valid = reaching(tokens, marks, prefix.facts.min_tokens)
    own = prefix.facts.physics != "breakpoints" or any(mark.own for mark in marks)
    return bill(prefix, valid, lambda i: ledger.live(prefix.hashes[i], now, own=own), tokens, prefix.facts.positions)


def _unaided(state: State, sent: Sent, hit: int, tokens: Scale) -> tuple[Ledger, Usage]:
    """What would be held, and the bill, had every request been sent as the user wrote it."""
    prefix, usage = sent.as_written, sent.usage
    if sent.written is not None:
        # The provider counted what was sent: as it was written, the prompt was about as much shorter as its bytes tell.
        if usage.input is not None and sent.prefix.size:
            usage = replace(usage, input=round(usage.input * prefix.size / sent.prefix.size))
        known = {i: entry.tokens for i, entry in state.shadow.on(prefix).items()}
        tokens = scale(prefix, known, state.seen.bytes_per_token(prefix.prompt.model), usage.input)
        hit = min(hit, shared_length(prefix, sent.prefix) - 1)
    if not sent.written_marks and not state.shadow.entries:
        # Nothing of the user's was ever cached: all of it would have been sent anew.
        return state.shadow, Usage(input=usage.input, read=0, write={}, output=usage.output)
    there = state.shadow.on(prefix)
    done = _as_written(state, sent, hit, tokens)
    if sent.intact and _goes_on_in_time(state, sent):
        done = _inside_a_segment(done, prefix, sent.intact)
    shadow = after(state.shadow, prefix, done, there, started=sent.started, visible=sent.visible, exact={})
    return shadow, _usage(done.expected, usage)


def _may_be_others(state: State, sent: Sent, hit: int, unaided: Usage) -> bool:
    """Whether the request might have read more as it was written than is known here: what it read is known from another
    session alone, which has sent that history too; where the user's markers stood there is not known."""
    prefix = sent.prefix
    if sent.written is not None and sent.written_marks and sent.first and not state.shadow.entries:
        return turn_of(sent.written.prompt) > 0  # what was edited may have been held as it was written
    if hit < 0 or not sent.written_marks or (unaided.read or 0) >= _LEAST * (sent.usage.read or 0):
        return False
    hash_ = prefix.hashes[hit]
    own = state.ledger.entries.get(hash_)
    if own is not None and own is not sent.lent.get(hash_) and own.live(sent.started):
        return False
    return turn_of(prefix.prompt) > 0  # a first question begins like others where these begin alike


def _goes_on_in_time(state: State, sent: Sent) -> bool:
    return state.last_started is not None and sent.started - state.last_started < state.last_lifetime


def _inside_a_segment(done: Bill, prefix: Prefixes, intact: int) -> Bill:
    """The bill where a provider keeps every prefix: also those that end within a text, before what changes in it."""
    facts, bill_ = prefix.facts, done.expected
    read = counted(facts, bill_.total * intact / max(prefix.size, 1))
    if facts.physics != "automatic" or read <= bill_.read:
        return done
    return done._replace(expected=Expected(read=read, write={}, uncached=bill_.total - read))


def _as_written(state: State, sent: Sent, hit: int, tokens: Scale) -> Bill:
    """The bill of the request with the user's own markers alone.

    Where such a marker stands at or before the place that was read, and others may have written there (`_alike`), its
    entry was held: had we not been there, the user's marker would have written it, in whichever session came first.
    """
    prefix, now = sent.as_written, sent.started
    valid = reaching(tokens, sent.written_marks, prefix.facts.min_tokens)
    held = {mark.at for mark in valid if mark.at <= min(hit, _alike(state, prefix))}

    def live(i: int) -> bool:
        return i in held or state.shadow.live(prefix.hashes[i], now)

    return bill(prefix, valid, live, tokens, prefix.facts.positions)


def _alike(state: State, prefix: Prefixes) -> int:
    """The last segment that another session may have written an entry for: what stands behind it, only this one has."""
    return max(beginning_ends(prefix, state.born).values(), default=0) - 1 if state.turns else len(prefix.hashes) - 1


def _actual(state: State, held: Held, predicted: Bill, sent: Sent, tokens: Scale) -> tuple[Bill, Mapping[int, int]]:
    """What the usage says that the request did, and the prefixes whose tokens it told exactly."""
    usage, facts, last = sent.usage, sent.prefix.facts, len(sent.prefix.hashes) - 1
    if usage.read is None:
        return predicted, {}
    if facts.physics == "automatic":
        hit = _hit_of(state, held, predicted, sent, tokens)
        told = {hit: usage.read} if hit >= 0 and facts.step == 1 else {}
        # The whole prompt is kept, and its tokens are told; a read of it is not always all of it.
        return predicted._replace(hit=hit), told | {
            mark.at: usage.input for mark in predicted.written if usage.input and mark.at == last
        }
    written = usage.written or 0
    if not usage.read and not written:
        # Nothing was cached: the prefix was below the minimum, or nothing was marked.
        return predicted._replace(hit=-1, written=()), {}
    hit = _hit_of(state, held, predicted, sent, tokens)
    marks = predicted.written or reaching(tokens, sent.marks, 0)
    kept = tuple(mark for mark in marks if written or mark.at <= hit)
    exact = {hit: usage.read} if hit >= 0 and usage.read else {}
    if written and marks:
        exact[marks[-1].at] = usage.read + written
    return Bill(hit=hit, expected=predicted.expected, written=kept), exact


def _hit_of(state: State, held: Held, predicted: Bill, sent: Sent, tokens: Scale) -> int:
    """The segment whose prefix the provider read: the entry with exactly that count, else the nearest by size."""
    read = sent.usage.read
    if not read:
        return -1
    counted = [i for i, entry in held.items() if entry.tokens == read and entry.live(sent.started)]
    if counted:
        return max(counted)
    live = sorted([i for i, entry in held.items() if entry.live(sent.started)])
    # Others may hold what this session marked and did not hold any more.
    marked, alike = [mark.at for mark in sent.marks], _alike(state, sent.prefix)
    near: Sequence[int] = sorted({*live, *(at for at in marked if at <= alike)})
    if not near or tokens(near[-1]) < _LEAST * read:  # as where another process has gone on, and this one cannot know
        near = sorted({*live, *marked}) if live else range(len(sent.prefix.hashes))
    if sent.usage.written and predicted.written:  # what was written reaches to the last marker, so less was read
        near = [i for i in near if i < predicted.written[-1].at] or near
    facts = sent.prefix.facts
    return min(near, key=lambda i: (abs(in_steps(facts, tokens(i)) - read), i != predicted.hit, -i), default=-1)


_LEAST = 0.9
"""What an entry may seem to have of the tokens that were read from it: an estimate may be out by the rest."""


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


def _lifetime(sent: Sent) -> float:
    facts = sent.prefix.facts
    ttl = facts.ttl(sent.marks[-1].ttl) if sent.marks else None
    return (ttl or facts.ttls[0]).seconds
