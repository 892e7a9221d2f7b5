"""When a request of our own that only keeps entries alive pays: optimal stopping over the odds of the pause.

Such a request is the session's last one again, asking for no reply: it reads what is held, re-arms it for its lifetime,
and writes what is not held any more. Let the whole prompt of T tokens live for s seconds, and a shorter prefix of B
tokens for S > s. While the session pauses, the choice after each use is

- to send after s: for r·T all of it lives on;
- to send after S: for r·B + w·(T - B) the shorter prefix lives on, and the rest is there again; until then a request
  that comes later than s reads B tokens only;
- to send nothing more.

With c(t) the probability that another request comes, and later than t, and p(t) that none has come until then, be it
that none ever does, what stands to be won from a use at t on is, each token read saving g = w - r,

    V(t) = g·T·(c(t) - c(t + s)) + max(  V(t + s) - r·T·p(t + s),
                                         g·B·(c(t + s) - c(t + S)) + max(0, V(t + S) - (r·B + w·(T - B))·p(t + S))  )

on a grid of steps of s, a little shortened so that nothing comes too late. The price of a request counts
`keep_alive_margin` times, because the odds are estimates. A second session of the workload that starts meanwhile, and
could read the shared part, is left out: it makes keeping pay more.

>>> from agentaccel.cache.beliefs import Beliefs
>>> from agentaccel.cache.pauses import ANY, pause_seen, pauses
>>> from agentaccel.facts import cache_facts
>>> tea = pauses(Beliefs().after([one for _ in range(30) for one in pause_seen(ANY, 900)]), ANY)
>>> five, hour = (Kept(tokens, ttl) for tokens, ttl in zip((10_000, 9_000), cache_facts("claude-sonnet-5").ttls))
>>> keeping(tea, 0.9, (five,), read=0.1, gain=1.15).waits
(285.0, 285.0, 285.0)
>>> keeping(tea, 0.9, (five,), read=0.1, gain=1.15, beside=5_000).waits
()
>>> keeping(tea, 0.9, (five, hour), read=0.1, gain=1.15).waits
()
>>> lunch = pauses(Beliefs().after([one for _ in range(30) for one in pause_seen(ANY, 5000)]), ANY)
>>> keeping(lunch, 0.9, (five, hour), read=0.1, gain=1.15).waits
(3420.0,)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agentaccel.cache.pauses import EDGES, Pauses
from agentaccel.facts import Ttl, priors


class Kept(NamedTuple):
    """A prefix that is held when a pause begins."""

    tokens: float
    ttl: Ttl
    """How long it lives from each use."""
    renewable: bool = True
    """Whether a request of our own may be sent for its sake."""


class Keeping(NamedTuple):
    """What to do about a pause."""

    waits: tuple[float, ...]
    """Seconds from each use of the entries to the next request that keeps them; empty where none is sent."""
    worth: float
    """What the entries are expected to save in the request that ends the pause, less what keeping them costs, in
    uncached tokens."""


def keeping(
    pauses: Pauses, followed: float, held: Sequence[Kept], *, read: float, gain: float, beside: float = 0.0
) -> Keeping:
    """The requests that pay during a pause.

    `followed` is the probability that another request comes at all; `held` the whole prefix and, where a shorter one
    lives longer by itself, that one behind it; `read` what reading a token costs and `gain` what a token read saves
    over writing it, in uncached tokens; `beside` the tokens behind what is held, which each request pays in full.
    """
    stated, whole = priors(), held[0]
    base = held[1] if len(held) > 1 else Kept(0.0, whole.ttl, renewable=False)
    step = whole.ttl.seconds * stated.keep_alive_at
    span = max(int(base.ttl.seconds * stated.keep_alive_at / step), 1)
    reach = _PATIENCE * gain / read * span * step if read > 0 else _LONGEST
    last = int(min(reach, _LONGEST) / step)
    comes = [followed, *(followed * pauses.longer(step * i) for i in range(1, last + span + 2))]
    short = (read * whole.tokens + beside) * stated.keep_alive_margin if whole.renewable else _NEVER
    rewritten = whole.ttl.write * (whole.tokens - base.tokens)
    long = (read * base.tokens + rewritten + beside) * stated.keep_alive_margin if base.renewable else _NEVER
    value, moves = [0.0] * len(comes), [0] * (last + 1)
    for i in range(last, -1, -1):
        soon, late = comes[i + 1], comes[i + span]
        after_whole = value[i + 1] - short * (soon + 1.0 - followed)
        after_base = value[i + span] - long * (late + 1.0 - followed)
        left = gain * base.tokens * (soon - late) + max(after_base, 0.0)
        moves[i] = 1 if after_whole > left else span if after_base > 0.0 else 0
        value[i] = gain * whole.tokens * (comes[i] - soon) + max(after_whole, left)
    waits, i = list[float](), 0
    while i <= last and moves[i]:
        waits.append(moves[i] * step)
        i += moves[i]
    return Keeping(tuple(waits), value[0])


_LONGEST = float(EDGES[-1])
_NEVER = 1e30
"""The price of what may not be done."""

_PATIENCE = 4.0
"""Requests in a row that are looked ahead to, in those whose price one miss makes up for."""
