"""The oracle against every plan there is, against policies that need no oracle, and in time."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from agentaccel.cache.ledger import Breakpoint
from agentaccel.facts import CacheFacts, cache_facts
from agentaccel.replay.compare import cost_of, cost_of_steps
from agentaccel.replay.hindsight import Best, best
from agentaccel.replay.hindsight_bound import futures
from agentaccel.replay.hindsight_paths import compiled
from agentaccel.replay.hindsight_plan import planned
from agentaccel.replay.placements import PLACEMENTS
from agentaccel.replay.runs import Run, Step
from agentaccel.replay.simulate import SimulatedProvider, accelerate, simulate
from agentaccel.replay.synthetic import Piece, rendered
from benchmarks.oracle.pauses import least
from tests.replay.small import Ask, Block, Rules, brute_force, instance, instance_with_pauses, steps_of

FAST, SOAKED, ALL = 160, 320, 2_400
CHUNKS = 8


def differences(seeds: range, *, most: int) -> list[str]:
    """Where the oracle and the enumeration of every plan disagree."""
    found = []
    for seed in seeds:
        asks, rules = instance(seed, most=most)
        least, steps = brute_force(asks, rules), steps_of(asks, rules)
        got = best(steps)
        if not got.exact or abs(got.cost - least) > 1e-6:
            found.append(f"seed {seed}: {got.cost} and not {least}")
        if got.bound > least + 1e-6 or futures(compiled(steps, None)).bound > least + 1e-6:
            found.append(f"seed {seed}: a bound above {least}")
        found += beaten(steps, got, seed)
    return found


def beaten(steps: Sequence[Step], got: Best, seed: int) -> list[str]:
    """Policies that cost less than the oracle; the billed plan's own cost, if it differs."""
    found = []
    if abs(billed(steps, got.marks) - got.cost) > 1e-6:
        found.append(f"seed {seed}: the plan is billed {billed(steps, got.marks)} and not {got.cost}")
    if any(step.marks for step in steps):
        return found  # the policies would take the sender's markers away
    runs = [Run(id="r", workload="w", steps=tuple(steps))]
    results = {name: simulate(runs, placement) for name, placement in PLACEMENTS.items()}
    for name, result in {**results, "agentaccel": accelerate(runs)}.items():
        cost = cost_of_steps(steps, result.usages[0])
        if cost < got.bound - 1e-6:
            found.append(f"seed {seed}: {name} costs {cost}, less than the bound {got.bound}")
    return found


def billed(steps: Sequence[Step], marks: Sequence[Sequence[Breakpoint]]) -> float:
    """What the replay's own provider charges."""
    provider = SimulatedProvider()
    order = sorted(range(len(steps)), key=lambda i: steps[i].started)
    return sum(cost_of(provider.serve(steps[i], marks[i]), steps[i].prefix.facts) for i in order)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [0, *(pytest.param(chunk, marks=pytest.mark.soak) for chunk in range(1, CHUNKS))])
def test_the_oracle_finds_the_best_of_all_plans(chunk: int) -> None:
    """Small random conversations, every set of markers of every request enumerated."""
    size = FAST // CHUNKS
    assert not differences(range(chunk * size, (chunk + 1) * size), most=4)


@pytest.mark.soak
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_oracle_finds_the_best_of_many_more_plans(chunk: int) -> None:
    """The same with more and larger ones."""
    size = (SOAKED - FAST) // CHUNKS
    assert not differences(range(FAST + chunk * size, FAST + (chunk + 1) * size), most=4)
    size = ALL // CHUNKS
    assert not differences(range(10_000 + chunk * size, 10_000 + (chunk + 1) * size), most=5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seeds",
    [range(10), *(pytest.param(range(at, at + 20), marks=pytest.mark.soak) for at in range(0, 160, 20))],
    ids=str,
)
def test_the_oracle_finds_the_best_of_all_plans_with_requests_that_may_be_left_out(seeds: range) -> None:
    """Pauses in which entries can be kept: each such request made with any markers that write nothing, or left out."""
    made = 0
    for seed in seeds:
        asks, rules = instance_with_pauses(seed)
        least_, steps = brute_force(asks, rules), steps_of(asks, rules)
        got = best(steps)
        assert (got.exact, got.cost) == (True, pytest.approx(least_)), seed
        assert max(got.bound, least(steps), best(steps, searches=False).bound) <= least_ + 1e-6, seed
        sent = [(step, marks) for step, marks, usage in zip(steps, got.marks, got.usages, strict=True) if usage.input]
        assert billed([step for step, _ in sent], [marks for _, marks in sent]) == pytest.approx(got.cost), seed
        made += sum(step.optional for step, _ in sent)
    assert made > 0  # some of them pay


@pytest.mark.slow
def test_the_plan_before_the_search_is_not_always_the_best() -> None:
    """The twin: an oracle without its search is caught by the same comparison, so the cases are hard enough."""
    worse = 0
    for seed in range(60, 70):
        asks, rules = instance(seed, most=4)
        steps = steps_of(asks, rules)
        requests = compiled(steps, None)
        plans = planned(requests, futures(requests))
        marks = [
            tuple(sorted((*step.marks, *_marks(step, request.segments, placed)), key=lambda mark: mark.at))
            for step, request, placed in zip(steps, requests, plans, strict=True)
        ]
        worse += billed(steps, marks) > brute_force(asks, rules) + 1e-6
    assert worse > 1


def _marks(step: Step, segments: Sequence[int], placed: Sequence[tuple[int, int]]) -> list[Breakpoint]:
    labels = [ttl.label for ttl in step.prefix.facts.ttls]
    return [Breakpoint(segments[place], labels[life]) for place, life in placed]


def test_the_enumeration_notices_wrong_physics() -> None:
    """The other twin: with a lookback of one more, or without one, both sides disagree somewhere."""
    asks = [
        Ask(tuple(Block(f"b{i}", 100) for i in range(3)), 0.0, 1.0),
        Ask(tuple(Block(f"b{i}", 100) for i in range(6)), 10.0, 11.0),
        Ask(tuple(Block(f"b{i}", 100) for i in range(6)), 20.0, 21.0),
    ]
    rules = Rules(minimum=0, lookback=3, markers=1, runs=False)
    wrong = Rules(minimum=0, lookback=4, markers=1, runs=False)
    assert best(steps_of(asks, rules)).cost == pytest.approx(brute_force(asks, rules))
    assert best(steps_of(asks, wrong)).cost < brute_force(asks, rules)


# --- conversations of real size ---------------------------------------------------------------------------------------


def facts_of(model: str = "claude-sonnet-5", platform: str = "api") -> CacheFacts:
    facts = cache_facts(model, platform=platform)
    assert facts is not None
    return facts


def loop(turns: int, *, name: str = "a", start: float = 0.0, gap: float = 20.0, grows: int = 3) -> list[Step]:
    """A conversation that only grows: ten tools, instructions, a question, and `grows` blocks a turn."""
    facts = facts_of()
    pieces = [Piece("tools", "", 300, f"tool {i}".encode()) for i in range(10)]
    pieces += [Piece("system", "", 2_000, b"system"), Piece("messages", "user", 500, name.encode())]
    steps: list[Step] = []
    for turn in range(turns):
        prefix, tokens = rendered(pieces, "claude-sonnet-5", facts, None)
        now = start + turn * gap
        steps.append(Step(prefix=prefix, tokens=tokens, started=now, visible=now + 3.0))
        for i in range(grows):
            role = "user" if i == grows - 1 else "assistant"
            pieces.append(Piece("messages", role, 200, f"{name}/{turn}/{i}".encode()))
    return steps


@pytest.mark.slow
@pytest.mark.parametrize("requests", [100, pytest.param(300, marks=pytest.mark.soak)])
def test_a_growing_conversation_is_solved_at_any_length(requests: int) -> None:
    """Up to 300 requests with 900 segments: every new tail written once, the last one left."""
    steps = loop(requests)
    began = time.process_time()
    got = best(steps)
    assert time.process_time() - began < 3.0  # half a second where nothing else runs
    assert got.exact
    assert got.cost == pytest.approx(1.25 * steps[-2].total + 0.1 * sum(step.total for step in steps[:-1]) + 600)
    assert got.marks[-1] == got.marks[-2]


def test_sessions_that_share_a_beginning_are_solved_together() -> None:
    """The first writes the end of the instructions for the others, beside its own tail."""
    steps = [step for k in range(20) for step in loop(5, name=f"s{k}", start=100.0 * k)]
    got = best(steps)
    assert got.exact
    assert 10 in {mark.at for mark in got.marks[0]}
    assert all(usage.read for usage in got.usages[1:])


def test_what_shares_nothing_is_solved_apart() -> None:
    """Two sources side by side cost what they cost alone."""
    one, other = loop(6), loop(4, gap=400.0)
    facts = facts_of("claude-opus-5")
    prefix, tokens = rendered([Piece("messages", "user", 5_000, b"alone")], "claude-opus-5", facts, None)
    alone = [Step(prefix=prefix, tokens=tokens, started=7.0, visible=8.0)]
    assert best([*one, *alone]).cost == pytest.approx(best(one).cost + best(alone).cost)
    assert best([*one, *other]).cost <= best(one).cost + best(other).cost


def test_a_pause_is_bridged_by_a_longer_lifetime_behind_the_last_entry() -> None:
    """An entry that lives cannot be extended by marking it again: one new block is written for an hour."""
    steps = [*loop(4), loop(5)[-1]]
    late = [
        Step(prefix=s.prefix, tokens=s.tokens, started=s.started + (900.0 if i == 4 else 0.0), visible=s.visible + 900)
        if i == 4
        else s
        for i, s in enumerate(steps)
    ]
    got = best(late)
    assert got.usages[4].read
    assert [mark.ttl for mark in got.marks[3]].count("1h") >= 1
    assert best(late, ttls=("5m",)).cost > got.cost
    assert {mark.ttl for marks in best(late, ttls=("5m",)).marks for mark in marks} == {"5m"}


def test_the_order_given_is_the_order_returned() -> None:
    """Steps may come by session; what they are billed comes back in their places."""
    steps = loop(6)
    shuffled = [steps[i] for i in (3, 0, 5, 1, 4, 2)]
    got = best(shuffled)
    assert [usage.input for usage in got.usages] == [step.total for step in shuffled]
    assert got.cost == pytest.approx(best(steps).cost)


def test_nothing_to_do_is_no_error() -> None:
    """No steps, and prompts too short to cache."""
    assert best([]).cost == 0.0
    prefix, tokens = rendered([Piece("messages", "user", 50, b"hi")], "claude-sonnet-5", facts_of(), None)
    got = best([Step(prefix=prefix, tokens=tokens, started=0.0, visible=1.0)])
    assert (got.cost, got.bound, got.exact, got.marks) == (50.0, 50.0, True, ((),))
