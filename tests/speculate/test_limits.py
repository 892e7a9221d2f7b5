"""What early runs leave to others: what a guess would tell a remote host, and the rate limits of tools."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentaccel.policy import ToolPolicy
from tests.mutants import Mutant, running, survives
from tests.speculate.scripted import Agent, Script, call, likely

HERE = "tests/speculate/test_limits.py"


def launched(agent: Agent, seconds: float, **declared: Any) -> int:
    """How many guesses of the first request were begun, of a tool that is known to take so long."""
    agent.reads(seconds=seconds, **declared)
    for _ in range(20):
        agent.accel._foresight.launcher.serving.track.experience.latencies.saw("look", seconds)
    agent.messages = [{"role": "user", "content": "Tell me of a, b, c, d, e, f, g, h, i and j."}]
    agent.run(agent.model)
    return agent.ledger.predicted.launched


def test_a_predicted_remote_read_is_made_where_it_is_worth_what_it_tells() -> None:
    """At the same odds and with consent: one that hides a second is, one that hides little is not, and a local one is
    either way."""
    found = {}
    for effect in ("read_remote", "read_local"):
        for seconds in (0.04, 1.0):
            told = Script({1: [likely(call("look", key="a"))]})
            agent = Agent(ToolPolicy(eager=False, egress=("look",)), told)
            found[effect, seconds] = launched(agent, seconds, effect=effect)
    assert found == {
        ("read_remote", 0.04): 0,
        ("read_remote", 1.0): 1,
        ("read_local", 0.04): 1,
        ("read_local", 1.0): 1,
    }


def test_without_consent_or_with_arguments_that_are_new_there_no_guess_leaves() -> None:
    for egress, key in (((), "a"), (("look",), "zz")):
        agent = Agent(ToolPolicy(eager=False, egress=egress), Script({1: [likely(call("look", key=key))]}))
        assert launched(agent, 1.0, effect="read_remote") == 0


def limited(**policy: Any) -> Agent:
    guesses = [likely(call("look", key=key)) for key in "abcdefgh"]
    return Agent(ToolPolicy(eager=False, concurrency=20, **policy), Script({1: guesses, 2: guesses}))


def test_guesses_leave_a_fifth_of_a_rate_limit_to_real_calls() -> None:
    assert launched(limited(), 1.0) == 8
    assert launched(limited(per_minute={"look": 5}), 1.0) == 4


def test_real_calls_use_a_rate_limit_up_and_a_minute_later_it_is_there_again() -> None:
    agent = limited(per_minute={"look": 10})
    look = agent.reads()

    async def main() -> list[int]:
        seen = []
        for key in "pqrstu":
            await look(key)
        await agent.model()
        seen.append(agent.ledger.predicted.launched)
        await asyncio.sleep(65.0)
        await agent.model()
        return [*seen, agent.ledger.predicted.launched]

    assert agent.run(main) == [2, 8]


MUTANTS = (
    (
        "test_a_predicted_remote_read_is_made_where_it_is_worth_what_it_tells",
        Mutant(
            guard="remote reads at no price",
            file="session/foresight.py",
            old='launchable=permission.verdict.launchable if permission.launch != "never" else "never",',
            new="launchable=permission.launch,",
        ),
    ),
    (
        "test_without_consent_or_with_arguments_that_are_new_there_no_guess_leaves",
        Mutant(
            guard="guesses that leave the machine",
            file="session/foresight.py",
            old='egress=permission.launch == "predicted",',
            new="egress=True,",
        ),
    ),
    (
        "test_real_calls_use_a_rate_limit_up_and_a_minute_later_it_is_there_again",
        Mutant(
            guard="real calls that are not counted",
            file="session/serving.py",
            old="        self.rates.ran(tool.name, self.clock.monotonic())\n",
            new="",
        ),
    ),
    (
        "test_guesses_leave_a_fifth_of_a_rate_limit_to_real_calls",
        Mutant(
            guard="rate limits that nobody told the decision of",
            file="session/foresight.py",
            old="            rate=serving.rates.limit(name),\n",
            new="",
        ),
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize(("test", "mutant"), MUTANTS, ids=lambda one: one.guard if isinstance(one, Mutant) else "")
def test_the_case_that_names_a_guard_tells_when_it_is_gone(test: str, mutant: Mutant, tmp_path: Path) -> None:
    assert survives(mutant, tmp_path, running(f"{HERE}::{test}")) is None


@pytest.mark.soak
def test_with_every_guard_they_pass(tmp_path: Path) -> None:
    """Or the others would prove nothing."""
    assert survives(None, tmp_path, running(*{f"{HERE}::{test}" for test, _ in MUTANTS})) is not None
