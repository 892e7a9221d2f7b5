"""Claude Code's session logs as conversations: what was said, asked and returned, each sub-agent's apart.

A reply is written as several lines, with results of its first calls in between: all of its blocks belong where the
first of them stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentaccel.trace.importers.agents import Agents
from agentaccel.trace.importers.claude_code import BY_THE_CLIENT, MAIN, SUB
from agentaccel.trace.importers.fields import mapping, text
from agentaccel.trace.importers.forms import as_log_line
from agentaccel.trace.importers.lines import parse
from agentaccel.trace.tally import ImportTally


@dataclass(slots=True, kw_only=True)
class Talk:
    """One conversation. Mutable: it grows."""

    id: str
    agent: str
    messages: list[dict[str, Any]] = field(default_factory=list)
    """In the form of the Messages API."""
    replies: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The messages of the model's, by message and request."""


def talks_of(lines: Iterable[bytes], name: str, seen: set[int], tally: ImportTally) -> Iterator[Talk]:
    """The conversations of one file called `name`; `seen` holds the replies that earlier files have told of."""
    talks: dict[str, Talk] = {}
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
            talk = talks.setdefault(id_, Talk(id=id_, agent=SUB if agent else MAIN))
            _take(talk, entry, seen, tally)
    yield from talks.values()


def _take(talk: Talk, entry: Mapping[str, object], seen: set[int], tally: ImportTally) -> None:
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
    known = [block for block in content if block not in reply["content"]]
    reply["content"] += known
