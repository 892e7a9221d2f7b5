"""What a group's records say by when they were: sessions and their times, and tokens by minute.

Unlike sums, these cannot be had from those of several groups, where a session may have a part in each: parts overlap.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from agentaccel.records import OURS, ToolRecord
from agentaccel.report.bill import Billed
from agentaccel.report.counts import Minutes
from agentaccel.report.spans import Covered


@dataclass(slots=True)
class Span:
    """One session's part in one group."""

    reported: bool = False
    subagent: bool = False
    active: Covered = field(default_factory=Covered)
    tools: Covered = field(default_factory=Covered)


class Timeline:
    """The times of one group."""

    __slots__ = ("_minutes", "_spans")

    def __init__(self, *, peaks: bool) -> None:
        self._spans: dict[str, Span] = {}
        self._minutes = Minutes() if peaks else None

    def turn(self, billed: Billed) -> None:
        """One request."""
        turn, total = billed.turn, billed.usage.input
        self.tokens(billed)
        if turn.mode in OURS:
            return
        span = self._of(turn.session)
        if turn.parent is not None:
            span.subagent = True
        if total is None and turn.outcome != "ok":
            return
        if billed.reported:
            span.reported = True
        if turn.started and turn.finished is not None:
            span.active.add(turn.started, turn.finished)

    def tokens(self, billed: Billed) -> None:
        """The tokens of one request alone, and when they were used."""
        turn, counted, total = billed.turn, billed.counted, billed.usage.input
        if counted is not None and total is not None and self._minutes is not None and turn.started:
            self._minutes.add(turn.started, counted, total)

    def tool(self, tool: ToolRecord) -> None:
        """One execution of a tool that the agent has asked for."""
        span = self._of(tool.session)
        if tool.started and tool.finished is not None:
            span.tools.add(tool.started, tool.finished)
            span.active.add(tool.started, tool.finished)

    def _of(self, session: str) -> Span:
        span = self._spans.get(session)
        if span is None:
            span = self._spans[session] = Span()
        return span

    def join(self, other: Timeline) -> None:
        """The sessions of another group, which has no part in those that are here."""
        self._spans |= other._spans

    @property
    def sessions(self) -> int:
        """How many there are; tool calls outside any session have none."""
        return len(self._spans.keys() - {""})

    @property
    def spans(self) -> Collection[Span]:
        """Each session's part."""
        return self._spans.values()

    def peaks(self) -> tuple[int, int] | None:
        """The most tokens of a minute, counted and in all; None where they are not looked at, or there are none."""
        return self._minutes.peaks() if self._minutes is not None else None
