"""Sessions that have not gone on yet: whether their last request will be followed is not known.

Each request is counted as an occasion to be followed when it is answered, and as followed when the next one comes. So
a session that goes on in ten seconds looks, for those ten, like one that has ended; where many begin at once, as after
a start of the service or in a fan-out, all of them do, and prefixes would be left unwritten that are read a moment
later. A request that nothing has followed for a seconds is therefore counted as followed by the probability that it
will be: with f the odds that a request is followed, and l(a) those that a pause which ends is longer than a,

    f·l(a) / (1 - f + f·l(a))

where f is such that it agrees with what is counted so: expectation maximisation for censored data (Dempster, Laird and
Rubin, 1977). That nobody has gone on for longer than pauses last then says that nobody will.

>>> ten = Beliefs({"goes_on/0": (0.0, 10.0), "followed/0": (0.0, 10.0)})
>>> asked = [OpenEnd(place=0, turn=0, awaits="", since=0.0)] * 10
>>> soon, later = (with_waiting(ten, asked, now=now, tools=True) for now in (2.0, 1000.0))
>>> round(soon.counts["goes_on/0"][0], 1), round(later.counts["goes_on/0"][0], 1)
(6.6, 0.0)
"""

from __future__ import annotations

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


def with_waiting(learned: Beliefs, sessions: Sequence[OpenEnd], *, now: float, tools: bool) -> Beliefs:
    """What a workload has `learned`, and what is expected of the last requests of its `sessions`; see the module.

    Its prompts have `tools`, or none.
    """
    usual, groups = pauses(learned, ANY), dict[str, list[tuple[OpenEnd, float]]]()
    for one in sessions:
        longer = usual.longer(max(now - one.since, 0.0))
        for topic in _topics(one):
            if topic in learned.counts:
                groups.setdefault(topic, []).append((one, longer))
    counts = {topic: _counted(topic, learned.counts[topic], group, tools) for topic, group in groups.items()}
    return Beliefs({**learned.counts, **counts}) if counts else learned


def _topics(one: OpenEnd) -> list[str]:
    names = [goes_on_topic(one.turn), followed_at_topic(one.place), after_topic(one.awaits) if one.awaits else None]
    return [name for name in names if name is not None]


def _counted(
    topic: str, counted: tuple[float, float], group: Sequence[tuple[OpenEnd, float]], tools: bool
) -> tuple[float, float]:
    """What is `counted` under `topic`, each of the `group` as followed by its odds, once these agree with it."""
    yes, n = counted
    known, many = max(n - len(group), yes), len(group)  # old ones are forgotten, and it may be all but those that wait
    low, high, expected = 0.0, 1.0, 0.0
    for _ in range(_HALVINGS):
        odds = (low + high) / 2.0
        expected = sum(odds * longer / (1.0 - odds + odds * longer) for _, longer in group)
        if _odds(topic, group[0][0], (yes + expected, known + many), tools) > odds:
            low = odds
        else:
            high = odds
    return yes + (n - known) * expected / many, n


_HALVINGS = 12


def _odds(topic: str, one: OpenEnd, counted: tuple[float, float], tools: bool) -> float:
    """That a request like `one` is followed, where so much is counted."""
    if one.awaits and topic == after_topic(one.awaits):
        return Beliefs({topic: counted}).followed_after(one.awaits)
    return Beliefs({goes_on_topic(one.turn): counted}).followed(one.turn, tools=tools)
