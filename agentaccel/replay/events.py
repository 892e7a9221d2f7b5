"""Recorded conversations as the events of agents' loops: what a predictor of tool calls learns from, and is judged by.

Read are files of agent runs, Claude Code's logs, and trace stores that keep content. Spans have no content here: what
was said to a model, and by it, is not taken from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from agentaccel.predict.events import Answered, Asked, Event, Returned, Said
from agentaccel.replay.read import SourceFiles, groups_of
from agentaccel.sources.claude_code import BY_THE_CLIENT, MAIN, SUB
from agentaccel.sources.claude_lines import Agents, as_log_line
from agentaccel.sources.fields import mapping, text
from agentaccel.sources.lines import Meter, parse, raw_lines, sizes
from agentaccel.sources.order import in_order
from agentaccel.sources.tally import ImportTally, Progress
from agentaccel.store.codec import UNREADABLE, load_told
from agentaccel.store.store import Store, explain_nothing, open_reader
from agentaccel.types import ToolCall
from agentaccel.wire.json import items

# --- Messages as the events of an agent's loop, whichever of the usual forms they are in ------------------------------
# A result whose call is not known is left out, a call without a result stays one, and the calls of one reply are one
# `Asked`. What a client marks for itself, and the model never saw, is no event.


def events_of(messages: Iterable[Json]) -> Iterator[Event]:
    """What happened, in order; never raises.

    Takes the Messages API's blocks, Chat Completions' `tool_calls` and `tool` messages, and items of the Responses API.
    A result that names no call belongs to the oldest one that has none.

    >>> ask = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]}
    >>> tell = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "42"}]}
    >>> [type(event).__name__ for event in events_of([{"role": "user", "content": "hi"}, ask, tell])]
    ['Said', 'Asked', 'Returned']
    """
    waiting: dict[str, ToolCall] = {}
    for number, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        if role == "assistant":
            calls, text = _calls(message), text_of(content)
            waiting.update((call.id or f"{number}.{at}", call) for at, call in enumerate(calls))
            if calls or text:
                yield Asked(calls, text) if calls else Answered(text)
        elif role == "tool":
            yield from _returned(waiting, message.get("tool_call_id"), content, message.get("is_error"))
        elif role == "user" and not message.get("compact_boundary"):
            for block in _objects(content):
                if block.get("type") == "tool_result":
                    yield from _returned(waiting, block.get("tool_use_id"), block.get("content"), block.get("is_error"))
            if text := text_of(content):
                yield Said(text)


def text_of(content: object) -> str:
    """The text of a message or a result: its blocks of text on lines of their own; empty where it is blank."""
    if isinstance(content, str):
        return content if content.strip() else ""
    texts = (block["text"] for block in _objects(content) if isinstance(block.get("text"), str))
    return "\n".join(text for text in texts if text)


def _returned(waiting: dict[str, ToolCall], id_: object, content: object, error: object) -> Iterator[Event]:
    name = next(iter(waiting), "") if id_ is None else str(id_)
    call = waiting.pop(name, None)
    if call is not None:
        yield Returned(call, text_of(content), error=error is True)


def _calls(message: Json) -> tuple[ToolCall, ...]:
    used = [block for block in _objects(message.get("content")) if block.get("type") == "tool_use"]
    calls = [_call(block.get("name"), block.get("input"), block.get("id")) for block in used]
    for raw in _objects(message.get("tool_calls")):
        function = raw.get("function") or raw
        if isinstance(function, Mapping):
            calls.append(_call(function.get("name"), function.get("arguments"), raw.get("call_id") or raw.get("id")))
    return tuple(calls)


def _call(name: object, given: object, id_: object) -> ToolCall:
    if isinstance(given, str):
        try:
            given = orjson.loads(given or b"{}")
        except ValueError:
            given = {"arguments": given}
    arguments = given if isinstance(given, dict) else {} if given is None else {"arguments": given}
    return ToolCall(name=str(name or ""), arguments=arguments, id=str(id_) if id_ else None)


def _objects(value: object) -> list[Json]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


# --- Claude Code's session logs as conversations: what was said, asked and returned, each sub-agent's apart -----------
# A reply is written as several lines, with results of its first calls in between: all of its blocks belong where the
# first of them stands.


@dataclass(slots=True, kw_only=True)
class Dialogue:
    """One conversation. Mutable: it grows."""

    id: str
    agent: str
    messages: list[dict[str, Any]] = field(default_factory=list)
    """In the form of the Messages API."""
    replies: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The messages of the model's, by message and request."""
    models: set[str] = field(default_factory=set)
    """The models that replied."""


def talks_of(lines: Iterable[bytes], name: str, seen: set[int], tally: ImportTally) -> Iterator[Dialogue]:
    """The conversations of one file called `name`; `seen` holds the replies that earlier files have told of."""
    talks: dict[str, Dialogue] = {}
    agents = Agents()
    for line in lines:
        tally.lines += 1
        entry = parse(line, tally)
        told = None if entry is None else as_log_line(entry)
        if told is None:
            continue
        entry = dict(told)
        session = text(entry, "sessionId") or name
        if entry.get("type") == "progress":
            data = mapping(entry, "data")
            agent, entry = text(data, "agentId"), dict(mapping(data, "message"))
            if agent is None:
                continue
        else:
            agent = agents.of(entry)
        if entry.get("type") in ("assistant", "user"):
            id_ = f"{session}/{agent}" if agent else session
            talk = talks.setdefault(id_, Dialogue(id=id_, agent=SUB if agent else MAIN))
            _take(talk, entry, seen, tally)
    yield from talks.values()


def _take(talk: Dialogue, entry: Mapping[str, object], seen: set[int], tally: ImportTally) -> None:
    message = mapping(entry, "message")
    content = message.get("content")
    if entry.get("type") == "user":
        talk.messages.append({"role": "user", "content": content})
        return
    if message.get("model") == BY_THE_CLIENT or not isinstance(content, list):
        return
    key = text(message, "id") or text(entry, "requestId") or text(entry, "uuid") or ""
    reply = talk.replies.get(key)
    if reply is None:
        if hash(key) in seen:
            tally.duplicates += 1
            return
        reply = talk.replies[key] = {"role": "assistant", "content": []}
        talk.messages.append(reply)
    talk.models.add(text(message, "model") or "")
    known = [block for block in content if block not in reply["content"]]
    reply["content"] += known


# --- Conversations of a trace store that keeps content: the last prompt of each session tells all but its last reply --

_LAST = (
    "SELECT t.id, t.session, s.workload, t.tools, t.system, t.messages FROM turns t JOIN sessions s ON s.id = t.session"
    " WHERE t.id = s.turn ORDER BY t.started, t.id"
)
_CHAIN = (
    "WITH RECURSIVE up(id, parent, role, kind, content, depth) AS ("
    " SELECT id, parent, role, kind, content, 0 FROM segments WHERE id = ?"
    " UNION ALL SELECT s.id, s.parent, s.role, s.kind, s.content, depth + 1"
    " FROM segments s JOIN up ON s.id = up.parent)"
    " SELECT role, kind, CAST(content AS BLOB) FROM up ORDER BY depth DESC"
)


class SessionEvents(NamedTuple):
    """One session."""

    id: str
    workload: str
    messages: list[dict[str, Any]] | None
    """None where the store does not have its content."""
    system: str = ""
    """The text of the system prompt; empty where there was none, or the store does not have it."""
    tools: tuple[Json, ...] = ()
    """As offered last; empty where there were none, or the store does not have them."""
    model: str = ""
    """The model of the last request."""


def kept_talks(store: Store) -> Iterator[SessionEvents]:
    """The sessions of `store`, in the order of their last requests. Raises TraceError where it cannot be read."""
    with store.legible():
        with store.database.using() as connection:
            sessions = connection.execute(_LAST).fetchall()
        for turn, id_, workload, *ends in sessions:
            with store.database.using() as connection:
                record = connection.execute("SELECT CAST(record AS BLOB) FROM turns WHERE id = ?", (turn,)).fetchone()
                tools, system, rows = (connection.execute(_CHAIN, (end,)).fetchall() for end in ends)
            told = _messages(system) or []
            yield SessionEvents(
                id=id_,
                workload=workload,
                messages=_messages(rows),
                system=text_of([block for one in told for block in one["content"]]),
                tools=_offered(block for one in _messages(tools) or [] for block in one["content"]),
                model=_model_of(record[0]) if record is not None else "",
            )


def _model_of(record: bytes) -> str:
    try:
        return load_told(record).model
    except UNREADABLE:
        return ""


def _offered(tools: Iterable[object]) -> tuple[Json, ...]:
    """Tools in one form, whichever of the usual ones they are in; what has no name is left out."""
    made: list[Json] = []
    for tool in tools:
        one = tool.get("function", tool) if isinstance(tool, dict) else None
        if isinstance(one, dict) and isinstance(one.get("name"), str):
            schema = {"input_schema": one["parameters"]} if isinstance(one.get("parameters"), dict) else {}
            made.append({**schema, **{name: one[name] for name in _OFFERED if name in one}})
    return tuple(made)


_OFFERED = ("name", "description", "input_schema")


def _messages(rows: list[tuple[str, str, bytes | None]]) -> list[dict[str, Any]] | None:
    """Blocks as messages: one ends where the role changes, and every result of a tool is its own."""
    messages: list[dict[str, Any]] = []
    for role, kind, content in rows:
        if content is None:
            return None
        try:
            block = orjson.loads(content)
        except ValueError:
            continue
        if role == "tool" or not messages or messages[-1]["role"] != role:
            messages.append({"role": role, "content": [], "tool_calls": []})
        if kind == "tool_call":
            messages[-1]["tool_calls"].append(block)
        else:
            messages[-1]["content"].append({"type": "text", "text": block} if isinstance(block, str) else block)
    return messages


Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One recorded conversation."""

    id: str
    task: str
    """Conversations about one task are near copies: what judges a predictor splits by it. The id where none is told."""
    workload: str
    """What statistics are learned for."""
    events: tuple[Event, ...]
    system: str = ""
    """The text of the system prompt; empty where not recorded."""
    tools: tuple[Json, ...] = ()
    """As offered to the model, with `name` and mostly `description` and `input_schema`; empty where not recorded."""
    models: tuple[str, ...] = ()
    """The models that replied, as far as recorded."""
    reads: frozenset[str] = field(default_factory=frozenset)
    """Tools of which the source says that they only read."""

    @property
    def calls(self) -> int:
        """How many calls were asked for."""
        return sum(len(event.calls) for event in self.events if isinstance(event, Asked))


def recorded(paths: Iterable[Path], tally: ImportTally, progress: Progress | None = None) -> Iterator[Recorded]:
    """Every conversation under `paths` in which something happened, source by source, each in its own order.

    `tally` is filled while reading. Raises TraceError at once for a path that does not exist, and for a store that
    cannot be read; a file of a format without content is noted in `tally.unrecognised`, and sessions of a store without
    it in `tally.contentless`.
    """
    return (one for _, runs in recorded_by_source(paths, tally, progress) for one in runs)


def recorded_by_source(
    paths: Iterable[Path], tally: ImportTally, progress: Progress | None = None
) -> Iterator[tuple[str, Iterator[Recorded]]]:
    """The same, each source by its name: read it before the next one. Raises as `recorded` does."""
    groups = groups_of(paths, tally)
    meter = Meter(sizes(file for group in groups for file in group.files), progress)
    return ((group.name, (one for one in _read(group, tally, meter) if one.events)) for group in groups)


def _read(group: SourceFiles, tally: ImportTally, meter: Meter) -> Iterator[Recorded]:
    if group.kind == "runs":
        tally.files += 1
        yield from _of_runs(raw_lines(group.files[0], tally, meter), tally)
    elif group.kind == "logs":
        seen: set[int] = set()
        for path in in_order(group.files):
            tally.files += 1
            yield from _of_log(path, seen, tally, meter)
    elif group.kind == "store":
        yield from _of_store(group.files[0], tally)
        meter.finish(sizes(group.files))
    else:
        tally.unrecognised += map(str, group.files)
        meter.finish(sizes(group.files))


def _of_runs(lines: Iterable[bytes], tally: ImportTally) -> Iterator[Recorded]:
    seen: set[str] = set()
    for line in lines:
        tally.lines += 1
        entry: Json | None = parse(line, tally)
        if entry is None or not isinstance(entry.get("messages"), list):
            continue
        run = run_of(entry, f"run-{tally.lines}")
        if run.id in seen:
            tally.duplicates += 1
            continue
        seen.add(run.id)
        yield run


def run_of(entry: Json, name: str = "") -> Recorded:
    """One line of a file of agent runs; `name` stands in for an id that is missing."""
    tools = [one for one in items(entry.get("tools")) if isinstance(one, dict)]
    id_ = text(entry, "id") or text(entry, "task_id") or name
    messages = [one for one in items(entry["messages"]) if isinstance(one, dict)]
    return Recorded(
        id=id_,
        task=text(entry, "task_id") or id_,
        workload=f"agent {text(entry, 'domain') or text(entry, 'source') or ''}".rstrip(),
        events=tuple(events_of(messages)),
        system=text(entry, "system") or _system_of(messages),
        tools=_offered(tools),
        models=_named(text(entry, "model")),
        reads=frozenset(str(one.get("name")) for one in tools if one.get("read_only") is True),
    )


_OF_THE_SYSTEM = ("system", "developer")


def _system_of(messages: Iterable[Json]) -> str:
    """The text of the messages that a chat begins with in the system's name."""
    opening = takewhile(lambda one: one.get("role") in _OF_THE_SYSTEM, messages)
    return "\n".join(filter(None, (text_of(one.get("content")) for one in opening)))


def _named(*models: str | None) -> tuple[str, ...]:
    return tuple(one for one in models if one)


def _of_log(path: Path, seen: set[int], tally: ImportTally, meter: Meter) -> Iterator[Recorded]:
    told = set(seen)
    for talk in talks_of(raw_lines(path, tally, meter), path.name.partition(".")[0], told, tally):
        seen.update(map(hash, talk.replies))
        if talk.replies:
            events = tuple(events_of(talk.messages))
            yield Recorded(
                id=talk.id,
                task=talk.id,
                workload=f"agent {talk.agent}",
                events=events,
                models=_named(*sorted(talk.models)),
            )


def _of_store(path: Path, tally: ImportTally) -> Iterator[Recorded]:
    with open_reader(path) as store:
        tally.files += 1
        sessions = without = 0
        for kept in kept_talks(store):
            sessions += 1
            if kept.messages is None:
                without += 1
                continue
            events = tuple(events_of(kept.messages))
            yield Recorded(
                id=kept.id,
                task=kept.id,
                workload=kept.workload,
                events=events,
                system=kept.system,
                tools=kept.tools,
                models=_named(kept.model),
            )
        if not sessions:
            explain_nothing(store)
    if without:
        tally.contentless.append(f"{path} ({without:,})")
