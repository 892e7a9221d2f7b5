"""A pytest fixture: a running emulator with a virtual clock.

In a `conftest.py`::

    from agentaccel_emulator.pytest_fixture import emulator  # noqa: F401

In a test::

    def test_the_second_call_reads_the_first(emulator):
        client = anthropic.Anthropic(base_url=emulator.url, api_key="any")
        emulator.emulator.use_script(["First.", "Second."])
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentaccel_emulator.server import RunningServer, serve


@pytest.fixture
def emulator() -> Iterator[RunningServer]:
    """A running server of every known model, with an empty cache and the default reply."""
    with serve() as server:
        yield server
