"""What a session log tells of replies and tool calls, while they may still grow, and as records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentaccel.facts import cache_facts
from agentaccel.providers.merging import merged
from agentaccel.providers.values import terms_of, unusual
from agentaccel.records import Outcome, ToolRecord, TurnRecord
from agentaccel.trace.importers.fields import count, lifetime_among, metered_of
from agentaccel.trace.importers.infer import Arrival, Conversation, settle
from agentaccel.types import Metered, Usage

MAIN, SUB = "claude-code", "claude-code sub-agent"
"""The names of the agents, for grouping."""


@dataclass(slots=True)
class Reply:
    """A reply that may still grow."""

    thread: Thread
    model: str
    platform: str
    started: float
    finished: float
    compacted: bool
    repeated: bool
    origin: str | None = None
    """The session that it was copied from, where the line says so."""
    names: tuple[str, ...] = ()
    """By which its later lines are told; a failure has none."""
    named: bool = False
    """True if its message has an id."""
    usage: Mapping[str, object] | None = None
    """What its lines have told of it, together."""
    last_usage: Mapping[str, object] | None = None
    """As the last line that told any has it."""
    terms: dict[str, str] = field(default_factory=dict)
    """What stands beside the usage."""
    stop: str | None = None
    outcome: Outcome = "ok"
    status: int | None = None
    error: str | None = None
    attempt: int = 0
    diagnosis: str | None = None

    def tell(self, usage: Mapping[str, object]) -> None:
        """Take the usage of a line: counters may be missing from one, and the output of an earlier one is at least as
        much as was made until then."""
        self.last_usage = usage
        if self.usage is None:
            self.usage = usage
            return
        so_far, now = count(self.usage, "output_tokens"), count(usage, "output_tokens")
        self.usage = merged(self.usage, usage)
        if so_far is not None and now is not None and so_far > now:
            self.usage = {**self.usage, "output_tokens": so_far}


@dataclass(slots=True)
class Call:
    """A tool call that may still end."""

    thread: Thread
    name: str
    key: str
    started: float
    repeated: bool
    id: str | None
    origin: str | None = None
    finished: float | None = None
    failed: bool = False


@dataclass(slots=True)
class Thread:
    """One conversation in one file: the main one, or a sub-agent's."""

    session: str
    parent: str | None
    agent: str | None = None
    prompted: float = 0.0
    """When a message to the model was written that has no reply yet: its request began then; 0.0 for none."""
    compacted: bool = False
    model: str = "unknown"
    past: Conversation = field(default_factory=Conversation)
    lifetimes: set[str] = field(default_factory=set)
    """Labels of the lifetimes that its replies say to have written for."""
    around: set[str] = field(default_factory=set)
    """The same of all replies in the file."""

    def charged(self, origin: str) -> tuple[str, str | None]:
        """The session that pays for what was copied from `origin`, and the parent of that one."""
        return (f"{origin}/{self.agent}", origin) if self.agent else (origin, None)


def turn_record(reply: Reply) -> TurnRecord:
    thread = reply.thread
    facts = cache_facts(reply.model, platform=reply.platform)
    default = facts.ttls[0].label if facts is not None else "5m"
    lifetime = lifetime_among(thread.lifetimes, thread.around, default=default)
    metered = metered_of(reply.usage, lifetime) if reply.usage else Metered(Usage())
    usage = metered.usage
    arrival = Arrival(reply.model, usage, reply.started, reply.compacted)
    reusable, misses = settle(thread.past, arrival, facts)
    session, parent = (thread.session, thread.parent) if reply.origin is None else thread.charged(reply.origin)
    return TurnRecord(
        session=session,
        provider="anthropic",
        platform=reply.platform,
        model=reply.model,
        started=reply.started,
        finished=reply.finished,
        agent=SUB if thread.parent else MAIN,
        parent=parent,
        attempt=reply.attempt,
        outcome=reply.outcome,
        status=reply.status,
        error=reply.error,
        mode="log",
        usage=usage,
        answered_by=metered.model,
        besides=metered.besides,
        doubts=metered.doubts,
        terms=unusual(reply.terms | terms_of(reply.usage or {})),
        stop=reply.stop,
        diagnosis=reply.diagnosis,
        reusable=reusable,
        misses=misses,
    )


def tool_record(call: Call) -> ToolRecord:
    done: Outcome = "failed" if call.failed else "ok"
    return ToolRecord(
        session=call.thread.session if call.origin is None else call.thread.charged(call.origin)[0],
        name=call.name,
        key=call.key,
        started=call.started,
        finished=call.finished,
        outcome=done if call.finished is not None else "abandoned",
        agent=SUB if call.thread.parent else MAIN,
    )
