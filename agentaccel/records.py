"""The records that the trace store keeps, that importers make and that reports read. Units as in `types`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import quote, unquote

from agentaccel.types import NO_USAGE, BilledPart, Drift, EngineWork, Expected, Marker, Miss, Usage, sum_of
from agentaccel.values import quickly_made

Outcome = Literal["ok", "failed", "abandoned", "cancelled"]
"""How a request or a tool call ended; *abandoned*: the reader broke off the stream."""


def outcome_of(error: BaseException) -> Literal["failed", "cancelled"]:
    """How a request or a tool call ended that raised `error`.

    What is no `Exception` is somebody's wish that it ends: a cancelled task of any library, an interruption, a
    generator that is closed.

    >>> outcome_of(TimeoutError()), outcome_of(KeyboardInterrupt())
    ('failed', 'cancelled')
    """
    return "failed" if isinstance(error, Exception) else "cancelled"


def key_of(session: str, thread: str) -> str:
    """The key of one of the conversations under a session's name: the first has the name itself.

    No session's own name begins so, and all keys of a session's other conversations begin alike.

    >>> key_of("ticket/1", ""), key_of("ticket/1", "9f2c")
    ('ticket/1', '@/ticket%2F1/9f2c')
    """
    return f"{threads_of(session)}{thread}" if thread else session


def threads_of(session: str) -> str:
    """How the keys of all but the first of a session's conversations begin."""
    return f"@/{quote(session, safe='', errors='surrogatepass')}/"


def parts_of(key: str) -> tuple[str, str]:
    """The session and the thread whose `key_of` is `key`.

    >>> parts_of(key_of("@acme/1", "9f2c")), parts_of("@acme/1")
    (('@acme/1', '9f2c'), ('@acme/1', ''))
    """
    if not key.startswith("@/"):
        return key, ""
    session, _, thread = key[2:].rpartition("/")
    return unquote(session, errors="surrogatepass"), thread


KEEP_ALIVE = "keep-alive"
"""The mode of a request of our own, which only keeps entries alive."""
PREWARM = "prewarm"
"""The mode of a request of our own, which has a prefix written before the request that needs it."""
OURS = frozenset({KEEP_ALIVE, PREWARM})
"""The modes of requests that nobody but agentaccel has made."""
BATCH = "batch"
"""The mode of a request of a batch, whose prompt is not known, nor what it goes on from."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """One request to a model and what came of it: one row of the trace store, or one reply of an imported log."""

    session: str
    """The conversation."""
    provider: str
    model: str
    """The model as the request named it."""
    started: float
    """When the request was sent, after it had waited if it did; 0.0 where an imported log does not say."""
    platform: str = "api"
    known_as: str | None = None
    """The model that the user's aliases map the request's name to; None where they say nothing of it."""
    agent: str | None = None
    tenant: str | None = None
    parent: str | None = None
    """The session that this one was opened from, for sub-agents."""
    thread: str = ""
    """Which of the conversations under the session's name it belongs to; empty for the first."""
    attempt: int = 0
    """0 for the first attempt, n for the vendor SDK's n-th retry."""
    first_byte: float | None = None
    """When the reply began; None where not seen."""
    finished: float | None = None
    """When the reply ended; None where not seen."""
    outcome: Outcome = "ok"
    status: int | None = None
    """HTTP status; None where no answer came or the source does not say."""
    error: str | None = None
    """Name of the error, where one ended the request; never its text."""
    mode: str = "on"
    """"on", "observe", "holdout" (mode on, left as written for comparison), "bypass", "log" for imported ones,
    `BATCH`, or one of `OURS`."""
    streamed: bool = False
    usage: Usage = field(default_factory=Usage)
    """Of the sampling that answered: its input is the size of the prompt."""
    answered_by: str | None = None
    """The model that answered, as the reply names it; None where it does not."""
    besides: tuple[BilledPart, ...] = ()
    """What else the reply was billed for, in order: a compaction of the history, an advisor, rounds before the last."""
    doubts: tuple[str, ...] = ()
    """Names of counters of the reply that contradict one another, such as "cached_tokens", or that nobody understood:
    what they would have told is None."""
    terms: Mapping[str, str] = field(default_factory=dict)
    """What its tokens are priced by, as the reply and the place say: `service_tier`, `speed`, `inference_geo`,
    `region`, where they are not the usual ones."""
    stop: str | None = None
    """The provider's reason for ending the reply."""
    calls: tuple[str, ...] = ()
    """Names of the tools that the reply asked for, in order."""
    markers: tuple[Marker, ...] = ()
    """Markers as sent, the user's included."""
    reasons: tuple[str, ...] = ()
    """The plan's reasons."""
    consents: tuple[str, ...] = ()
    """As in `CachePlan`, where the plan was applied."""
    expected: Expected | None = None
    """What the plan expected."""
    as_written: Usage | None = None
    """The bill of the request as the user wrote it, modelled with the provider's total; None where not modelled."""
    reusable: int | None = None
    """Tokens of the prompt that an earlier prompt of the session began with: what a perfect cache would read."""
    misses: tuple[Miss, ...] = ()
    """What was reusable (or, on a first request, everything) and not read, by cause."""
    drift: Drift | None = None
    """Where the prompt left the one before it, if it did."""
    held: str = ""
    """Why the history is held by the provider; empty where the request was whole."""
    diagnosis: str | None = None
    """The provider's own reason for a missed prefix, where it was asked for one."""
    waited: float | None = None
    """Seconds for which it was held back before `started`, for another request to write what both begin with; None
    where it was not."""
    work: EngineWork | None = None
    """As in `Reported`."""
    beside: tuple[str, ...] = ()
    """What stood around the request that is known to cost something at the cache, by its names in the data file."""

    @property
    def billed(self) -> Usage:
        """All that the reply was billed for, of whatever model; a count that one of its parts lacks is None."""
        if not self.besides:
            return self.usage
        parts = [one.usage for one in self.besides]
        return sum_of(parts if self.usage == NO_USAGE else [self.usage, *parts])


ServedFrom = Literal["predicted", "asked", "memo"]
"""Where the result of a call came from that was not run for it: a run begun on a prediction, one begun when the model
had asked and its message had not ended, or the result of an earlier call."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRecord:
    """One call of a tool, or one early run (`speculative`), which is no call."""

    session: str
    name: str
    key: str
    """Keyed hash of name and arguments, hexadecimal: equal for equal calls; empty where arguments are not known."""
    started: float
    finished: float | None
    outcome: Outcome
    error: str | None = None
    """Class name of the exception, where one was raised."""
    agent: str | None = None
    tenant: str | None = None
    speculative: bool = False
    """A run that was begun before its call; what came of it is `fate`. The call it served has a record of its own."""
    fate: str | None = None
    """Of an early run: "served", "stale", "failed" or "unused"; None while that is not known."""
    served_from: ServedFrom | None = None
    """None for a call that was run."""
    hidden: float | None = None
    """Seconds of the run that served this call for which the call did not wait; None where it was run."""
    wasted: float | None = None
    """Seconds of an early run that served no call; None for one that did."""


@dataclass(slots=True)
class Calls:
    """Calls of one session, one after another without a request between them, each run when the model asked for it:
    all that a report says of such calls. Mutable: it grows as they are read."""

    session: str
    started: float
    """When the first of them was."""
    agent: str | None
    tenant: str | None
    count: int = 0
    failed: int = 0
    unfinished: int = 0
    spans: list[tuple[float, float]] = field(default_factory=list)
    """When each of those that ended began and ended, in the order in which they began."""


@dataclass(frozen=True, slots=True)
class SessionOver:
    """Says among records that those of a session have all come."""

    session: str
