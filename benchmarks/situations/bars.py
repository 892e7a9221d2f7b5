"""What is promised of a situation, by what it leaves to chance: the bars of the benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal

from benchmarks.situations.amounts import varies
from benchmarks.situations.form import Situation

Kind = Literal["steady", "scheduled", "random", "wild"]
"""Nothing is random and no history is edited; edits come on a schedule; gaps, churn, edits or ends are random; gaps and
ends both are."""

BARS: dict[Kind, float] = {"steady": 1.05, "scheduled": 1.10, "random": 1.15, "wild": 1.35}
"""At most this many times the oracle after `LEARNED` sessions, in the mean over the seeds."""

LEARNED = 5
"""Sessions of a workload that come before the one that is measured."""

SHARE, FEW_TURNS = 0.05, 30
"""In the first session: so much of the oracle's cost may be lost beside writes; and up to so many turns, where gaps are
random, one write in the mean over the seeds."""


def kind_of(situation: Situation) -> Kind:
    """What the bar of `situation` follows from."""
    if gaps_vary(situation) and situation.ends_at_random:
        return "wild"
    volatile = situation.volatile
    chances = (volatile.memory_chance, volatile.reconnect_chance, volatile.edit_chance, volatile.compact_chance)
    left_out = volatile.leaves_out and varies(situation.turn.calls)
    if gaps_vary(situation) or situation.ends_at_random or any(chances) or left_out:
        return "random"
    return "scheduled" if volatile.edit_every or volatile.compact_every or volatile.leaves_out else "steady"


def gaps_vary(situation: Situation) -> bool:
    """Whether nobody knows how long the next pause is."""
    times = situation.times
    return any(map(varies, (times.tool, times.user, times.slow, times.reply)))


def draws(situation: Situation) -> bool:
    """Whether another seed gives other costs."""
    tables = (situation.times, situation.prompts, situation.turn, situation.volatile)
    values = [situation.bytes_per_token, *(getattr(one, name.name) for one in tables for name in fields(one))]
    random = situation.volatile.shuffled_tools or kind_of(situation) in ("random", "wild")
    return random or any(varies(one) for one in values if not isinstance(one, str | tuple))


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What a first session may cost beyond the oracle, beside `SHARE` of it; in words and in tokens."""

    what: str
    tokens: float
    what_mean: str
    """The same for the mean over the seeds."""
    mean: float


def shows_all(situation: Situation) -> bool:
    """Whether the first request of a session shows all there is: nothing changes later, and no pause is long."""
    volatile, shortest = situation.volatile, situation.facts().ttls[0].seconds
    changes = (
        volatile.clock_in_system, volatile.clock, volatile.memory_every, volatile.memory_chance,
        volatile.shuffled_tools, volatile.tools_added, volatile.tools_removed, volatile.reconnect_chance,
        volatile.choice_every, volatile.edit_every, volatile.edit_chance, volatile.compact_every,
        volatile.compact_chance, volatile.switch_every, volatile.context, volatile.leaves_out,
    )  # fmt: skip
    times = situation.times
    pauses = [times.tool, times.user, *([times.slow] if times.slow_every else [])]
    short = all(isinstance(one, int | float) and one < shortest for one in pauses)
    return not any(changes) and short and not varies(times.reply)


def allowance(situation: Situation, length: int, prompt: float) -> Allowance:
    """For a first session of `length` turns, whose longest prompt has so many tokens; of a fan-out, all first ones.

    Two writes for pauses that nobody knows, and one more where nobody knows the end, too.
    """
    write = situation.facts().ttls[0].write

    def allowed(worst: str, mean: str) -> Allowance:
        most = {"a premium": write - 1, "a write": write, "two writes": 2 * write, "three writes": 3 * write}
        return Allowance(what=worst, tokens=most[worst] * prompt, what_mean=mean, mean=most[mean] * prompt)

    if gaps_vary(situation):
        worst = "three writes" if situation.ends_at_random else "two writes"
        return allowed(worst, "a write" if length <= FEW_TURNS else "two writes")
    one = "a write" if situation.fan_out == 1 and not shows_all(situation) else "a premium"
    return allowed(one, one)


def missed(name: str, ratio: float, kind: Kind, trivial: dict[str, float]) -> Iterator[str]:
    """What does not hold of a measured row."""
    if ratio > BARS[kind]:
        yield f"{name}: {ratio:.3f} times the oracle, and {BARS[kind]} is the bar ({kind})"
    for policy, other in trivial.items() if kind == "wild" else ():
        if ratio >= other:
            yield f"{name}: {ratio:.3f} times the oracle, and {policy!r} costs {other:.3f} times"
