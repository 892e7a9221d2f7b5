"""Whether, and when, a request of our own is to keep what a session has in the cache, while the session pauses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from agentaccel.cache.beliefs import Beliefs
from agentaccel.cache.keep import Kept, keeping
from agentaccel.cache.ledger import Entry, rearmed
from agentaccel.cache.pauses import ANY, USER, after_request, has_ended_after, pauses
from agentaccel.cache.places import find
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.state import State
from agentaccel.types import Usage


class Warming(NamedTuple):
    """What is to be done about the pause that has begun."""

    waits: tuple[float, ...]
    """Seconds from each use of the entries to the next request; at least one."""
    at: int
    """The segment that ends the prefix which is kept."""
    held: tuple[Kept, ...]
    """That prefix and, where a shorter one lives longer, that one."""
    beside: float
    """Tokens of the prompt behind that prefix, which each request pays in full."""

    def due(self, last_used: float, sent: int) -> float | None:
        """When the next request is due, once `sent` of them were, the last use being at `last_used`; None for never."""
        return last_used + self.waits[sent] if sent < len(self.waits) else None

    def expires(self, last_used: float, sent: int) -> float:
        """Until when that request finds what it is to keep."""
        return last_used + self._found(sent).ttl.seconds

    def expected(self, sent: int) -> Usage:
        """What that request is expected to be billed for."""
        whole, found = round(self.held[0].tokens), round(self._found(sent).tokens)
        write = {self.held[0].ttl.label: whole - found} if whole > found else {}
        return Usage(input=whole + round(self.beside), read=found, write=write)

    def _found(self, sent: int) -> Kept:
        """What is still held when that request is sent."""
        return next(one for one in self.held if self.waits[sent] < one.ttl.seconds)


def warming(state: State, prefix: Prefixes, beliefs: Beliefs, ttl: str = "auto") -> Warming | None:
    """What is worth keeping of the prompt of `prefix`, the last one of a session in `state`; None where nothing is.

    Nothing is before a pause has been seen to end that outlasts the shortest lifetime which may be chosen, `ttl` being
    the user's choice: until then nobody knows that one does.
    """
    facts, now = prefix.facts, state.last_started
    if now is None or facts.physics == "automatic":
        return None
    entries = {i: entry for i, entry in state.ledger.on(prefix).items() if now < entry.expires}
    if not entries:
        return None
    at = max(entries)
    held = _held(entries, prefix, renewable=has_ended_after(beliefs, prefix.lifetimes(ttl)[0].seconds))
    beside = held[0].tokens * (prefix.size - prefix.sizes[at]) / max(prefix.sizes[at], 1)
    stays = _coming_back(entries, prefix, beliefs) / max(held[0].tokens, 1.0)
    followed = beliefs.followed_after(state.awaits) if state.awaits else beliefs.followed(state.last_turn, tools=True)
    planned = keeping(
        pauses(beliefs, state.awaits or ANY, after_request(state.turns - 1), float(state.awaits == USER)),
        beliefs.in_place(followed, state.turns - 1),
        held,
        read=facts.read,
        # Nearly all of it is what lives longest, and would be written again as it was.
        gain=(held[-1].ttl.write - facts.read) * stays,
        beside=beside,
    )
    return Warming(planned.waits, at, held, beside) if planned.waits else None


def kept(state: State, prefix: Prefixes, warming: Warming, *, now: float, read: bool) -> State:
    """The state once a request of our own, sent `now`, was answered; `read` tells whether it found what it was to keep.

    The pause goes on: what its end shows is counted from the session's own last request, and it ends in time as long as
    the entries live.
    """
    if not read or state.last_started is None:
        return state
    return replace(
        state,
        ledger=rearmed(state.ledger, prefix, warming.at, now),
        last_lifetime=now + warming.held[0].ttl.seconds - state.last_started,
    )


def _coming_back(entries: Mapping[int, Entry], prefix: Prefixes, beliefs: Beliefs) -> float:
    """Tokens of the longest prefix that is held and ends before what changes from request to request; the rest is kept
    for nothing."""
    places = (find(prefix, name) for name in beliefs.changing_places())
    end = min((place.index for place in places if place is not None), default=len(prefix.sizes))
    return max((_tokens(entries, prefix, i) for i in entries if i < end), default=0.0)


def _tokens(entries: Mapping[int, Entry], prefix: Prefixes, i: int) -> float:
    counted = entries[i].tokens
    return float(counted) if counted is not None else prefix.sizes[i] / prefix.facts.bytes_per_token


def _held(entries: Mapping[int, Entry], prefix: Prefixes, *, renewable: bool) -> tuple[Kept, ...]:
    """The longest prefix that is held and, where a shorter one lives longer by itself, that one."""
    facts, held = prefix.facts, list[Kept]()
    for i in sorted(entries, reverse=True):
        ttl = facts.ttl(entries[i].ttl)
        if ttl is None or (held and ttl.seconds <= held[-1].ttl.seconds):
            continue
        held.append(Kept(_tokens(entries, prefix, i), ttl, renewable))
    return tuple(held[:2])
