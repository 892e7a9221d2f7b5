"""What the caches of all providers share: how a prompt is billed, and an entry with its lifetime."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How one prompt divides into tokens read, written and neither; they add up to the whole prompt."""

    hit: int | None
    """The leaf that was read up to, or None."""
    read: int
    """Tokens read from the cache."""
    written: Mapping[str, int]
    """Tokens written, per lifetime; without zeros."""
    uncached: int
    """Tokens after the last marker and after the hit."""
    entries: tuple[tuple[int, str], ...]
    """Leaf and lifetime of each entry to write."""

    @property
    def total(self) -> int:
        """Tokens of the whole prompt."""
        return self.read + sum(self.written.values()) + self.uncached


@dataclass(slots=True)
class Entry:
    """A cached prefix. Mutable: reading it re-arms it."""

    ttl: str
    """The lifetime that it was written with."""
    expires: float
    """The last moment at which it can be read."""
    visible_at: float
    """The first moment at which it can be read: when the response that wrote it began."""

    def readable(self, now: float) -> bool:
        """Whether a request that starts at `now` can read it."""
        return self.visible_at <= now <= self.expires

    def beside(self, old: Entry) -> None:
        """Join with `old`, which lives: two requests wrote the same prefix before either was readable. The first to
        begin makes it so, and the longer life counts."""
        self.visible_at = min(self.visible_at, old.visible_at)
        if old.expires > self.expires:
            self.ttl, self.expires = old.ttl, old.expires


@dataclass(slots=True)
class Lifetimes:
    """When entries end: on the second, or earlier where the dice say so. Mutable: the dice are its state."""

    eviction: float = 0.0
    """Probability that an entry dies at a random moment of the lifetime that a write or a read gave it."""
    seed: int = 0
    """Seed of the evictions."""
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def until(self, now: float, seconds: float) -> float:
        """The end of a lifetime of `seconds` that begins `now`."""
        if self.eviction and self._random.random() < self.eviction:
            return now + seconds * self._random.random()
        return now + seconds

    def longer(self, old: float, new: float) -> float:
        """The end of an entry that is armed again: the later one, or the new one where the dice are thrown."""
        return new if self.eviction else max(old, new)


def split_by_lifetime(
    ends: Iterable[tuple[int, str]], seconds: Mapping[str, float], read: int
) -> tuple[dict[str, int], int]:
    """Tokens written per lifetime, and up to where they reach, for entries that end at so many tokens.

    A token is billed for the longest of the lifetimes that it has to live for.
    """
    ends = list(ends)
    written: dict[str, int] = {}
    billed = read
    for ttl in sorted({ttl for _, ttl in ends}, key=lambda ttl: -seconds[ttl]):
        end = max(tokens for tokens, kind in ends if kind == ttl)
        if end > billed:
            written[ttl] = end - billed
            billed = end
    return written, billed
