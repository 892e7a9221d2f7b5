"""Whoever is told of a settled call: in order, with values that nobody changes, and each on its own."""

from __future__ import annotations

import logging
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from agentaccel import Policy, StorePolicy
from agentaccel.engine.draft import Done, Observer, Settled
from agentaccel.testing.inside import engine
from tests.driver import Driver, assistant, body, prose, user


def asked(driver: Driver, observers: tuple[Observer, ...], turns: int = 3) -> Driver:
    """A session of so many turns, told to `observers` before all that hear of it anyway."""
    inside = engine(driver.accel)
    inside.observers = (*observers, *inside.observers)
    messages = [user(prose(1_500))]
    with driver.accel.session("s"):
        for turn in range(turns):
            driver.ask(body(*messages))
            messages = [*messages, assistant(prose(30, turn)), user(prose(200, turn))]
    return driver


def test_an_observer_hears_of_a_call_once_it_is_recorded(tmp_path: Path) -> None:
    """In order: what it is told stands in the trace store already."""
    heard: list[tuple[Done, Settled]] = []
    driver = asked(Driver(tmp_path), (lambda done, settled: heard.append((done, settled)),))
    assert [settled.record for _, settled in heard] == list(driver.records)
    assert all(settled.reconciled is not None and done.reply.outcome == "ok" for done, settled in heard)
    with pytest.raises((AttributeError, FrozenInstanceError)):
        heard[0][0].reply = heard[1][0].reply  # type: ignore[misc]


def test_an_observer_that_fails_keeps_nobody_else_from_hearing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One log line each, and plans, bills and the store are what they are without it."""

    def fails(done: Done, settled: Settled) -> None:
        raise RuntimeError("a fault of the observer's own")

    (tmp_path / "quiet").mkdir()
    (tmp_path / "loud").mkdir()
    quiet = asked(Driver(tmp_path / "quiet", policy=_lenient(tmp_path / "quiet")), ())
    with caplog.at_level(logging.ERROR, "agentaccel"):
        loud = asked(Driver(tmp_path / "loud", policy=_lenient(tmp_path / "loud")), (fails,))
    assert [one.usage for one in loud.records] == [one.usage for one in quiet.records]
    assert [one.markers for one in loud.records] == [one.markers for one in quiet.records]
    assert [line.getMessage() for line in caplog.records] == [
        "agentaccel: a turn is recorded, and something that is told of it failed"
    ] * 3


def test_a_strict_policy_raises_what_an_observer_raises(tmp_path: Path) -> None:
    """The twin: tests are to see it."""

    def fails(done: Done, settled: Settled) -> None:
        raise RuntimeError("a fault of the observer's own")

    with pytest.raises(RuntimeError, match="of the observer's own"):
        asked(Driver(tmp_path), (fails,))


def _lenient(folder: Path) -> Policy:
    return Policy(store=StorePolicy(path=folder / "trace.db"))
