"""What is known about providers, models and prices: data files with a source and a date, and the one loader.

A name is resolved in steps: the user's alias, the exact model, the model without its platform's prefixes and dates,
the family's most cautious figures, nothing. *Nothing* means that no marker is placed, never that a guess is made.

>>> facts = cache_facts("claude-sonnet-5")
>>> facts.min_tokens, facts.max_markers, [t.label for t in facts.ttls]
(1024, 4, ['5m', '1h'])
>>> cache_facts("us.anthropic.claude-sonnet-4-5-20250929-v1:0", platform="bedrock").positions
'blocks'
>>> cache_facts("claude-sonnet-9").family, cache_facts("my-deployment") is None
(True, True)
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from importlib import resources
from typing import Any, Literal

Level = Literal["tools", "system", "messages"]
"""The three parts of a prompt, in the order in which the provider reads them."""

LEVELS: tuple[Level, ...] = ("tools", "system", "messages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a fact was read, and when."""

    what: str
    where: str
    date: date


@dataclass(frozen=True, slots=True, kw_only=True)
class Ttl:
    """A lifetime that the provider offers for an entry."""

    label: str
    """The provider's name for it, as sent."""
    seconds: float
    """Lifetime after the last use, counted from the start of the request that used it."""
    write: float
    """Price of a token written with it, as a multiple of an uncached input token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheFacts:
    """How the prompt cache behaves for one model on one platform."""

    provider: str
    platform: str
    model: str
    """The name that the facts were found under: the model's, or its family's prefix."""
    family: bool
    """True where the model is not listed and its family's cautious figures stand in."""
    min_tokens: int
    """Shortest prefix that is cached, inclusive; a marker on a shorter one is silently ignored."""
    max_markers: int
    """Most markers in one request, the top-level one included."""
    ttls: tuple[Ttl, ...]
    """Lifetimes, shortest first; the first is the default."""
    read: float
    """Price of a token read from the cache, as a multiple of an uncached input token."""
    lookback: int
    """Positions compared per marker, the marker's own included."""
    positions: Literal["runs", "blocks"]
    """Whether a run of consecutive tool calls, or of results, counts as one position."""
    lookback_planned: Literal["runs", "blocks"]
    """The reading of `positions` to plan by: the stricter of what the documentation has said."""
    top_level_marker: bool
    """Whether the request itself may carry a marker, which the provider puts on the last block that can take it."""
    diagnostics: bool
    """Whether the provider can be asked why a prefix was missed."""
    strips_thinking: bool
    """Whether earlier thinking leaves the prompt when a user message that is not a tool result follows it."""
    reads_count_to_rate_limit: bool
    """Whether tokens read from the cache count against the limit of input tokens per minute."""
    parameters: Mapping[str, tuple[Level, ...]]
    """For each request parameter, the levels whose cached prefix a change of it breaks; unlisted ones break all."""
    markable_tools: frozenset[str]
    """Kinds of tool that may carry a marker; a kind is the `type` without its date."""
    markable_blocks: frozenset[str]
    """Types of content block that may carry a marker."""
    system_tools: frozenset[str]
    """Kinds of server tool that change the system prompt and not the tools level."""
    bytes_per_token: float
    """Prior for UTF-8 bytes per token."""
    image_tokens: int
    """Prior for the tokens of an image, whatever its bytes."""
    pdf_bytes_per_token: float
    """Prior for base64 bytes of a document per token."""
    source: Source
    """Where the model's figures were read."""

    def ttl(self, label: str) -> Ttl | None:
        """The lifetime called `label`, if the provider offers it."""
        for ttl in self.ttls:
            if ttl.label == label:
                return ttl
        return None

    def breaks(self, parameter: str) -> tuple[Level, ...]:
        """The levels whose cached prefix a change of `parameter` breaks; all of them for an unknown parameter."""
        return self.parameters.get(parameter, LEVELS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Priors:
    """What the planner believes before a workload has taught it better; see `priors.toml` for each meaning."""

    goes_on_with_tools: tuple[float, ...]
    goes_on_without_tools: tuple[float, ...]
    in_time: float
    prefix_shared: float
    prompt_repeated: float
    entry_alive: float
    same: float
    changed: float
    same_in_history: float
    changed_in_history: float
    prior_weight: float
    memory: float
    pace_memory: float


PROVIDERS = ("anthropic",)
"""Providers with a data file of their own."""

_DATED = re.compile(r"[-@]\d{8}$|-\d{4}-\d{2}-\d{2}$|-latest$")
_PLATFORM_PREFIX = re.compile(r"^(?:[a-z]{2,6}\.)?(?:anthropic\.|anthropic/|models/)")
_PLATFORM_SUFFIX = re.compile(r"(?:-v\d+(?::\d+)?|@default|\[1m\])$")


@functools.cache
def table(name: str) -> Mapping[str, Any]:
    """The data file `name` as parsed, read once per process; treat it as immutable."""
    return tomllib.loads(resources.files("agentaccel.facts").joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def plain_name(model: str) -> str:
    """`model` without the prefixes, dates and versions that platforms add.

    >>> plain_name("us.anthropic.claude-sonnet-4-5-20250929-v1:0"), plain_name("claude-haiku-5.5@20261001")
    ('claude-sonnet-4-5', 'claude-haiku-5-5')
    """
    name = _PLATFORM_PREFIX.sub("", model.strip().lower())
    name = _PLATFORM_SUFFIX.sub("", name)
    return _DATED.sub("", name).replace(".", "-")


def cache_facts(
    model: str,
    *,
    provider: str = "anthropic",
    platform: str = "api",
    aliases: Mapping[str, str] | None = None,
) -> CacheFacts | None:
    """The cache facts for `model`, or None where nothing is known about it nor about its family.

    `aliases` maps the user's own names (deployments, gateways) to known ones. Raises KeyError for a provider or
    platform without a data file: both are ours to name, never the user's.
    """
    if aliases:
        model = aliases.get(model, model)
    return _resolve(model, provider, platform)


@functools.lru_cache(maxsize=256)
def _resolve(model: str, provider: str, platform: str) -> CacheFacts | None:
    name, data = plain_name(model), table(provider)
    rules = {**data["rules"], **data["platforms"][platform]}
    row = next((row for row in data["models"] if name in row["match"]), None)
    family = row is None
    if row is None:
        row = next((row for row in data["families"] if name.startswith(row["prefix"])), None)
        if row is None:
            return None
    figures = {**rules, **row}
    return CacheFacts(
        provider=provider,
        platform=platform,
        model=row["prefix"] if family else name,
        family=family,
        min_tokens=figures["min_tokens"],
        max_markers=figures["max_markers"],
        ttls=tuple(Ttl(label=ttl["label"], seconds=float(ttl["seconds"]), write=ttl["write"]) for ttl in rules["ttls"]),
        read=figures["read"],
        lookback=figures["lookback"],
        positions=figures["positions"],
        lookback_planned=figures["lookback_planned"],
        top_level_marker=figures["top_level_marker"],
        diagnostics=figures["diagnostics"],
        strips_thinking=figures.get("strips_thinking", False),
        reads_count_to_rate_limit=figures["reads_count_to_rate_limit"],
        parameters={name: tuple(levels) for name, levels in data["parameters"].items()},
        markable_tools=frozenset(data["markable"]["tools"]),
        markable_blocks=frozenset(data["markable"]["blocks"]),
        system_tools=frozenset(data["system_tools"]["types"]),
        bytes_per_token=data["tokens"]["bytes_per_token"],
        image_tokens=data["tokens"]["image"],
        pdf_bytes_per_token=data["tokens"]["pdf_bytes_per_token"],
        source=Source(**data["sources"][figures["source"]]),
    )


def platforms(provider: str) -> tuple[str, ...]:
    """The platforms that serve the models of `provider`."""
    return tuple(table(provider)["platforms"])


def lifetimes() -> tuple[str, ...]:
    """The labels of all lifetimes that some provider offers."""
    return tuple(dict.fromkeys(ttl["label"] for provider in PROVIDERS for ttl in table(provider)["rules"]["ttls"]))


@functools.cache
def priors() -> Priors:
    """The planner's stated priors."""
    data: dict[str, Any] = {key: value for key, value in table("priors").items() if key != "date"}
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
    return Priors(**fields)


def client_platform(class_name: str) -> tuple[str, str] | None:
    """The provider and platform of a vendor SDK's client class, by the name of the class."""
    for provider in PROVIDERS:
        for platform, row in table(provider)["platforms"].items():
            if class_name in row["clients"]:
                return provider, platform
    return None
