"""Sessions that have not gone on yet: whether their last request will be followed is not known.

Each request is counted as an occasion to be followed when it is answered, and as followed when the next one comes. So
a session that goes on in ten seconds looks, for those ten, like one that has ended; where many begin at once, as after
a start of the service or in a fan-out, all of them do, and prefixes would be left unwritten that are read a moment
later. A request that nothing has followed for a seconds is therefore counted as followed by the probability that it
will be: with f the odds that a request is followed, and l(a) those that a pause which ends is longer than a,

    f·l(a) / (1 - f + f·l(a))

This is one step of expectation maximisation for censored data (Dempster, Laird and Rubin, 1977), from the f of those
occasions whose outcome is known.

>>> ten = Beliefs({"goes_on/0": (0.0, 10.0), "followed/0": (0.0, 10.0)})
>>> asked = [Waiting(place=0, turn=0, awaits="", since=0.0)] * 10
>>> soon, later = (with_waiting(ten, asked, now=now, tools=True) for now in (10.0, 1000.0))
>>> round(soon.counts["goes_on/0"][0], 1), round(later.counts["goes_on/0"][0], 1)
(7.0, 0.0)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from agentaccel.cache.beliefs import Beliefs, after_topic, followed_at_topic, goes_on_topic
from agentaccel.cache.pauses import ANY, pauses
from agentaccel.cache.state import State

MOST_WAITING = 500
"""Turns, the latest of all, among which those are sought that no request has followed yet."""


class Waiting(NamedTuple):
    """The last request of a session, which none has followed yet."""

    place: int
    """Its index in the session."""
    turn: int
    """Replies that it held."""
    awaits: str
    """What its reply asked for; empty where that is not known."""
    since: float
    """When it was sent."""


def waiting(state: State) -> Waiting | None:
    """The last request of the session in `state`; None where none was answered, or the next one is under way."""
    if state.last_started is None:
        return None
    return Waiting(state.turns - 1, state.last_turn, state.awaits, state.last_started)


def with_waiting(learned: Beliefs, sessions: Sequence[Waiting], *, now: float, tools: bool) -> Beliefs:
    """What a workload has `learned`, and what is expected of the last requests of its `sessions`; see the module.

    Its prompts have `tools`, or none.
    """
    usual = pauses(learned, ANY)
    silent = [(one, usual.longer(max(now - one.since, 0.0))) for one in sessions]
    silent = [(one, longer) for one, longer in silent if longer > _OVER]
    if not silent:
        return learned
    counts = dict(learned.counts)
    known = Beliefs(counts)
    for one, _ in silent:
        for topic in _topics(one):
            _count(counts, topic, 0.0, -1.0)
    odds = {topic: _followed(known, topic, one, tools) for one, _ in silent for topic in _topics(one)}
    for one, longer in silent:
        for topic in _topics(one):
            on = odds[topic] * longer
            _count(counts, topic, on / (1.0 - odds[topic] + on), 1.0)
    return known


_OVER = 0.05
"""A session that is silent for longer than all but so many pauses is taken to be over."""


def _topics(one: Waiting) -> list[str]:
    names = [goes_on_topic(one.turn), followed_at_topic(one.place), after_topic(one.awaits) if one.awaits else None]
    return [name for name in names if name is not None]


def _followed(known: Beliefs, topic: str, one: Waiting, tools: bool) -> float:
    after = one.awaits and topic == after_topic(one.awaits)
    return known.followed_after(one.awaits) if after else known.followed(one.turn, tools=tools)


def _count(counts: dict[str, tuple[float, float]], topic: str, followed: float, occasions: float) -> None:
    if topic in counts:
        yes, n = counts[topic]
        counts[topic] = (yes + followed, max(n + occasions, yes + followed))
