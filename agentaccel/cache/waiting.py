"""Sessions that have not gone on yet: whether their last request will be followed is not known.

Each request is counted as an occasion to be followed when it is answered, and as followed when the next one comes. So
a session that goes on in ten seconds looks, for those ten, like one that has ended; where many begin at once, as after
a start of the service or in a fan-out, all of them do, and prefixes would be left unwritten that are read a moment
later. A request that nothing has followed for some seconds is therefore an occasion by the share of pauses that would
have ended by then: at once it is none, and once it has been silent for longer than pauses last it is a whole one. That
nobody has gone on for so long then says that nobody will.

>>> ten = Beliefs({"goes_on/0": (0.0, 10.0), "followed/0": (0.0, 10.0)})
>>> asked = [OpenEnd(place=0, turn=0, awaits="", since=0.0)] * 10
>>> soon, later = (with_waiting(ten, asked, now=now) for now in (2.0, 100_000.0))
>>> round(soon.counts["goes_on/0"][1], 1), round(later.counts["goes_on/0"][1], 1)
(0.5, 10.0)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from agentaccel.cache.beliefs import Beliefs, after_topic, followed_at_topic, goes_on_topic
from agentaccel.cache.pauses import ANY, pauses
from agentaccel.cache.state import SessionState

MOST_WAITING = 200
"""Turns, the latest of all, among which those are sought that no request has followed yet."""


class OpenEnd(NamedTuple):
    """The last request of a session, which none has followed yet."""

    place: int
    """Its index in the session."""
    turn: int
    """Replies that it held."""
    awaits: str
    """What its reply asked for; empty where that is not known."""
    since: float
    """When it was sent."""


def waiting(state: SessionState) -> OpenEnd | None:
    """The last request of the session in `state`; None where none was answered, or the next one is under way."""
    if state.last_started is None:
        return None
    return OpenEnd(state.turns - 1, state.last_turn, state.awaits, state.last_started)


def with_waiting(learned: Beliefs, sessions: Sequence[OpenEnd], *, now: float) -> Beliefs:
    """What a workload has `learned`, without the occasions that the last requests of its `sessions` are not yet; see
    the module."""
    usual, early = pauses(learned, ANY), defaultdict[str, float](float)
    for one in sessions:
        longer = usual.longer(max(now - one.since, 0.0))
        for topic in _topics(one):
            early[topic] += longer
    counts = dict(learned.counts)
    for topic in early.keys() & counts.keys():
        yes, n = counts[topic]
        counts[topic] = (yes, max(n - early[topic], yes))  # old ones are forgotten, and it may be most of those early
    return Beliefs(counts)


def _topics(one: OpenEnd) -> list[str]:
    names = [goes_on_topic(one.turn), followed_at_topic(one.place), after_topic(one.awaits) if one.awaits else None]
    return [name for name in names if name is not None]
