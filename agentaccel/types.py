"""The nouns that the parts of agentaccel hand to one another: frozen values, no behaviour beyond arithmetic.

Units: times are seconds since the epoch unless a field says otherwise; sizes are UTF-8 bytes; tokens are the
provider's. `None` always means *not known* or *not reported*, never zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, NamedTuple

from agentaccel.errors import ConfigError
from agentaccel.facts import Level, Wire
from agentaccel.segments import STRETCH as STRETCH
from agentaccel.segments import Path as Path
from agentaccel.segments import Segment as Segment
from agentaccel.segments import Text as Text
from agentaccel.segments import agreeing as agreeing
from agentaccel.segments import digest_of as digest_of
from agentaccel.segments import level_starts as level_starts
from agentaccel.segments import message_start as message_start
from agentaccel.segments import path_of as path_of
from agentaccel.segments import show_path as show_path
from agentaccel.segments import value_at as value_at
from agentaccel.values import maker, quickly_made

# --- What a reply was billed for: values, and what several of them come to --------------------------------------------


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the provider said it processed, in tokens; None where it said nothing."""

    input: int | None = None
    """All input tokens, inclusive of those read from and written to the cache."""
    read: int | None = None
    """Input tokens read from the cache."""
    write: Mapping[str, int] | None = None
    """Input tokens written to the cache, by the label of the lifetime."""
    output: int | None = None

    @property
    def written(self) -> int | None:
        """All tokens written to the cache; None where not reported."""
        return None if self.write is None else sum(self.write.values())

    @property
    def uncached(self) -> int | None:
        """Input tokens neither read nor said to be written; None where it was not reported what the cache did."""
        if self.input is None or self.read is None:
            return None
        return self.input - self.read - (sum(self.write.values()) if self.write else 0)

    @property
    def reported(self) -> bool:
        """Whether the provider reported what the cache did."""
        return self.input is not None and self.read is not None


NO_USAGE = Usage()
"""Of a reply that reports none."""

MOST_TOKENS = 2**40
"""A thousand times what a month of a large agent has: a larger number was no count, and sums of more could not be
stored."""


def sum_of(usages: Sequence[Usage]) -> Usage:
    """What `usages` come to; a count that one of them lacks is None.

    >>> sum_of([Usage(input=5, read=2, write={"5m": 1}), Usage(input=7, write={"5m": 2, "1h": 3})])
    Usage(input=12, read=None, write={'5m': 3, '1h': 3}, output=None)
    """
    write: dict[str, int] | None = None
    if all(one.write is not None for one in usages):
        write = {}
        for one in usages:
            for label, tokens in (one.write or {}).items():
                write[label] = write.get(label, 0) + tokens
    return Usage(
        input=_sum([one.input for one in usages]),
        read=_sum([one.read for one in usages]),
        write=write,
        output=_sum([one.output for one in usages]),
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    return None if None in counts else sum(count or 0 for count in counts)


UNSPLIT = "unsplit"
"""Stands for the label of a lifetime where tokens were written for several, and nobody says how many for which."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledPart:
    """One sampling that a reply was billed for."""

    kind: str
    """The provider's name for it: "compaction", "advisor_message", "message", …"""
    usage: Usage
    model: str | None = None
    """The model that was sampled; None for the one that answered."""


class Metered(NamedTuple):
    """What a reply says that it is billed for."""

    usage: Usage
    """Of the sampling that answered."""
    besides: tuple[BilledPart, ...] = ()
    """As in `TurnRecord`."""
    doubts: tuple[str, ...] = ()
    """As in `TurnRecord`."""
    model: str | None = None
    """The model of the sampling that answered, where the usage names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineWork:
    """What a server of the user's own says of its work on one reply; None where it said nothing of that."""

    computed: int | None = None
    """Tokens of the prompt that it computed, because it had not kept them."""
    prefill: float | None = None
    """Seconds in which it computed them."""
    decode: float | None = None
    """Seconds in which it made the reply."""
    queued: float | None = None
    """Seconds for which the request had waited there."""
    steps: int | None = None
    """Passes of the model that checked drafted tokens."""
    drafted: int | None = None
    """Tokens that were drafted for the reply."""
    accepted: int | None = None
    """Those of them that the model would have made itself; may be more than the reply has, which ends in between."""


def prefilled(work: EngineWork | None, usage: Usage, waited: float | None) -> tuple[float, int] | None:
    """Seconds in which a server computed so many tokens of a prompt; None where that is not known.

    Where it does not say so itself, it is what was not read, in the time until the reply began: `waited`, None where
    that was not seen, without the time in its queue where it tells that. More tokens than the prompt has are believed
    of nobody.

    >>> prefilled(EngineWork(computed=50, prefill=0.5), Usage(input=90, read=40), 2.0)
    (0.5, 50)
    >>> prefilled(None, Usage(input=90, read=40), 2.0), prefilled(None, Usage(input=90), 2.0)
    ((2.0, 50), None)
    """
    work = work or EngineWork()
    if usage.input is None:
        return None
    told = work.computed is not None and work.computed <= usage.input
    tokens = work.computed if told else usage.uncached
    if work.prefill is not None:
        seconds: float | None = work.prefill
    else:
        seconds = None if waited is None else max(waited - (work.queued or 0.0), 0.0)
    return None if seconds is None or tokens is None else (seconds, tokens)


Request = Mapping[str, Any]
"""A request body as the sender made it, in the sender's key order."""

# --- the prompt -------------------------------------------------------------------------------------------------------

MARKS = frozenset({"cache_control", "prompt_cache_breakpoint"})
"""Fields of a block that carry a marker on some wire; no part of the prompt."""


@quickly_made
@dataclass(frozen=True, kw_only=True)
class Marker:
    """A place where the provider is asked to keep the prefix that ends there."""

    path: Path
    """The block that carries it; the empty path is the request's own top-level marker."""
    ttl: str
    """The provider's label of the lifetime."""
    reason: str = ""
    """Why it stands there; empty for a marker that the user had already placed."""
    ours: bool = False
    """True for a marker that the plan adds, False for one that was in the request."""


made_marker = maker(Marker)


class Endpoint(NamedTuple):
    """Where a request goes, and in what form."""

    provider: str = "anthropic"
    platform: str = "api"
    wire: Wire = "messages"
    server: tuple[str, int] | None = None
    """Host and port, for people who watch; nothing is decided by them."""
    region: str = ""
    """Where requests have to be answered, if that has a price of its own; empty where it has none, or is not known."""
    account: str = ""
    """Whose requests share a cache there, where the sender can be told from others: a digest of its key."""


@quickly_made
@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A request as the prompt cache sees it: the segments and everything else that the cache key depends on."""

    provider: str
    platform: str
    model: str
    segments: tuple[Segment, ...]
    """In wire order: tools, system, messages."""
    parameters: Mapping[str, bytes]
    """Digest of every request field that is not a level, by name ("tool_choice", "output_config.effort")."""
    markers: tuple[Marker, ...]
    """Markers already there, in wire order; the top-level one or the provider's own breakpoint, if any, comes last."""
    messages: int
    """Number of messages of the conversation."""
    opening: int = 0
    """Messages before them that are the operator's, on wires where the system prompt is the first messages."""
    stream: bool
    """Whether a streamed reply is asked for."""
    implicit: bool = False
    """Whether the provider sets a breakpoint by itself because the request does not say whether it should."""
    held: str = ""
    """Why the history is held by the provider and not in the request; empty where the request is whole."""
    after: str = ""
    """The reply, or the conversation kept by the provider, that a held request goes on from; empty where not named."""
    ttl: str = ""
    """The lifetime that the request asks for all its markers; empty where it says none."""
    stretches: tuple[bytes, ...] = ()
    """For every `STRETCH` messages from the first on, a hash over the digests of their segments; empty where nobody has
    hashed them."""
    illegal: tuple[str, ...] = ()
    """Why the provider will reject the request as the user wrote it; empty where it is legal."""
    ephemeral: int = 0
    """Segments at the end that this request alone has: the next one of the conversation goes on from before them."""
    arranged: frozenset[str] = frozenset()
    """Names of the places whose text was moved or put in another order, with the user's consent."""
    edited: int = 0
    """Segments up to the end of what we have edited of the history, with the user's consent; 0 where nothing is."""

    @property
    def lasting(self) -> tuple[Segment, ...]:
        """The segments that the next request of the conversation is expected to begin with."""
        return self.segments[: len(self.segments) - self.ephemeral] if self.ephemeral else self.segments

    @cached_property
    def starts(self) -> tuple[int, int, int]:
        """As `level_starts` of its segments."""
        return level_starts(self.segments)


@quickly_made
@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a request is expected to be billed for, in tokens."""

    read: float
    write: Mapping[str, float]
    """Tokens written, by the label of the lifetime."""
    uncached: float

    @property
    def total(self) -> float:
        return self.read + sum(self.write.values()) + self.uncached


@quickly_made
@dataclass(frozen=True, kw_only=True)
class CachePlan:
    """What to change in one request, and why. An empty plan leaves the request exactly as it is."""

    markers: tuple[Marker, ...] = ()
    """Markers to add, in wire order. Markers that were there are kept and not repeated here."""
    wire: Wire = "messages"
    """The form of the request that it is made for."""
    mark: str = "cache_control"
    """The field of a block that carries a marker."""
    without: tuple[Marker, ...] = ()
    """Markers that only the request as written has: the provider's own breakpoint, one at the top level that a platform
    takes on a block only, or those that the provider would reject the request for, having enough of them."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Other cache fields to add at the top level of the request; an object is joined with the sender's own."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers to add to the request: they name its session where a server of your own routes by that."""
    reasons: tuple[str, ...] = ()
    """Why these, and why not more; one sentence each."""
    consents: tuple[str, ...] = ()
    """Consents of the policy that were used: to change content, "move_volatile", "freeze_tools", "clear_results",
    "distil", "summarise"; to change the wire, "stream_inside"."""
    arranged: Request | None = field(default=None, repr=False, compare=False)
    """The request as moved and edited with those consents, in which the markers stand; None where it is as written."""
    expected: Expected | None = None
    """The expected bill of this request with the plan; None without facts."""
    expected_cost: float | None = None
    """USD of input for this request with the plan; None without a price."""
    saving: float | None = None
    """Expected saving over this and the next request against leaving the request as it is, in uncached tokens."""
    encode: Callable[[Request, CachePlan], Request] | None = field(default=None, repr=False, compare=False)
    """Writes the plan into a request; None in the plan of a turn, whose `Send` command has the request already."""

    @property
    def empty(self) -> bool:
        changes = self.markers or self.options or self.without or self.headers
        return not changes and self.arranged is None

    def beside(self, written: tuple[Marker, ...]) -> tuple[Marker, ...]:
        """The markers that go out where the request was `written` with those."""
        if self.without:
            return (*(one for one in written if one not in self.without), *self.markers)
        return (*written, *self.markers)

    def apply(self, request: Request) -> Request:
        """`request` with what this plan adds, and with what it moves; the very same object if the plan is empty.

            sent = accel.plan(request).apply(request)

        Raises `ConfigError` if the plan was made for another request, or for a turn.
        """
        if type(request) is not dict and not isinstance(request, Mapping):
            raise ConfigError(f"a plan is applied to the JSON body as a dict; got {type(request).__name__}")
        if self.empty:
            return request
        if self.encode is None:
            raise ConfigError("the plan of a turn is applied already: send the request of its Send command")
        try:
            return self.encode(request if self.arranged is None else self.arranged, self)
        except (LookupError, TypeError, AttributeError) as wrong:
            raise ConfigError("this plan was made for another request: plan the one that you send") from wrong


# --- what broke -------------------------------------------------------------------------------------------------------


class Cause(StrEnum):
    """Why tokens of an earlier prefix were not read from the cache."""

    FIRST = "first request"
    CHANGED = "prompt changed"
    MODEL = "model switched"
    PARAMETER = "parameter changed"
    EXPIRED = "expired"
    BELOW_MINIMUM = "below minimum"
    LOOKBACK = "beyond lookback"
    NOT_MARKED = "not marked"
    CONCURRENT = "not yet visible"
    COMPACTED = "compacted"
    EVICTED = "evicted by provider"
    SLOT_TAKEN = "slot taken"
    OTHER_SALT = "other salt"
    UNKNOWN = "unexplained"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Where two prompts of one conversation first differ, and the likely reason."""

    level: Level | Literal["parameters"]
    where: str
    """The place, as people write a path: "system[0].text", or the parameter's name."""
    likely: str
    """The likely cause: "clock", "date", "id", "counter", "key order", "reordered tools", "edited history", …"""
    byte: int | None = None
    """Offset of the first differing byte inside the place's UTF-8 text; None where content is not at hand."""
    bytes: int | None = None
    """How much of that text changed, in bytes and rounded up to pieces of 64; stretches less than 256 bytes apart count
    as one, and text behind the first 16 KiB does not count. None where that is not known."""
    detail: str = ""
    """A sentence for people; never holds content unless both prompts were given by the caller."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """Tokens that an earlier prompt of the session held in the same places and that were not read."""

    cause: Cause
    tokens: int
    detail: str = ""
    inferred: bool = False
    """True where the cause was concluded from usage and times alone, without having seen the prompts."""


# --- tools ------------------------------------------------------------------------------------------------------------


class Effect(StrEnum):
    """What running a tool may do to the world, from harmless to unknown."""

    PURE = "pure"
    READ_LOCAL = "read_local"
    READ_REMOTE = "read_remote"
    SANDBOXABLE = "sandboxable"
    REVERSIBLE = "reversible"
    UNKNOWN = "unknown"


Launchable = Literal["predicted", "asked", "never"]
"""When a call may be run early: on a prediction, once the model has asked for it, or not at all."""

EffectName = Literal["pure", "read_local", "read_remote", "sandboxable", "reversible", "unknown"]
EffectSaid = Effect | EffectName | Callable[[Mapping[str, Any]], Effect | EffectName]
"""What somebody says of a tool: an effect, its value, or a function that tells it from the arguments of one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call of a tool: what the model asked for, or what a loop ran."""

    name: str
    arguments: Mapping[str, Any]
    id: str | None = None
    """The provider's id of the call; None where the loop did not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """A call that the model is expected to make, and why."""

    call: ToolCall
    """With all its arguments; a call of which one is not known is not predicted."""
    probability: float
    """Calibrated: that the very next reply asks for exactly this call."""
    soon: float = 0.0
    """Calibrated: that one of the next few replies does, before anything that may write has run; at least
    `probability`."""
    rule: str = ""
    """The pattern that it comes from, for whoever keeps count of how patterns fare: the tool and the source of each
    argument, no values."""
    evidence: tuple[str, ...] = ()
    """In words, for people."""
