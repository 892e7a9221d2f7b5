"""What it is worth that an entry lives long: each lifetime of the provider, by the pauses of the workload.

With f the probability that another request follows and l(t) that the pause before it is longer than t, an entry of
lifetime t is read by it with probability f·(1 - l(t)), and every token of it then saves w - r. A longer lifetime adds
what lies between, and costs a premium on what is written now, so it is weighed by what it adds.

Where one marker at the tail keeps all of the prefix for longer, it need not be set each turn. Until it is set again,
the prefix grows by some g tokens a turn that live shorter: with v what the longer life adds per token and turn, and c
its premium per token written, setting it every n turns costs c·g/n + v·g·n/2 a turn, least for n = sqrt(2·c/v). So it
pays where what it adds over n/2 turns, or over those that are expected to come, is more than its premium: the economic
order quantity (Harris, 1913). Where a part of the prompt has changed by then, a marker behind it keeps nothing, and
what stands before that part lives longer only if it is written so now: for its tokens, with those odds, all turns to
come count. And where calls of tools are left out once a person writes again (`loop` in `places`), a marker behind them
keeps nothing over the pause that a longer life is for: for what stands before them, and not for them, all turns to come
count. Where each block lives as long as it was written for, what it adds counts for all turns that are expected to
come, and only behind blocks that live as long.

What other sessions begin with, too, is used by any of them. With u(t) the odds that one of them, or the conversation
itself, uses it within t, an entry is used u/(1 - u) times until it is lost, and whoever always writes it for t pays
u·r + (1 - u)·w(t) a use: let g be the least of these, or 1 where it is best sent as it is. An entry saves g - r at each
use, and others add what it saves beyond what the conversation alone would use it for (the average cost of a renewal
process: Howard, 1960). So with one use alone the rule is again to write where u·r + (1 - u)·w < 1.

A longer lifetime needs a reason: before a pause that outlasts the shorter one has been seen to end, in this session or
another of the workload, it adds nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from agentaccel.cache.beliefs import LATER, PARTS, SHARED, Beliefs
from agentaccel.cache.pauses import EDGES, Pauses, has_ended_after
from agentaccel.facts import CacheFacts, Ttl, priors

# --- When a request of our own that only keeps entries alive pays: optimal stopping over the odds of the pause --------
# Such a request is the session's last one again, asking for no reply: it reads what is held, re-arms it for its
# lifetime, and writes what is not held any more. Let the whole prompt of T tokens live for s seconds, and a shorter
# prefix of B tokens for S > s. While the session pauses, the choice after each use is
#
# - to send after s: for r·T all of it lives on;
# - to send after S: for r·B + w·(T - B) the shorter prefix lives on, and the rest is there again; until then a request
#   that comes later than s reads B tokens only;
# - to send nothing more.
#
# With c(t) the probability that another request comes, and later than t, and p(t) that none has come until then, be
# it that none ever does, what stands to be won from a use at t on is, each token read saving g = w - r,
#
#     V(t) = g·T·(c(t) - c(t + s)) + max(  V(t + s) - r·T·p(t + s),
#                                          g·B·(c(t + s) - c(t + S)) + max(0, V(t + S) - (r·B + w·(T - B))·p(t + S))  )
#
# on a grid of steps of s, a little shortened so that nothing comes too late. The price of a request counts
# `keep_alive_margin` times, because the odds are estimates. A second session of the workload that starts meanwhile,
# and could read the shared part, is left out: it makes keeping pay more.


class PausedPrefix(NamedTuple):
    """A prefix that is held when a pause begins."""

    tokens: float
    ttl: Ttl
    """How long it lives from each use."""
    renewable: bool = True
    """Whether a request of our own may be sent for its sake."""


class Keeping(NamedTuple):
    """What to do about a pause."""

    waits: tuple[float, ...]
    """Seconds from each use of the entries to the next request that keeps them; empty where none is sent."""
    worth: float
    """What the entries are expected to save in the request that ends the pause, less what keeping them costs, in
    uncached tokens."""


def keeping(
    pauses: Pauses, followed: float, held: Sequence[PausedPrefix], *, read: float, gain: float, beside: float = 0.0
) -> Keeping:
    """The requests that pay during a pause.

    `followed` is the probability that another request comes at all; `held` the whole prefix and, where a shorter one
    lives longer by itself, that one behind it; `read` what reading a token costs and `gain` what a token read saves
    over writing it, in uncached tokens; `beside` the tokens behind what is held, which each request pays in full.

    >>> from agentaccel.cache.beliefs import Beliefs
    >>> from agentaccel.cache.pauses import ANY, pause_seen, pauses
    >>> from agentaccel.facts import cache_facts
    >>> tea = pauses(Beliefs().after([one for _ in range(30) for one in pause_seen(ANY, 900)]), ANY)
    >>> ttls = cache_facts("claude-sonnet-5").ttls
    >>> five, hour = (PausedPrefix(tokens, ttl) for tokens, ttl in zip((10_000, 9_000), ttls))
    >>> keeping(tea, 0.9, (five,), read=0.1, gain=1.15).waits
    (285.0, 285.0, 285.0)
    >>> keeping(tea, 0.9, (five,), read=0.1, gain=1.15, beside=5_000).waits
    ()
    >>> keeping(tea, 0.9, (five, hour), read=0.1, gain=1.15).waits
    ()
    >>> lunch = pauses(Beliefs().after([one for _ in range(30) for one in pause_seen(ANY, 5000)]), ANY)
    >>> keeping(lunch, 0.9, (five, hour), read=0.1, gain=1.15).waits
    (3420.0,)
    """
    stated, whole = priors(), held[0]
    base = held[1] if len(held) > 1 else PausedPrefix(0.0, whole.ttl, renewable=False)
    step = whole.ttl.seconds * stated.keep_alive_at
    span = max(int(base.ttl.seconds * stated.keep_alive_at / step), 1)
    reach = _PATIENCE * gain / read * span * step if read > 0 else _LONGEST
    last = int(min(reach, _LONGEST) / step)
    comes = [followed, *(followed * pauses.longer(step * i) for i in range(1, last + span + 2))]
    short = (read * whole.tokens + beside) * stated.keep_alive_margin if whole.renewable else _NEVER
    rewritten = whole.ttl.write * (whole.tokens - base.tokens)
    long = (read * base.tokens + rewritten + beside) * stated.keep_alive_margin if base.renewable else _NEVER
    value, moves = [0.0] * len(comes), [0] * (last + 1)
    for i in range(last, -1, -1):
        soon, late = comes[i + 1], comes[i + span]
        after_whole = value[i + 1] - short * (soon + 1.0 - followed)
        after_base = value[i + span] - long * (late + 1.0 - followed)
        left = gain * base.tokens * (soon - late) + max(after_base, 0.0)
        moves[i] = 1 if after_whole > left else span if after_base > 0.0 else 0
        value[i] = gain * whole.tokens * (comes[i] - soon) + max(after_whole, left)
    waits, i = list[float](), 0
    while i <= last and moves[i]:
        waits.append(moves[i] * step)
        i += moves[i]
    return Keeping(tuple(waits), value[0])


_LONGEST = float(EDGES[-1])
_NEVER = 1e30
"""The price of what may not be done."""

_PATIENCE = 4.0
"""Requests in a row that are looked ahead to, in those whose price one miss makes up for."""


class Longevity(NamedTuple):
    """What one lifetime adds to the next shorter one, per token held so long, in uncached tokens."""

    ttl: Ttl
    own: float
    """By the next requests of the conversation."""
    in_loop: float
    """The same of what may be left out once a person writes again."""
    lent: tuple[float, ...] = ()
    """By other sessions, for each beginning that they may have in common with this one."""

    @property
    def counts(self) -> bool:
        """Whether it adds anything."""
        return self.own > 0.0 or any([one > 0.0 for one in self.lent])


class Lending(NamedTuple):
    """What other sessions may begin with, too."""

    beginnings: Sequence[str]
    """The topics under which these are counted, the shortest first (`beginning_ends`)."""
    repeated: float
    """The probability that one begins with the whole prompt in time."""


class Prospect(NamedTuple):
    """What is expected of a conversation."""

    followed: float
    """That another request follows, be it soon or late."""
    then: float
    """That one more follows that one."""
    generally: float
    """That any request of the workload is followed."""
    stays: float
    """That the prompt comes back in it as it is."""
    unkept: float
    """Of its tokens, the share that a marker at its end, set later, would keep nothing of: what stands before a part
    that has been seen to change, times the odds that it does."""
    left_out: float
    """That what follows on the last words of a person does not come back after a pause."""
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
    facts: CacheFacts, ttls: Sequence[Ttl], beliefs: Beliefs, prospect: Prospect, lending: Lending
) -> tuple[Longevity, ...]:
    """What each of `ttls` (shortest first) is worth."""
    gain = _gain(facts, ttls, prospect)
    renewable = has_ended_after(beliefs, ttls[0].seconds)
    savings = _Savings(renewable, prospect, facts.read, gain, ttls[-1])
    lives: list[Longevity] = []
    here = usual = 0.0
    within = list[_Within]()
    for ttl in ttls:
        if not lives or has_ended_after(beliefs, lives[-1].ttl.seconds):
            now = savings.by(ttl, prospect.pauses)
            same = prospect.pauses is prospect.usual
            later = now if same else savings.by(ttl, prospect.usual)
            in_time = 1.0 - prospect.pauses.longer(ttl.seconds)
            mostly = in_time if same else 1.0 - prospect.usual.longer(ttl.seconds)
            within.append(_Within(prospect.followed * in_time, min(prospect.generally * mostly, _MOST_CERTAIN)))
        else:
            now, later = here, usual
            within.append(within[-1])
        own, added = max(now - here, 0.0), max(later - usual, 0.0)
        in_loop = own
        if lives:
            premium = ttl.write - lives[-1].ttl.write
            turns = _turns(facts, prospect, added, premium)
            own, in_loop = [own + (count - 1.0) * added for count in turns]
        lives.append(Longevity(ttl, own, in_loop))
        here, usual = max(now, here), max(later, usual)
    lent = _Lent(facts, ttls, beliefs, lending.repeated, within)
    by_others = list(map(lent.adds, lending.beginnings))
    return tuple([life._replace(lent=tuple([one[n] for one in by_others])) for n, life in enumerate(lives)])


class _Savings(NamedTuple):
    """What goes into how much a token saves in the next request."""

    renewable: bool
    """Whether a pause has been seen to end that was too long for the shortest lifetime: before, none is kept over."""
    prospect: Prospect
    read: float
    """What reading a token costs, in uncached ones."""
    gain: float
    """What a token read saves over writing it."""
    longest: Ttl

    def by(self, ttl: Ttl, pauses: Pauses) -> float:
        """What is expected to be saved per token held for `ttl`, beside what is held for the longest lifetime."""
        followed, lasting = self.prospect.followed, self.prospect.lasting if ttl is not self.longest else 0.0
        if not self.prospect.keeps or lasting >= 1.0:
            return followed * (1.0 - pauses.longer(ttl.seconds)) * self.gain
        base = self._kept(self.longest, lasting)
        worth = self._worth(pauses, self._kept(ttl, 1.0), *([base] if lasting else []))
        return (worth - self._worth(pauses, base)) / (1.0 - lasting) if lasting else worth

    def _kept(self, ttl: Ttl, tokens: float) -> PausedPrefix:
        return PausedPrefix(tokens, ttl, self.renewable)

    def _worth(self, pauses: Pauses, *held: PausedPrefix) -> float:
        return keeping(pauses, self.prospect.followed, held, read=self.read, gain=self.gain).worth


class _Within(NamedTuple):
    """That an entry is read again in time, by the conversation itself or by any."""

    next: float
    """By the next request."""
    later: float
    """By the one after a later one: at most `_MOST_CERTAIN`."""

    def beside(self, others: float) -> _Within:
        """The same where other sessions read it with such odds."""
        alone = 1.0 - others
        later = 1.0 - (1.0 - self.later) * alone
        return _Within(1.0 - (1.0 - self.next) * alone, min(later, _MOST_CERTAIN))

    @property
    def reads(self) -> float:
        """How often it is read until it is lost."""
        return self.next / (1.0 - self.later)


class _Lent(NamedTuple):
    """What goes into how much a token saves that other sessions begin with, too; see the module's docstring."""

    facts: CacheFacts
    ttls: Sequence[Ttl]
    beliefs: Beliefs
    repeated: float
    """As in `Lending`."""
    within: Sequence[_Within]
    """For each of `ttls`, by this conversation alone."""

    def adds(self, beginning: str) -> list[float]:
        """What each lifetime adds per token of `beginning` beyond what it adds for this conversation alone."""
        beliefs, read = self.beliefs, self.facts.read
        alike: tuple[str, ...] = (beginning,)
        if beginning in PARTS:
            alike = (SHARED, beginning) if beginning in beliefs.counts else (SHARED,)
        soon = max(self.repeated, *map(beliefs.shared, alike))
        late = soon + (1.0 - soon) * max(map(beliefs.shared_later, alike))
        first, used, usual = self.facts.ttls[0].label, list[_Within](), 1.0
        for ttl, own in zip(self.ttls, self.within, strict=True):
            one = own.beside(soon if ttl.label == first else late)
            usual = min(usual, one.later * read + (1.0 - one.later) * ttl.write)
            used.append(one)
        known = any([beliefs.has_seen(one) or beliefs.has_seen(LATER[one]) for one in alike])
        added, before = list[float](), 0.0
        for all_, own in zip(used, self.within, strict=True):
            worth = (usual - read) * (all_.reads - own.reads)
            if added and not known:  # a longer lifetime needs a reason: that some session has shared anything
                worth = before
            added.append(worth - before)
            before = worth
        return added


def _gain(facts: CacheFacts, ttls: Sequence[Ttl], prospect: Prospect) -> float:
    """What the next request saves per token by finding it: w - r for the lifetime that is best.

    No more than what it costs to send the token as long as it comes back, with odds q each time: (1 - r) / (1 - q). So
    an entry that the last request of a session reads saves 1 - r, because that one would not write it.
    """
    read, usual = facts.read, prospect.usual

    def saved(ttl: Ttl) -> float:
        in_time = prospect.followed * prospect.stays * (1.0 - usual.longer(ttl.seconds))
        return in_time * (ttl.write - read) - (ttl.write - 1.0)

    best = max(ttls, key=saved)
    again = prospect.then * prospect.stays * (1.0 - usual.longer(best.seconds))
    return min(best.write - read, (1.0 - read) / (1.0 - min(again, _MOST_CERTAIN)))


def _turns(facts: CacheFacts, prospect: Prospect, added: float, premium: float) -> tuple[float, float]:
    """Over how many turns what a longer life adds is to be counted, and over how many that of what may be left out; see
    the module's docstring."""
    coming = 1.0 / (1.0 - min(prospect.followed * prospect.stays, _MOST_CERTAIN))
    if facts.ages == "blocks" or added <= 0.0:
        return coming, coming
    later = max(1.0, min(coming, math.sqrt(premium / (2.0 * added))))
    more = max(1.0 / (1.0 - min(prospect.followed, _MOST_CERTAIN)) - later, 0.0)
    return later + max(prospect.unkept, prospect.left_out) * more, later + prospect.unkept * more


_MOST_CERTAIN = 0.98
"""Nothing is expected to come back for more than fifty turns."""
