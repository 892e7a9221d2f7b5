"""The public test kit fails where it should, and says where."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentaccel import ManualClock
from agentaccel.testing import assert_hit_rate, assert_prefix_stable
from agentaccel.testing.virtual import run
from tests.driver import Driver, assistant, body, loop, prose, user


def test_a_growing_conversation_is_stable() -> None:
    """Markers may move."""
    mark = {"cache_control": {"type": "ephemeral"}}
    assert_prefix_stable(
        [body(user([{"type": "text", "text": "a", **mark}])), body(user("a"), assistant("b"), user("c"))]
    )


def test_a_change_is_named_with_its_place() -> None:
    """The twin: it bites."""
    with pytest.raises(AssertionError, match=r"request 2 leaves request 1 at messages\[0\]"):
        assert_prefix_stable([body(user("a")), body(user("a"), assistant("b")), body(user("x"), assistant("b"))])


def test_a_model_of_your_own_needs_a_known_name() -> None:
    """With what to do."""
    ours = [{**body(user("a")), "model": "prod"}] * 2
    with pytest.raises(AssertionError, match="pass model="):
        assert_prefix_stable(ours)
    assert_prefix_stable(ours, model="claude-sonnet-5")


def test_the_hit_rate_is_asserted_over_what_was_reported(tmp_path: Path) -> None:
    """And nothing reported is no hit."""
    driver = Driver(tmp_path)
    loop(driver, 6, system=prose(1200))
    assert_hit_rate(driver.records, at_least=0.7)
    with pytest.raises(AssertionError, match="below 95"):
        assert_hit_rate(driver.records, at_least=0.95)
    with pytest.raises(AssertionError, match="no request reported"):
        assert_hit_rate([], at_least=0.1)


def test_in_virtual_time_what_the_clock_was_asked_to_call_is_called_on_the_way() -> None:
    """Such as a request that keeps entries alive, in the middle of a pause of the agent's."""
    clock = ManualClock(now=0.0)
    called: list[float] = []

    async def main() -> float:
        clock.call_later(300.0, lambda: called.append(clock.now))
        await asyncio.sleep(1000.0)
        return clock.now

    assert run(main, clock) == pytest.approx(1000.0)
    assert called == [300.0]
