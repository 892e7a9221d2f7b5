"""Whether, and when, a request of our own is to keep what a session has in the cache, while the session pauses."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from agentaccel.cache.beliefs import Beliefs
from agentaccel.cache.keep import Keeping, keeping
from agentaccel.cache.ledger import Entry, rearmed
from agentaccel.cache.pauses import ANY, has_ended_after, pauses
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.state import State


class Warming(NamedTuple):
    """What is to be done about the pause that has begun."""

    keeping: Keeping
    at: int
    """The segment that ends the prefix which is kept."""
    tokens: float
    """Tokens of it: what each request reads."""
    seconds: float
    """How long it lives from each use."""

    def due(self, last_used: float, sent: int) -> float | None:
        """When the next request is due, once `sent` of them were, the last use being at `last_used`; None for never."""
        if sent >= len(self.keeping.sends) or not self.keeping.sends[sent]:
            return None
        return last_used + self.keeping.step


def warming(state: State, prefix: Prefixes, beliefs: Beliefs) -> Warming | None:
    """What is worth keeping of the prompt of `prefix`, the last one of a session in `state`; None where nothing is.

    Nothing is before a pause that outlasts the lifetime has been seen to end: until then nobody knows that one does.
    """
    facts, now = prefix.facts, state.last_started
    if now is None or facts.physics == "automatic":
        return None
    held = {i: entry for i, entry in state.ledger.on(prefix).items() if now < entry.expires}
    if not held:
        return None
    at = max(held)
    ttl = facts.ttl(held[at].ttl)
    if ttl is None or not has_ended_after(beliefs, ttl.seconds):
        return None
    tokens, (below, until) = _tokens(held, prefix, at), _outliving(held, prefix, at, ttl.seconds)
    planned = keeping(
        pauses(beliefs, state.awaits or ANY),
        beliefs.followed_after(state.awaits) if state.awaits else beliefs.followed(state.last_turn, tools=True),
        seconds=ttl.seconds,
        read=facts.read,
        gain=facts.ttls[0].write - facts.read,
        lost=1.0 - below / tokens if tokens else 1.0,
        until=until,
    )
    return Warming(planned, at, tokens, ttl.seconds) if planned.sends and planned.sends[0] else None


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
        last_lifetime=now + warming.seconds - state.last_started,
    )


def _tokens(held: dict[int, Entry], prefix: Prefixes, at: int) -> float:
    counted = held[at].tokens
    return float(counted) if counted is not None else prefix.sizes[at] / prefix.facts.bytes_per_token


def _outliving(held: dict[int, Entry], prefix: Prefixes, at: int, seconds: float) -> tuple[float, float]:
    """Tokens of the longest prefix that lives longer than `seconds` without us, and for how long."""
    facts = prefix.facts
    lives = {i: ttl.seconds for i, entry in held.items() if (ttl := facts.ttl(entry.ttl)) is not None}
    longer = [i for i in lives if i < at and lives[i] > seconds]
    if not longer:
        return 0.0, 0.0
    return _tokens(held, prefix, max(longer)), lives[max(longer)]
