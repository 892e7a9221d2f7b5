"""Sums of tools that were run early, and of calls that were answered by such runs."""

from __future__ import annotations

from dataclasses import dataclass

from agentaccel.records import ToolRecord
from agentaccel.report.figures import Early


@dataclass(slots=True)
class EarlySum:
    """Early runs and served calls of one group."""

    launched: int = 0
    served: int = 0
    remembered: int = 0
    stale: int = 0
    failed: int = 0
    unused: int = 0
    hidden: float = 0.0
    wasted: float = 0.0

    def run(self, tool: ToolRecord) -> None:
        """An early run, which is no call."""
        self.launched += 1
        self.stale += tool.fate == "stale"
        self.failed += tool.fate == "failed"
        self.unused += tool.fate == "unused"
        self.wasted += tool.wasted or 0.0

    def call(self, tool: ToolRecord) -> None:
        """A call, which may have been answered early."""
        self.remembered += tool.served_from == "memo"
        if tool.served_from in ("predicted", "asked"):
            self.served += 1
            self.hidden += tool.hidden or 0.0

    def early(self) -> Early:
        """The figures so far."""
        return Early(
            launched=self.launched,
            served=self.served,
            remembered=self.remembered,
            stale=self.stale,
            failed=self.failed,
            unused=self.unused,
            hidden=self.hidden,
            wasted=self.wasted,
        )
