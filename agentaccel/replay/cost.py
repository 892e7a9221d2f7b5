"""What requests of a replay cost, in uncached input tokens."""

from __future__ import annotations

from collections.abc import Iterable

from agentaccel.facts import CacheFacts
from agentaccel.replay.runs import Run, Step
from agentaccel.types import Usage


def has_cost(usage: Usage, facts: CacheFacts) -> bool:
    """Whether `usage` tells what its input costs by `facts`; of what is written at no charge, nobody has to tell."""
    if usage.uncached is None:
        return False
    if usage.write is None:
        return all(ttl.write == 1 for ttl in facts.ttls)
    return all(facts.ttl(label) is not None for label, tokens in usage.write.items() if tokens)


def cost_of(usage: Usage, facts: CacheFacts) -> float:
    """The input side of `usage`, by the multiples that `facts` state.

    Raises ValueError for a usage that does not tell it (`has_cost`).
    """
    cost = cost_or_none(usage, facts)
    if cost is None:
        raise ValueError("the provider did not report what its cache did, or names a lifetime without a price")
    return cost


def cost_or_none(usage: Usage, facts: CacheFacts) -> float | None:
    """The same; None for such a usage."""
    uncached = usage.uncached
    if uncached is None or (usage.write is None and not has_cost(usage, facts)):
        return None
    written = 0.0
    for label, tokens in (usage.write or {}).items():
        if tokens:
            ttl = facts.ttl(label)
            if ttl is None:
                return None
            written += tokens * ttl.write
    return uncached + (usage.read or 0) * facts.read + written


def cost_of_steps(steps: Iterable[Step], usages: Iterable[Usage]) -> float:
    """The same of several requests, one usage each. Raises ValueError where there are not as many."""
    return sum(cost_of(usage, step.prefix.facts) for step, usage in zip(steps, usages, strict=True))


def cost_of_kept(run: Run, usages: Iterable[Usage]) -> float:
    """The same of requests of our own that kept the entries of `run` alive."""
    return sum(cost_of(usage, run.steps[-1].prefix.facts) for usage in usages)
