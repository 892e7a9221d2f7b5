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
    """Of the pause that comes next."""
    usual: Pauses
    """Of those after it; the very same where nothing tells them apart."""
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
    here = usual = shared = 0.0
    for ttl in ttls:
        keeps = prospect.keeps and has_ended_after(beliefs, ttl.seconds)
        known = not lives or has_ended_after(beliefs, lives[-1].ttl.seconds)
        lost = 1.0 if ttl is ttls[-1] else 1.0 - prospect.lasting
        term = _Term(facts.read, gain, ttl.seconds, keeps and lost > 0.0, lost, ttls[-1].seconds)
        now = _saved(term, prospect.followed, prospect.pauses) if known else here
        later = now if prospect.pauses is prospect.usual else _saved(term, prospect.followed, prospect.usual)
        begins = max(beliefs.shared(), repeated)
        if lives and beliefs.has_seen(SHARED_LATER):
            begins += (1.0 - begins) * beliefs.shared_later()
        own, added = max(now - here, 0.0), max(later - usual, 0.0) if known else 0.0
        lent = max(gain * begins - shared, 0.0)
        if lives:
            own += (_turns(facts, prospect, added, ttl.write - lives[-1].ttl.write) - 1.0) * added
            lent /= 1.0 - min(begins, _MOST_CERTAIN)  # each session that begins in time re-arms it for the next
        lives.append(Longevity(ttl, own, lent))
        here, usual, shared = max(now, here), max(later, usual), gain * begins
    return tuple(lives)


class _Term(NamedTuple):
    """One lifetime, and what goes with it."""

    read: float
    """What reading a token costs, in uncached ones."""
    gain: float
    """What a token read saves over writing it."""
    seconds: float
    """The lifetime."""
    keeps: bool
    """Whether it is kept alive beyond them."""
    lost: float
    """Share of the tokens that would be lost without that, until the longest lifetime has passed."""
    longest: float
    """Seconds of the longest lifetime."""


def _saved(term: _Term, followed: float, pauses: Pauses) -> float:
    """What a token is expected to save in the next request by being held so long."""
    within = followed * (1.0 - pauses.longer(term.seconds))
    saved = within * term.gain
    if term.keeps:
        until = term.longest if term.longest > term.seconds else 0.0
        kept = keeping(
            pauses,
            followed,
            seconds=term.seconds,
            read=term.read,
            gain=term.gain,
            lost=term.lost,
            until=until,
        )
        saved += (1.0 - within) * kept.worth / term.lost
    return saved


def _usual(facts: CacheFacts, ttls: Sequence[Ttl], prospect: Prospect) -> Ttl:
    """The lifetime that a token is best written for in every turn, and so would be in the next one if it is not now."""

    def saved(ttl: Ttl) -> float:
        read = prospect.followed * prospect.stays * (1.0 - prospect.usual.longer(ttl.seconds))
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
