"""What a span counts, as the usage that its reply was billed for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agentaccel.providers.values import possible
from agentaccel.trace.importers.fields import lifetimes_told, metered_of
from agentaccel.types import Metered, Usage

CACHE = frozenset({"read", "write"})

WRITE_FOR = "write_"
"""Begins our words for what was written for one lifetime, which its label ends."""


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of one span, under our words for them: `input`, `read`, `write`, `write_` and a lifetime, `output`,
    `total`."""

    told: Mapping[str, int] = field(default_factory=dict)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The attributes that tell of each, whether or not a count came of it."""
    doubted: frozenset[str] = frozenset()
    """Those whose attributes contradict one another, or tell what is no count."""
    beside: tuple[str, ...] = ()
    """The providers of which `input` leaves the cache out; "*" for all."""
    raw: Mapping[str, object] | None = None
    """The usage as the provider reports it, where the span has that whole."""

    def __bool__(self) -> bool:
        """True if a counter was understood, or would be if its names agreed."""
        return bool(self.told or self.doubted)

    @property
    def cached(self) -> bool:
        """True if anything tells what the cache did."""
        return not CACHE.isdisjoint(self.told) or not CACHE.isdisjoint(self.doubted)

    @property
    def lifetimes(self) -> set[str]:
        """The labels of the lifetimes that tokens are said to be written for."""
        return set(self._split()) if self.raw is None else lifetimes_told(self.raw)

    def metered(self, provider: str, lifetime: str) -> Metered:
        """What the reply was billed for; `lifetime` labels what was written where nothing says for how long.

        Input is inclusive of the cache, of some dialects and where the total says so without it. Anthropic's counters
        that cannot be inside the input stand beside it, whatever the dialect says; those of others contradict it.
        """
        if self.raw is not None:
            found = metered_of(self.raw, lifetime)
            if found.usage.output is None:
                found = found._replace(usage=replace(found.usage, output=self.told.get("output")))
            return found
        read, write, doubted = self._of_the_cache(provider, lifetime)
        usage = Usage(input=self.told.get("input"), read=read, write=write, output=self.told.get("output"))
        cached = (usage.read or 0) + (usage.written or 0)
        apart = "*" in self.beside or provider in self.beside
        if usage.input is None:
            told = usage
        elif apart and not CACHE.isdisjoint(doubted):
            told = replace(usage, input=None)
        elif apart or (cached > usage.input and provider == "anthropic"):
            told = replace(usage, input=usage.input + cached)
        else:
            told = possible(usage, self.told.get("total"))
            if told.read is None and told.write is None and cached:
                doubted |= {word for word in CACHE if self.told.get(word)}
        return Metered(told, (), tuple(name for word in self.names if word in doubted for name in self.names[word]))

    def _of_the_cache(self, provider: str, lifetime: str) -> tuple[int | None, dict[str, int] | None, frozenset[str]]:
        """What was read and written, and which counters contradict one another.

        Some instrumentations leave zeros out. Where one of Anthropic's two cache counters is told, so would the other
        be, if it were not 0; but what nobody counts as written, as before GPT-5.6, is not known to be 0.
        """
        read, written, split = self.told.get("read"), self.told.get("write"), self._split()
        doubted = self.doubted
        if written is None and split and "write" not in doubted:
            written = sum(split.values())
        if written is not None and sum(split.values()) > written:
            doubted |= {"write", *(WRITE_FOR + label for label in split)}
        if not CACHE.isdisjoint(doubted) or any(word.startswith(WRITE_FOR) for word in doubted):
            written = None if any(word.startswith("write") for word in doubted) else written
        elif read is not None or written is not None:
            read = 0 if read is None else read
            written = 0 if written is None and provider == "anthropic" else written
        if written is None:
            return read, None, doubted
        rest = written - sum(split.values())
        return read, {**split, lifetime: split.get(lifetime, 0) + rest} if rest else split, doubted

    def _split(self) -> dict[str, int]:
        """What was written, by lifetime."""
        words = (word for word in self.told if word.startswith(WRITE_FOR) and self.told[word])
        return {word.removeprefix(WRITE_FOR): self.told[word] for word in words}
