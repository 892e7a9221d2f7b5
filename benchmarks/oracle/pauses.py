"""The best of conversations in whose pauses requests of our own may keep entries alive."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from agentaccel.replay.hindsight_bound import SHIFTS, futures
from agentaccel.replay.hindsight_paths import compiled
from agentaccel.replay.runs import Step


def least(steps: Sequence[Step]) -> float:
    """What no plan for `steps` can do better than, requests of our own in the pauses included, as far as it makes them.

    `steps` hold those requests too, each `optional`: see `pauses_kept`.
    """
    shifts = SHIFTS if any(step.optional for step in steps) else SHIFTS[:1]
    return max(futures(compiled(steps, None, shift=shift)).bound for shift in shifts)


def pauses_kept(steps: Sequence[Step]) -> list[Step]:
    """The steps of one conversation, with every request between them that could keep entries alive and pay.

    One is sent just before entries expire, of whatever lifetime. More of them in a row than the dearest write outweighs
    never pay.
    """
    made: list[Step] = []
    for step, following in pairwise([*steps, None]):
        if step is None or following is None:
            break
        facts = step.prefix.facts
        most = math.ceil((max(ttl.write for ttl in facts.ttls) - facts.read) / facts.read) if facts.read else _MANY
        times = {step.started + n * ttl.seconds * _JUST_BEFORE for ttl in facts.ttls for n in range(1, most + 1)}
        made.append(step)
        made += [
            replace(step, started=at, visible=at, finished=at, marks=(), optional=True)
            for at in sorted(times)
            if at < following.started
        ]
    return [*made, *steps[-1:]]


_JUST_BEFORE = 1 - 1e-6
_MANY = 100
