"""What one session adds to a group: when it was at work, and what was spent on it.

Unlike sums, these cannot be had from those of several groups, where a session may have a part in each: parts overlap.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field

from agentaccel.records import OURS, Calls, ToolRecord
from agentaccel.report.bill import Billed
from agentaccel.report.control import COMPARED, ON, Spent

# --- Times that overlap, counted once ---------------------------------------------------------------------------------


@dataclass(slots=True)
class Covered:
    """The length of a union of intervals that arrive in the order in which they begin."""

    seconds: float = 0.0
    until: float = 0.0

    def add(self, start: float, end: float) -> None:
        """An interval; what the ones before it covered counts once."""
        if end > self.until:
            self.seconds += end - max(start, self.until)
            self.until = end

    def add_all(self, spans: Iterable[tuple[float, float]]) -> None:
        """Several intervals."""
        seconds, until = self.seconds, self.until
        for start, end in spans:
            if end > until:
                seconds += end - (start if start > until else until)
                until = end
        self.seconds, self.until = seconds, until


@dataclass(slots=True)
class SessionShare:
    """One session's part in one group, or in everything."""

    present: bool = False
    """True if it sent a request or called a tool itself; what is sent for it alone makes no session."""
    reported: bool = False
    subagent: bool = False
    active: Covered = field(default_factory=Covered)
    tools: Covered = field(default_factory=Covered)
    spent: dict[str, Spent] = field(default_factory=dict)
    """By mode, of those that are compared."""

    def turn(self, billed: Billed) -> None:
        """One request."""
        turn, bill = billed.turn, billed.bill
        total = billed.usage.input
        if turn.mode in OURS:
            if bill is not None:
                self._spend(ON, bill.paid, 0)
            return
        self.present = True
        if turn.parent is not None:
            self.subagent = True
        if total is None and turn.outcome != "ok":
            return
        if billed.reported:
            self.reported = True
        if turn.started and turn.finished is not None:
            self.active.add(turn.started, turn.finished)
        if bill is not None and turn.mode in COMPARED:
            self._spend(turn.mode, bill.paid, total or 0)

    def _spend(self, mode: str, usd: float, tokens: int) -> None:
        before = self.spent.get(mode)
        self.spent[mode] = Spent(usd, tokens) if before is None else Spent(before.usd + usd, before.tokens + tokens)

    def tool(self, tool: ToolRecord) -> None:
        """One execution of a tool that the agent has asked for."""
        self.present = True
        if tool.started and tool.finished is not None:
            self.tools.add(tool.started, tool.finished)
            self.active.add(tool.started, tool.finished)

    def calls(self, calls: Calls) -> None:
        """Several of them."""
        self.present = True
        self.tools.add_all(calls.spans)
        self.active.add_all(calls.spans)


class OpenSession:
    """One session that may go on: its part in each group."""

    __slots__ = ("largest", "last", "parts", "whole")

    def __init__(self) -> None:
        self.largest = 0
        """Input tokens of its largest prompt so far."""
        self.last: str | None = None
        """The group of its last request."""
        self.parts: dict[str, SessionShare] = {}
        self.whole = SessionShare()
        """Its part in everything; that in its group while it has only been in one."""

    def part(self, group: str) -> SessionShare:
        """Its part in `group`."""
        part = self.parts.get(group)
        if part is None:
            if len(self.parts) == 1:
                self.whole = deepcopy(self.whole)
            part = self.parts[group] = SessionShare() if self.parts else self.whole
        return part
