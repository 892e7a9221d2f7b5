"""How close agentaccel comes to the oracle where history only grows, with nothing learned and nothing asked for.

What no planner can know is which request is the last: the tail that it writes there is never read. Everything else can
be had, and is: apart from that premium, the cost of a conversation is the oracle's.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel.replay.compare import cost_of_steps
from agentaccel.replay.hindsight import best
from agentaccel.replay.placements import PLACEMENTS
from agentaccel.replay.runs import Step
from agentaccel.replay.simulate import accelerate, simulate
from agentaccel.types import Usage
from benchmarks.situations import Situation, runs
from benchmarks.situations.amounts import Amount, Even
from benchmarks.situations.form import Prompts, Times, Turns, Volatile

BAR = 1.05
MODELS = (
    "claude-fable-5-2",
    "claude-sonnet-5-5",
    "claude-haiku-5-5",
    "claude-opus-5",
    "claude-sonnet-5",
    "claude-sonnet-4-5",
    "claude-opus-4-7",
    "claude-haiku-3-5",
    "claude-haiku-4-5",
)
"""All three prices of reading, and every shortest length that is cached."""


@st.composite
def situations(
    draw: st.DrawFn, *, turns: st.SearchStrategy[int], sessions: int, even: bool, thinking: bool = True
) -> Situation:
    """Agents whose history only grows, each turn by less than the first prompt, and whose pauses are short."""
    tools = draw(st.sampled_from([0, 0, 500, 3_000, 20_000]))
    system = draw(st.sampled_from([0, 300, 1_000, 4_000, 15_000]))
    first = draw(st.sampled_from([50, 500, 3_000, 30_000]))
    growth = (tools + system + first) * draw(st.sampled_from([0.01, 0.1, 0.5, 0.85]))
    calls = draw(st.sampled_from([0, 1, 1, 3, 12, 25]))

    def sized(share: float) -> Amount:
        size = growth * share / max(calls, 1)
        return size if even else Even(low=0.0, high=size)

    return Situation(
        name=draw(st.text("abc", min_size=1, max_size=3)),
        model=draw(st.sampled_from(MODELS)),
        platform=draw(st.sampled_from(["api", "bedrock"])),
        sessions=sessions,
        turns=draw(turns),
        seed=draw(st.integers(0, 10**6)),
        bytes_per_token=draw(st.sampled_from([2.8, 3.6, 4.5])),
        prompts=Prompts(
            tools=tools, tool_count=draw(st.sampled_from([1, 8])), system=system, first=first, shared=False
        ),
        turn=Turns(
            text=growth * 0.02,
            thinking=growth * 0.1 if thinking and draw(st.booleans()) else 0,
            calls=calls,
            call=sized(0.1),
            result=sized(0.6),
            user=growth * 0.7,
            paired=draw(st.booleans()),
        ),
        times=Times(between=290, reply=5, tool=Even(low=1.0, high=80.0), user=Even(low=1.0, high=80.0)),
    )


def last_premium(step: Step, usage: Usage) -> float:
    """What it cost to write, and not only to read in, at a conversation's last request."""
    price = {ttl.label: ttl.write - 1.0 for ttl in step.prefix.facts.ttls}
    return sum(price[label] * tokens for label, tokens in (usage.write or {}).items())


def grows_by_less_than_it_began_with(steps: tuple[Step, ...]) -> bool:
    return all(b.total - a.total <= steps[0].total for a, b in itertools.pairwise(steps))


@pytest.mark.slow
@given(situations(turns=st.integers(4, 20), sessions=1, even=False))
def test_nothing_is_lost_but_the_last_tail(situation: Situation) -> None:
    """Any sizes, blocks, models, thinking, lengths around the minimum: at most the premium of the last request."""
    (only,) = runs(situation)
    if not grows_by_less_than_it_began_with(only.steps):
        return
    (usages,) = accelerate([only]).usages
    least = best(only.steps)
    assert least.exact
    assert cost_of_steps(only.steps, usages) - last_premium(only.steps[-1], usages[-1]) <= least.cost * 1.001


@pytest.mark.slow
@given(situations(turns=st.integers(4, 20), sessions=1, even=True))
def test_four_even_turns_cost_at_most_a_twentieth_more(situation: Situation) -> None:
    """Claude API and Bedrock rules; where the first prompt can be cached and turns are alike.

    Where every turn adds as much as the first prompt has and reads cost 0.025, no rule that is not told of the end is
    within a twentieth. In prompts' worths: of four turns, the oracle writes three tails and pays the last one plainly,
    3 * 1.25 + 1 + 0.025 * (1 + 2 + 3) = 4.90. Who writes the fourth tail pays 5.15, which is 1.051 times that. Who does
    not, pays for a fifth turn 3 * 1.25 + 1 + 2 + 0.025 * (1 + 2 + 3 + 3) = 6.975 at least, and the oracle 6.25: 1.116.
    """
    (only,) = runs(situation)
    if not grows_by_less_than_it_began_with(only.steps) or only.steps[0].total < situation.facts().min_tokens:
        return
    (usages,) = accelerate([only]).usages
    assert cost_of_steps(only.steps, usages) <= 5.15 / 4.90 * best(only.steps).cost


def after(situation: Situation, learned_from: int) -> float:
    """The cost over the oracle's of the sessions that come after so many."""
    all_ = runs(situation)
    usages = accelerate(all_).usages
    later = list(zip(all_, usages, strict=True))[learned_from:]
    ours = sum(cost_of_steps(run.steps, used) for run, used in later)
    return ours / sum(best(run.steps).cost for run, _ in later)


@pytest.mark.slow
@given(situations(turns=st.integers(1, 3), sessions=9, even=True, thinking=False))
def test_short_conversations_after_five_like_them(situation: Situation) -> None:
    """The bar as it was set."""
    assert after(situation, 5) <= BAR


def test_a_previous_tail_before_dropped_thinking_is_seen_to_be_held() -> None:
    """Such a marker reads what the last request wrote; a new tail that is not worth its price needs no marker."""
    situation = Situation(
        name="dropped thinking",
        model="claude-haiku-4-5",
        sessions=18,
        turns=3,
        prompts=Prompts(tools=20_000, tool_count=1, system=0, first=30_000, shared=False),
        turn=Turns(text=2_000, thinking=4_000, calls=0, user=36_000),
        times=Times(between=250, reply=5, user=10),
    )
    assert after(situation, 14) <= 1.001


def test_one_compaction_does_not_stop_the_tail_from_being_written() -> None:
    """A history that begins again after twelve requests goes on growing from there."""
    situation = Situation(
        name="compacted once", sessions=1, turns=20, turn=Turns(result=2_000), volatile=Volatile(compact_every=12)
    )
    all_ = runs(situation)
    usual = simulate(all_, PLACEMENTS["tools+system+tail 5m"]).usages[0]
    assert cost_of_steps(all_[0].steps, accelerate(all_).usages[0]) <= cost_of_steps(all_[0].steps, usual)
