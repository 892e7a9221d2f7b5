"""How long a session pauses between two requests, and what it is worth that an entry outlives the pause.

A pause runs from the start of a request to the start of the next one, as lifetimes do. What is learned of it are odds:
of the pauses that lasted until a step of time began, how many ended in it. A pause that never ends, because the session
does, then teaches nothing wrong: whether a request is followed at all is counted apart (`Beliefs.followed`). This is
the life-table estimate of survival analysis (Kaplan and Meier, 1958), with a stated prior for each step.

>>> unseen = pauses(Beliefs(), ANY)
>>> round(unseen.longer(300), 3), round(unseen.longer(3600), 4)
(0.02, 0.002)
>>> round(pauses(Beliefs(), ANY, people=1.0).longer(300), 3), round(pauses(Beliefs(), ANY, people=1.0).longer(3600), 4)
(0.3, 0.0717)
>>> slow = Beliefs().after([one for _ in range(9) for one in pause_seen(ANY, 400)])
>>> round(pauses(slow, ANY).longer(300), 2), round(pauses(slow, ANY).longer(3600), 4)
(0.91, 0.0091)
"""

from __future__ import annotations

import functools
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from agentaccel.cache.beliefs import MOST_PLACES, PAUSES_BY_PLACE, Beliefs, Observation
from agentaccel.facts import priors

ANY, TOOL, USER = "any", "tool", "user"
"""What a pause was for: a tool that ran, a person who wrote, either; `tool:NAME` is one tool."""

EDGES = (60, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400)
"""Seconds at which the steps end, exclusive. The lifetimes of entries are among them."""


@functools.lru_cache(maxsize=1024)
def _topics(kind: str) -> tuple[str, ...]:
    """The topics of a kind, one for each step."""
    return tuple(f"pause/{kind}/{edge}" for edge in EDGES)


_ANY = _topics(ANY)


def after_request(number: int) -> str:
    """The place of the pause that follows the session's request with this index: workloads may have their rhythm."""
    return f"turn:{number}" if number < MOST_PLACES else ANY


def short_after_topic(number: int) -> str | None:
    """The topic under which it is counted that the pause there was of the shortest step; None behind the last place
    that is told apart."""
    return f"pause/{after_request(number)}/{EDGES[0]}" if number < MOST_PLACES else None


@functools.lru_cache(maxsize=1024)
def kinds_of(kind: str) -> tuple[str, ...]:
    """`kind` and what it is one of, the widest first.

    >>> kinds_of("tool:search"), kinds_of("any")
    (('any', 'tool', 'tool:search'), ('any',))
    """
    return tuple(dict.fromkeys((ANY, kind.partition(":")[0], kind)))


def pause_seen(kind: str, seconds: float) -> tuple[Observation, ...]:
    """What a pause of `seconds` shows: it outlasted every step before the one in which it ended."""
    return _of_kind(kind, bisect_right(EDGES, seconds))


@functools.lru_cache(maxsize=1024)
def _of_kind(kind: str, step: int) -> tuple[Observation, ...]:
    return _ended(kinds_of(kind), step)


def rhythm_seen(number: int, seconds: float) -> tuple[Observation, ...]:
    """What a pause of `seconds` after the session's request with this index shows of that place alone."""
    place = after_request(number)
    return _ended((place,), bisect_right(EDGES, seconds)) if place != ANY else ()


@functools.lru_cache(maxsize=1024)
def _ended(groups: tuple[str, ...], step: int) -> tuple[Observation, ...]:
    """That a pause ended in a step of time, under each of `groups`."""
    return tuple(
        [Observation(topic, float(n == step)) for group in groups for n, topic in enumerate(_topics(group)[: step + 1])]
    )


def topics_by_place() -> list[list[str]]:
    """For each step of time, the topics of all places of a session."""
    places = [_topics(after_request(number)) for number in range(MOST_PLACES)]
    return [[topics[step] for topics in places] for step in range(len(EDGES))]


class Pauses(NamedTuple):
    """How likely a pause is to last, given that another request comes at all."""

    left: tuple[float, ...]
    """The probability that it is longer than each of `EDGES`."""

    def longer(self, seconds: float) -> float:
        """The probability that it is longer than `seconds`; between two edges as if each moment had the same odds."""
        i = bisect_left(EDGES, seconds)
        if i == len(EDGES):
            return self.left[-1] * EDGES[-1] / seconds
        if EDGES[i] == seconds:
            return self.left[i]
        begin, before = (EDGES[i - 1], self.left[i - 1]) if i else (0, 1.0)
        share = (seconds - begin) / (EDGES[i] - begin)
        return before * (self.left[i] / before) ** share if before else 0.0


def pauses(beliefs: Beliefs, kind: str, place: str = ANY, people: float = 0.0) -> Pauses:
    """What is believed of pauses of `kind` at `place` (`after_request`): what was seen of them, and of all pauses where
    little was. `people` are the odds that it is for a person, where that is to be believed before any was seen.

    However many have ended in a step of time, the next may outlast it: the last of n + 1 alike is the longest with odds
    of 1 in n + 1. So the odds of an end are at most those of n ends in n occasions and of one more as stated.
    """
    stated, counts = priors(), beliefs.counts
    found = [(one, stated.pause_weight if one == ANY else stated.pause_kind_weight) for one in kinds_of(kind)]
    if place != ANY:
        worth = counts.get(PAUSES_BY_PLACE)
        found.append((place, worth[1] if worth is not None else stated.place_strength))
    kinds = [(_topics(one), weight) for one, weight in found]
    left, share = list[float](), 1.0
    for step, before in enumerate(_stated_ends(round(people, 2))):
        odds, any_of_it = before, counts.get(_ANY[step])
        for topics, weight in kinds:
            seen = counts.get(topics[step])
            if seen is not None:
                odds = (odds * weight + seen[0]) / (weight + seen[1])
        lasted = any_of_it[1] if any_of_it is not None else 0.0
        share *= 1.0 - min(odds, (before + lasted) / (1.0 + lasted))
        left.append(share)
    return Pauses(tuple(left))


@functools.lru_cache(maxsize=128)
def _stated_ends(people: float) -> tuple[float, ...]:
    """The odds that a pause ends in each step, before any was seen, where it is for a person with odds of `people`."""
    stated, odds, theirs, others = priors(), list[float](), people, 1.0 - people
    for person, program in zip(stated.pause_ends_of_people, stated.pause_ends, strict=True):
        odds.append((theirs * person + others * program) / (theirs + others))
        theirs, others = theirs * (1.0 - person), others * (1.0 - program)
    return tuple(odds)


def is_known(beliefs: Beliefs, kind: str) -> bool:
    """Whether anything was seen of pauses of just this kind."""
    return _topics(kind)[0] in beliefs.counts


def has_ended_after(beliefs: Beliefs, seconds: float) -> bool:
    """Whether a pause longer than `seconds` has been seen to end: without one nobody knows that any does."""
    counts = beliefs.counts
    return any([counts[topic][0] > 0 for topic in _ANY[bisect_right(EDGES, seconds) :] if topic in counts])


def outlasted(beliefs: Beliefs, seconds: float) -> float:
    """How many pauses were longer than `seconds`, one of `EDGES`; those long ago count for less."""
    step = bisect_right(EDGES, seconds)
    return beliefs.counts.get(_ANY[step], (0.0, 0.0))[1] if step < len(EDGES) else 0.0
