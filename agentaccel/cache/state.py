"""What a session has seen so far: the part of a plan's input that is neither the request nor learned elsewhere.

`SessionState` is small, frozen and written to the trace store with every turn, so that another process which takes the
next turn plans as this one would have. `PreviousPrompt` is a past prompt in hashes, from which drift is told; it can be
rebuilt from the store's segment chains.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from agentaccel.cache.beliefs import END_OF, PARAMETERS, Beliefs
from agentaccel.cache.ledger import Ledger
from agentaccel.cache.prefix import Prefixes
from agentaccel.facts import LEVELS, CacheFacts
from agentaccel.hashing import chain, digest
from agentaccel.types import Segment, digest_of
from agentaccel.values import quickly_made

if TYPE_CHECKING:
    from agentaccel.cache.standing import Standing


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class PreviousPrompt:
    """The last prompt of a conversation, in hashes, whose segments later prompts share."""

    hashes: tuple[bytes, ...]
    """Prefix hash per segment."""
    segments: tuple[Segment, ...]
    sizes: array[int]
    """Bytes of each prefix."""
    facts: CacheFacts
    """Those that the hashes were made by."""
    starts: tuple[int, int, int]
    """As in `Prefixes`."""
    seeds: tuple[bytes, ...]
    """As in `Prefixes`."""
    dropped: frozenset[int]
    """As in `Prefixes`."""
    parameters: Mapping[str, bytes]
    model: str
    messages: int
    """Number of messages."""
    added: int
    """Index of the first segment of its tail: what it added to the prompt before where it only did that, and its last
    message at least."""
    started: float
    """When the request was sent."""
    tokens: int | None
    """The provider's count of the whole prompt."""
    message_id: str | None = None
    """The provider's id of the reply."""
    arranged: frozenset[str] = frozenset()
    """As in `Prompt`."""


class Static(NamedTuple):
    """What a request has in front of its messages, as its user wrote it."""

    system: bytes
    """A hash of its system prompt."""
    size: int
    """Bytes of that."""
    tools: bytes
    """A hash of the names of its tools, in any order."""
    model: str


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionState:
    """What the turns of one session amount to."""

    turns: int = 0
    """Requests answered so far."""
    ledger: Ledger = field(default_factory=Ledger)
    """What the provider is believed to hold because of this session."""
    shadow: Ledger = field(default_factory=Ledger)
    """What it would hold had every request been sent as the user wrote it."""
    seen: Beliefs = field(default_factory=Beliefs)
    """What this session has shown: stability of places, bytes per token."""
    variants: Mapping[str, Mapping[bytes, float]] = field(default_factory=dict)
    """For each place that was ever seen to change, when each of its recent variants was last sent."""
    cut: int = 0
    """Segments at the end of a prompt that the next one replaced, as last seen; 0 where history only grew."""
    ours: bool = False
    """Whether a marker of ours has been sent."""
    last_started: float | None = None
    last_visible: float = 0.0
    """When the reply to the last request began."""
    last_lifetime: float = 0.0
    """Seconds for which its entries live; the provider's default where it wrote none."""
    last_turn: int = 0
    """Replies that the last request held: the index under which it was expected to be followed."""
    awaits: str = ""
    """What the last reply asked for, and so what the pause after it is for: "user", "tool:NAME"; empty where it is not
    known."""
    born: int = 0
    """Messages in the session's first request."""
    cleared: tuple[bytes, ...] = ()
    """Results of tools in whose place a note is sent, with consent: hashes of them as written, oldest first."""
    edited_of: tuple[int, bytes] | None = None
    """Messages of the last request as its user wrote it, and the hash after them (`Lineage`), where its history was
    sent edited with consent."""
    route: str = ""
    """Which of the machines that its beginning goes to is its own, for as long as it lives; empty while not chosen."""
    standing: Standing | None = None
    """The decision that the last request was sent by, where it may stand for the next."""
    static: Static | None = None
    """Of the last request; None where it is not known."""
    replied: int | None = None
    """Tokens of the reply to it; None where the provider reported none."""


def head_of(
    prefix: Prefixes,
    before: PreviousPrompt | None = None,
    *,
    started: float,
    tokens: int | None,
    message_id: str | None,
) -> PreviousPrompt:
    """The prompt of `prefix`, which followed on the one `before`, as a head for the next turn, without what only this
    request has at its end."""
    segments = prefix.prompt.lasting
    count = len(segments)
    last = prefix.prompt.opening + prefix.prompt.messages - 1
    start = count
    while start and segments[start - 1].level == "messages" and segments[start - 1].path[1:2] in ((last,), ()):
        start -= 1
    if before is not None and shared_length(before, prefix) == len(before.hashes):
        start = min(start, len(before.hashes))
    tokens = lasting_tokens(prefix, tokens)
    return PreviousPrompt(
        hashes=prefix.hashes[:count],
        segments=segments,
        sizes=prefix.sizes[:count],
        facts=prefix.facts,
        starts=prefix.starts,
        seeds=prefix.seeds,
        dropped=prefix.dropped,
        parameters=prefix.prompt.parameters,
        model=prefix.prompt.model,
        messages=prefix.prompt.messages,
        added=start,
        started=started,
        tokens=tokens,
        message_id=message_id,
        arranged=prefix.prompt.arranged,
    )


def lasting_tokens(prefix: Prefixes, tokens: int | None) -> int | None:
    """Of the `tokens` of a whole prompt, those without what only this request has at its end."""
    count = len(prefix.prompt.lasting)
    if tokens is None or count == len(prefix.hashes):
        return tokens
    return round(tokens * prefix.sizes[count - 1] / max(prefix.size, 1)) if count else 0


class _Hashed(Protocol):
    """Something with a chain of prefix hashes."""

    @property
    def hashes(self) -> tuple[bytes, ...]: ...


def shared_length(one: _Hashed, other: _Hashed) -> int:
    """Segments that two prompts begin with alike, parameters included.

    Prefix hashes are chained, so the first difference can be found by halving.
    """
    count = len(one.hashes)
    if one.hashes[-1:] == other.hashes[count - 1 : count]:
        return count  # it only grew, as most do
    low, high = 0, min(count, len(other.hashes))
    while low < high:
        middle = (low + high + 1) // 2
        if one.hashes[middle - 1] == other.hashes[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low


# --- Places of a prompt that may change between turns, named so that the next turn's can be compared with them --------
# A place is `tools` (the whole list: its order is one thing), `system[1]`, a content block
# (`messages[0].content[1]`), a parameter (`parameters.tool_choice`), `end of tools` or `end of system`, where a list
# is added to and else stays as it was, or one that moves along with the conversation: `tail`, what the last request
# added, and `loop`, what followed on the last words of a person, calls of tools and their results, which some agents
# leave out once they have answered.

TOOLS = "tools"


@dataclass(frozen=True, slots=True)
class Position:
    """Where a place stands in one prompt, and what is there."""

    name: str
    index: int
    """The first segment whose prefix a change of it breaks."""
    digest: bytes


def find(prefix: Prefixes, name: str) -> Position | None:
    """The place called `name` in this prompt; None where there is none. `tail` has no digest: it is never the same."""
    segments = prefix.prompt.segments
    if name == prefix.named(TOOLS):
        tools = segments[: prefix.starts[1]]
        return Position(name, 0, listed(tools)) if tools else None
    if name.startswith(PARAMETERS):
        parameter = name[len(PARAMETERS) :]
        start = level_start(prefix, parameter)
        value = prefix.prompt.parameters.get(parameter, b"")
        if parameter == "model":
            value = digest(prefix.prompt.model.encode("utf-8", "surrogatepass"))
        return Position(name, start, value) if start is not None else None
    if name.startswith(END_OF):
        return _end_of(prefix, name)
    index = prefix.place(name)
    return None if index is None else Position(name, index, segments[index].digest)


def _end_of(prefix: Prefixes, name: str) -> Position | None:
    segments = prefix.prompt.segments
    for level, start, end in static_levels(prefix.starts):
        if name == end_of(prefix, level):
            there = end < len(segments) and start < end
            return Position(name, end, listed(segments[start:end])) if there else None
    return None


def end_of(prefix: Prefixes, level: str) -> str:
    """The name of the place where that level of the prompt ends."""
    return END_OF + prefix.named(level)


def static_levels(starts: tuple[int, int, int]) -> tuple[tuple[str, int, int], ...]:
    """Those before the messages: name, first segment, and the segment behind them."""
    first, system, messages = starts
    return ("tools", first, system), ("system", system, messages)


def listed(segments: Sequence[Segment]) -> bytes:
    """A hash of what a list holds, in its order."""
    return chain(map(digest_of, segments))[-1]


def level_start(prefix: Prefixes, parameter: str) -> int | None:
    """The first segment whose prefix `parameter` is rendered into; None where a change of it breaks nothing."""
    broken = LEVELS if parameter == "model" else prefix.facts.breaks(parameter)
    if not broken:
        return None
    first = min(LEVELS.index(level) for level in broken)
    segments = prefix.prompt.segments
    return next((i for i, segment in enumerate(segments) if LEVELS.index(segment.level) >= first), len(segments))
