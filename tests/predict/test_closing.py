"""Closing an `Accel`: every early run is counted, also of conversations that nobody left, and once."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from agentaccel import StorePolicy
from agentaccel.predict.stats import Tally
from agentaccel.records import ToolRecord
from agentaccel.store.store import open_reader
from agentaccel.testing.inside import conversations
from agentaccel.testing.virtual import run
from tests.children import in_a_child
from tests.mutants import Mutant, running, survives
from tests.predict.scripted import Agent, Script, call, likely

HERE = "tests/predict/test_closing.py"
KEYS = ("a", "b", "c")


def guessing(path: Path) -> Agent:
    """An agent of whom three looks are expected with the first request."""
    told = Script({1: [likely(call("look", key=key)) for key in KEYS]})
    return Agent(told=told, store=StorePolicy(path=path))


def early(path: Path) -> list[tuple[str | None, float | None]]:
    """What came of the early runs that the store knows, and the seconds wasted on each."""
    with open_reader(path) as reader:
        records: list[ToolRecord] = list(reader.tools())
    return sorted(((one.fate, one.wasted) for one in records if one.speculative), key=str)


def tally_of(agent: Agent) -> Tally:
    """Of the only conversation."""
    [conversation] = conversations(agent.accel)
    return conversation.ledger.total


def settled(tally: Tally) -> int:
    return tally.served + tally.unused + tally.stale + tally.failed


def test_what_waits_in_a_conversation_that_nobody_left_is_counted_when_the_accel_is_closed(tmp_path: Path) -> None:
    agent = guessing(tmp_path / "t.db")
    look = agent.reads()

    async def main() -> None:
        await agent.model(call("look", key="a"))
        await look(key="a")

    run(main, agent.clock)
    agent.accel.close()
    assert early(tmp_path / "t.db") == [("served", None), ("unused", 1.0), ("unused", 1.0)]
    tally = tally_of(agent)
    assert (tally.launched, tally.served, tally.unused, tally.wasted) == (3, 1, 2, 2.0)
    assert tally.launched == settled(tally)


def test_what_still_runs_on_the_loop_that_closes_the_accel_is_counted_once_with_its_seconds_so_far(
    tmp_path: Path,
) -> None:
    agent = guessing(tmp_path / "t.db")
    agent.reads(seconds=50.0)

    async def main() -> None:
        await agent.model(seconds=3.0)
        agent.accel.close()
        await asyncio.sleep(1.0)  # only now the cancelled runs end
        agent.accel.close()

    run(main, agent.clock)
    assert early(tmp_path / "t.db") == [("unused", 3.0)] * 3
    tally = tally_of(agent)
    assert (tally.launched, tally.unused, tally.failed, tally.wasted) == (3, 3, 0, 9.0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_what_a_parent_has_begun_is_not_counted_by_its_child(tmp_path: Path) -> None:
    agent = guessing(tmp_path / "t.db")
    agent.reads()
    run(agent.model, agent.clock)
    _, status = os.waitpid(in_a_child(agent.accel.close), 0)
    assert status == 0
    assert early(tmp_path / "t.db") == []
    agent.accel.close()
    assert early(tmp_path / "t.db") == [("unused", 1.0)] * 3


MUTANTS = (
    (
        "test_what_waits_in_a_conversation_that_nobody_left_is_counted_when_the_accel_is_closed",
        Mutant(
            guard="early runs that nobody counts",
            at="agentaccel.accel:Accel._take_back",
            old="left = buffer.leave(None)",
            new="left = buffer.leave()",
        ),
    ),
    (
        "test_what_still_runs_on_the_loop_that_closes_the_accel_is_counted_once_with_its_seconds_so_far",
        Mutant(
            guard="a run that ends after it was counted",
            at="agentaccel.tools.early:EarlyRuns.failed",
            old="            if entry.over:\n                return\n",
            new="",
        ),
    ),
    (
        "test_what_a_parent_has_begun_is_not_counted_by_its_child",
        Mutant(
            guard="a run that parent and child count",
            at="agentaccel.tools.early:EarlyRuns._settle",
            old="entry.process == forks()",
            new="True",
        ),
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize(("test", "mutant"), MUTANTS, ids=lambda one: one.guard if isinstance(one, Mutant) else "")
def test_the_case_that_names_a_guard_tells_when_it_is_gone(test: str, mutant: Mutant, tmp_path: Path) -> None:
    assert survives(mutant, tmp_path, running(f"{HERE}::{test}")) is None
