"""What is believed about a workload: stated priors, corrected by what was counted.

Everything learned is a pair (yes, n) under a topic: *n* occasions, *yes* of them. Topics:

- `goes_on/2`: after the third request of a session another one followed; `goes_on/3` is every later request's
- `went_on/3`: in this very session, a request with that index was followed; not kept for others
- `followed/7`: the eighth request of a session, whatever its prompt held, was followed; see `forecast`
- `alive`: a prefix that was to be held was read
- `after/tool`: a reply that asked for a tool was followed by another request
- `pause/tool/300`: a pause for a tool that had lasted until the step before 300 seconds ended in it; see `pauses`
- `stable/system[0]`: this part of the prompt came back, unchanged or as a variant that was still warm
- `shared`, `repeated` and what begins like the first: how sessions begin like others; see below
- `moves/system[0]/…`: a piece of this text was another one than in the request before; named by hashes of what stands
  around it (`prompt.volatile`)
- `lasts/12`: a session that came to 12 requests came to the next step; see `forecast`
- `announced`: what was written ahead of a request that the agent had announced was read by it
- `grows`: tokens by which a prompt was longer than the one before; a mean, not a probability
- `bytes/MODEL`: bytes sent and tokens counted; a ratio, not a probability
- `prefill/MODEL`: seconds in which a server of the user's own computed the tokens of prompts, and these tokens, each
  times the tokens: so that the largest prompts count most
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from agentaccel.facts import Priors, priors
from agentaccel.values import quickly_made

# --- The topics under which beginnings of sessions are counted; `sharing` says where each ends ------------------------
# - `shared`: tools and system, in need of being warm, were: a session began within a lifetime of another's request, or
#   went on after a longer pause and read what another had kept
# - `shared_later`: where none began within the default lifetime, one did within the longest
# - `shared_tools`, `shared_tools_later`: the same of the tools alone, where a system prompt of its own follows them
# - `shared_system_1`, `shared_system_1_later`, …: the same of tools and the first block of the system prompt, the first
#   two, or three, where others follow: instructions that all have, and behind them what is known of a user
# - `shared_opening`, `shared_opening_later`: the same of all that stands before the last block of the first prompt,
#   where that is more than tools and system: documents with a question behind them, examples, the state of a project
# - `repeated`: a session began with the whole prompt of another's first request, answered within a lifetime

SHARED, SHARED_TOOLS, SHARED_OPENING, REPEATED = "shared", "shared_tools", "shared_opening", "repeated"
SHARED_BLOCKS = ("shared_system_1", "shared_system_2", "shared_system_3")
PARTS = frozenset({SHARED_TOOLS, *SHARED_BLOCKS})
"""What whoever begins with the same tools and system begins with, too."""
LATER = {one: f"{one}_later" for one in (SHARED, SHARED_OPENING, *PARTS)}
"""For each beginning, the topic that it came after the default lifetime and within the longest."""


ALIVE = "alive"
GROWS = "grows"
MANY_TURNS = 3
"""From this request on, all are one topic: by then it matters that a session is long, not how long."""


MOST_PLACES = 48
"""Requests of a session that are told apart by their place in it."""
BY_PLACE, PAUSES_BY_PLACE = "followed", "pauses by place"
"""What is known of all places of a session, as occasions that it is worth at one of them; in snapshots (`forecast`)."""
FOLLOWED_LATE = "followed late"
"""What was counted at all places from `MANY_TURNS` on; in snapshots."""


def goes_on_topic(turn: int) -> str:
    """The topic under which it is counted that the request with index `turn` was followed."""
    return f"goes_on/{min(turn, MANY_TURNS)}"


def went_on(turn: int, awaits: str = "") -> list[Observation]:
    """That a request of this session was followed: by the replies that it held, and by what its own asked for."""
    return [Observation(_went_on_topic(turn), 1.0), *([Observation(after_topic(awaits), 1.0)] if awaits else [])]


def _went_on_topic(turn: int) -> str:
    return f"went_on/{min(turn, MANY_TURNS)}"


def followed_at_topic(place: int) -> str | None:
    """The topic under which it is counted that a session's request with index `place` was followed; None behind the
    last one that is told apart."""
    return f"followed/{place}" if place < MOST_PLACES else None


def after_topic(awaits: str) -> str:
    """The topic under which it is counted that a reply which asked for this was followed."""
    return f"after/{awaits.partition(':')[0]}"


def alive_topic(others: int) -> str:
    """The topic under which it is counted that a prefix was still held after so many other conversations.

    >>> [alive_topic(others) for others in (0, 3, 4, 7, 8)]
    ['alive/0', 'alive/3', 'alive/4', 'alive/4', 'alive/8']
    """
    return f"{ALIVE}/{others if others < _TOLD_APART else 1 << others.bit_length() - 1}"


_TOLD_APART = 4
"""From so many others on, twice as many are told apart."""
_DISTANCES = (*range(_TOLD_APART), *(1 << octave for octave in range(2, 11)))
"""The least of each number of others that is told apart."""


def remembered(topic: str) -> float:
    """The most occasions that the past counts for under `topic`, so that a workload can change its ways."""
    if topic.startswith(("pause/", "after/", ALIVE)):
        return 1000.0
    if topic.startswith("prefill/"):
        return 1e8  # a few large prompts: another load is another speed
    return 1e7 if topic.startswith("bytes/") else 40.0


END_OF, PARAMETERS = "end of ", "parameters."
"""How the place is called at which a level, the tools or the system prompt, is added to; and that of a parameter."""


def is_history(place: str) -> bool:
    """Whether a place lies in the messages, where a position means nothing in another session."""
    return place.startswith(("messages", "input"))


class Observation(NamedTuple):
    """One thing that was seen: `yes` of `n` occasions under `topic`."""

    topic: str
    yes: float
    n: float = 1.0


TAIL, LOOP = "tail", "loop"
"""The places that move along with a conversation; see `places`."""
LOOP_LATE = "loop after a pause"
"""How often a loop came back is counted once more of requests that came too late for the default lifetime."""
_LOOP = f"stable/{LOOP}"
_NO_PLACE = frozenset({"stable/any", f"stable/{TAIL}", _LOOP, f"stable/{LOOP_LATE}"})
"""What is counted of no place that stays where it is."""

_DOUBTED = 0.5
"""A place that is less likely than this to come back changes in most requests."""


@quickly_made
@dataclass(frozen=True)
class Beliefs:
    """Counts by topic. A value: `after` gives a new one."""

    counts: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def after(self, seen: Sequence[Observation], fade: float = 1.0) -> Beliefs:
        """These beliefs once `seen` was seen; the weight of what was seen before is multiplied by `fade`."""
        if not seen:
            return self
        counts = dict(self.counts)
        for topic, more, of in seen:
            yes, n = counts.get(topic, (0.0, 0.0))
            counts[topic] = (yes * fade + more, n * fade + of)
        return Beliefs(counts)

    def joined(self, other: Beliefs) -> Beliefs:
        """These beliefs and what `other` counted."""
        if not self.counts:
            return other
        counts = dict(self.counts)
        for topic, (yes, n) in other.counts.items():
            held = counts.get(topic)
            counts[topic] = (yes, n) if held is None else (held[0] + yes, held[1] + n)
        return Beliefs(counts)

    def learned(self, seen: Iterable[Observation]) -> Beliefs:
        """These beliefs of a workload once a session of it has shown `seen`.

        The past counts for at most so many occasions (`remembered`), so that a workload can change its ways.
        """
        counts = dict(self.counts)
        for one in seen:
            yes, n = counts.get(one.topic, (0.0, 0.0))
            if one.n:  # what is seen of an occasion counted before fades nothing
                most = remembered(one.topic)
                yes, n = yes * min(1.0, most / max(n, 1.0)), min(n, most)
            counts[one.topic] = (yes + one.yes, n + one.n)
        return Beliefs(counts)

    def probability(self, topic: str, prior: float, weight: float) -> float:
        """The mean of `prior`, worth `weight` occasions, and what was counted.

        >>> Beliefs({"goes_on/0": (0.0, 4.0)}).probability("goes_on/0", prior=0.5, weight=4.0)
        0.25
        """
        yes, n = self.counts.get(topic, (0.0, 0.0))
        return (prior * weight + yes) / (weight + n)

    def has_seen(self, topic: str) -> bool:
        """Whether what `topic` is about has happened at all."""
        return self.counts.get(topic, (0.0, 0.0))[0] > 0

    def followed_at(self, place: int) -> tuple[float, float]:
        """How often a session's request with index `place` was followed, of so many times."""
        yes, n = self.counts.get(followed_at_topic(place) or "", (0.0, 0.0))
        return min(yes, n), n  # what is forgotten meanwhile may leave more yes than occasions

    def followed(self, turn: int, *, tools: bool, seen: tuple[float, float] | None = None) -> float:
        """That another request follows the one whose prompt holds `turn` replies, be it soon or late; from what others
        have `seen` of such requests, where that is not all that was counted.

        A session that has gone on from a request with that index before is a long one, whatever others of its workload
        were: what they showed is then worth as little as a stated prior.

        >>> short = Beliefs({"goes_on/3": (0.0, 40.0)})
        >>> round(short.followed(3, tools=True), 2), round(short.after(went_on(3)).followed(3, tools=True), 2)
        (0.03, 0.42)
        """
        stated = priors()
        by_turn = stated.goes_on_with_tools if tools else stated.goes_on_without_tools
        yes, n = seen or self.counts.get(goes_on_topic(turn), (0.0, 0.0))
        followed = (by_turn[min(turn, len(by_turn) - 1)] * stated.prior_weight + yes) / (stated.prior_weight + n)
        _, here = self.counts.get(_went_on_topic(turn), (0.0, 0.0))
        return (followed * stated.prior_weight + here) / (stated.prior_weight + here)

    def in_place(self, followed: float, place: int) -> float:
        """`followed`, which something else than places tells, after a session's request with index `place`: its odds,
        once places are known to differ, times those seen there over those seen anywhere.

        >>> ends = Beliefs({BY_PLACE: (0.7, 0.8), "followed/7": (0.0, 5.0), "followed/6": (5.0, 5.0)})
        >>> [round(ends.in_place(0.95, place), 2) for place in (6, 7, 20)]
        [0.99, 0.27, 0.95]
        """
        worth_yes, worth = self.counts.get(BY_PLACE, (0.0, 0.0))
        yes, n = self.followed_at(place)
        if not n or not 0.0 < worth_yes < worth or followed >= 1.0:
            return followed
        there = (worth_yes + yes) / (worth - worth_yes + n - yes)
        odds = followed / (1.0 - followed) * there * (worth - worth_yes) / worth_yes
        return odds / (1.0 + odds)

    def generally(self, followed: float) -> float:
        """That any request of the workload is followed; `followed`, which is believed of this one, before it is known.

        >>> Beliefs({BY_PLACE: (4.5, 5.0)}).generally(1.0), Beliefs().generally(0.7)
        (0.9, 0.7)
        """
        yes, n = self.counts.get(BY_PLACE, (0.0, 0.0))
        return yes / n if n > 0.0 else followed

    def answered_by_people(self) -> float:
        """The share of replies that a person answers, and no tool.

        >>> [round(one.answered_by_people(), 2) for one in (Beliefs(), Beliefs({after_topic("user"): (3.0, 3.0)}))]
        [0.1, 0.78]
        """
        people, tools = (self.counts.get(after_topic(awaits), (0.0, 0.0))[1] for awaits in ("user", "tool"))
        return (priors().answered_by_people + people) / (1.0 + people + tools)

    def followed_after(self, awaits: str) -> float:
        """That another request follows a reply, by what it asked for: "user", or "tool:NAME"."""
        stated = priors()
        prior = stated.followed_after_answer if awaits == "user" else stated.followed_after_tool
        return self.probability(after_topic(awaits), prior, stated.prior_weight)

    def alive(self, others: int | None = None) -> float:
        """That a prefix which should be held still is: providers may evict early. On a server of the user's own, by how
        many `others` it has computed since, where that is known: what it has room for is learned.

        More others leave no more of it than fewer do.

        >>> two_slots = Beliefs({"alive": (9.0, 18.0), alive_topic(1): (9.0, 9.0), alive_topic(2): (0.0, 9.0)})
        >>> [round(two_slots.alive(others), 2) for others in (None, 1, 2, 40)]
        [0.53, 0.93, 0.08, 0.08]
        """
        stated = priors()
        odds = self.probability(ALIVE, stated.entry_alive, stated.prior_weight)
        if others is None:
            return odds
        topic = alive_topic(others)
        for fewer in map(alive_topic, (at for at in _DISTANCES if at < others)):
            if fewer != topic and fewer in self.counts:
                odds = min(odds, self.probability(fewer, odds, stated.prior_weight))
        return self.probability(topic, odds, stated.prior_weight)

    def shared(self, beginning: str = SHARED) -> float:
        """That another session begins with the same tools and system, or other `beginning`, in the default lifetime.

        >>> names = Beliefs({SHARED: (0.0, 5.0), "shared_tools": (5.0, 5.0)})  # each system prompt names its user
        >>> round(names.shared(), 2), round(names.shared("shared_tools"), 2), names.shared(SHARED_OPENING)
        (0.05, 0.88, 0.1)
        """
        stated = priors()
        prior = stated.opening_shared if beginning == SHARED_OPENING else stated.prefix_shared
        return self.probability(beginning, prior, 1.0)

    def shared_later(self, beginning: str = SHARED) -> float:
        """That one does within the longest lifetime, where none did within the default one; 0 before one did."""
        topic = LATER[beginning]
        return self.probability(topic, priors().prefix_shared_later, 1.0) if self.has_seen(topic) else 0.0

    def repeated(self) -> float:
        """That another session begins with the whole of this first prompt in time: samples, retries, evaluations."""
        stated = priors()
        return self.probability(REPEATED, stated.prompt_repeated, 1.0)

    def grows(self) -> float:
        """Tokens by which the next prompt is expected to be longer; 0 before any was."""
        tokens, n = self.counts.get(GROWS, (0.0, 0.0))
        return tokens / n if n > 0 else 0.0

    def stable(self, place: str) -> float:
        """That `place` comes back, unchanged or as a variant that is still warm.

        >>> changed_once = Beliefs({"stable/system[0]": (0.0, 1.0)})
        >>> round(Beliefs().stable("system[0]"), 2), round(changed_once.stable("system[0]"), 2)
        (0.89, 0.2)
        >>> grown_once = Beliefs({"stable/end of tools": (0.0, 1.0)})  # as a history, which is mostly edited once
        >>> edited_once = Beliefs({"stable/messages[0].content": (0.0, 1.0)})
        >>> round(edited_once.stable("messages[0].content"), 2), round(grown_once.stable("end of tools"), 2)
        (0.32, 0.32)
        """
        stated: Priors = priors()
        same, changed = stated.same, stated.changed
        if is_history(place) or place.startswith((END_OF, PARAMETERS)):
            same, changed = stated.same_once, stated.changed_once
        yes, n = self.counts.get(f"stable/{place}", (0.0, 0.0))
        return (same + yes) / (same + changed + n)

    def bytes_per_token(self, model: str) -> float | None:
        """The learned ratio for `model`; None before its provider has counted anything."""
        size, tokens = self.counts.get(f"bytes/{model}", (0.0, 0.0))
        return size / tokens if size > 0 and tokens > 0 else None

    def prefill(self, model: str) -> float | None:
        """Seconds in which a server of the user's own computes a token of a prompt to `model`; None before it has."""
        seconds, tokens = self.counts.get(f"prefill/{model}", (0.0, 0.0))
        return seconds / tokens if seconds > 0 and tokens > 0 else None

    def unstable_places(self) -> list[str]:
        """Places that have been seen to change; the end, wherever it has got to, is none."""
        start = len("stable/")
        return [one[start:] for one in self.counts if one.startswith("stable/") and one not in _NO_PLACE]

    @property
    def leaves_out(self) -> bool:
        """Whether calls of tools were ever left out once they had been answered: the place `loop` is told of then."""
        return _LOOP in self.counts

    @cached_property
    def doubted_places(self) -> list[str]:
        """Those outside the history that change in most requests; a place in it is another one in each session."""
        return [one for one in self.unstable_places() if not is_history(one) and self.stable(one) < _DOUBTED]

    def changing_places(self) -> list[str]:
        """Those that were other ones in most requests, of two at least."""
        seen = {name: self.counts[f"stable/{name}"] for name in self.unstable_places()}
        return [name for name, (yes, n) in seen.items() if n >= max(2.0, 2.0 * yes)]
