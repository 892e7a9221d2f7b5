"""Tier 3: what tools open before they are called, and what is fetched for them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentaccel.policy import ToolPolicy
from agentaccel.predict.resources import Resource
from tests.mutants import Mutant, running, survives
from tests.predict.scripted import Agent, Script, call, likely


def warmed(probability: float, tools: ToolPolicy | None = None, **declared: Any) -> Agent:
    """An agent that expects a call of its tool this likely, twice in a row."""
    guess = likely(call("look", key="a"), probability)
    agent = Agent(tools or ToolPolicy(eager=False, speculate=False), Script({1: [guess], 2: [guess]}))

    async def opens() -> None:
        agent.log.append("opened")

    async def fetches(path: str) -> None:
        agent.log.append(f"fetched {path}")

    found = [("docs/a.md", 0.9), ("docs/b.md", 0.1)]
    agent.told.touched = [Resource(kind="path", value=path, probability=p, evidence="") for path, p in found]
    agent.reads(prewarm=opens, prefetch=fetches, prefetch_key="key", **declared)

    async def main() -> None:
        await agent.model()
        await agent.model()

    agent.run(main)
    return agent


def test_what_is_more_likely_called_than_not_is_opened_once_in_a_while() -> None:
    assert warmed(0.6).log == ["opened", "fetched docs/a.md"]


def test_what_is_less_likely_is_not() -> None:
    assert warmed(0.4).log == ["fetched docs/a.md"]


def test_switched_off_nothing_is_opened() -> None:
    assert warmed(0.9, ToolPolicy(eager=False, speculate=False, prewarm=False)).log == []


@pytest.mark.parametrize("declared", [{"needs_approval": True}, {"effect": "unknown"}, {"effect": "read_remote"}])
def test_nothing_is_fetched_that_could_not_be_read_on_a_prediction(declared: dict[str, Any]) -> None:
    assert warmed(0.4, **declared).log == []


@pytest.mark.parametrize("failure", [OSError("no connection"), SystemExit(3)])
def test_a_function_that_fails_is_nobodys_trouble(failure: BaseException) -> None:
    agent = Agent(ToolPolicy(eager=False, speculate=False), Script({1: [likely(call("look", key="a"))]}))

    async def fails() -> None:
        raise failure

    look = agent.reads(prewarm=fails)

    async def main() -> Any:
        await agent.model()
        await asyncio.sleep(1.0)
        return await look("a")

    assert agent.run(main) == "a=0"


EXITS = Mutant(
    guard="a function that ends the program",
    at="agentaccel.tools.warming:ToolPrewarmer._begin",
    old="except (Exception, SystemExit):",
    new="except Exception:",
)


@pytest.mark.soak
def test_the_case_that_names_the_guard_tells_when_it_is_gone(tmp_path: Path) -> None:
    assert survives(EXITS, tmp_path, running("tests/predict/test_warming.py", only="nobodys_trouble")) is None
