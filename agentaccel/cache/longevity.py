"""What it is worth that an entry lives long: each lifetime of the provider, by the pauses of the workload.

With f the probability that another request follows and l(t) that the pause before it is longer than t, an entry of
lifetime t is read by it with probability f·(1 - l(t)), and every token of it then saves w - r. A longer lifetime adds
what lies between, and costs a premium on what is written now, so it is weighed by what it adds.

Where one marker at the tail keeps all of the prefix for longer, it need not be set each turn. Until it is set again,
the prefix grows by some g tokens a turn that live shorter: with v what the longer life adds per token and turn, and c
its premium per token written, setting it every n turns costs c·g/n + v·g·n/2 a turn, least for n = sqrt(2·c/v). So it
pays where what it adds over n/2 turns, or over those that are expected to come, is more than its premium: the economic
order quantity (Harris, 1913). Where each block lives as long as it was written for, what it adds counts for all turns
that are expected to come, and only behind blocks that live as long.

A longer lifetime is an insurance, and needs a reason: before a pause that outlasts the shorter one has been seen to
end, in this session or another of the workload, it adds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from agentaccel.cache.beliefs import SHARED_LATER, Beliefs
from agentaccel.cache.keep import keeping
from agentaccel.cache.pauses import Pauses, has_ended_after
from agentaccel.facts import CacheFacts, Ttl


class Longevity(NamedTuple):
    """What one lifetime adds to the next shorter one, per token held so long, in uncached tokens."""

    ttl: Ttl
    own: float
    """By the next requests of the conversation."""
    shared: float
    """By another session that begins with the same tools and system."""


class Prospect(NamedTuple):
    """What is expected of a conversation."""

    followed: float
    """That another request follows, be it soon or late."""
    stays: float
    """That the prompt comes back in it as it is."""
    pauses: Pauses
    keeps: bool
    """As in `View`."""
    lasting: float
    """Share of the prompt's tokens that is held for the longest lifetime already: it needs no keeping, and what keeps
    the rest reads it, too."""


def longevities(
    facts: CacheFacts, ttls: Sequence[Ttl], beliefs: Beliefs, prospect: Prospect, repeated: float
) -> tuple[Longevity, ...]:
    """What each of `ttls` (shortest first) is worth.

    `repeated` is the probability that another session begins with the whole prompt in time.
    """
    gain = _usual(facts, ttls, prospect).write - facts.read
    lives: list[Longevity] = []
    own = shared = 0.0
    for ttl in ttls:
        within = 1.0 - prospect.pauses.longer(ttl.seconds)
        longer = prospect.followed * within * gain
        if prospect.keeps and has_ended_after(beliefs, ttl.seconds):
            longer += (1.0 - prospect.followed * within) * _kept(facts, ttl, ttls[-1], prospect, gain)
        begins = max(beliefs.shared(), repeated)
        if lives and beliefs.has_seen(SHARED_LATER):
            begins += (1.0 - begins) * beliefs.shared_later()
        if lives and not has_ended_after(beliefs, lives[-1].ttl.seconds):
            longer = own
        added = max(longer - own, 0.0)
        turns = _turns(facts, prospect, added, ttl.write - lives[-1].ttl.write) if lives else 1.0
        lives.append(Longevity(ttl, added * turns, gain * begins - shared))
        own, shared = max(longer, own), gain * begins
    return tuple(lives)


def _kept(facts: CacheFacts, ttl: Ttl, longest: Ttl, prospect: Prospect, gain: float) -> float:
    """What requests that keep entries of `ttl` are worth, per token that would be lost without them."""
    lost = 1.0 if ttl is longest else 1.0 - prospect.lasting
    if lost <= 0.0:
        return 0.0
    kept = keeping(
        prospect.pauses,
        prospect.followed,
        seconds=ttl.seconds,
        read=facts.read,
        gain=gain,
        lost=lost,
        until=0.0 if ttl is longest else longest.seconds,
    )
    return kept.worth / lost


def _usual(facts: CacheFacts, ttls: Sequence[Ttl], prospect: Prospect) -> Ttl:
    """The lifetime that a token is best written for in every turn, and so would be in the next one if it is not now."""

    def saved(ttl: Ttl) -> float:
        read = prospect.followed * prospect.stays * (1.0 - prospect.pauses.longer(ttl.seconds))
        return read * (ttl.write - facts.read) - (ttl.write - 1.0)

    return max(ttls, key=saved)


def _turns(facts: CacheFacts, prospect: Prospect, added: float, premium: float) -> float:
    """Over how many turns what a longer life adds is to be counted; see the module's docstring."""
    coming = 1.0 / (1.0 - min(prospect.followed * prospect.stays, _MOST_CERTAIN))
    if facts.ages == "blocks" or added <= 0.0:
        return coming
    return max(1.0, min(coming, math.sqrt(premium / (2.0 * added))))


_MOST_CERTAIN = 0.98
"""Nothing is expected to come back for more than fifty turns."""
