"""The oracle's plan is the cheapest there is, on every small conversation whose plans can all be looked at.

The enumeration is the tests' own (`tests/replay/small.py`): the cache's rules written a second time from the vendor's
algorithm, every legal set of markers and lifetimes of every request.
"""

from __future__ import annotations

from functools import partial

import click

from agentaccel.replay.hindsight import Best, best
from benchmarks.parallel import spread
from benchmarks.registry import Result, Table, benchmark
from tests.replay.small import brute_force, instance, steps_of


@benchmark()
@click.option("--cases", default=2_000, show_default=True, help="Random conversations.")
@click.option("--seed", default=0, show_default=True, help="Seed of the first; each next one adds one.")
@click.option("--most", default=5, show_default=True, help="Blocks of the longest prompt.")
def run(cases: int, seed: int, most: int) -> Result:
    equal = met = 0
    broken: list[str] = []
    seeds = range(seed, seed + cases)
    for number, (least, found) in zip(seeds, spread(partial(_both, most), seeds, at_once=20), strict=True):
        same = abs(found.cost - least) < 1e-6
        equal += same
        met += found.exact
        if not same or found.bound > least + 1e-6:
            broken.append(f"seed {number}: cost {found.cost:.2f}, bound {found.bound:.2f}, least of all {least:.2f}")
    return Result(
        figure=f"{equal:,} of {cases:,} conversations: the oracle costs what the cheapest of all plans costs.",
        inputs={"first seed": seed, "requests": "2 to 4", "blocks at most": most, "lifetimes": "5m, 1h"},
        n=cases,
        tables=(
            Table(title="Oracle and enumeration", columns=("", "cases"), rows=(("equal", equal), ("proven", met))),
        ),
        broken=tuple(broken),
    )


def _both(most: int, seed: int) -> tuple[float, Best]:
    """The least that any plan costs, and what the oracle finds."""
    asks, rules = instance(seed, most=most)
    return brute_force(asks, rules), best(steps_of(asks, rules))
