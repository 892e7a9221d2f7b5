"""How requests of one process that begin alike wait for one another, and what their sessions know of each other.

plan ─▶ Flight (what the request will write) ─▶ Turn.hold          Ended ─▶ what is held, for whoever begins so next
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from agentaccel.cache.breakpoints import both_ends, marks_of
from agentaccel.cache.ledger import Breakpoint, Entry, Ledger
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.state import SessionState
from agentaccel.clock import Clock
from agentaccel.engine.draft import Done, Planned, Settled, card_of
from agentaccel.engine.gate import Flight, HeldPrefix, Write, WriteGate
from agentaccel.facts import CacheFacts
from agentaccel.policy import Policy
from agentaccel.turn import Ended
from agentaccel.types import Endpoint

# --- What one session may take from the others of its process: prefixes that they have written or read ----------------

Lent = Mapping[bytes, Entry]
"""Entries of other sessions, by the hash of their prefix."""


def with_lent(state: SessionState, lent: Lent) -> SessionState:
    """What a session holds once it knows what others do."""
    return replace(state, ledger=Ledger({**state.ledger.entries, **lent})) if lent else state


def without_unread(state: SessionState, lent: Lent) -> SessionState:
    """The same without what it was lent and did not read: that is for the others to tell."""
    if not lent:
        return state

    def kept(ledger: Ledger) -> Ledger:
        return Ledger({hash_: one for hash_, one in ledger.entries.items() if lent.get(hash_) is not one})

    shadow = kept(state.shadow)
    return replace(state, ledger=shadow if state.shadow is state.ledger else kept(state.ledger), shadow=shadow)


_NONE: Lent = {}


@dataclass(slots=True)
class SharedPrefixes:
    """What the sessions of one `Accel` hold in common, and which request waits for which. Thread-safe."""

    policy: Policy
    clock: Clock
    write_gate: WriteGate

    def lent(self, state: SessionState, prefix: Prefixes, account: str, at: float, *, first: bool) -> Lent:
        """Of what `prefix` begins with, what others have kept longer than this session knows, at `at` (monotonic).

        Its `first` request may go on from what another has sent since that was asked.
        """
        facts = prefix.facts
        if not _shares(facts):
            return _NONE
        # A session that has gone on holds what it has in common with others in its static part.
        _, tools, static = prefix.starts
        places = range(len(prefix.hashes)) if first else range(max(tools - 1, 0), static)
        found = self.write_gate.held(account, [prefix.hashes[i] for i in places], at)
        if not found:
            return _NONE
        to_wall = self.clock.wall() - self.clock.monotonic()
        entries: dict[bytes, Entry] = {}
        for i in places:
            hash_ = prefix.hashes[i]
            held, own = found.get(hash_), state.ledger.entries.get(hash_)
            if held is not None and (own is None or own.expires < held.expires + to_wall):
                tokens = None if own is None else own.tokens
                entries[hash_] = Entry(
                    held.ttl, held.expires + to_wall, held.visible + to_wall, tokens, i, held.own and facts.controls
                )
        return entries

    def flight(self, planned: Planned, endpoint: Endpoint) -> Flight | None:
        """The request as others see it that begin alike; None for one that has little to write.

        One that goes out as written leads where its own markers write, and never waits.
        """
        facts, prefix, expected = planned.facts, planned.prefix, planned.plan.expected
        if facts is None or prefix is None or expected is None:
            return None
        if expected.total - expected.read < facts.min_tokens or not prefix.size or not _shares(facts):
            return None
        writes = _writes(planned, prefix, facts, endpoint.account + planned.apart)
        if not writes:
            return None
        policy, streamed = self.policy.cache, planned.streamed
        spent = self.write_gate.waited(planned.conversation.id) if planned.attempt else 0.0
        return Flight(
            write_gate=self.write_gate,
            writes=writes,
            kind=kind_of(planned, endpoint),
            total=expected.total,
            read=expected.read,
            streamed=streamed,
            at_most=policy.max_wait - spent if planned.mode == "on" and not facts.slots else 0.0,
            cost_per_second=1.0 if facts.self_hosted else policy.cost_per_second,
            price=partial(self._price, planned, tuple({write.entry.ttl for write in writes})),
        )

    def ended(self, planned: Planned, account: str, flight: Flight | None, ended: Ended) -> Planned:
        """The turn as it was sent, which may have been later than planned, and with what others held by then.

        Where the clock does not move during a request, what that itself has written seems to have been held already.
        """
        self.write_gate.came_to(planned.conversation.id, ended.waited or 0.0, nothing=ended.outcome == "failed")
        lent = _NONE
        if planned.prefix is not None:
            here, place = planned.conversation, account + planned.apart
            lent = self.lent(here.state, planned.prefix, place, ended.started, first=here.is_new)
            if flight is not None and flight.wrote:
                lent = {hash_: entry for hash_, entry in lent.items() if hash_ not in flight.wrote}
        if not lent and ended.waited is None:
            return planned
        later = ended.started - ended.asked
        return planned._replace(started=planned.started + later, waited=ended.waited, lent=lent)

    def settled(self, done: Done, settled: Settled) -> None:
        """Tell other sessions what this one is now known to hold."""
        planned, account, flight, ended = done.planned, done.endpoint.account, done.flight, done.reply
        facts = planned.facts
        if facts is None or not _shares(facts) or not ended.usage.reported:
            return
        to_wall = self.clock.wall() - self.clock.monotonic()
        seconds = {ttl.label: ttl.seconds for ttl in facts.ttls}
        known = planned.conversation.state.ledger.entries
        if flight is None and planned.prefix is not None:  # it has written little: nothing that others would wait for
            static = [planned.prefix.hashes[end - 1] for end in planned.prefix.starts[1:] if end]
            known = {hash_: known[hash_] for hash_ in static if hash_ in known}
        entries = {
            hash_: HeldPrefix(one.ttl, seconds.get(one.ttl, 0.0), one.own, one.visible - to_wall, one.expires - to_wall)
            for hash_, one in known.items()
            if one.expires > planned.started
        }
        told = flight if facts.physics != "automatic" else None
        self.write_gate.settled(told, account + planned.apart, entries, ended.usage.read or 0)

    def _price(self, planned: Planned, labels: tuple[str, ...]) -> float | None:
        """What reading a token saves over writing it, by the cheapest lifetime: in USD, or in seconds where the server
        is the user's own; None where it is not known.

        There a wait pays that takes less than twice of what it saves: so long the server is free for others, and so
        much sooner than otherwise this one is answered once its own part alone is to be computed.
        """
        expected, prompt, known = planned.plan.expected, planned.prompt, planned.conversation
        if planned.facts is not None and planned.facts.self_hosted:
            believed = known.snapshot.joined(known.state.seen)
            each = believed.prefill(prompt.model)
            # Behind several replicas, or without room for it, what was waited for is not there.
            return None if each is None else 2.0 * each * believed.alive()
        tokens = round(expected.total) if expected is not None else 0
        card = card_of(prompt, self.policy, tokens, at=planned.started)
        if card is None or card.read is None or planned.facts is None:
            return None
        free = {ttl.label for ttl in planned.facts.ttls if ttl.write == 1}
        writes = [card.input if label in free else card.write.get(label) for label in labels]
        prices = [write for write in writes if write is not None]
        return min(prices) - card.read if len(prices) == len(writes) else None


def kind_of(planned: Planned, endpoint: Endpoint) -> str:
    """What the first byte of such a request is learned under."""
    return f"{endpoint.provider} {planned.prompt.model} {'streamed' if planned.streamed else 'whole'}"


def _shares(facts: CacheFacts) -> bool:
    """Whether requests of different sessions are known to meet the same cache."""
    return facts.assured and facts.key != "sticks" and not facts.session_field


def _writes(planned: Planned, prefix: Prefixes, facts: CacheFacts, account: str) -> tuple[Write, ...]:
    """What the request is expected to write, the shortest prefix first; tokens by their share of the bytes."""
    expected = planned.plan.expected
    assert expected is not None
    scale = expected.total / prefix.size
    seconds = {ttl.label: ttl.seconds for ttl in facts.ttls}
    writes: dict[bytes, Write] = {}  # what is silent in the prompt repeats the hash before it
    for mark in _ends(planned, prefix, facts):
        tokens = prefix.sizes[mark.at] * scale
        if tokens >= facts.min_tokens and tokens > expected.read:
            hash_ = prefix.hashes[mark.at]
            writes[hash_] = Write((account, hash_), tokens, HeldPrefix(mark.ttl, seconds.get(mark.ttl, 0.0), mark.own))
    return tuple(writes.values())


def _ends(planned: Planned, prefix: Prefixes, facts: CacheFacts) -> tuple[Breakpoint, ...]:
    """Where entries end that others may read; where every prefix is kept, the ends that prompts usually share."""
    marks = marks_of(prefix, planned.markers_sent)
    if facts.physics != "automatic" or not marks:
        return marks
    prompt = planned.prompt
    segments, last = prompt.segments, len(prompt.lasting) - 1
    message = segments[last].path[:2]
    before = last
    while before >= 0 and segments[before].level == "messages" and segments[before].path[:2] == message:
        before -= 1
    _, system, messages = prefix.starts
    ends = sorted({system - 1, messages - 1, both_ends(prompt)[1], before, last} - {-1})
    return tuple(Breakpoint(at, marks[0].ttl, own=True) for at in ends)
