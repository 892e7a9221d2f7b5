"""Which sub-agent a line of a session log belongs to."""

from __future__ import annotations

from collections.abc import Mapping

from agentaccel.trace.importers.fields import text


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
