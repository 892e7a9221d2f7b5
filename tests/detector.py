"""A detector of what blocks an event loop, for folders whose tests are of code that runs on one.

A `conftest.py` there imports the two fixtures.
"""

from __future__ import annotations

import importlib.util
import os
import traceback
from collections.abc import Iterator

import pytest

import agentaccel

BLOCKED: list[str] = []
"""Where code of ours has blocked an event loop since the last test began."""


_BY_DESIGN = {
    "agentaccel/store/recorder.py": {"__init__", "_guarded", "close"},  # in strict mode, the store
    "agentaccel/store/store.py": {"open_reader", "turns", "tools", "_records"},  # with which tests look at it
    "logging/__init__.py": {"emit"},  # whose handlers are the user's
    "agentaccel/concurrency.py": {"submit", "later"},  # starts a thread
    "agentaccel/testing/virtual.py": {"run_in_executor"},  # which is its thread
    # Made once, with a look at the folder or database that they are for.
    "agentaccel/executors/shell.py": {"__post_init__"},
    # Validators: one look at one file, right before its result is served.
    "agentaccel/executors/folder.py": {"__post_init__", "descend"},
    "agentaccel/executors/sql.py": {"sqlite", "_version"},
    "tests/predict/test_aftermath.py": {"written"},  # another program
}
"""Functions that may block an event loop, by file."""


@pytest.fixture(scope="module", autouse=True)
def detector() -> Iterator[None]:
    """Whatever of ours waits for a disk, a lock or a socket on an event loop raises there, and is noted.

    An environment that was made before the detector was among the tools does without it.
    """
    if importlib.util.find_spec("blockbuster") is None:
        yield
        return
    import blockbuster

    class Noted(blockbuster.BlockingError):
        """Noted also where it is caught, as failures of ours are."""

        def __init__(self, func: str) -> None:
            ours = [frame for frame in traceback.extract_stack() if f"{os.sep}agentaccel{os.sep}" in frame.filename]
            BLOCKED.append(f"{func} at {ours[-1].filename}:{ours[-1].lineno}")
            super().__init__(func)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("blockbuster.blockbuster.BlockingError", Noted)
        with blockbuster.blockbuster_ctx(scanned_modules=[agentaccel]) as found:
            for function in found.functions.values():
                for file, names in _BY_DESIGN.items():
                    function.can_block_in(file, names)
            yield


@pytest.fixture(autouse=True)
def loops_are_not_blocked(detector: None) -> Iterator[None]:
    """No test passes in which something of ours has blocked an event loop, also where that was caught."""
    BLOCKED.clear()
    yield
    assert not BLOCKED
