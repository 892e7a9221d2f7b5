"""How an emulated provider behaves where the documentation leaves it open, or a test wants it otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args
from zlib import crc32

from agentaccel.errors import ConfigError
from agentaccel.facts import plain_name
from agentaccel_emulator.accounts import RateLimits
from agentaccel_emulator.anthropic_prompt import Positions, Tokenizer

Reports = Literal["cache", "tokens", "no_streams", "nothing"]
"""How much of its usage a server reports: what was cached, tokens alone, tokens but never in a stream, or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How fast the provider is. A prefix that is read from the cache costs no time."""

    base: float = 0.3
    """Seconds to the first byte of an empty prompt."""
    prefill: float = 10_000.0
    """Prompt tokens per second, those read from the cache left out."""
    decode: float = 80.0
    """Output tokens per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """Every knob of the emulator that is not a fact."""

    timing: Timing = field(default_factory=Timing)
    """How fast it is."""
    tokenizer: Tokenizer | None = None
    """How it counts tokens; None gives every model a figure of its own, so that nothing can rely on one."""
    positions: Positions | None = None
    """Whether runs of tool calls and results are one position; None takes the platform's fact."""
    eviction: float = 0.0
    """Probability that an entry dies early each time a write or a read arms it."""
    seed: int = 0
    """Seed of the evictions."""
    limits: RateLimits = field(default_factory=RateLimits)
    """Rate limits."""
    api_keys: frozenset[str] | None = None
    """Keys that are accepted; None accepts any."""
    workspaces: Mapping[str, str] = field(default_factory=dict)
    """Workspace of an API key; a key that is not listed has one of its own. The header anthropic-workspace-id wins."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Names under which known models are served as well."""
    skipped_checks: frozenset[str] = frozenset()
    """Names of checks that are left out, of `anthropic_limits.CHECKS` and `openai_shapes.CHECKS` after the envelope."""
    reports: Reports | None = None
    """What a server that speaks OpenAI's API reports: everything, tokens but no cache, no usage in streams either, or
    nothing. None takes the platform's habit; OpenAI itself and Azure always report."""
    refused_fields: frozenset[str] = frozenset()
    """Fields of a request that a strict server refuses; by default those that are unknown are ignored, as most do."""
    explicit_sees_implicit: bool = False
    """Whether OpenAI's explicit mode finds, at an explicit breakpoint, what an implicit one wrote at that place."""
    implicit_sees_explicit: bool = True
    """Whether its implicit mode finds, at the end of a message, what an explicit breakpoint wrote there."""
    capacity: int | None = None
    """Tokens that a server which keeps prefixes by itself has room for: what was used longest ago goes first. None for
    any number."""
    slots: int | None = None
    """Slots of a server that keeps one chain of tokens in each, as llama.cpp's does (`slot_cache`); None for a tree of
    all that was sent, as vLLM's and SGLang's."""
    zero_retention: bool = False
    """Whether the organization has zero data retention: OpenAI's older models then keep prefixes in memory only."""
    hosts: frozenset[str] = frozenset()
    """Names by which clients may address a server, beside those of the loopback interface: where it stands behind
    another one, or in a container. In lower case, without a port."""

    def __post_init__(self) -> None:
        if not 0 <= self.eviction <= 1:
            raise ConfigError(f"eviction is a probability between 0 and 1, not {self.eviction}")
        for name in ("capacity", "slots"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, or None; got {value!r}")
        if self.capacity is not None and self.slots is not None:
            raise ConfigError("a server has either slots or one room for all: give slots or capacity, not both")
        if self.reports not in (None, *get_args(Reports)):
            raise ConfigError(f"a server reports one of {', '.join(get_args(Reports))}, not {self.reports!r}")

    def tokenizer_of(self, model: str) -> Tokenizer:
        """How tokens are counted for `model`.

        The figures carry no truth about the model: they differ between models and are the same in every run.
        """
        if self.tokenizer is not None:
            return self.tokenizer
        number = crc32(plain_name(model).encode())
        return Tokenizer(bytes_per_token=3.0 + number % 13 / 10, hidden=number % 37)
