"""What the trace store keeps through forks, kills, locks, full files and records that are odd."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FORKS = """
import os, sys, threading
from agentaccel import Accel, Policy, StorePolicy

accel = Accel(Policy(strict=True, store=StorePolicy(path=sys.argv[1])))
run = accel.tools({"t": lambda x: x})["t"]
stop = threading.Event()

def busy():
    x = 0
    while not stop.is_set():
        run(x=x)
        x += 1

threads = [threading.Thread(target=busy) for _ in range(2)]
for thread in threads:
    thread.start()
run(x=-1)
children = []
for number in range(12):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run(x=f"child {number}")
            accel.close()
            status = 0
        finally:
            os._exit(status)
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
stop.set()
for thread in threads:
    thread.join()
accel.close()
assert codes == [0] * 12, codes
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_child_forked_while_another_thread_writes_goes_on(tmp_path: Path) -> None:
    """Its locks are its own, and SQLite was at rest."""
    bound = 60  # of a hang, which is what failing looks like
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(tmp_path / "trace.db")], timeout=bound, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
