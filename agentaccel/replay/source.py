"""What a reader of recorded conversations is told, and what it gives back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal

from agentaccel.errors import ConfigError, UnknownModel
from agentaccel.facts import CacheFacts, cache_facts, known_model, platforms
from agentaccel.replay.runs import Run

PROVIDER = "anthropic"
"""Whose rules a replay knows."""

OWN = "api"
"""The vendor's own platform."""


@dataclass(slots=True, kw_only=True)
class Rules:
    """Under which model's rules recorded conversations are replayed. Remembers which names it had to replace."""

    model: str | None = None
    """For every request; None keeps the recorded one where the facts know it."""
    default: str = "claude-sonnet-5"
    """For recorded models that the facts do not know."""
    platform: str | None = None
    """For every request; None keeps the recorded one where the facts know it, and is else the vendor's own."""
    ages: Literal["entries", "blocks"] | None = None
    """What a lifetime belongs to, as in `CacheFacts`; None for what the facts say."""
    replaced: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often it was asked, by recorded model and the one that stands in for it, where they differ."""
    passed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How many requests were left out, by what they are and why."""
    _known: dict[tuple[str, str], tuple[str, CacheFacts]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.platform is not None and self.platform not in platforms(PROVIDER):
            raise ConfigError(f"{self.platform!r} is not a platform; there are {', '.join(platforms(PROVIDER))}")
        for name in (self.model, self.default):
            if name is not None and cache_facts(name, platform=self.platform or OWN) is None:
                raise _not_modelled(name)

    def left_out(self, before: Counter[tuple[str, str]] | None = None) -> tuple[str, ...]:
        """What was left out, beyond what had been `before`; sentences."""
        counts = self.passed - (before or Counter())
        return tuple(f"{what}: {count:,} left out, because {why}" for (what, why), count in sorted(counts.items()))

    def of(self, recorded: str, platform: str = OWN) -> tuple[str, CacheFacts]:
        """The model whose rules hold for a request recorded with `recorded` on `platform`, and these rules."""
        if (recorded, platform) not in self._known:
            self._known[recorded, platform] = self._find(recorded, platform)
        model, facts = self._known[recorded, platform]
        if model != recorded:
            self.replaced[recorded, model] += 1
        return model, facts

    def _find(self, recorded: str, platform: str) -> tuple[str, CacheFacts]:
        known = platform if platform in platforms(PROVIDER) else OWN
        for name in (self.model or recorded, self.default):
            facts = cache_facts(name, platform=self.platform or known)
            if facts is not None:
                return name, facts if self.ages is None else replace(facts, ages=self.ages)
        raise UnknownModel(recorded)  # the default was checked at construction


def _not_modelled(model: str) -> ConfigError:
    """Why there is no replay under the rules of `model`."""
    if known_model(model):
        return ConfigError(f"only Claude's cache is modelled: choose a Claude model instead of {model!r}")
    return UnknownModel(model, "choose a model that `docs/reference/provider-facts.md` lists")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Recorded conversations of one origin, ready for a replay."""

    name: str
    runs: tuple[Run, ...]
    """In the order of the source."""
    untimed: frozenset[int] = frozenset()
    """Runs, by their place, whose times are not recorded: their steps have yet to be placed in time (`pace`)."""
    models: tuple[tuple[str, str], ...] = ()
    """Recorded models and those that stand in for them, where they differ."""
    notes: tuple[str, ...] = ()
    """What was concluded, replaced or left out in reading; sentences."""

    @property
    def inferred(self) -> int:
        """Runs whose prompts were rebuilt from usage alone."""
        return sum(run.inferred for run in self.runs)
