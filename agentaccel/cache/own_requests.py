"""Whether, and when, a request of our own is worth what it costs: one that keeps what a session has in the cache while
the session pauses, or one that writes a prefix ahead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from agentaccel.cache.beliefs import Beliefs, Observation
from agentaccel.cache.ledger import Entry, rearmed
from agentaccel.cache.lifetime import PausedPrefix, keeping
from agentaccel.cache.pauses import ANY, USER, after_request, has_ended_after, pauses
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.price import PriceCard, expected_cost
from agentaccel.cache.state import SessionState, find
from agentaccel.facts import priors
from agentaccel.types import Expected, Usage


class PausePlan(NamedTuple):
    """What is to be done about the pause that has begun."""

    waits: tuple[float, ...]
    """Seconds from each use of the entries to the next request; at least one."""
    at: int
    """The segment that ends the prefix which is kept."""
    held: tuple[PausedPrefix, ...]
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

    def _found(self, sent: int) -> PausedPrefix:
        """What is still held when that request is sent."""
        return next(one for one in self.held if self.waits[sent] < one.ttl.seconds)


def warming(state: SessionState, prefix: Prefixes, beliefs: Beliefs, ttl: str = "auto") -> PausePlan | None:
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
    return PausePlan(planned.waits, at, held, beside) if planned.waits else None


def kept(state: SessionState, prefix: Prefixes, warming: PausePlan, *, now: float, read: bool) -> SessionState:
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


def _held(entries: Mapping[int, Entry], prefix: Prefixes, *, renewable: bool) -> tuple[PausedPrefix, ...]:
    """The longest prefix that is held and, where a shorter one lives longer by itself, that one."""
    facts, held = prefix.facts, list[PausedPrefix]()
    for i in sorted(entries, reverse=True):
        ttl = facts.ttl(entries[i].ttl)
        if ttl is None or (held and ttl.seconds <= held[-1].ttl.seconds):
            continue
        held.append(PausedPrefix(_tokens(entries, prefix, i), ttl, renewable))
    return tuple(held[:2])


# --- Whether a request of our own that writes a prefix ahead of the request that needs it is worth what it costs ------
# By cost alone it never is: what it writes now need not be written then, but is read then, and is lost where that
# request does not come. What it buys is time, because a prefix that is read need not be computed. So it is sent where
#
#     p · seconds · cost_per_second  >  bill - p · (write - read)
#
# with p the probability that the request comes in time and begins as announced, `bill` what ours costs, and `write -
# read` what that one saves by reading what ours wrote.

_ANNOUNCED = "announced"
SENT, CAME = Observation(_ANNOUNCED, 0.0), Observation(_ANNOUNCED, 1.0, 0.0)
"""That a prefix was written ahead, and that its request came and read it: the same occasion."""


class Prewarming(NamedTuple):
    """What it costs to write a prefix ahead, and what it wins."""

    bill: float
    """USD that the request of our own is billed for."""
    cost: float
    """USD that it is expected to cost in all, once what the announced request saves is taken off."""
    seconds: float
    """Expected to be won."""
    own: bool = False
    """Whether it is a server of the user's own: `cost` is then seconds of it, and `bill` 0."""

    def __str__(self) -> str:
        price = f"{self.cost:.1f} s of the server's" if self.own else f"{self.cost:.4f} USD"
        return f"{self.seconds:.1f} s are expected to be won for {price}"

    def pays(self, *, cost_per_second: float) -> bool:
        return self.seconds * cost_per_second > self.cost


def prewarming(expected: Expected, card: PriceCard | None, *, comes: float, seconds: float) -> Prewarming | None:
    """What is to be had by a request with the bill `expected`, if the announced one `comes` with that probability.

    `seconds` is what it then waits less. None where there is nothing to write, or no price is known.

    >>> from agentaccel.cache.price import price_card
    >>> card = price_card("anthropic", "claude-sonnet-5", input_tokens=50_000)
    >>> sent = Expected(read=0, write={"5m": 50_000}, uncached=10)
    >>> likely, unlikely = (prewarming(sent, card, comes=p, seconds=4.5) for p in (0.95, 0.7))
    >>> likely.pays(cost_per_second=0.01), unlikely.pays(cost_per_second=0.01), likely.pays(cost_per_second=0.001)
    (True, False, False)
    """
    bill = expected_cost(card, expected)
    if bill is None or card is None or card.read is None or not sum(expected.write.values()):
        return None
    saved = sum(tokens * (card.write[label] - card.read) for label, tokens in expected.write.items() if tokens)
    return Prewarming(bill, bill - comes * saved, comes * seconds)


def prewarming_own(cold: float, *, comes: float, seconds: float) -> Prewarming | None:
    """The same on a server of the user's own, in its seconds in place of money: so many tokens are `cold`, which take
    so long, and it has to compute them in any case if the request comes. None where there is nothing to win.

    >>> likely, unlikely = (prewarming_own(900.0, comes=p, seconds=2.0) for p in (0.95, 0.4))
    >>> likely.pays(cost_per_second=1.0), unlikely.pays(cost_per_second=1.0)
    (True, False)
    """
    if cold < _LEAST_COLD:
        return None
    return Prewarming(0.0, (1.0 - comes) * seconds, comes * seconds, own=True)


_LEAST_COLD = 64.0
"""Tokens that a server computes in less time than any request takes."""


def comes_as_announced(beliefs: Beliefs) -> float:
    """The probability that a request which the agent announces comes in time, and begins so.

    >>> comes_as_announced(Beliefs()), round(comes_as_announced(Beliefs().after([SENT, SENT])), 2)
    (0.95, 0.79)
    """
    stated = priors()
    return beliefs.probability(_ANNOUNCED, stated.announced, stated.announced_weight)


def with_held(expected: Expected, tokens: float) -> Expected:
    """`expected` where so many tokens are known to be held: what of them was to be written is read.

    >>> with_held(Expected(read=0, write={"5m": 100.0}, uncached=5), 60.0)
    Expected(read=60.0, write={'5m': 40.0}, uncached=5)
    """
    written = sum(expected.write.values())
    there = min(tokens - expected.read, written)
    if there <= 0:
        return expected
    left = {label: count * (1.0 - there / written) for label, count in expected.write.items()}
    return replace(expected, read=expected.read + there, write=left)
