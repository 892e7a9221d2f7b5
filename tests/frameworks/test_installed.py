"""Each framework with `agentaccel.install()` alone: its agents are what they were, to the message.

Runs where the framework is installed: `make frameworks` has an environment for each set of versions that go together.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from agentaccel import CachePolicy, Policy, ToolPolicy
from agentaccel.testing.conformance import assert_conforms
from tests.frameworks import agents

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("default"),  # the frameworks' own: clients that nobody closes, names that move
]

FRAMEWORKS = {
    "langchain": ("langchain", ("messages", "chat")),
    "langgraph": ("langchain", ("messages", "chat")),
    "deepagents": ("deepagents", ("messages",)),
    "pydantic_ai": ("pydantic_ai", ("messages", "responses")),
    "openai_agents": ("agents", ("responses",)),
    "llamaindex": ("llama_index", ("messages", "chat")),
}
"""By the name of the agent: the module that has to be there, and the wires that it speaks."""
CASES = [(name, wire) for name, (_, wires) in FRAMEWORKS.items() for wire in wires]
INSIDE = Policy(cache=CachePolicy(freeze_tools=True), tools=ToolPolicy(speculate=False), stream_inside=True)


def agent(name: str) -> Any:
    module = FRAMEWORKS[name][0]
    if importlib.util.find_spec(module) is None:
        pytest.skip(f"{module} is in another environment")
    return getattr(agents, name)


@pytest.mark.parametrize(("name", "wire"), CASES)
def test_an_agent_is_what_it_was(name: str, wire: str) -> None:
    assert_conforms(agent(name), means="install", wire=wire)


@pytest.mark.parametrize(("name", "wire"), CASES)
def test_so_it_is_where_calls_go_out_streamed(name: str, wire: str) -> None:
    assert_conforms(agent(name), means="install", wire=wire, policy=INSIDE)
