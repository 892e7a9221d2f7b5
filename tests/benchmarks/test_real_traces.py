"""What is promised on recorded sessions holds: run here, because a change of the planner that breaks it shows nowhere
else."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner

from benchmarks.__main__ import main


@pytest.mark.traces
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", ["geometry", "cache"])
def test_the_bars_of_recorded_sessions_hold(name: str) -> None:
    """A benchmark ends with 1, and says what, where something it promises does not hold."""
    done = CliRunner().invoke(main, [name, "--traces", os.environ["AGENTACCEL_TRACES"]])
    assert done.exit_code == 0, done.output
