"""What early runs leave to others: what a guess would tell a remote host, the rate limits of tools, and calls whose
results the model has.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agentaccel import ToolCall
from agentaccel.policy import ToolPolicy
from agentaccel.tools.rates import MINUTE, MOST_REST, rest_after
from tests.mutants import Mutant, running, survives
from tests.predict.scripted import Agent, Script, call, likely, took

HERE = "tests/predict/test_limits.py"


def launched(agent: Agent, seconds: float, **declared: Any) -> int:
    """How many guesses of the first request were begun, of a tool that is known to take so long."""
    agent.reads(seconds=seconds, **declared)
    for _ in range(20):
        took(agent.accel, "look", seconds)
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
            agent = Agent(ToolPolicy(eager=False, remote_guesses=("look",)), told)
            found[effect, seconds] = launched(agent, seconds, effect=effect)
    assert found == {
        ("read_remote", 0.04): 0,
        ("read_remote", 1.0): 1,
        ("read_local", 0.04): 1,
        ("read_local", 1.0): 1,
    }


def test_without_consent_or_with_arguments_that_are_new_there_no_guess_leaves() -> None:
    for egress, key in (((), "a"), (("look",), "zz")):
        agent = Agent(ToolPolicy(eager=False, remote_guesses=egress), Script({1: [likely(call("look", key=key))]}))
        assert launched(agent, 1.0, effect="read_remote") == 0


def limited(**policy: Any) -> Agent:
    guesses = [likely(call("look", key=key)) for key in "abcdefgh"]
    return Agent(ToolPolicy(eager=False, concurrency=20, **policy), Script({1: guesses, 2: guesses}))


def test_guesses_leave_a_fifth_of_a_rate_limit_to_real_calls() -> None:
    assert launched(limited(), 1.0) == 8
    assert launched(limited(rate_limits={"look": 5}), 1.0) == 4


def test_real_calls_use_a_rate_limit_up_and_a_minute_later_it_is_there_again() -> None:
    agent = limited(rate_limits={"look": 10})
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


class Refused(Exception):
    """As a vendor's library raises it."""

    def __init__(self, status: int, **headers: str) -> None:
        self.response = SimpleNamespace(status_code=status, headers=headers)


def launched_after(raised: Exception, waits: float, *, early: bool) -> int:
    """Guesses that are begun so long after a run has raised, which was itself begun early or was not."""
    guesses = [likely(call("look", key=key)) for key in "abc"]
    agent = Agent(ToolPolicy(eager=False), Script({1: [likely(call("look", key="x"))] if early else [], 2: guesses}))
    failing = True

    @agent.accel.tool(name="look", effect="read_local", concurrent=True)
    async def look(key: str) -> str:
        if failing:
            raise raised
        return key

    async def main() -> int:
        nonlocal failing
        await agent.model()
        await asyncio.sleep(0.1)
        if not early:
            with pytest.raises(type(raised)):
                await look("x")
        failing = False
        await asyncio.sleep(waits)
        before = agent.ledger.predicted.launched
        await agent.model()
        return agent.ledger.predicted.launched - before

    return agent.run(main)


@pytest.mark.parametrize("early", [False, True])
def test_a_tool_that_was_refused_for_its_rate_is_left_alone_for_as_long_as_it_asks(early: bool) -> None:
    asked, silent = Refused(429, **{"retry-after": "20"}), Refused(429)
    assert [launched_after(asked, wait, early=early) for wait in (10.0, 21.0)] == [0, 3]
    assert [launched_after(silent, wait, early=early) for wait in (50.0, 61.0)] == [0, 3]


def test_a_tool_that_fails_otherwise_is_not_left_alone() -> None:
    assert [launched_after(one, 1.0, early=False) for one in (Refused(404), KeyError("x"))] == [3, 3]


def test_what_libraries_raise_for_too_many_requests_is_understood() -> None:
    """Where the state is: an attribute of the exception, of its answer, of botocore's table, or of what caused it."""
    aiohttp, urllib, wrapped = OSError(), OSError(), RuntimeError("the tool failed")
    aiohttp.status, urllib.code = 429, 503  # type: ignore[attr-defined]
    urllib.headers = {"Retry-After": "3"}  # type: ignore[attr-defined]
    botocore = Exception()
    table = {"HTTPStatusCode": 429, "HTTPHeaders": {"retry-after": "9"}}
    botocore.response = {"ResponseMetadata": table}  # type: ignore[attr-defined]
    wrapped.__cause__ = Refused(529, **{"retry-after": "1e9"})
    raised = (aiohttp, urllib, botocore, wrapped, Refused(429, **{"retry-after": "Wed, 21 Oct 2026 07:28:00 GMT"}))
    assert [rest_after(one) for one in raised] == [MINUTE, 3.0, 9.0, MOST_REST, MINUTE]
    assert [rest_after(one) for one in (Refused(500), Refused(200), KeyError(429), OSError(429, "x"))] == [None] * 4


def test_an_exception_that_cannot_be_looked_at_is_raised_as_it_is() -> None:
    class Odd(Exception):
        @property
        def response(self) -> object:
            raise ZeroDivisionError

    assert launched_after(Odd(), 1.0, early=False) == 3


def begun_after(*turns: tuple[ToolCall, bool]) -> int:
    """Guesses of one call, to look at "a", that are begun after turns of a call each and whether that failed."""
    last = len(turns) + 1
    agent = Agent(ToolPolicy(eager=False), Script({last: [likely(call("look", key="a"))]}))
    tools = {"look": agent.reads(), "book": agent.writes()}

    async def main() -> int:
        for one, failed in turns:
            await agent.model(one)
            agent.answers(await tools[one.name](**one.arguments))
            agent.messages[-1]["content"][0]["is_error"] = failed
        await agent.model()
        return agent.ledger.predicted.launched

    return agent.run(main)


def test_what_the_model_has_before_it_is_not_fetched_again_on_a_guess() -> None:
    """It may be once something was written, or where the call has failed."""
    looked, other, wrote = call("look", key="a"), call("look", key="b"), call("book", key="c")
    assert begun_after((other, False)) == 1
    assert begun_after((looked, False)) == begun_after((looked, False), (other, False)) == 0
    assert begun_after((looked, False), (wrote, False)) == 1
    assert begun_after((looked, True)) == 1


MUTANTS = (
    (
        "test_what_the_model_has_before_it_is_not_fetched_again_on_a_guess",
        Mutant(
            guard="guesses of what the model has before it",
            at="agentaccel.tools.speculator:Speculator._candidate",
            old=" or step.following.made(call):",
            new=":",
        ),
    ),
    (
        "test_what_the_model_has_before_it_is_not_fetched_again_on_a_guess",
        Mutant(
            guard="what a write makes worth another look",
            at="agentaccel.tools.transcript:SpeculationState._asked",
            old="        if not self.reads(call) or len(",
            new="        if len(",
        ),
    ),
    (
        "test_a_tool_that_was_refused_for_its_rate_is_left_alone_for_as_long_as_it_asks",
        Mutant(
            guard="refusals of real calls that are not heard of",
            at="agentaccel.tools.call:Call.__exit__",
            old="            box.serving.rates.failed(self._known.name, error, self._tick + seconds)\n",
            new="",
        ),
    ),
    (
        "test_a_tool_that_was_refused_for_its_rate_is_left_alone_for_as_long_as_it_asks",
        Mutant(
            guard="refusals of early runs that are not heard of",
            at="agentaccel.tools.running:Runner._raised",
            old="        self.rates.failed(told.entry.call.name, failure, self.clock.monotonic())\n",
            new="",
        ),
    ),
    (
        "test_a_predicted_remote_read_is_made_where_it_is_worth_what_it_tells",
        Mutant(
            guard="remote reads at no price",
            at="agentaccel.tools.speculator:Speculator._candidate",
            old='launchable=permission.verdict.launchable if permission.launch != "never" else "never",',
            new="launchable=permission.launch,",
        ),
    ),
    (
        "test_without_consent_or_with_arguments_that_are_new_there_no_guess_leaves",
        Mutant(
            guard="guesses that leave the machine",
            at="agentaccel.tools.speculator:Speculator._candidate",
            old='egress=permission.launch == "predicted",',
            new="egress=True,",
        ),
    ),
    (
        "test_real_calls_use_a_rate_limit_up_and_a_minute_later_it_is_there_again",
        Mutant(
            guard="real calls that are not counted",
            at="agentaccel.tools.serving:Writes.begins",
            old="        self.rates.ran(tool.name, self.clock.monotonic())\n",
            new="",
        ),
    ),
    (
        "test_guesses_leave_a_fifth_of_a_rate_limit_to_real_calls",
        Mutant(
            guard="rate limits that nobody told the decision of",
            at="agentaccel.tools.launching:Launcher._host",
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
