"""The nouns of the facts: frozen values, as the data files give them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Literal

Level = Literal["tools", "system", "messages"]
"""The three parts of a prompt, in the order in which the provider reads them."""

LEVELS: tuple[Level, ...] = ("tools", "system", "messages")

Wire = Literal["messages", "chat", "responses"]
"""The form of a request: Anthropic Messages, OpenAI Chat Completions or OpenAI Responses."""

Physics = Literal["markers", "breakpoints", "automatic"]
"""What a provider keeps and finds again: prefixes up to a marker, found from later markers; prefixes up to a
breakpoint, of which the provider sets one itself, found at later breakpoints; or whatever it was sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Citation:
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
    wire: Wire
    model: str
    """The name that the facts were found under: the model's, or its family's prefix."""
    family: bool
    """True where the model is not listed and its family's cautious figures stand in."""
    physics: Physics
    assured: bool
    """Whether prefixes are kept for certain. Where they may be, by whoever answers, none is expected to be read, and of
    what was not read no cause is told."""
    controls: bool
    """Whether cache fields of ours are accepted."""
    mark: str
    """The field of a block that carries a marker; empty where there are no markers."""
    keeps: Literal["", "max_tokens", "prewarm", "one_token"]
    """How a request is made that reads what is held and asks for no reply, so that it lives on: by a limit of 0 tokens,
    by a field for it, or for a reply of one token; empty where none is known."""
    implicit_off: Mapping[str, Mapping[str, str]]
    """What switches off the breakpoint that the provider sets by itself; empty where it sets none."""
    key: Literal["", "routes", "partitions", "opts_in", "sticks"]
    """What a cache key of the request does: chooses the machine, separates caches, switches caching on, or keeps a
    conversation on one server."""
    key_field: str
    """The field of the request that holds it; empty where there is none."""
    key_rate: int
    """Requests a minute that the machine chosen by one beginning and key stands; beyond, some go to others, which have
    not seen them. 0 where there is no such rate."""
    key_front: int
    """Tokens at the front of a prompt by which, with the key, the machine is chosen."""
    session_field: str
    """The field of the request that names the conversation, for sticky routing; empty where there is none."""
    self_hosted: bool
    """Whether it is a server that its users run: what it has not kept costs its time, and no money by the token."""
    slots: bool
    """Whether it keeps one chain of tokens in each of a few slots: one conversation takes the place of another."""
    salt_field: str
    """The field of the request that keeps a tenant's prefixes apart from others'; empty where there is none."""
    retentions: tuple[str, ...]
    """Values of `prompt_cache_retention` that the model is known to take."""
    step: int
    """Prefixes are kept in multiples of so many tokens."""
    report_step: int
    """Reads are told in multiples of so many tokens, once tokens that nobody sees are taken off; 1 where they are told
    as they are."""
    min_tokens: int
    """Shortest prefix that is cached, inclusive; a marker on a shorter one is silently ignored."""
    max_markers: int
    """Most markers of one request that count, the provider's own included; where `physics` is "markers", more are
    rejected."""
    ttls: tuple[Ttl, ...]
    """Lifetimes, shortest first; the first is the default."""
    ages: Literal["entries", "blocks"]
    """What a lifetime belongs to: the entry, so that a marker behind keeps all before it for as long, or each block, by
    the marker that it was written with."""
    read: float
    """Price of a token read from the cache, as a multiple of an uncached input token."""
    lookback: int
    """Positions compared per marker, the marker's own included."""
    positions: Literal["runs", "blocks"]
    """Whether a run of consecutive tool calls, or of results, counts as one position."""
    lookback_planned: Literal["runs", "blocks"]
    """The reading of `positions` to plan by: the stricter of what the documentation has said."""
    top_level_marker: bool
    """Whether the request itself may carry a marker, which the provider puts on the last block that can take it; with
    breakpoints, whether the provider sets such a one unless it is told not to."""
    diagnostics: bool
    """Whether the provider can be asked why a prefix was missed."""
    strips_thinking: bool
    """Whether earlier thinking leaves the prompt when a user message that is not a tool result follows it."""
    operator_message: Literal["", "user", "system", "developer", "last"]
    """How the operator speaks at the end of a conversation: by a message with that role or, where there is none, by
    text in the last message of the user; "last" is text in the last message, whoever's it is, which every chat template
    takes. Empty where it is not known what would be taken."""
    allowed_tools: bool
    """Whether `tool_choice` can keep tools from being called without touching their list."""
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
    source: Citation
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
    followed_after_tool: float
    followed_after_answer: float
    pause_ends: tuple[float, ...]
    pause_ends_of_people: tuple[float, ...]
    pause_weight: float
    pause_kind_weight: float
    answered_by_people: float
    place_strengths: tuple[tuple[float, float], ...]
    prefix_shared: float
    prefix_shared_later: float
    opening_shared: float
    prompt_repeated: float
    entry_alive: float
    same: float
    changed: float
    same_once: float
    changed_once: float
    same_before: float
    prior_weight: float
    memory: float
    pace_memory: float
    length_weight: float
    edit_margin: float
    moves: Mapping[str, float]
    requests_a_minute: int
    first_byte: float
    first_byte_per_1k: float
    whole_reply: float
    announced: float
    announced_weight: float
    keep_alive_margin: float
    keep_alive_at: float

    @property
    def place_strength(self) -> float:
        """The mean of `place_strengths`, on a logarithmic scale: before anything was seen."""
        return math.exp(
            sum(odds * math.log(k) for k, odds in self.place_strengths) / sum(odds for _, odds in self.place_strengths)
        )
