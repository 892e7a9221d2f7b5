"""The order in which logs are read: whoever made a reply before whoever has a copy of it.

A session that was forked or resumed begins with the lines of another one. Newer clients mark them (`forkedFrom`). Where
nobody does, files that begin with the same reply are compared: one that has nothing of its own is the origin, then the
one whose own replies began first.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from agentaccel.sources.claude_lines import as_log_line
from agentaccel.sources.fields import mapping, seconds, text
from agentaccel.sources.lines import Meter, parse, raw_lines
from agentaccel.sources.tally import ImportTally

PEEK = 200
"""Lines looked at, at most, to find the first reply of a file; it is mostly among the first few."""


class _Head(NamedTuple):
    """How a file begins."""

    session: str | None = None
    origin: str | None = None
    """The session that its first lines were copied from, where they say so."""
    reply: str | None = None
    at: float = 0.0


class _Reply(NamedTuple):
    name: str
    at: float


def in_order(paths: Iterable[Path]) -> list[Path]:
    """Logs, sub-agents' own files first, because the main log repeats only a part of what they did."""
    files = list(paths)
    heads = {path: _head(path) for path in files}
    origins = {head.session: head.origin for head in heads.values() if head.session and head.origin}
    alike: dict[str, list[Path]] = defaultdict(list)
    for path, head in heads.items():
        if head.reply is not None and head.origin is None:
            alike[head.reply].append(path)
    ranks: dict[Path, tuple[float, int]] = {}
    for group in alike.values():
        if len(group) > 1:
            ranks |= _ranks(group)

    def key(path: Path) -> tuple[object, ...]:
        head = heads[path]
        rank = ranks.get(path, (0.0, 0))
        return (not path.name.startswith("agent-"), _depth(head, origins), head.at, rank, str(path))

    return sorted(files, key=key)


def _depth(head: _Head, origins: Mapping[str, str]) -> int:
    """How many sessions a file's beginning was handed on through."""
    depth, origin, met = 0, head.origin, set[str]()
    while origin is not None and origin not in met:
        met.add(origin)
        depth, origin = depth + 1, origins.get(origin)
    return depth


def _ranks(group: Sequence[Path]) -> dict[Path, tuple[float, int]]:
    told = {path: list(_replies(path)) for path in group}
    names = {path: {reply.name for reply in replies} for path, replies in told.items()}
    ranks = {}
    for path, replies in told.items():
        others = set[str]().union(*(names[other] for other in group if other is not path))
        own = next((reply.at for reply in replies if reply.name not in others), -1.0)
        ranks[path] = (own, len(names[path]))
    return ranks


def _head(path: Path) -> _Head:
    session = origin = None
    at = 0.0
    for entry in _entries(path, PEEK):
        session = session or text(entry, "sessionId")
        origin = origin or text(mapping(entry, "forkedFrom"), "sessionId")
        at = at or seconds(entry.get("timestamp")) or 0.0
        if (name := reply_name(entry)) is not None:
            return _Head(session, origin, name, at)
    return _Head(session, origin, None, at)


def _replies(path: Path) -> Iterator[_Reply]:
    for entry in _entries(path, None):
        if (name := reply_name(entry)) is not None:
            yield _Reply(name, seconds(entry.get("timestamp")) or 0.0)


def _entries(path: Path, most: int | None) -> Iterator[dict[str, object]]:
    """The lines of a session log in the log's own form; nothing of a pipe, which can be read only once."""
    if not path.is_file():
        return
    unheard = ImportTally()
    for line in itertools.islice(raw_lines(path, unheard, Meter(0, None)), most):
        entry = parse(line, unheard)
        if entry is not None and (told := as_log_line(entry)) is not None:
            yield dict(told)


def reply_name(entry: dict[str, object]) -> str | None:
    """What always names a reply, and a copy of it: its id, else that of its request, else that of its line."""
    if entry.get("type") != "assistant":
        return None
    return text(mapping(entry, "message"), "id") or text(entry, "requestId") or text(entry, "uuid")
