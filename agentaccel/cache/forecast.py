"""How likely the prefixes of a prompt come back: a step down at each place that has been seen to change."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from agentaccel.cache.beliefs import (
    BY_PLACE,
    FOLLOWED_LATE,
    LOOP,
    MANY_TURNS,
    MOST_PLACES,
    PAUSES_BY_PLACE,
    TAIL,
    Beliefs,
    Observation,
    followed_at_topic,
)
from agentaccel.cache.breakpoints import loop_start
from agentaccel.cache.pauses import topics_by_place
from agentaccel.cache.prefix import Prefixes
from agentaccel.cache.state import find
from agentaccel.facts import priors


def survival(prefix: Prefixes, beliefs: Beliefs, cut: int) -> tuple[tuple[int, float], ...]:
    """The probability that prefixes come back, as ascending steps at the places that have been seen to change.

    `cut` segments at the end are expected to be replaced.
    """
    steps: list[tuple[int, float]] = [(0, beliefs.stable("any"))]
    for name in beliefs.unstable_places():
        place = find(prefix, name)
        if place is not None:
            steps.append((place.index, beliefs.stable(name)))
    if beliefs.leaves_out:
        steps.append((loop_start(prefix.prompt.segments, prefix.starts[2]), beliefs.stable(LOOP)))
    if cut:
        steps.append((max(len(prefix.prompt.lasting) - cut, 0), beliefs.stable(TAIL)))
    steps.sort()
    value, product = 1.0, []
    for start, probability in steps:
        value *= probability
        product.append((start, value))
    return tuple(product)


def survives(survival: Sequence[tuple[int, float]], i: int) -> float:
    """The probability that the prefix up to i comes back, by the steps of `survival`."""
    value = 1.0
    for start, probability in survival:
        if start > i:
            break
        value = probability
    return value


# --- How much the places of a session differ: whether its third request, say, is like any other of the workload -------
# A workload may have a rhythm, such as a slow tool in every third request or an end after the eighth, or none. What
# was counted at one place is then evidence for itself, or for all of them. With p the odds over all places, the odds
# at one are taken to be drawn from a beta distribution with mean p and strength k: what was counted there, y of n,
# weighs against p as n against k,
#
#     (k·p + y) / (k + n)
#
# and k is learned: how likely the counts of all places are for each of some strengths (the beta-binomial
# distribution; empirical Bayes: Efron and Morris, 1973), times the odds that are stated for it.

Counted = Sequence[tuple[float, float]]
"""One question at several places: yes, of so many occasions."""


def strength(questions: Iterable[Counted]) -> float:
    """What the odds over all places are worth at one of them, in occasions.

    >>> eight = [(5.0, 5.0)] * 7 + [(0.0, 5.0)]  # five sessions of eight requests each: which were followed
    >>> round(strength([eight]), 1)
    0.6
    >>> any_ = [(4.0, 5.0), (5.0, 5.0), (5.0, 5.0), (3.0, 4.0), (3.0, 3.0), (4.0, 5.0)]
    >>> strength([any_]) > 10
    True
    >>> strength([]) == strength([[(1.0, 1.0)]])  # one session says nothing of it
    True
    """
    stated = priors().place_strengths
    likely = [math.log(odds) for _, odds in stated]
    for places in questions:
        occasions = sum(n for _, n in places)
        mean = sum(yes for yes, _ in places) / occasions if occasions else 0.0
        if not 0.0 < mean < 1.0:
            continue
        telling = [one for one in places if one[1] > 1.0]
        for at, (k, _) in enumerate(stated):
            here, not_here = k * mean, k * (1.0 - mean)
            likely[at] += sum(_log_beta(here + yes, not_here + n - yes) for yes, n in telling)
            likely[at] -= len(telling) * _log_beta(here, not_here)
    most = max(likely)
    weights = [math.exp(one - most) for one in likely]
    logs = sum(weight * math.log(k) for weight, (k, _) in zip(weights, stated, strict=True))
    return math.exp(logs / sum(weights))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def followed_there(beliefs: Beliefs, turn: int, place: int, *, tools: bool) -> float:
    """That the session's request with index `place`, which holds `turn` replies, is followed by another.

    The first requests are told apart by `turn` anyway. One that holds more replies than its session has had requests
    began with them, as with examples: it is like others with as many. Of a later one, what was counted at its place
    weighs against p as above; p is what was counted at all others, and what this session has shown: so nothing counts
    twice.

    >>> eight = Beliefs({f"followed/{i}": (5.0 * (i < 7), 5.0) for i in range(8)})
    >>> [round(followed_there(snapshot(eight), 3, place, tools=True), 2) for place in (6, 7, 8)]
    [0.98, 0.1, 0.81]
    >>> examples = Beliefs({"followed/0": (0.0, 9.0), "goes_on/3": (0.0, 9.0)})
    >>> round(followed_there(snapshot(examples), 3, 0, tools=True), 2)
    0.13
    """
    counts = beliefs.counts
    if min(turn, place) < MANY_TURNS or FOLLOWED_LATE not in counts:
        return beliefs.followed(turn, tools=tools)
    (all_yes, all_), (_, worth) = counts[FOLLOWED_LATE], counts[BY_PLACE]
    yes, n = beliefs.followed_at(place)
    elsewhere = beliefs.followed(turn, tools=tools, seen=(all_yes - yes, all_ - n))
    return (worth * elsewhere + yes) / (worth + n)


def snapshot(learned: Beliefs) -> Beliefs:
    """What a session that begins believes: what was learned, limited, and how much the places of a session differ."""
    counts = learned.counts
    if followed_at_topic(0) not in counts:
        return _limited(learned)

    def counted(topics: Iterable[str | None]) -> Counted:
        there = [counts[topic] for topic in topics if topic is not None and topic in counts]
        return [(min(yes, n), n) for yes, n in there]  # what is forgotten meanwhile may leave more yes than occasions

    ends, late = [counted(map(followed_at_topic, range(first, MOST_PLACES))) for first in (0, MANY_TURNS)]
    worth = strength([ends])
    by_place = {
        FOLLOWED_LATE: (sum(yes for yes, _ in late), sum(n for _, n in late)),
        BY_PLACE: (worth * sum(yes for yes, _ in ends) / max(sum(n for _, n in ends), 1.0), worth),
        PAUSES_BY_PLACE: (0.0, strength(map(counted, topics_by_place()))),
    }
    return Beliefs({**_limited(learned).counts, **by_place})


_STRONGEST = {
    "stable/": 6.0,
    "goes_on/": 40.0,
    "after/": 100.0,
    "followed/": 40.0,
    "pause/": 8.0,
    "lasts/": 40.0,
    "alive": 100.0,
    "shared": 40.0,
    "moves/": 10.0,
    "bytes/": 1e6,
}
"""The most occasions that past sessions count for beside what this one shows, by the beginning of the topic."""


def _limited(learned: Beliefs) -> Beliefs:
    """What was learned, with so little weight that what the session shows can outweigh it."""
    counts: dict[str, tuple[float, float]] = {}
    for topic, (yes, n) in learned.counts.items():
        most = next((most for start, most in _STRONGEST.items() if topic.startswith(start)), n)
        share = min(1.0, most / n) if n > 0 else 1.0
        counts[topic] = (yes * share, n * share)
    return Beliefs(counts)


# --- How many requests a session is expected to go on for: what the workload has shown, and before that, Lindy's rule -
# What is learned are odds, as for pauses: of the sessions that came to so many requests, how many came to the next
# step. Steps grow with the length. Before anything was seen, a session that has made n requests makes x or more of
# them in all with probability n/x: whoever looks at it looks at no special moment of its life (Gott, 1993), which is
# what Lindy's rule says, too. That has no mean, so no more is counted on than any session of the workload has come
# to, or than as many requests again where this is the longest: n·ln 2, or 0.69 n, while nothing is known.

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
    """Requests that are expected to come after the one with which a session has made so many.

    >>> [round(coming(Beliefs(), n), 1) for n in (4, 12, 60, 300)]
    [2.8, 8.3, 41.6, 207.9]
    >>> sixty = Beliefs()
    >>> for _ in range(5):
    ...     sixty = sixty.learned([one for n in range(1, 61) for one in length_seen(n)])
    >>> [round(coming(sixty, n)) for n in (4, 12, 30, 50)]
    [42, 41, 28, 9]
    """
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
