"""The pytest plug-in, which pytest finds by itself: fixtures that load nothing of agentaccel until a test asks for one.

In a test::

    def test_the_cache_is_used(agentaccel_emulator, assert_hit_rate):
        run_my_agent(base_url=agentaccel_emulator.url)
        assert_hit_rate(agentaccel_emulator, at_least=0.8)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from agentaccel_emulator import RunningServer


@pytest.fixture
def agentaccel_emulator() -> Iterator[RunningServer]:
    """A running emulator of every known model, with an empty cache, a virtual clock and the default reply."""
    from agentaccel_emulator import serve

    with serve() as server:
        yield server


@pytest.fixture(scope="session")
def assert_hit_rate() -> Callable[..., None]:
    """`agentaccel.testing.assert_hit_rate`."""
    from agentaccel.testing import assertions

    return assertions.assert_hit_rate


@pytest.fixture(scope="session")
def assert_prefix_stable() -> Callable[..., None]:
    """`agentaccel.testing.assert_prefix_stable`."""
    from agentaccel.testing import assertions

    return assertions.assert_prefix_stable


@pytest.fixture(scope="session")
def assert_no_new_cause() -> Callable[..., None]:
    """`agentaccel.testing.assert_no_new_cause`."""
    from agentaccel.testing import assertions

    return assertions.assert_no_new_cause
