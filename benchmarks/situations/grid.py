"""One cell of the benchmark: a situation with sessions of one length, by the rules of one platform, from one seed."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentaccel.cache.beliefs import Beliefs
from agentaccel.replay.compare import cost_of_kept, cost_of_steps
from agentaccel.replay.placements import PLACEMENTS
from agentaccel.replay.runs import Run, Step
from agentaccel.replay.simulate import Allowed, Simulated, accelerate, simulate
from benchmarks.situations.agents import Exchange
from benchmarks.situations.amounts import Geometric
from benchmarks.situations.bars import LEARNED
from benchmarks.situations.bound import Floor, floor
from benchmarks.situations.form import Situation
from benchmarks.situations.live import Live
from benchmarks.situations.sessions import requests, steps_of

_SHARING = 5
"""Sessions measured together where they share their beginning."""
_APART = 100_000.0
"""Seconds between those that are learned from and those that are measured, so that nothing is held any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What a cell costs, in uncached input tokens."""

    first: float
    first_floor: float
    prompt: int
    """Tokens of the longest prompt of the first session; of a fan-out, of all first prompts."""
    after: float
    """Of the session that follows on `LEARNED` others."""
    after_floor: Floor
    trivial: Mapping[str, float]
    """That session under the policies that need no planner, where they are legal."""
    hasty: bool = False
    """Whether a request of our own was sent before a pause that outlasts a lifetime had been seen to end."""


def cell(situation: Situation, length: int, platform: str, seed: int) -> Cell:
    """One session, and one after `LEARNED`."""
    measured = _SHARING if situation.prompts.shared else 1
    turns = Geometric(mean=length) if situation.ends_at_random else float(length)
    one = replace(situation, turns=turns, platform=platform, seed=seed, sessions=LEARNED + measured)
    written = requests(one)
    width, begin = one.fan_out, LEARNED * one.fan_out
    for number in range(begin, len(written)):
        written[number] = [exchange._replace(at=exchange.at + _APART) for exchange in written[number]]
    chosen = range(begin, len(written))
    first, after, hasty = (_live if _changes(one) else _replayed)(one, written, chosen)
    steps = [steps_of(one, written[number]) for number in range(width)]
    prompts = [session[0].total for session in steps] if width > 1 else [max(step.total for step in steps[0])]
    return Cell(
        first=first,
        first_floor=floor(one, written, range(width)).cost,
        prompt=sum(prompts),
        after=after,
        after_floor=floor(one, written, chosen),
        trivial=_trivial(one, [written[number] for number in chosen]),
        hasty=hasty,
    )


def _changes(one: Situation) -> bool:
    """Whether other requests than those written may be sent, or at other times."""
    return one.fan_out > 1 or bool({"move_volatile", "freeze_tools"}.intersection(one.consents))


def _run(one: Situation, number: int, session: Sequence[Exchange]) -> Run:
    return Run(id=f"{one.name}/{number}", workload=one.name, steps=steps_of(one, session))


def _trivial(one: Situation, sessions: Sequence[Sequence[Exchange]]) -> dict[str, float]:
    runs = [_run(one, number, session) for number, session in enumerate(sessions)]
    top = one.facts().top_level_marker
    legal = {name: place for name, place in PLACEMENTS.items() if top or name != "automatic"}
    return {name: _cost(runs, simulate(runs, place)) for name, place in legal.items()}


def _cost(runs: Sequence[Run], done: Simulated) -> float:
    cost = sum(cost_of_steps(run.steps, usages) for run, usages in zip(runs, done.usages, strict=True))
    return cost + sum(cost_of_kept(run, usages) for run, usages in zip(runs, done.kept, strict=False))


def _replayed(one: Situation, written: Sequence[Sequence[Exchange]], chosen: range) -> tuple[float, float, bool]:
    """The first session and those chosen, in a replay."""
    allowed = Allowed(keep_alive="keep_alive" in one.consents)
    before = [_run(one, number, written[number]) for number in range(chosen.start)]
    done = accelerate(before, allowed)
    first = _cost(before[:1], replace(done, usages=done.usages[:1], kept=done.kept[:1]))
    runs = [_run(one, number, written[number]) for number in chosen]
    after = _cost(runs, accelerate(runs, allowed, learned=done.learned.get(one.name, Beliefs())))
    return first, after, allowed.keep_alive and _hasty(before[0], allowed)


def _hasty(run: Run, allowed: Allowed) -> bool:
    """Whether requests of our own are sent before the first pause that outlasts a lifetime has ended."""
    unknown: list[Step] = []
    for step in run.steps:
        if unknown and step.started - unknown[-1].started > step.prefix.facts.ttls[0].seconds:
            break
        unknown.append(step)
    return any(accelerate([replace(run, steps=tuple(unknown))], allowed).kept)


def _live(one: Situation, written: Sequence[Sequence[Exchange]], chosen: range) -> tuple[float, float, bool]:
    """The same through the product's own line."""
    with tempfile.TemporaryDirectory() as folder:
        live = Live(one, Path(folder))
        with live.accel:
            for number, session in enumerate(written):
                live.play(number, session)
            live.run()
        first = sum(live.costs[number] for number in range(one.fan_out))
        return first, sum(live.costs[number] for number in chosen), False
