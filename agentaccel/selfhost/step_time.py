"""What a step of an engine takes, by how many requests it computes and how many tokens of each it verifies: pure.

    seconds = fixed + requests x of each + tokens x of each

as in SmartSpec (Liu et al. 2024, arXiv:2406.14066): weights are read once whatever is computed, keys and values once
for each request, and each token is computed. What speculation costs follows from it: verifying k tokens of a request
computes k + 1 where one was computed, and reads nothing more, but for experts that fewer tokens would have left alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from agentaccel.selfhost.gpus import Gpu, gpus
from agentaccel.selfhost.sizing import ServerPlan, size_of

Sureness = Literal["measured", "fitted", "estimated", "assumed"]
"""Where a cost comes from: measured with that method; from steps that were measured without it; from a model and a data
sheet; from neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """What a step takes, in seconds or in any other unit: only ratios count."""

    fixed: float
    """Of each step: reading the weights."""
    per_token: float
    """Of each token that is computed."""
    per_request: float = 0.0
    """Of each request: reading its keys and values."""
    experts: float = 0.0
    """Reading all experts; what a step needs of it depends on how many tokens choose theirs."""
    active: float = 1.0
    """The share of the experts that one token goes through."""
    sure: Sureness
    source: str
    """Where it comes from, for people."""

    def seconds(self, requests: float, tokens: float = 1.0) -> float:
        """A step with so many requests, and so many tokens of each."""
        computed = requests * tokens
        woken = self.experts * (1 - math.pow(1 - self.active, computed))
        return self.fixed + woken + self.per_request * requests + self.per_token * computed

    def cost(self, requests: float, tokens: float) -> float:
        """A step with so many tokens of each request, in steps with one."""
        return self.seconds(requests, tokens) / self.seconds(requests)


def fitted(measured: Sequence[tuple[int, float]]) -> StepTime | None:
    """From seconds of steps without speculation, by how many requests they computed: the line through them by least
    squares. None unless two numbers of requests were measured, and more of them take longer."""
    if len({requests for requests, _ in measured}) < 2:
        return None
    mean_requests = sum(requests for requests, _ in measured) / len(measured)
    mean_seconds = sum(seconds for _, seconds in measured) / len(measured)
    above = sum((requests - mean_requests) * (seconds - mean_seconds) for requests, seconds in measured)
    slope = above / sum((requests - mean_requests) ** 2 for requests, _ in measured)
    fixed = mean_seconds - slope * mean_requests
    if slope <= 0 or fixed < 0:
        return None
    return StepTime(fixed=fixed, per_token=slope, sure="fitted", source="your steps without speculation")


def estimated(plan: ServerPlan) -> StepTime | None:
    """From a model and its GPU, by its data sheet: bytes that are read over bandwidth, plus operations over their rate,
    two for each weight and token. Real engines reach some half of either, which leaves ratios as they are. None for a
    GPU of which only the memory is known."""
    if plan.gpu.rates is None:
        return None
    operations, bandwidth = (rate * plan.gpus for rate in plan.gpu.rates)
    size, shape = size_of(plan), plan.shape
    parts = shape.parameters
    experts = parts.experts / max(sum(parts), 1)
    used = sum(parts) - parts.experts * (1 - (shape.active or 1.0))
    return StepTime(
        fixed=size.weights * (1 - experts) / bandwidth,
        experts=size.weights * experts / bandwidth,
        active=shape.active or 1.0,
        per_request=size.session / bandwidth,
        per_token=2 * used / operations,
        sure="estimated",
        source=f"the data sheet of {plan.gpu.name} and the model's config",
    )


def assumed(device: str, cpu_tokens: float, gpu: Gpu | None = None) -> StepTime:
    """From a GPU alone, or from nothing: a dense model in 16 bits with short contexts, on `gpu` or on the least of
    those that are known; on a CPU, computing `cpu_tokens` is taken to take as long as reading the weights."""
    if device == "cpu":
        return StepTime(fixed=cpu_tokens, per_token=1.0, sure="assumed", source="a guess for CPUs")
    # Two operations for each weight and token, and two bytes for each weight: as many tokens as operations to a byte.
    tokens = min(rates[0] / rates[1] for one in ((gpu,) if gpu is not None else gpus()) if (rates := one.rates))
    named = "a GPU" if gpu is None else gpu.name
    return StepTime(fixed=tokens, per_token=1.0, sure="assumed", source=f"a dense model with short contexts on {named}")


def between(known: Sequence[tuple[int, float]], requests: float) -> float:
    """What is known at some numbers of requests, at another: on the line between two, beyond the last ones as there.

    >>> between([(1, 2.0), (5, 4.0)], 2), between([(1, 2.0), (5, 4.0)], 9)
    (2.5, 4.0)
    """
    ordered = sorted(known)
    if requests <= ordered[0][0]:
        return ordered[0][1]
    for (low, one), (high, two) in pairwise(ordered):
        if requests <= high:
            return one + (requests - low) / (high - low) * (two - one)
    return ordered[-1][1]
