"""What a report loads before it says anything: most of the time that a small one takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from agentaccel.records import TurnRecord
from agentaccel.store.codec import TurnWrite
from agentaccel.store.store import Store
from agentaccel.types import NO_USAGE, Usage
from tests.driver import MODEL

LOADED = "import sys; from agentaccel.cli import main; main(sys.argv[1:], standalone_mode=False); print(*sys.modules)"
"""A command, and the modules that it has loaded."""

PRICES, REPLAY, LOGS = "genai_prices", "agentaccel.replay", "agentaccel.sources.logs"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("outcome", "options", "expected"),
    [("failed", (), set()), ("ok", (), {PRICES}), ("ok", ("--advise",), {PRICES, REPLAY, LOGS})],
)
def test_a_report_loads_only_what_it_says_something_with(
    tmp_path: Path, outcome: Literal["failed", "ok"], options: tuple[str, ...], expected: set[str]
) -> None:
    """The price list where a request has usage, which one that failed has not; what replays with --advise alone; and
    there, too, what reads logs, whose measures a replay takes."""
    usage = Usage(input=2000, read=0, write={}, output=5) if outcome == "ok" else NO_USAGE
    record = TurnRecord(session="a", provider="anthropic", model=MODEL, started=1.0, outcome=outcome, usage=usage)
    store = Store(tmp_path / "trace.db")
    store.write_turn(TurnWrite(record))
    store.close()
    command = [sys.executable, "-c", LOADED, "report", str(tmp_path / "trace.db"), *options]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    assert set(loaded.split()) & {PRICES, REPLAY, LOGS} == expected


@pytest.mark.slow
@pytest.mark.parametrize(("taken_away", "expected"), [("", "True"), ("gc.freeze = lambda: None;", "False")])
def test_a_command_that_ends_looks_for_no_cycles_in_what_it_has_loaded(taken_away: str, expected: str) -> None:
    """The interpreter looks through 100,000 objects several times as it ends, but not through those that are frozen: at
    the end all are. The twin does not freeze."""
    said = f"import atexit, gc, runpy; atexit.register(lambda: print(gc.get_freeze_count() > 10_000)); {taken_away}"
    command = [sys.executable, "-c", f"{said} runpy.run_module('agentaccel', run_name='__main__')", "--version"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1]
    assert found == expected
