"""Claude Code's session logs as runs: from usage, because the logs hold no prompts; a sub-agent is a run of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentaccel.records import TurnRecord
from agentaccel.replay.source import Rules, Source
from agentaccel.replay.usage_only import by_session, runs_from_usage
from agentaccel.trace.importers import read_logs as records_of
from agentaccel.trace.tally import ImportTally, Progress


def read_logs(files: Sequence[Path], name: str, rules: Rules, tally: ImportTally, progress: Progress | None) -> Source:
    """The conversations in `files`, which are one source called `name`; every reply counts once."""
    before, passed = rules.replaced.copy(), rules.passed.copy()
    turns = (one for one in records_of(files, progress=progress, tally=tally) if isinstance(one, TurnRecord))
    runs = tuple(runs_from_usage(by_session(turns), rules))
    return Source(
        name=name,
        runs=runs,
        untimed=frozenset(i for i, run in enumerate(runs) if not all(step.started for step in run.steps)),
        models=tuple(rules.replaced - before),
        notes=rules.left_out(passed),
    )
