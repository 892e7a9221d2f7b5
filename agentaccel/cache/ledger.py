"""What we believe the provider holds, until when; and the documented arithmetic of one request against it.

The algorithm for Claude models is the vendor's (prompt caching guide, 2026-09): each marker on a prefix of at least
the minimum writes one entry; each marker looks back at most `lookback` positions, its own first, for a live entry;
the longest hit is read; what lies between the hit and the last marker is written, what lies behind the last marker is
neither. With several lifetimes, the part up to the last marker of a longer lifetime is written at that lifetime's
price. OpenAI's newer models differ in where they look (`hit_of`) and set a breakpoint of their own; its older ones,
and most servers, keep every prefix at no charge, which is a mark at the end of every request whose writing costs
nothing.

>>> from agentaccel.facts import cache_facts
>>> facts = cache_facts("claude-sonnet-5")
>>> entry = Entry(ttl="5m", expires=300.0, visible=2.0)
>>> entry.live(1.0), entry.live(2.0), entry.live(300.0)
(False, True, False)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from agentaccel.cache.prefix import Prefixes
from agentaccel.facts import CacheFacts
from agentaccel.types import Expected, Prompt
from agentaccel.values import maker, quickly_made

# --- Where a provider that sets a breakpoint of its own puts it: at the ends of messages ------------------------------
# OpenAI's guide (2026-09) names the endings that count: of a user's message, of the last of a run of tool outputs,
# and of the last of the operator's messages that a conversation begins with.


def endings(prompt: Prompt, most: int) -> list[int]:
    """The last segments of the latest `most` messages that count, and that of the opening; the latest first."""
    segments, found = prompt.segments, list[int]()
    start = prompt.starts[2]
    after, role_after = None, ""
    for i in range(len(segments) - 1, start - 1, -1):
        segment = segments[i]
        message, role = segment.path[1:2], segment.role
        if message != after and (role == "user" or (role == "tool" and role_after != "tool")):
            found.append(i)
            if len(found) == most:
                break
        after, role_after = message, role
    if start and segments[start - 1].level == "system" and segments[start - 1].kind != "instructions":
        found.append(start - 1)
    return found


class Entry(NamedTuple):
    """A prefix that the provider is believed to hold. A named tuple, because every turn makes all of a path anew."""

    ttl: str
    """Label of its lifetime."""
    expires: float
    """When it is gone, exclusive, unless it is used before; seconds since the epoch."""
    visible: float
    """From when on requests can read it, inclusive: the first byte of the reply to the request that wrote it."""
    tokens: int | None = None
    """Exact tokens of the prefix, where the provider's own counts told them."""
    at: int = -1
    """The segment that it ended with when it was last seen; -1 where not known."""
    own: bool = False
    """Whether the provider wrote it by itself. A request that switches that off is taken not to find it."""

    def live(self, now: float) -> bool:
        return self.visible <= now < self.expires


_entry = maker(Entry)
"""A turn makes as many as it holds."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """Entries by prefix hash. A value: every change is a new one."""

    entries: Mapping[bytes, Entry] = field(default_factory=dict)

    def live(self, hash_: bytes, now: float, *, own: bool = True) -> bool:
        """Whether a prefix is held; without `own`, those that the provider wrote by itself do not count."""
        entry = self.entries.get(hash_)
        return entry is not None and entry.live(now) and (own or not entry.own)

    def on(self, prefix: Prefixes) -> dict[int, Entry]:
        """The entries that this prompt begins with, by the segment that they end with."""
        hashes, entries = prefix.hashes, self.entries
        length = len(hashes)
        # Where they were when they were last seen, as most are; the others are looked for.
        found = {one.at: one for hash_, one in entries.items() if -1 < one.at < length and hashes[one.at] == hash_}
        if len(found) < len(entries):
            for hash_, entry in entries.items():
                i = prefix.find(hash_, entry.at) if found.get(entry.at) is not entry else -1
                if i >= 0:
                    found[i] = entry
        return found


@quickly_made
@dataclass(frozen=True, slots=True)
class Breakpoint:
    """A marker as the arithmetic needs it: the segment whose prefix it ends, and its lifetime."""

    at: int
    ttl: str
    own: bool = False
    """Whether the provider sets it by itself."""


class CacheBill(NamedTuple):
    """What one request does to the cache."""

    hit: int
    """The segment whose prefix is read; -1 where nothing is."""
    expected: Expected
    written: tuple[Breakpoint, ...]
    """Markers on a prefix of at least the minimum: those behind the hit write an entry."""


Tokens = Callable[[int], float]
"""Tokens of the prefix that ends with segment i, inclusive; 0 for -1."""


def bill(
    prefix: Prefixes, marks: Sequence[Breakpoint], live: Callable[[int], bool], tokens: Tokens, positions: str
) -> CacheBill:
    """The arithmetic of a request with `marks` (ascending) when `live(i)` tells whether the prefix up to i is held.

    `tokens(i)` must not decrease. The caller leaves out marks on prefixes below the model's minimum: they do nothing.
    """
    valid = tuple(marks)
    hit = hit_of(prefix, valid, live, positions)
    expected = charge(prefix.facts, reach_of(valid, tokens), read=tokens(hit), total=tokens(len(prefix.hashes) - 1))
    return CacheBill(hit=hit, expected=expected, written=valid)


def reach_of(marks: Sequence[Breakpoint], tokens: Tokens) -> dict[str, float]:
    """Tokens up to the last of `marks` (ascending) of each lifetime."""
    return {ttl: tokens(at) for ttl, at in {mark.ttl: mark.at for mark in marks}.items()}


def charge(facts: CacheFacts, reach: Mapping[str, float], *, read: float, total: float) -> Expected:
    """The tokens that are read, written and neither, of a request of `total` tokens, when a prefix of `read` tokens is
    found, and marks of each lifetime reach as far as `reach` says (`reach_of`)."""
    read = done = counted(facts, read)
    write: dict[str, float] = {}
    for ttl in reversed(facts.ttls):
        end = reach.get(ttl.label, 0.0)
        if end > done and ttl.write != 1:  # where writing is free, nobody counts it
            write[ttl.label] = end - done
            done = end
    return _expected(read=read, write=write, uncached=total - done)


_expected = maker(Expected)


def counted(facts: CacheFacts, tokens: float) -> float:
    """Of a prefix of so many `tokens` that is found, those that are read."""
    read = in_steps(facts, tokens) if facts.assured else 0.0
    # Elsewhere, what is shorter than the minimum was never written, so it is not found.
    return 0.0 if facts.physics == "automatic" and read < facts.min_tokens else read


def in_steps(facts: CacheFacts, tokens: float) -> float:
    """The part of so many `tokens` that is whole steps: a provider keeps no less than a step."""
    return tokens // facts.step * facts.step if facts.step > 1 else tokens


def hit_of(prefix: Prefixes, marks: Sequence[Breakpoint], live: Callable[[int], bool], positions: str) -> int:
    """The longest live prefix that a request with `marks` (ascending) finds; -1 where it finds none."""
    if prefix.facts.physics != "markers":
        return next((i for i in _looked_up(prefix, marks) if live(i)), -1)
    for mark in reversed(marks):
        hit = found(prefix, mark.at, live, positions)
        if hit >= 0:
            return hit
    return -1


def _looked_up(prefix: Prefixes, marks: Sequence[Breakpoint]) -> Sequence[int]:
    """Where a provider looks that does not walk back from markers, the longest prefix first.

    With breakpoints: at those of the request, and where the provider sets one by itself, also at the message endings
    before it. Else everywhere.
    """
    if prefix.facts.physics == "automatic":
        return range(len(prefix.hashes) - 1, -1, -1) if marks else ()
    places = {mark.at for mark in marks}
    if any(mark.own for mark in marks):
        places.update(endings(prefix.prompt, prefix.facts.lookback + 1))
    return sorted(places, reverse=True)


def found(prefix: Prefixes, at: int, live: Callable[[int], bool], positions: str) -> int:
    """The longest live prefix that a marker at segment `at` finds within the lookback; -1 where it finds none."""
    for _ in range(prefix.facts.lookback):
        if live(at):
            return at
        at = prefix.previous(at, positions)
        if at < 0:
            break
    return -1


def after(
    ledger: Ledger,
    prefix: Prefixes,
    done: CacheBill,
    held: Mapping[int, Entry],
    *,
    started: float,
    visible: float,
    exact: Mapping[int, int],
) -> Ledger:
    """The ledger once the reply to a request has begun.

    `held` are its entries that the prompt begins with (`Ledger.on`).
    Entries on the path that was read are refreshed for their own lifetime, counted from the start of the request;
    marks behind it are entered. `exact` holds the tokens of prefixes that the provider's counts told.
    """
    facts = prefix.facts
    seconds = {ttl.label: ttl.seconds for ttl in facts.ttls}
    until = {label: started + life for label, life in seconds.items()}
    hit, hashes, entries = done.hit, prefix.hashes, _remembered(ledger.entries, started)
    for i, (ttl, expires, since, tokens, _, own) in held.items():
        if i <= hit and since <= started < expires:
            entries[hashes[i]] = _entry(ttl, until.get(ttl, started), since, tokens, i, own)
    for mark in done.written:
        if mark.at <= done.hit:
            continue  # read, not written: what is held there was refreshed above with the lifetime that it has
        hash_ = prefix.hashes[mark.at]
        label = mark.ttl
        if (
            facts.ages == "blocks"
            and done.hit in held
            and seconds.get(held[done.hit].ttl, 0.0) < seconds.get(label, 0.0)
        ):
            label = held[done.hit].ttl  # what stands before it goes first, and with it all that stands behind
        entries[hash_] = Entry(label, until.get(label, started), visible, None, mark.at, mark.own)
    if done.hit >= 0:
        there = ledger.entries.get(prefix.hashes[done.hit])
        if there is None or not there.live(started):
            # Read, and not of our own: another session holds it. It asked, most likely, for what this one asks there.
            lent = next((facts.ttl(mark.ttl) for mark in done.written if mark.at == done.hit), None) or facts.ttls[0]
            entries[prefix.hashes[done.hit]] = Entry(lent.label, started + lent.seconds, started, None, done.hit)
    for i, count in exact.items():
        old = entries.get(prefix.hashes[i])
        if old is not None:
            entries[prefix.hashes[i]] = old._replace(tokens=count)
    return Ledger(_bounded(entries, prefix))


def rearmed(ledger: Ledger, prefix: Prefixes, hit: int, now: float) -> Ledger:
    """The ledger once a request of our own, sent `now`, was answered: the prefix up to `hit` is held, be it read, or
    written again because its lifetime was over."""
    seconds = {ttl.label: ttl.seconds for ttl in prefix.facts.ttls}
    entries = dict(ledger.entries)
    for i, entry in ledger.on(prefix).items():
        if i == hit or (i < hit and entry.live(now)):
            entries[prefix.hashes[i]] = entry._replace(expires=now + seconds.get(entry.ttl, 0.0), at=i)
    return Ledger(entries)


def _remembered(entries: Mapping[bytes, Entry], now: float) -> dict[bytes, Entry]:
    """`entries` without those that have been dead for long."""
    if min(map(_expires, entries.values()), default=now) > now - _KEEP:
        return dict(entries)
    return {hash_: entry for hash_, entry in entries.items() if entry.expires > now - _KEEP}


_expires = attrgetter("expires")
_KEEP = 3600.0
"""Seconds for which a dead entry is remembered, so that a miss can be told to be an expiry."""

_MOST_ENTRIES = 24
"""Entries remembered. A loop adds one per turn, and only the longest and the static ones are ever read again."""


def _bounded(entries: dict[bytes, Entry], prefix: Prefixes) -> dict[bytes, Entry]:
    """`entries` without the oldest of the middle of the history, once there are too many."""
    if len(entries) <= _MOST_ENTRIES:
        return entries
    static = set(prefix.hashes[: prefix.starts[2]])
    if prefix.prompt.edited:
        static.add(prefix.hashes[prefix.prompt.edited - 1])
    middle = {hash_: entry.visible for hash_, entry in entries.items() if hash_ not in static}
    for hash_ in sorted(middle, key=middle.__getitem__)[: len(entries) - _MOST_ENTRIES]:
        del entries[hash_]
    return entries
