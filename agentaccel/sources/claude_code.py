"""Claude Code's session logs: one JSON object a line, undocumented and growing; what is not known is skipped.

A reply is written as one line per content block, each repeating the usage, with other lines in between. So replies
wait in a queue until enough has followed them, and are counted once per message and request id, with the usage of
the last line that carries it. Sub-agents are sessions of their own, wherever their messages stand: in `progress`
lines, in side-chain lines, or in files of their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from agentaccel.facts import cache_facts, platform_of_name
from agentaccel.hashing import digest, identity_bytes
from agentaccel.records import Outcome, ToolRecord, TurnRecord
from agentaccel.sources.claude_lines import Agents, as_log_line
from agentaccel.sources.fields import (
    Identities,
    blocks,
    count,
    lifetime_among,
    lifetimes_told,
    mapping,
    metered_of,
    seconds,
    text,
)
from agentaccel.sources.infer import Arrival, LoggedConversation, settle
from agentaccel.sources.lines import parse
from agentaccel.sources.tally import ImportTally
from agentaccel.types import Metered, Usage
from agentaccel.wire.json import TERMS, name_or_none, terms_of, unusual
from agentaccel.wire.replies import merged

# --- What a session log tells of replies and tool calls, while they may still grow, and as records --------------------

MAIN, SUB = "claude-code", "claude-code sub-agent"
"""The names of the agents, for grouping."""


@dataclass(slots=True)
class LoggedReply:
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
class LoggedCall:
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
    past: LoggedConversation = field(default_factory=LoggedConversation)
    lifetimes: set[str] = field(default_factory=set)
    """Labels of the lifetimes that its replies say to have written for."""
    around: set[str] = field(default_factory=set)
    """The same of all replies in the file."""

    def charged(self, origin: str) -> tuple[str, str | None]:
        """The session that pays for what was copied from `origin`, and the parent of that one."""
        return (f"{origin}/{self.agent}", origin) if self.agent else (origin, None)


def turn_record(reply: LoggedReply) -> TurnRecord:
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


def tool_record(call: LoggedCall) -> ToolRecord:
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


QUEUE = 4096
"""Replies and tool calls that wait for a later line of theirs. A reply is finished within a handful of lines; a tool
that runs in the background while the agent goes on is the reason for so many."""

__all__ = ["BY_THE_CLIENT", "MAIN", "SUB", "is_session_line", "read_session"]

BY_THE_CLIENT = "<synthetic>"
"""The model of messages that the client made up: interruptions, and errors of the API."""

_PLATFORMS = {"msg_bdrk_": "bedrock", "msg_vrtx_": "vertex"}
"""Where a reply came from, by the beginning of its id, which is `_START` characters long."""

_START = 9

_TOLD = ("assistant", "user")
"""Lines that have messages."""


Names = tuple[str | None, str | None, str | None]
"""Of a line of a reply: the ids of the message, of the request and of the line; a copy may lack any."""


def is_session_line(entry: Mapping[str, object]) -> bool:
    """Whether `entry` is a line of a session log, which has a `type` and is in one of the forms of such lines."""
    return isinstance(entry.get("type"), str) and as_log_line(entry) is not None


def read_session(
    lines: Iterable[bytes], name: str, seen: Identities, tally: ImportTally
) -> Iterator[TurnRecord | ToolRecord]:
    """The records of one file called `name`; `seen` holds the replies that earlier files have told of."""
    reader = _Reader(name, seen, tally)
    queue = reader.queue
    for line in lines:
        tally.lines += 1
        if (entry := parse(line, tally)) is not None:
            reader.take(entry)
        while len(queue) > QUEUE:
            if (record := reader.release()) is not None:
                yield record
    while queue:
        if (record := reader.release()) is not None:
            yield record


class _Reader:
    """Takes parsed lines in order and gives back records in the order in which replies and calls began."""

    def __init__(self, name: str, seen: Identities, tally: ImportTally) -> None:
        self.queue: deque[LoggedReply | LoggedCall] = deque()
        self._name, self._seen, self._tally = name, seen, tally
        self._threads: dict[tuple[str, str], Thread] = {}
        self._main: Thread | None = None
        """The main conversation that the last line belonged to."""
        self._replies: dict[str, LoggedReply] = {}
        self._calls: dict[str, LoggedCall] = {}
        self._agents = Agents()
        self._now = 0.0
        self._lifetimes = set[str]()
        self._begun = False
        """True if any line was of a request."""

    def take(self, entry: Mapping[str, object]) -> None:
        """One line of the log."""
        kind = entry.get("type")
        if "sessionId" not in entry:
            told = as_log_line(entry)
            if told is None:
                if kind in _TOLD:
                    self._tally.unread_lines += 1
                    self._tally.unread_forms.update([", ".join(sorted(entry)[:6])])
                return
            entry = told
        if kind == "progress":
            self._progress(entry)
            return
        at = self._now = seconds(entry.get("timestamp")) or self._now
        if kind == "assistant":
            self._assistant(self._thread(entry), entry, at)
        elif kind == "user":
            self._user(self._thread(entry), entry, at)
        elif kind == "system":
            self._system(self._thread(entry), entry)
        elif kind == "result":
            self._tally.sums += not self._begun and bool(mapping(entry, "usage"))

    def release(self) -> TurnRecord | ToolRecord | None:
        """The oldest reply or call as a record; None where another file has told of it."""
        item = self.queue.popleft()
        if isinstance(item, LoggedCall):
            if item.id is not None and self._calls.get(item.id) is item:
                del self._calls[item.id]
            return None if item.repeated else tool_record(item)
        for name in item.names:
            self._replies.pop(name, None)
        record = turn_record(item)  # what a reply that is told of twice leaves behind, the next one finds
        if item.repeated:
            self._tally.duplicates += 1
            return None
        return record

    def _progress(self, entry: Mapping[str, object]) -> None:
        """A message of a sub-agent, if it is one; hooks and commands tell of themselves far more often."""
        data = mapping(entry, "data")
        agent = text(data, "agentId")
        if agent is None:
            return
        self._now = seconds(entry.get("timestamp")) or self._now
        message = mapping(data, "message")
        at = seconds(message.get("timestamp")) or self._now
        if message.get("type") == "assistant":
            self._assistant(self._thread_of(entry, agent), message, at)
        elif message.get("type") == "user":
            self._user(self._thread_of(entry, agent), message, at)

    def _thread(self, entry: Mapping[str, object]) -> Thread:
        """The conversation that a line belongs to."""
        sidechain = entry.get("isSidechain") is True
        if not sidechain and "agentId" not in entry:
            main = self._main
            return main if main and main.session == entry.get("sessionId") else self._thread_of(entry, None)
        return self._thread_of(entry, self._agents.of(entry))

    def _thread_of(self, entry: Mapping[str, object], agent: str | None) -> Thread:
        """The conversation of a sub-agent; of None, the main one."""
        session = text(entry, "sessionId") or self._name
        thread = self._threads.get((session, agent or ""))
        if thread is None:
            thread = Thread(f"{session}/{agent}", session, agent) if agent else Thread(session, None)
            thread.around = self._lifetimes
            self._threads[session, agent or ""] = thread
        if agent is None:
            self._main = thread
        return thread

    def _user(self, thread: Thread, entry: Mapping[str, object], at: float) -> None:
        thread.prompted = at
        if entry.get("isCompactSummary") is True:
            thread.compacted = True
        for block in blocks(mapping(entry, "message")):
            if block.get("type") == "tool_result":
                call = self._calls.get(text(block, "tool_use_id") or "")
                if call is not None:
                    call.finished, call.failed = at, block.get("is_error") is True

    def _assistant(self, thread: Thread, entry: Mapping[str, object], at: float) -> None:
        message = mapping(entry, "message")
        names = text(message, "id"), text(entry, "requestId"), text(entry, "uuid")
        reply = self._still_open(names, at)
        if reply is None:
            model = text(message, "model") or "unknown"
            if model == BY_THE_CLIENT:
                if entry.get("isApiErrorMessage") is True:
                    self._failed(thread, entry, at, text(entry, "error") or "api_error")
                return
            reply = self._begin(thread, entry, model, at, repeated=self._seen.met(*names))
            self._found_by(reply, names, at)
        else:
            self._go_on(reply, names, at)
        reply.stop = text(message, "stop_reason") or reply.stop
        usage = mapping(message, "usage")
        if usage and usage != reply.last_usage:  # most lines of a reply repeat it
            reply.tell(usage)
            if told := lifetimes_told(usage):
                thread.lifetimes |= told
                self._lifetimes |= told
        if not TERMS.isdisjoint(message):
            reply.terms |= terms_of(message)
        if message.get("diagnostics") is not None:
            reply.diagnosis = _diagnosis(message) or reply.diagnosis
        for block in blocks(message):
            if block.get("type") == "tool_use":
                self._call(reply, block, at)

    def _still_open(self, names: Names, at: float) -> LoggedReply | None:
        """The reply that a line belongs to: by its id or, where the line or the reply has none, by its request."""
        id_, request, line = names
        reply = self._replies.get(id_ or request or line or str(at))
        if reply is None and id_ is not None and request is not None:
            reply = self._replies.get(request)
            return reply if reply is not None and not reply.named else None
        return reply

    def _go_on(self, reply: LoggedReply, names: Names, at: float) -> None:
        """Take note of a later line of `reply`."""
        self._seen.also(names[2], 2)
        if at > reply.finished:
            reply.finished = at
        if names[0] not in self._replies or names[1] not in self._replies:
            self._found_by(reply, names, at)
            self._seen.also(names[0], 0)
            self._seen.also(names[1], 1)

    def _found_by(self, reply: LoggedReply, names: Names, at: float) -> None:
        """Let later lines find `reply` by any of its names."""
        id_, request, line = names
        if id_ is not None and not reply.named:
            reply.named, reply.platform = True, _PLATFORMS.get(id_[:_START], reply.platform)
        for name in (id_, request) if id_ or request else (line or str(at),):
            if name is not None and name not in self._replies:
                self._replies[name] = reply
                reply.names += (name,)

    def _begin(
        self, thread: Thread, entry: Mapping[str, object], model: str, at: float, *, repeated: bool
    ) -> LoggedReply:
        started = min(thread.prompted or at, at)
        self._begun = True
        place = platform_of_name("anthropic", model)
        reply = LoggedReply(thread, model, place, started, at, thread.compacted, repeated, _origin(entry))
        thread.compacted, thread.model = False, model
        thread.prompted = 0.0  # the next request has a message of its own; if it is not logged, its time is not known
        self.queue.append(reply)
        return reply

    def _call(self, reply: LoggedReply, block: Mapping[str, object], at: float) -> None:
        name, id_ = text(block, "name"), text(block, "id")
        if name is None or (id_ is not None and id_ in self._calls):
            return
        key = digest(identity_bytes([name, block.get("input")])).hex()
        call = LoggedCall(reply.thread, name, key, at, reply.repeated, id_, reply.origin)
        if id_ is not None:
            self._calls[id_] = call
        self.queue.append(call)

    def _system(self, thread: Thread, entry: Mapping[str, object]) -> None:
        subtype = text(entry, "subtype") or ""
        if subtype.endswith("compact_boundary"):
            thread.compacted = True
        elif subtype == "api_error":
            retry = count(entry, "retryAttempt") or 1
            status = count(mapping(entry, "error"), "status")
            self._failed(thread, entry, self._now, "api_error", status, retry - 1)

    def _failed(
        self,
        thread: Thread,
        entry: Mapping[str, object],
        at: float,
        error: str,
        status: int | None = None,
        attempt: int = 0,
    ) -> None:
        repeated = self._seen.met(text(entry, "uuid"), ("failed", at) if at else None)
        started = min(thread.prompted or at, at)
        reply = LoggedReply(thread, thread.model, "api", started, at, False, repeated, _origin(entry))
        reply.outcome, reply.error, reply.status, reply.attempt = "failed", error, status, attempt
        self.queue.append(reply)


def _origin(entry: Mapping[str, object]) -> str | None:
    """The session that a line was copied from when its own was forked."""
    return text(mapping(entry, "forkedFrom"), "sessionId") if "forkedFrom" in entry else None


def _diagnosis(message: Mapping[str, object]) -> str | None:
    """The provider's own reason for a missed prefix."""
    return name_or_none(mapping(mapping(message, "diagnostics"), "cache_miss_reason").get("type"))
