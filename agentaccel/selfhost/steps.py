"""In how many steps each agent of a workflow runs next: pure.

    graph = StepGraph(edges={"plan": ("search", "code"), "search": ("write",), "code": ("write",)}, waits={"write"})
    steps_to_execution(graph, {"plan"})     # {"search": 1.0, "code": 1.0, "write": 2.0}

After KVFlow (Pan et al., 2025, arXiv:2507.07400): an agent that runs after any of others runs one step after the first
of them, one that waits for all of them one step after the last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agentaccel.checks import is_names
from agentaccel.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class StepGraph:
    """Which agents of a workflow run after which. Raises `ConfigError` for what cannot be meant."""

    edges: Mapping[str, Collection[str]] = field(default_factory=dict)
    """By agent: those that may run in the step after it."""
    waits: Collection[str] = frozenset()
    """Agents that run once all have that lead to them; others run after any."""
    means: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By agent that runs, and by agent: the mean of the steps until that one ran, where it was seen (`learned`)."""

    def __post_init__(self) -> None:
        if not isinstance(self.edges, Mapping) or not all(map(is_names, (tuple(self.edges), *self.edges.values()))):
            raise ConfigError(f"StepGraph.edges is {self.edges!r}; give a dict such as {{'plan': ('search', 'code')}}")
        if not is_names(self.waits):
            raise ConfigError(f"StepGraph.waits is {self.waits!r}; give a set of names")

    @classmethod
    def learned(cls, runs: Iterable[Sequence[str]]) -> StepGraph:
        """From the order in which agents ran, one sequence of names for each run of the workflow.

        >>> StepGraph.learned([["plan", "search", "search", "write"], ["plan", "write"]]).means["plan"]
        {'write': 2.0, 'search': 1.0}
        """
        seen: dict[str, dict[str, list[int]]] = {}
        for run in runs:
            next_at: dict[str, int] = {}
            for place in reversed(range(len(run))):
                for agent, at in next_at.items():
                    seen.setdefault(run[place], {}).setdefault(agent, []).append(at - place)
                next_at[run[place]] = place
        return cls(
            means={
                one: {agent: sum(steps) / len(steps) for agent, steps in agents.items()} for one, agents in seen.items()
            }
        )


def steps_to_execution(graph: StepGraph, running: Collection[str]) -> dict[str, float]:
    """By agent: in how many steps it runs next, while those of `running` run; an agent that is not there runs no more,
    as far as the graph tells. One that runs now is told when it does again.

    >>> steps_to_execution(StepGraph(edges={"ask": ("answer",), "answer": ("ask", "end")}), {"ask"})
    {'answer': 1.0, 'ask': 2.0, 'end': 2.0}
    """
    steps: dict[str, float] = _declared(graph, running)
    for one in running:
        for agent, mean in graph.means.get(one, {}).items():
            steps[agent] = min(mean, steps.get(agent, mean))
    return steps


def _declared(graph: StepGraph, running: Collection[str]) -> dict[str, float]:
    """What the edges tell, step by step: who is reached in a step has run before any who is reached later."""
    before: dict[str, set[str]] = {}
    for one, following in graph.edges.items():
        for agent in following:
            before.setdefault(agent, set()).add(one)
    alive = _reached(graph, running)  # whoever else leads somewhere has run already, or never does
    steps, done = dict[str, float](), set(running)
    for step in range(1, len(before) + 1):
        open_ones = [agent for agent in before if agent not in steps and before[agent] & done]
        ready = [agent for agent in open_ones if agent not in graph.waits or before[agent] & alive <= done]
        now = ready or open_ones  # those that wait for one another in a ring do not wait for ever
        steps.update(dict.fromkeys(now, float(step)))
        done.update(now)
    return steps


def _reached(graph: StepGraph, running: Collection[str]) -> set[str]:
    reached, left = set(running), list(running)
    while left:
        new = set(graph.edges.get(left.pop(), ())) - reached
        reached |= new
        left += new
    return reached
