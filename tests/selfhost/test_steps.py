"""In how many steps agents run next: worked out by hand, on paper."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest

from agentaccel.errors import ConfigError
from agentaccel.selfhost.steps import StepGraph, steps_to_execution

DIAMOND = {"plan": ("search", "code"), "search": ("read",), "read": ("write",), "code": ("write",)}
"""plan → search → read → write, and plan → code → write."""
LOOP = {"ask": ("act",), "act": ("check",), "check": ("act", "end")}


@pytest.mark.parametrize(
    ("edges", "waits", "running", "steps"),
    [
        (DIAMOND, (), ["plan"], {"search": 1, "code": 1, "read": 2, "write": 2}),
        (DIAMOND, ("write",), ["plan"], {"search": 1, "code": 1, "read": 2, "write": 3}),
        (DIAMOND, ("write",), ["code"], {"write": 1}),  # read is not to come any more: it has run
        (DIAMOND, ("write",), ["code", "search"], {"read": 1, "write": 2}),
        (DIAMOND, ("write",), ["write"], {}),
        (LOOP, (), ["ask"], {"act": 1, "check": 2, "end": 3}),
        (LOOP, (), ["act"], {"check": 1, "act": 2, "end": 2}),  # again: act is running
        (LOOP, (), ["check", "ask"], {"act": 1, "end": 1, "check": 2}),
        ({"a": ("a",)}, (), ["a"], {"a": 1}),
        ({"a": ("b",), "b": ("c",), "c": ("b",)}, ("b",), ["a"], {"b": 1, "c": 2}),  # b waits for c, which waits for b
        (DIAMOND, (), ["somebody"], {}),
        (DIAMOND, (), [], {}),
        ({}, (), ["plan"], {}),
    ],
)
def test_any_is_one_after_the_first_and_all_is_one_after_the_last(
    edges: dict[str, tuple[str, ...]], waits: Collection[str], running: list[str], steps: dict[str, int]
) -> None:
    """KVFlow's rule: min + 1 and max + 1; a ring of agents that wait for one another stops nobody."""
    assert steps_to_execution(StepGraph(edges=edges, waits=waits), running) == steps


def test_what_is_learned_is_the_mean_of_the_distances_that_were_seen() -> None:
    """By hand: from plan to write 3 and 1, mean 2; from search to search 1 once; from write nothing follows."""
    graph = StepGraph.learned([["plan", "search", "search", "write"], ["plan", "write"], []])
    assert graph.means == {
        "plan": {"search": 1.0, "write": 2.0},
        "search": {"search": 1.0, "write": 1.5},  # from the first search 2, from the second 1
    }
    assert steps_to_execution(graph, ["plan"]) == {"search": 1.0, "write": 2.0}
    assert steps_to_execution(graph, ["plan", "search"]) == {"search": 1.0, "write": 1.5}
    assert steps_to_execution(graph, ["write"]) == {}


def test_what_is_declared_and_what_was_seen_go_together() -> None:
    """The sooner of the two."""
    graph = StepGraph(edges={"plan": ("write",)}, means={"plan": {"write": 3.0, "check": 5.0}})
    assert steps_to_execution(graph, ["plan"]) == {"write": 1.0, "check": 5.0}


@pytest.mark.parametrize(
    "wrong",
    [{"edges": [("a", "b")]}, {"edges": {"a": "b"}}, {"edges": {"a": (1,)}}, {"edges": {"": ()}}, {"waits": "a"}],
)
def test_a_graph_that_cannot_be_meant_is_refused_where_it_is_written(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        StepGraph(**wrong)
