"""The physics of OpenAI's prompt cache from gpt-5.6 on: entries at breakpoints, found again at breakpoints.

Pure: a tape and a time come in, a settlement comes out, and the only state is the table of entries. Source:
providers.md, 2.1, which follows the vendor's prompt caching guide and announcement of September 2026.

The guide's example, a conversation that grows by one message, in implicit mode:

>>> from agentaccel_emulator.openai_prompt import Tape
>>> rules = BreakpointRules(min_tokens=1024, endings=20, first=2, latest=50, writes=4, seconds={"30m": 1800.0})
>>> first = Tape(hashes=[b"1"], tokens=[12_000], explicit=[], endings=[0], opening=None)
>>> second = Tape(hashes=[b"1", b"2"], tokens=[12_000, 15_000], explicit=[], endings=[0, 1], opening=None)
>>> cache = BreakpointCache()
>>> for tape, now in ((first, 0.0), (second, 10.0)):
...     settled = cache.settle(tape, rules, Wanted(), now)
...     cache.keep(tape, settled, rules, Wanted(), now=now, visible_at=now + 1)
...     print(tape.total, settled.read, settled.written)
12000 0 {'30m': 12000}
15000 12000 {'30m': 3000}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentaccel_emulator.openai_prompt import Tape
from agentaccel_emulator.settlement import Entry, Lifetimes, Settlement, split_by_lifetime

_SWEEP_EVERY = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakpointRules:
    """What differs between models and platforms."""

    min_tokens: int
    """Shortest prefix that is written, inclusive."""
    endings: int
    """Earlier message endings that are looked up in implicit mode."""
    first: int
    """Explicit breakpoints that are looked up, counted from the front."""
    latest: int
    """Explicit breakpoints that are looked up, counted from the end."""
    writes: int
    """Most breakpoints that are written."""
    seconds: Mapping[str, float]
    """Lifetime of each kind of entry, from the start of the request that wrote or read it; the first is the default."""
    sees_implicit: bool = False
    """Whether explicit mode finds, at an explicit breakpoint, what an implicit one wrote there."""
    sees_explicit: bool = True
    """Whether implicit mode finds, where no explicit breakpoint stands, what one wrote there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a request asks of the cache."""

    implicit: bool = True
    """Whether the provider sets a breakpoint of its own."""
    ttl: str = "30m"
    """The lifetime of breakpoints that name none."""


@dataclass(slots=True)
class BreakpointCache:
    """The table of entries of one provider; entries that may not be shared differ in their hash."""

    eviction: float = 0.0
    """Probability that an entry dies at a random moment of the lifetime that a write or a read gave it."""
    seed: int = 0
    """Seed of the evictions."""
    entries: dict[bytes, Entry] = field(default_factory=dict)
    """Entries by the hash of their prefix; expired ones are swept out now and then."""
    implicit: set[bytes] = field(default_factory=set)
    """Entries that no explicit breakpoint has written."""
    explicit: set[bytes] = field(default_factory=set)
    """Entries that only explicit ones have."""
    _lifetimes: Lifetimes = field(init=False)
    _kept: int = 0

    def __post_init__(self) -> None:
        self._lifetimes = Lifetimes(self.eviction, self.seed)

    def settle(self, tape: Tape, rules: BreakpointRules, wanted: Wanted, now: float) -> Settlement:
        """Bill the prompt of a request that starts at `now`; what it looks up on the path that it read is re-armed."""
        looked_up = [leaf for leaf in _looked_up(tape, rules, wanted) if self._sees(tape, leaf, rules, wanted)]
        live = [leaf for leaf in looked_up if self.entries[tape.hashes[leaf]].readable(now)]
        hit = live[-1] if live else None
        for leaf in live:
            entry = self.entries[tape.hashes[leaf]]
            until = self._lifetimes.until(now, rules.seconds[entry.ttl])
            entry.expires = self._lifetimes.longer(entry.expires, until)
        read = tape.tokens[hit] if hit is not None else 0
        entries = tuple(
            (leaf, ttl)
            for leaf, ttl in _written(tape, rules, wanted)
            if tape.tokens[leaf] >= max(rules.min_tokens, read + 1)
        )
        ends = [(tape.tokens[leaf], ttl) for leaf, ttl in entries]
        written, billed = split_by_lifetime(ends, rules.seconds, read)
        return Settlement(hit=hit, read=read, written=written, uncached=tape.total - billed, entries=entries)

    def keep(
        self,
        tape: Tape,
        settlement: Settlement,
        rules: BreakpointRules,
        wanted: Wanted,
        *,
        now: float,
        visible_at: float,
    ) -> None:
        """Write the entries of `settlement`; they can be read from `visible_at` on and live from `now` on."""
        explicit = {leaf for leaf, _ in tape.explicit}
        own = tape.endings[-1] if wanted.implicit and tape.endings else None
        for leaf, ttl in settlement.entries:
            digest = tape.hashes[leaf]
            old = self.entries.get(digest)
            fresh = Entry(ttl, self._lifetimes.until(now, rules.seconds[ttl]), visible_at)
            if old is not None and old.expires >= now:
                fresh.beside(old)
            elif leaf not in explicit:
                self.implicit.add(digest)
            if leaf in explicit:
                self.implicit.discard(digest)
            if leaf == own:
                self.explicit.discard(digest)
            elif old is None or old.expires < now:
                self.explicit.add(digest)
            self.entries[digest] = fresh
        self._kept += 1
        if self._kept % _SWEEP_EVERY == 0:
            self.entries = {digest: entry for digest, entry in self.entries.items() if entry.expires >= now}
            self.implicit &= self.entries.keys()
            self.explicit &= self.entries.keys()

    def _sees(self, tape: Tape, leaf: int, rules: BreakpointRules, wanted: Wanted) -> bool:
        digest = tape.hashes[leaf]
        if digest not in self.entries:
            return False
        if wanted.implicit:
            return rules.sees_explicit or digest not in self.explicit or leaf in {at for at, _ in tape.explicit}
        return rules.sees_implicit or digest not in self.implicit


def _looked_up(tape: Tape, rules: BreakpointRules, wanted: Wanted) -> list[int]:
    """The places at which an entry is looked for, in reading order."""
    explicit = [leaf for leaf, _ in tape.explicit]
    leaves = {*explicit[: rules.first], *explicit[-rules.latest :]}
    if wanted.implicit:
        leaves |= {*tape.endings[-1 - rules.endings :]}
        leaves |= {tape.opening} if tape.opening is not None else set()
    return sorted(leaves)


def _written(tape: Tape, rules: BreakpointRules, wanted: Wanted) -> list[tuple[int, str]]:
    """The breakpoints that are written, with their lifetimes, in reading order; two at one place are one."""
    explicit = {leaf: ttl or wanted.ttl for leaf, ttl in tape.explicit}
    implicit = {tape.endings[-1]: wanted.ttl} if wanted.implicit and tape.endings else {}
    others = [leaf for leaf in explicit if leaf not in implicit]
    kept = others[-(rules.writes - len(implicit)) :]
    return sorted({**implicit, **{leaf: ttl for leaf, ttl in explicit.items() if leaf in {*kept, *implicit}}}.items())
