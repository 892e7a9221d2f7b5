"""Parts of what is wanted of an engine, in one vocabulary for all of them: how it guesses tokens ahead, where it tells
what it stores, and where keys and values go."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agentaccel.checks import check_count
from agentaccel.errors import ConfigError

Setting = str | int | float | bool
"""A value of a setting of the engine's own."""

METHODS = ("none", "suffix", "ngram", "draft", "eagle3", "mtp", "medusa")
"""How tokens are guessed ahead: not at all; from a tree of what was said; from the prompt; by a small model; by a head
that was trained for the model (EAGLE-3, its own multi-token prediction, Medusa)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """How an engine guesses tokens ahead. It is one choice for all requests, until the engine is started anew."""

    method: str = "none"
    """One of `METHODS`, or the engine's own name for a way of it, such as "ngram-mod" or "ngram_gpu"."""
    model: str | None = None
    """The draft model, or the head."""
    tokens: int | None = None
    """Tokens that are drafted at once; None for what is known to do."""
    schedule: tuple[tuple[int, int], ...] = ()
    """Fewer drafts under load: `(16, 5), (64, 3), (512, 0)` drafts 5 tokens at up to 16 requests at once, and so on."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Settings of the engine's own, by its own names, such as `suffix_decoding_min_token_prob`."""

    def __post_init__(self) -> None:
        if self.tokens is not None:
            check_count("Speculation.tokens", self.tokens, 1)
        asked = (self.model, self.tokens, self.schedule or None, self.settings or None)
        if self.method == "none" and any(one is not None for one in asked):
            raise ConfigError(f"a speculation without a method has nothing else; name one of {', '.join(METHODS[1:])}")
        if not all(isinstance(one, tuple | list) and len(one) == 2 for one in self.schedule):
            raise ConfigError(f"Speculation.schedule is {self.schedule!r}; give pairs such as ((16, 5), (64, 0))")
        for name, value in self.settings.items():
            if not isinstance(value, str | bool) and not (isinstance(value, int | float) and math.isfinite(value)):
                raise ConfigError(f"the setting {name} is {value!r}; give text, a number, True or False")
        loads = [load for load, _ in self.schedule]
        if loads != sorted(set(loads)):
            raise ConfigError(f"Speculation.schedule is {self.schedule!r}; give each number of requests once, rising")
        for load, drafted in self.schedule:
            check_count("Speculation.schedule, requests at once", load, 1)
            check_count("Speculation.schedule, tokens", drafted, 0)
        most = max((drafted for _, drafted in self.schedule), default=1)
        if most < 1 or (self.tokens is not None and most > self.tokens):
            raise ConfigError(f"Speculation.schedule drafts {most} tokens at most; give 1 to tokens={self.tokens}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KvEvents:
    """Where an engine tells which blocks it stores and drops."""

    endpoint: str
    """A ZeroMQ address that it publishes at, such as `tcp://*:5557`."""
    replay: str | None = None
    """Another, where what was missed may be asked for."""
    topic: str | None = None
    """The topic of its messages; llm-d means `kv@POD_IP@MODEL`."""

    def __post_init__(self) -> None:
        # vLLM 0.32.0, distributed/kv_events.py: it connects to any other one, where nobody hears it.
        if not ("*" in self.endpoint or "::" in self.endpoint or self.endpoint.startswith(("ipc://", "inproc://"))):
            raise ConfigError(f"KvEvents.endpoint is {self.endpoint!r}; give one to listen at, such as tcp://*:5557")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offload:
    """Where keys and values go that the engine's own memory has no room for."""

    to: Literal["cpu", "lmcache"]
    gib: int
    """How much goes there, in GiB."""

    def __post_init__(self) -> None:
        check_count("Offload.gib", self.gib, 1)
