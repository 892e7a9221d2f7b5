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

from agentaccel.canonical import digest, identity_bytes
from agentaccel.facts import cache_facts
from agentaccel.providers.values import terms_of
from agentaccel.records import Outcome, ToolRecord, TurnRecord
from agentaccel.trace.importers.agents import Agents
from agentaccel.trace.importers.fields import blocks, count, mapping, seconds, text, usage_of
from agentaccel.trace.importers.infer import Arrival, Conversation, settle
from agentaccel.trace.importers.lines import ImportTally, parse
from agentaccel.types import Usage

QUEUE = 4096
"""Replies and tool calls that wait for a later line of theirs. A reply is finished within a handful of lines; a tool
that runs in the background while the agent goes on is the reason for so many."""

MAIN, SUB = "claude-code", "claude-code sub-agent"
"""The names of the agents, for grouping."""

BY_THE_CLIENT = "<synthetic>"
"""The model of messages that the client made up: interruptions, and errors of the API."""

_PLATFORMS = {"msg_bdrk_": "bedrock", "msg_vrtx_": "vertex"}
"""Where a reply came from, by the beginning of its id, which is `_START` characters long."""

_START = 9

_FIELDS = {"sessionId", "uuid", "leafUuid", "messageId", "snapshot", "message"}


def is_session_line(entry: Mapping[str, object]) -> bool:
    """Whether `entry` is a line of a session log, which has a `type` and at least one of some other fields."""
    return isinstance(entry.get("type"), str) and not _FIELDS.isdisjoint(entry)


@dataclass(slots=True)
class _Reply:
    """A reply that may still grow."""

    thread: _Thread
    model: str
    platform: str
    started: float
    finished: float
    compacted: bool
    repeated: bool
    key: tuple[str, str] | None = None
    """Its message id and request id; None for a failure, which has no later lines."""
    usage: Mapping[str, object] | None = None
    stop: str | None = None
    outcome: Outcome = "ok"
    status: int | None = None
    error: str | None = None
    attempt: int = 0


@dataclass(slots=True)
class _Call:
    """A tool call that may still end."""

    thread: _Thread
    name: str
    key: str
    started: float
    repeated: bool
    id: str | None
    finished: float | None = None
    failed: bool = False


@dataclass(slots=True)
class _Thread:
    """One conversation in one file: the main one, or a sub-agent's."""

    session: str
    parent: str | None
    prompted: float = 0.0
    """When a message to the model was written that has no reply yet: its request began then; 0.0 for none."""
    compacted: bool = False
    model: str = "unknown"
    past: Conversation = field(default_factory=Conversation)


def read_session(
    lines: Iterable[bytes], name: str, seen: set[int], tally: ImportTally
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

    def __init__(self, name: str, seen: set[int], tally: ImportTally) -> None:
        self.queue: deque[_Reply | _Call] = deque()
        self._name, self._seen, self._tally = name, seen, tally
        self._threads: dict[tuple[str, str], _Thread] = {}
        self._main: _Thread | None = None
        """The main conversation that the last line belonged to."""
        self._replies: dict[tuple[str, str], _Reply] = {}
        self._calls: dict[str, _Call] = {}
        self._agents = Agents()
        self._now = 0.0

    def take(self, entry: Mapping[str, object]) -> None:
        """One line of the log."""
        kind = entry.get("type")
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

    def release(self) -> TurnRecord | ToolRecord | None:
        """The oldest reply or call as a record; None where another file has told of it."""
        item = self.queue.popleft()
        if isinstance(item, _Call):
            if item.id is not None and self._calls.get(item.id) is item:
                del self._calls[item.id]
            return None if item.repeated else _tool_record(item)
        if item.key is not None:
            self._replies.pop(item.key, None)
        record = _turn_record(item)  # what a reply that is told of twice leaves behind, the next one finds
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

    def _thread(self, entry: Mapping[str, object]) -> _Thread:
        """The conversation that a line belongs to."""
        sidechain = entry.get("isSidechain") is True
        if not sidechain and "agentId" not in entry:
            main = self._main
            return main if main and main.session == entry.get("sessionId") else self._thread_of(entry, None)
        return self._thread_of(entry, self._agents.of(entry))

    def _thread_of(self, entry: Mapping[str, object], agent: str | None) -> _Thread:
        """The conversation of a sub-agent; of None, the main one."""
        session = text(entry, "sessionId") or self._name
        thread = self._threads.get((session, agent or ""))
        if thread is None:
            thread = _Thread(f"{session}/{agent}", session) if agent else _Thread(session, None)
            self._threads[session, agent or ""] = thread
        if agent is None:
            self._main = thread
        return thread

    def _user(self, thread: _Thread, entry: Mapping[str, object], at: float) -> None:
        thread.prompted = at
        if entry.get("isCompactSummary") is True:
            thread.compacted = True
        for block in blocks(mapping(entry, "message")):
            if block.get("type") == "tool_result":
                call = self._calls.get(text(block, "tool_use_id") or "")
                if call is not None:
                    call.finished, call.failed = at, block.get("is_error") is True

    def _assistant(self, thread: _Thread, entry: Mapping[str, object], at: float) -> None:
        message = mapping(entry, "message")
        key = (text(message, "id") or text(entry, "uuid") or str(at), text(entry, "requestId") or "")
        reply = self._replies.get(key)
        if reply is None:
            model = text(message, "model") or "unknown"
            if model == BY_THE_CLIENT:
                if entry.get("isApiErrorMessage") is True:
                    self._failed(thread, at, text(entry, "error") or "api_error")
                return
            reply = self._begin(thread, key, model, at)
        elif at > reply.finished:
            reply.finished = at
        reply.stop = text(message, "stop_reason") or reply.stop
        reply.usage = mapping(message, "usage") or reply.usage
        for block in blocks(message):
            if block.get("type") == "tool_use":
                self._call(thread, block, at, repeated=reply.repeated)

    def _begin(self, thread: _Thread, key: tuple[str, str], model: str, at: float) -> _Reply:
        mark = hash(key)
        repeated = mark in self._seen
        self._seen.add(mark)
        platform = _PLATFORMS.get(key[0][:_START], "api")
        started = min(thread.prompted or at, at)
        reply = _Reply(thread, model, platform, started, at, thread.compacted, repeated, key)
        thread.compacted, thread.model = False, model
        thread.prompted = 0.0  # the next request has a message of its own; if it is not logged, its time is not known
        self._replies[key] = reply
        self.queue.append(reply)
        return reply

    def _call(self, thread: _Thread, block: Mapping[str, object], at: float, *, repeated: bool) -> None:
        name, id_ = text(block, "name"), text(block, "id")
        if name is None or (id_ is not None and id_ in self._calls):
            return
        call = _Call(thread, name, digest(identity_bytes([name, block.get("input")])).hex(), at, repeated, id_)
        if id_ is not None:
            self._calls[id_] = call
        self.queue.append(call)

    def _system(self, thread: _Thread, entry: Mapping[str, object]) -> None:
        subtype = text(entry, "subtype") or ""
        if subtype.endswith("compact_boundary"):
            thread.compacted = True
        elif subtype == "api_error":
            retry = count(entry, "retryAttempt") or 1
            self._failed(thread, self._now, "api_error", count(mapping(entry, "error"), "status"), retry - 1)

    def _failed(self, thread: _Thread, at: float, error: str, status: int | None = None, attempt: int = 0) -> None:
        mark = hash((thread.session, at, error, attempt))
        repeated = mark in self._seen
        self._seen.add(mark)
        started = min(thread.prompted or at, at)
        reply = _Reply(thread, thread.model, "api", started, at, False, repeated)
        reply.outcome, reply.error, reply.status, reply.attempt = "failed", error, status, attempt
        self.queue.append(reply)


def _turn_record(reply: _Reply) -> TurnRecord:
    thread = reply.thread
    facts = cache_facts(reply.model, platform=reply.platform)
    default_ttl = facts.ttls[0].label if facts is not None else "5m"
    usage = usage_of(reply.usage, default_ttl) if reply.usage else Usage()
    arrival = Arrival(reply.model, usage, reply.started, reply.compacted)
    reusable, misses = settle(thread.past, arrival, facts)
    return TurnRecord(
        session=thread.session,
        provider="anthropic",
        platform=reply.platform,
        model=reply.model,
        started=reply.started,
        finished=reply.finished,
        agent=SUB if thread.parent else MAIN,
        parent=thread.parent,
        attempt=reply.attempt,
        outcome=reply.outcome,
        status=reply.status,
        error=reply.error,
        mode="log",
        usage=usage,
        terms=terms_of(reply.usage) if reply.usage else {},
        stop=reply.stop,
        reusable=reusable,
        misses=misses,
    )


def _tool_record(call: _Call) -> ToolRecord:
    done: Outcome = "failed" if call.failed else "ok"
    return ToolRecord(
        session=call.thread.session,
        name=call.name,
        key=call.key,
        started=call.started,
        finished=call.finished,
        outcome=done if call.finished is not None else "abandoned",
        agent=SUB if call.thread.parent else MAIN,
    )
