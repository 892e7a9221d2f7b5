"""When a request of our own that only keeps entries alive pays: optimal stopping over the odds of the pause.

Reading an entry re-arms it for its lifetime at the price of a read. So while a session pauses, the prefix of T tokens
can be kept for another lifetime for r·T, which saves (w - r)·T if the next request comes within it, and is lost if that
comes later or never. With p(k) the probability that it comes in step k, given that it has not come before,

    V(k) = max(0, -r + p(k)·(w - r) + (1 - p(k))·V(k + 1))

is what stands to be won per token at step k, and a request is sent for as long as V(k) > 0. Its price counts
`keep_alive_margin` times, because the odds are estimates. A second session of the workload that starts meanwhile, and
could read the shared part, is left out: it makes keeping pay more.

>>> from agentaccel.cache.beliefs import Beliefs
>>> from agentaccel.cache.pauses import ANY, pause_seen, pauses
>>> tea = pauses(Beliefs().after([one for _ in range(30) for one in pause_seen(ANY, 900)]), ANY)
>>> keeping(tea, 0.9, seconds=300, read=0.1, gain=1.15).sends[:5]
(True, True, True, False, False)
"""

from __future__ import annotations

from typing import NamedTuple

from agentaccel.cache.pauses import EDGES, Pauses
from agentaccel.facts import priors


class Keeping(NamedTuple):
    """What to do about a pause, step by step."""

    step: float
    """Seconds from the start of one request to the next that keeps its entries."""
    sends: tuple[bool, ...]
    """Whether one is sent at the end of each step, as long as the pause lasts."""
    worth: float
    """What all of them are expected to save per token, less what they cost, at the end of the first step; 0 where none
    is sent."""


def keeping(
    pauses: Pauses, followed: float, *, seconds: float, read: float, gain: float, lost: float = 1.0, until: float = 0.0
) -> Keeping:
    """The requests that pay during a pause, for entries that live `seconds` from each use.

    `followed` is the probability that another request comes at all, `read` what reading a token costs and `gain` what
    a token read saves over writing it, in uncached tokens. Where a shorter prefix lives by itself until `until` seconds
    have passed, only the share `lost` of the tokens is lost before then.
    """
    stated = priors()
    step = seconds * stated.keep_alive_at
    steps = int(min(EDGES[-1] / step, _PATIENCE * gain / read)) if read > 0 else int(EDGES[-1] / step)
    left = [1.0 - followed + followed * pauses.longer(step * (k + 1)) for k in range(steps + 1)]
    price, value = read * stated.keep_alive_margin, 0.0
    sends: list[bool] = []
    for k in range(steps - 1, -1, -1):
        comes = 1.0 - left[k + 1] / left[k] if left[k] > 0 else 0.0
        saved = gain * (lost if step * (k + 2) < until else 1.0)
        won = comes * saved + (1.0 - comes) * value - price
        sends.append(won > 0)
        value = max(won, 0.0)
    sends.reverse()
    return Keeping(step, tuple(sends), value)


_PATIENCE = 4.0
"""Requests in a row that are looked ahead to, in those whose price one miss makes up for."""
