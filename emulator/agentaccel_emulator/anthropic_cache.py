"""The physics of the Anthropic prompt cache: which prefix is read, what is written, and how long it lives.

Pure: a tape and a time come in, a settlement comes out, and the only state is the table of entries. Source:
providers.md, 1.3, which follows the vendor's prompt caching guide of September 2026.

>>> from agentaccel_emulator.anthropic_prompt import Tape
>>> rules = Rules(min_tokens=1, lookback=20, seconds={"5m": 300.0, "1h": 3600.0})
>>> def tape(blocks, marker):
...     return Tape(hashes=[bytes([i]) for i in range(blocks)], tokens=[100 * (i + 1) for i in range(blocks)],
...                 positions=list(range(blocks)), markers=[(marker - 1, "5m")], hidden=0)
>>> cache = PromptCache()
>>> for blocks in (10, 15, 35):  # the guide's example: written at 10, read at 10, and 35 is 20 too far from 15
...     settled = cache.settle(tape(blocks, blocks), rules, now=0.0)
...     cache.keep(tape(blocks, blocks), settled, rules, now=0.0, visible_at=0.0)
...     print(settled.read, settled.written)
0 {'5m': 1000}
1000 {'5m': 500}
0 {'5m': 3500}
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentaccel_emulator.anthropic_prompt import Tape
from agentaccel_emulator.settlement import Entry, Lifetimes, Settlement, split_by_lifetime

_SWEEP_EVERY = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What differs between models and platforms."""

    min_tokens: int
    """Shortest prefix that is written, inclusive."""
    lookback: int
    """Positions compared per marker, its own being the first."""
    seconds: Mapping[str, float]
    """Lifetime of each kind of entry, from the start of the request that wrote or read it."""


@dataclass(slots=True)
class PromptCache:
    """The table of entries of one provider; entries that may not be shared differ in their hash."""

    eviction: float = 0.0
    """Probability that an entry dies at a random moment of the lifetime that a write or a read gave it."""
    seed: int = 0
    """Seed of the evictions."""
    entries: dict[bytes, Entry] = field(default_factory=dict)
    """Entries by the hash of their prefix; expired ones are swept out now and then."""
    _lifetimes: Lifetimes = field(init=False)
    _kept: int = 0

    def __post_init__(self) -> None:
        self._lifetimes = Lifetimes(self.eviction, self.seed)

    def settle(self, tape: Tape, rules: Rules, now: float) -> Settlement:
        """Bill the prompt of a request that starts at `now`; every entry on the path that it read is re-armed."""
        hit = self._find(tape, rules.lookback, now)
        if hit is not None:
            self._refresh(tape, hit, rules, now)
        read = tape.tokens[hit] if hit is not None else 0
        entries = tuple(
            (leaf, ttl) for leaf, ttl in tape.markers if tape.tokens[leaf] >= max(rules.min_tokens, read + 1)
        )
        ends = [(tape.tokens[leaf], ttl) for leaf, ttl in entries]
        written, billed = split_by_lifetime(ends, rules.seconds, read)
        return Settlement(
            hit=hit,
            read=read,
            written=written,
            uncached=tape.total - billed,
            entries=entries,
        )

    def keep(self, tape: Tape, settlement: Settlement, rules: Rules, *, now: float, visible_at: float) -> None:
        """Write the entries of `settlement`; they can be read from `visible_at` on and live from `now` on."""
        for leaf, ttl in settlement.entries:
            digest = tape.hashes[leaf]
            old = self.entries.get(digest)
            fresh = Entry(ttl, self._lifetimes.until(now, rules.seconds[ttl]), visible_at)
            if old is not None and old.expires >= now:
                fresh.beside(old)
            self.entries[digest] = fresh
        self._kept += 1
        if self._kept % _SWEEP_EVERY == 0:
            self.entries = {digest: entry for digest, entry in self.entries.items() if entry.expires >= now}

    def _find(self, tape: Tape, lookback: int, now: float) -> int | None:
        """The last leaf that can be read: from each marker, last first, back through its window."""
        looked_to = len(tape.hashes)
        for marker, _ in reversed(tape.markers):
            oldest = tape.positions[marker] - lookback + 1
            # A run is one position of which every leaf is compared, so the wider reading finds all that the
            # narrower one would.
            stop = bisect_left(tape.positions, oldest)
            for leaf in range(min(marker, looked_to - 1), stop - 1, -1):
                entry = self.entries.get(tape.hashes[leaf])
                if entry is not None and entry.readable(now):
                    return leaf
            looked_to = min(looked_to, stop)
        return None

    def _refresh(self, tape: Tape, hit: int, rules: Rules, now: float) -> None:
        for digest in tape.hashes[: hit + 1]:
            entry = self.entries.get(digest)
            if entry is not None and entry.readable(now):
                until = self._lifetimes.until(now, rules.seconds[entry.ttl])
                entry.expires = self._lifetimes.longer(entry.expires, until)
