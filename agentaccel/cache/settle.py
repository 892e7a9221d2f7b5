"""What a reply taught: the bill reconciled with the expectation, and the next state; `misses` has what was not read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from agentaccel.cache.beliefs import PARAMETERS, TAIL, Observation, is_history
from agentaccel.cache.breakpoints import reaching
from agentaccel.cache.ledger import Breakpoint, CacheBill, Entry, Ledger, after, bill, counted, in_steps
from agentaccel.cache.observe import Observed, broken_place
from agentaccel.cache.prefix import EDITED, Prefixes, Scale, scale, turn_of
from agentaccel.cache.sharing import beginning_ends
from agentaccel.cache.state import PreviousPrompt, SessionState, shared_length
from agentaccel.cache.teach import Held, Sent, teach
from agentaccel.facts import CacheFacts
from agentaccel.types import Cause, Expected, Miss, Usage

# --- Why tokens of an earlier prompt were not read: every miss of one request, named ----------------------------------
# A miss is tokens that an earlier prompt of the session held in the same place and that were not read. Its cause is
# found by asking, in this order: was the usage reported; is it the first request; did the prompt change before the
# place; was the entry gone by time; was there ever a marker; did this request's markers reach it; could it be seen
# yet. What is left was the provider's doing.


def reusable_of(held: Held, head: PreviousPrompt | None, prefix: Prefixes, tokens: Scale) -> int:
    """Tokens of this prompt that an earlier one of the session began with, where such are kept."""
    if not prefix.facts.assured:
        return 0
    deepest = shared_length(head, prefix) - 1 if head is not None else -1
    return round(in_steps(prefix.facts, tokens(max(deepest, *held, -1))))


def misses_of(
    state: SessionState,
    head: PreviousPrompt | None,
    sent: Sent,
    predicted: CacheBill,
    reusable: int,
    tokens: Scale,
    others: int | None = None,
) -> list[Miss]:
    """The misses of one request, of whose tokens `reusable` stood at the start of an earlier one; `others` as in
    `Observed`."""
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
        cause, detail = _gone(facts, others)
        misses.append(Miss(cause=cause, tokens=lost, detail=detail))
    return misses


def _gone(facts: CacheFacts, others: int | None) -> tuple[Cause, str]:
    """Why what should have been held was not read, as far as can be told: by whom else the server was asked since."""
    if not facts.self_hosted or others is None:
        return Cause.EVICTED, "a prefix that should have been held was not read"
    if not others:
        return Cause.EVICTED, "this process asked for nothing else since: another user of the server, or a restart"
    since = f"{others} other conversation{'s' * (others > 1)} went to this server since"
    return (Cause.SLOT_TAKEN if facts.slots else Cause.EVICTED), since


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


def _changed(head: PreviousPrompt, prefix: Prefixes, usage: Usage, reusable: int) -> list[Miss]:
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
    if prefix.facts.salt_field and broken == PARAMETERS + prefix.facts.salt_field:
        return [Miss(cause=Cause.OTHER_SALT, tokens=lost, detail=f"another {prefix.facts.salt_field} than before")]
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


def _geometry(
    state: SessionState, head: PreviousPrompt | None, sent: Sent, predicted: CacheBill, tokens: Scale
) -> tuple[Cause, str]:
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


class Reconciled(NamedTuple):
    """What one reply amounts to."""

    state: SessionState
    """The session's state for the next turn."""
    expected: Expected
    """What the ledger expected, with this request's exact total."""
    as_written: Usage | None
    """The bill of the request as the user wrote it; None where the provider reported nothing to scale it by."""
    reusable: int | None
    misses: tuple[Miss, ...]
    learned: tuple[Observation, ...]
    """What the workload's statistics gain by it."""


def settle(state: SessionState, head: PreviousPrompt | None, sent: Sent, observed: Observed) -> Reconciled:
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
    misses = tuple(misses_of(state, head, sent, predicted, reusable, tokens, observed.others))
    return Reconciled(
        state=SessionState(
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
        expected=_nothing_read(predicted.expected) if observed.given_up else predicted.expected,
        as_written=as_written if told else None,
        reusable=None if usage.input is None else reusable,
        misses=misses,
        learned=taught.lasting,
    )


def _nothing_read(expected: Expected) -> Expected:
    return replace(expected, read=0.0, uncached=expected.uncached + expected.read)


def _with_shared(state: SessionState, head: PreviousPrompt, prefix: Prefixes) -> SessionState:
    """Where every prefix is kept, what this prompt shares with the one before is held as long as that one."""
    shared = shared_length(head, prefix) - 1
    whole = state.ledger.entries.get(head.hashes[-1]) if shared >= 0 else None
    if whole is None or prefix.hashes[shared] in state.ledger.entries:
        return state
    entry = Entry(whole.ttl, whole.expires, whole.visible, at=shared)
    return replace(state, ledger=Ledger({**state.ledger.entries, prefix.hashes[shared]: entry}))


# --- the bill ---------------------------------------------------------------------------------------------------------


def _bill(prefix: Prefixes, marks: Sequence[Breakpoint], ledger: Ledger, tokens: Scale, now: float) -> CacheBill:
    valid = reaching(tokens, marks, prefix.facts.min_tokens)
    own = prefix.facts.physics != "breakpoints" or any(mark.own for mark in marks)
    return bill(prefix, valid, lambda i: ledger.live(prefix.hashes[i], now, own=own), tokens, prefix.facts.positions)


def _unaided(state: SessionState, sent: Sent, hit: int, tokens: Scale) -> tuple[Ledger, Usage]:
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


def _may_be_others(state: SessionState, sent: Sent, hit: int, unaided: Usage) -> bool:
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


def _goes_on_in_time(state: SessionState, sent: Sent) -> bool:
    return state.last_started is not None and sent.started - state.last_started < state.last_lifetime


def _inside_a_segment(done: CacheBill, prefix: Prefixes, intact: int) -> CacheBill:
    """The bill where a provider keeps every prefix: also those that end within a text, before what changes in it."""
    facts, bill_ = prefix.facts, done.expected
    read = counted(facts, bill_.total * intact / max(prefix.size, 1))
    if facts.physics != "automatic" or read <= bill_.read:
        return done
    return done._replace(expected=Expected(read=read, write={}, uncached=bill_.total - read))


def _as_written(state: SessionState, sent: Sent, hit: int, tokens: Scale) -> CacheBill:
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


def _alike(state: SessionState, prefix: Prefixes) -> int:
    """The last segment that another session may have written an entry for: what stands behind it, only this one has."""
    return max(beginning_ends(prefix, state.born).values(), default=0) - 1 if state.turns else len(prefix.hashes) - 1


def _actual(
    state: SessionState, held: Held, predicted: CacheBill, sent: Sent, tokens: Scale
) -> tuple[CacheBill, Mapping[int, int]]:
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
    return CacheBill(hit=hit, expected=predicted.expected, written=kept), exact


def _hit_of(state: SessionState, held: Held, predicted: CacheBill, sent: Sent, tokens: Scale) -> int:
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
