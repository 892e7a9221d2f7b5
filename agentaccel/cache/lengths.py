"""How many requests a session is expected to go on for: what the workload has shown, and before that, Lindy's rule.

What is learned are odds, as for pauses: of the sessions that came to so many requests, how many came to the next step.
Steps grow with the length. Before anything was seen, a session that has made n requests makes x or more of them in all
with probability n/x: whoever looks at it looks at no special moment of its life (Gott, 1993), which is what Lindy's
rule says, too. That has no mean, so no more is counted on than any session of the workload has come to, or than as many
requests again where this is the longest: n·ln 2, or 0.69 n, while nothing is known.

>>> [round(coming(Beliefs(), n), 1) for n in (4, 12, 60, 300)]
[2.8, 8.3, 41.6, 207.9]
>>> sixty = Beliefs()
>>> for _ in range(5):
...     sixty = sixty.learned([one for n in range(1, 61) for one in length_seen(n)])
>>> [round(coming(sixty, n)) for n in (4, 12, 30, 50)]
[42, 41, 28, 9]
"""

from __future__ import annotations

import math
from bisect import bisect_right

from agentaccel.cache.beliefs import Beliefs, Observation
from agentaccel.facts import priors

STEPS = (2, 3, *[quarter << octave for octave in range(9) for quarter in (4, 5, 6, 7)])
"""Requests at which the steps begin: four of them until there are twice as many."""

_PREFIX = "lasts/"
_TOPICS = {step: f"{_PREFIX}{step}" for step in STEPS}


def length_seen(requests: int) -> tuple[Observation, ...]:
    """What it shows that a session has come to so many requests: nothing but at the beginning of a step."""
    topic = _TOPICS.get(requests)
    if topic is None:
        return ()
    begun = Observation(topic, 0.0, 1.0)
    at = STEPS.index(requests)
    return (Observation(_TOPICS[STEPS[at - 1]], 1.0, 0.0), begun) if at else (begun,)


def coming(beliefs: Beliefs, requests: int) -> float:
    """Requests that are expected to come after the one with which a session has made so many."""
    now = float(max(requests, 1))
    longest = _longest(beliefs)
    horizon = longest if longest > now else 2.0 * now
    expected, share, at = 0.0, 1.0, now
    while at < horizon and share > 0.0:
        step = bisect_right(STEPS, at)
        begin = STEPS[step - 1] if step else 1
        end = float(STEPS[step]) if step < len(STEPS) else math.inf
        steepness = _steepness(beliefs, begin, end)
        until = min(end, horizon)
        expected += share * _area(at, until, steepness)
        share *= (at / until) ** steepness
        at = until
    return expected


def _longest(beliefs: Beliefs) -> float:
    """Where the step ends that the longest session of the workload has come to."""
    reached = [at for at, step in enumerate(STEPS[:-1]) if _TOPICS[step] in beliefs.counts]
    return float(STEPS[reached[-1] + 1]) if reached else 0.0


def _steepness(beliefs: Beliefs, begin: int, end: float) -> float:
    """By which power of the length fewer and fewer sessions are left within a step; 1 before anything was seen."""
    seen = beliefs.counts.get(_TOPICS.get(begin, ""))
    if seen is None or math.isinf(end):
        return 1.0
    weight = priors().length_weight
    odds = (weight * begin / end + seen[0]) / (weight + seen[1])
    return -math.log(min(odds, 1.0)) / math.log(end / begin)


def _area(start: float, until: float, steepness: float) -> float:
    """The sum of (start/x)**steepness for x from `start` until `until`."""
    ratio, power = until / start, 1.0 - steepness
    return start * (math.log(ratio) if abs(power) < _FLAT else (ratio**power - 1.0) / power)


_FLAT = 1e-9
