"""The forms in which lines of Claude Code's sessions come, each read by its own names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from agentaccel.sources.fields import text


class LineForm(NamedTuple):
    """One form of lines."""

    marks: frozenset[str]
    """Fields any of which tells that a line is of this form."""
    names: Mapping[str, str]
    """What the session log calls its fields; those that are called alike are left out."""


LOG = LineForm(frozenset({"sessionId", "parentUuid", "isSidechain", "leafUuid", "snapshot"}), {})
"""The files under `~/.claude/projects`."""

STREAM = LineForm(
    frozenset({"session_id", "parent_tool_use_id", "parent_uuid", "is_sidechain", "leaf_uuid"}),
    {
        "session_id": "sessionId",
        "parent_tool_use_id": "agentId",
        "agent_id": "agentId",
        "request_id": "requestId",
        "parent_uuid": "parentUuid",
        "is_sidechain": "isSidechain",
        "is_api_error_message": "isApiErrorMessage",
        "is_compact_summary": "isCompactSummary",
        "retry_attempt": "retryAttempt",
        "forked_from": "forkedFrom",
    },
)
"""What `claude -p --output-format stream-json` prints, messages of the Agent SDK, and exports in snake_case. A
sub-agent goes by the call that started it, where it has no name."""

_BARE = frozenset({"uuid", "requestId"})
_A_SESSION = re.compile(r"(?:session|conversation|thread|chat).*id$", re.IGNORECASE)


def as_log_line(entry: Mapping[str, object]) -> Mapping[str, object] | None:
    """`entry` with the names that the session log has for its fields; None for a line that is in no known form."""
    if not LOG.marks.isdisjoint(entry):
        return entry
    if not STREAM.marks.isdisjoint(entry):
        return _renamed(entry)
    if not _BARE.isdisjoint(entry) and not any(map(_A_SESSION.search, entry)):
        return entry  # of the session log, as far as it goes: the file's name stands for the session
    return None


def _renamed(entry: Mapping[str, object]) -> Mapping[str, object]:
    line = {name: value for name, value in entry.items() if name not in STREAM.names}
    for name, value in entry.items():
        own = STREAM.names.get(name)
        if own is not None and value is not None:
            line[own] = value if name != "parent_tool_use_id" else line.get(own, value)
    origin = line.get("forkedFrom")
    if isinstance(origin, dict) and "session_id" in origin:
        line["forkedFrom"] = {"sessionId": origin["session_id"]}
    return line


# --- Which sub-agent a line of a session log belongs to ---------------------------------------------------------------


class Agents:
    """Remembers where the chains of one file begin: older clients do not name a sub-agent, its first message does."""

    __slots__ = ("_roots",)

    def __init__(self) -> None:
        self._roots: dict[str, str] = {}

    def of(self, entry: Mapping[str, object]) -> str | None:
        """The sub-agent's name; None for the main conversation. Lines are to be asked about in order."""
        agent = text(entry, "agentId")
        if entry.get("isSidechain") is not True:
            return agent
        uuid, parent = text(entry, "uuid") or "", text(entry, "parentUuid")
        root = self._roots.get(parent, parent) if parent else uuid
        if agent is None:
            self._roots[uuid] = root
        return agent or f"sidechain-{root[:8]}"
