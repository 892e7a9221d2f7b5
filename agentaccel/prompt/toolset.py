"""A tool list that only grows: the order in which tools first came, with the bytes in which they first came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agentaccel.canonical import identity_bytes


class Tool(NamedTuple):
    """A tool of one request."""

    key: str
    """What it is known by: its name, or its kind where it has none."""
    digest: bytes
    """As of its segment."""
    value: Any
    """Its definition without a marker; None where only another process has seen it."""
    tokens: float = 0.0


class Frozen(NamedTuple):
    """The list to send."""

    tools: tuple[Tool, ...]
    kept: tuple[str, ...] = ()
    """Keys of those that the request no longer has."""
    changed: bool = False
    """Whether it differs from the request's own."""
    reasons: tuple[str, ...] = ()


def freeze(now: Sequence[Tool], before: Sequence[Tool], *, keeps: float) -> Frozen | None:
    """The list to send for a request with the tools `now`, after `before`; None where it is another list altogether.

    `keeps` is up to how many tokens of tools that are no longer there are kept rather than the prefix be broken; 0
    where they cannot be refused.
    """
    by_key: Mapping[str, Tool] = {tool.key: tool for tool in now}
    common = sum(tool.key in by_key for tool in before)
    if not now or len(by_key) < len(now) or 2 * common < len(before):
        return None  # requests of another kind have tools of their own, and of two with one name no order is known
    removed = [tool for tool in before if tool.key not in by_key and tool.value is not None]
    gone = removed if removed and sum(tool.tokens for tool in removed) <= keeps else []
    known = {tool.key for tool in before}
    sent = [_version(tool, by_key) for tool in before if tool.key in by_key or tool in gone]
    sent += [tool for tool in now if tool.key not in known]
    if [(tool.key, tool.digest) for tool in sent] == [(tool.key, tool.digest) for tool in now]:
        return Frozen(tuple(now))
    kept = tuple(tool.key for tool in gone)
    return Frozen(tuple(sent), kept, True, tuple(_reasons(now, sent, kept)))


def _version(old: Tool, now: Mapping[str, Tool]) -> Tool:
    """The definition to send: the request's own, in the bytes in which it first came where only their order differs."""
    new = now.get(old.key)
    if new is None or old.value is None or old.digest == new.digest:
        return new or old
    return old if identity_bytes(old.value) == identity_bytes(new.value) else new


def _reasons(now: Sequence[Tool], sent: Sequence[Tool], kept: Sequence[str]) -> list[str]:
    order = [tool.key for tool in sent if tool.key not in kept]
    reasons = []
    if order != [tool.key for tool in now]:
        reasons.append("tools in the order in which they first came: another order is another prefix")
    digests = {tool.key: tool.digest for tool in now}
    if any(tool.key in digests and digests[tool.key] != tool.digest for tool in sent):
        reasons.append("tool definitions with their keys in the order in which they first came")
    if kept:
        reasons.append(f"kept in the tool list though the request no longer has them: {', '.join(kept)}")
    return reasons
