"""What a turn takes at stated rates, the published formula of speculation, and what splitting prompts off moves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentaccel.errors import ConfigError
from agentaccel.selfhost.gpus import gpu_of
from agentaccel.selfhost.model_shape import read_shape
from agentaccel.selfhost.sized import check_link, disaggregation_of, turn_sentences
from agentaccel.selfhost.sizing import ServerPlan
from agentaccel.selfhost.turn_budget import LEVIATHAN, SpeedUp, TurnPlan, budget_of, speed_up_of
from tests.selfhost.configs import JAMBA, LLAMA_70B


def server(config: dict[str, Any] = LLAMA_70B) -> ServerPlan:
    return ServerPlan(shape=read_shape(config), gpu=gpu_of("H100"), context=8192)


def test_a_reply_of_200_tokens_takes_400_ms_and_160_at_two_and_a_half_tokens_a_step() -> None:
    budget = budget_of(TurnPlan(output=200, decode_rate=500, speed_up=SpeedUp(tokens_per_step=2.5)))
    assert (budget.decode, budget.decode_speculated) == (pytest.approx(0.4), pytest.approx(0.16))
    assert budget.total is None  # nothing was said of the prompt


def test_a_turn_is_the_sum_of_its_parts() -> None:
    """By hand: 600 uncached tokens at 5,000 a second, 200 at 500, a tool of half a second, 40 ms of network."""
    turn = TurnPlan(
        prompt=6000, output=200, hit_rate=0.9, prefill_rate=5000, decode_rate=500, tools=0.5, network=0.04,
        speed_up=SpeedUp(tokens_per_step=2.5, step_cost=1.25),
    )  # fmt: skip
    budget = budget_of(turn)
    assert budget.uncached == 600
    assert (budget.prefill, budget.cold_prefill) == (pytest.approx(0.12), pytest.approx(1.2))
    assert budget.total == pytest.approx(0.12 + 0.4 + 0.54)
    assert budget.total_speculated == pytest.approx(0.12 + 0.2 + 0.54)


def test_the_last_token_of_a_prompt_is_always_computed() -> None:
    assert budget_of(TurnPlan(prompt=100, hit_rate=1.0, prefill_rate=100)).prefill == 0.01


@pytest.mark.parametrize(
    ("acceptance", "drafted", "cost", "factor"),
    [
        # (1 - 0.8^6) / (0.2 x 1.25) = 0.737856 / 0.25
        (0.8, 5, 0.05, 2.951424),
        (0.6, 3, 0.1, (1 - 0.6**4) / (0.4 * 1.3)),
        (1.0, 4, 0.0, 5.0),  # every draft is accepted: k + 1 tokens a step
        (0.0, 4, 0.1, 1 / 1.4),  # none is: only the cost is left
    ],
)
def test_the_expected_speed_up_is_that_of_the_published_formula(
    acceptance: float, drafted: int, cost: float, factor: float
) -> None:
    gain = speed_up_of(acceptance, drafted, cost)
    assert gain.factor == pytest.approx(factor)
    assert gain.source == LEVIATHAN


@settings(max_examples=40, deadline=None)
@given(st.floats(0, 0.999), st.integers(1, 16), st.floats(0, 1))
def test_both_forms_of_the_formula_are_one(acceptance: float, drafted: int, cost: float) -> None:
    """Tokens a step over the cost of a step; never more than the drafted tokens and one."""
    gain = speed_up_of(acceptance, drafted, cost)
    closed = (1 - acceptance ** (drafted + 1)) / ((1 - acceptance) * (drafted * cost + 1))
    assert gain.factor == pytest.approx(closed)
    assert SpeedUp(tokens_per_step=gain.tokens_per_step, step_cost=gain.step_cost).factor == gain.factor
    assert 1 <= gain.tokens_per_step <= drafted + 1


def test_speculation_below_its_break_even_is_said() -> None:
    turn = TurnPlan(output=200, decode_rate=500, speed_up=speed_up_of(0.1, 5, 0.2))
    assert "below its break-even" in turn_sentences(turn, None, None)[1]
    better = TurnPlan(output=200, decode_rate=500, speed_up=speed_up_of(0.9, 5, 0.2))
    (said,) = turn_sentences(better, None, None)
    assert "arXiv:2211.17192" in said


# --- prompts on one server, replies on another ------------------------------------------------------------------------


def told(link: float | None = None, **changes: Any) -> str:
    turn = TurnPlan(**{"prompt": 6000, "hit_rate": 0.9, "prefill_rate": 5000, **changes})
    parting = disaggregation_of(server(), turn, budget_of(turn))
    assert parting is not None
    (said,) = turn_sentences(turn, parting, link)
    return said


def test_what_disaggregation_would_move_is_set_against_what_it_would_save() -> None:
    """By hand: 600 and 6,000 tokens of 327,680 bytes, in the 120 ms that 600 tokens take."""
    assert told() == (
        "disaggregation: 600 of 6,000 prompt tokens are computed, 120 ms; 196.6 MB would move to a decode server that "
        "has the prefix, 1.97 GB to one that has not: on a link below 1.64 or 16.38 GB/s the move takes longer than "
        "the computing, and it hurts"
    )


@pytest.mark.parametrize(
    ("link", "said"),
    [
        (1.0, "197 ms or 1,966 ms at 1 GB/s, so it hurts"),
        (12.5, "16 ms or 157 ms at 12.5 GB/s, so it hurts where the prefix is not there"),
        (50.0, "4 ms or 39 ms at 50 GB/s, so it may pay"),
    ],
)
def test_a_link_says_whether_it_hurts(link: float, said: str) -> None:
    assert told(link).endswith(f": {said}")


def test_the_higher_the_hit_rate_the_faster_a_link_it_needs() -> None:
    """The twin: with nothing cached the slow link of before may pay."""
    assert told(12.5, hit_rate=0.99).endswith("hurts where the prefix is not there")
    assert told(12.5, hit_rate=0.0).endswith("so it may pay")
    assert "on a link below 1.64 GB/s the move" in told(hit_rate=0.0)


def test_a_state_moves_whatever_the_length() -> None:
    turn = TurnPlan(prompt=1000, hit_rate=0.9, prefill_rate=5000)
    parting = disaggregation_of(server(JAMBA), turn, budget_of(turn))
    assert parting is not None
    assert (parting.moved_warm, parting.moved_cold) == (100 * 16_384 + 8_716_288, 1000 * 16_384 + 8_716_288)


def test_nothing_is_said_of_it_where_no_rate_was_stated() -> None:
    turn = TurnPlan(prompt=1000, output=5, decode_rate=10)
    assert disaggregation_of(server(), turn, budget_of(turn)) is None
    assert budget_of(turn).prefill is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hit_rate": 1.1}, "--hit-rate is 1.1"),
        ({"hit_rate": float("nan")}, "--hit-rate is nan"),
        ({"tools": -1}, "--tools is -1"),
        ({"tools": True}, "--tools is True"),
        ({"network": "1"}, "--network is '1'"),
        ({"network": float("inf")}, "--network is inf"),
        ({"prefill_rate": 0.0, "prompt": 5}, "--prefill-rate is 0.0"),
        ({"prefill_rate": 100.0}, "--prefill-rate says nothing without --prompt"),
        ({"decode_rate": 100.0}, "--decode-rate says nothing without --output"),
        ({"prompt": 0}, "--prompt is 0"),
        ({"prompt": 10**12}, "--prompt is 1000000000000; give at most"),
        ({"decode_rate": 1e-320, "output": 5}, "--decode-rate is 1e-320"),
        ({"speed_up": SpeedUp(tokens_per_step=2)}, "says nothing without --decode-rate"),
    ],
)
def test_a_turn_that_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        TurnPlan(**changes)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((1.1, 5, 0.1), "--acceptance is 1.1"),
        ((-0.1, 5, 0.1), "--acceptance is -0.1"),
        ((0.5, 0, 0.1), "--draft-tokens is 0"),
        ((0.5, 1001, 0.1), "--draft-tokens is 1001; give at most 1,000"),
        ((0.5, 5, -1), "--draft-cost is -1"),
        ((0.5, 5, 1000.5), "--draft-cost is 1000.5"),
    ],
)
def test_a_speculation_that_cannot_be_is_refused(given: tuple[float, int, float], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        speed_up_of(*given)
    assert speed_up_of(0.5, 5, 0.1).factor > 1  # the twin


@pytest.mark.parametrize(("tokens", "cost"), [(0.9, 1.0), (float("nan"), 1.0), (2.0, 0.0), (2.0, float("inf"))])
def test_tokens_a_step_below_one_and_costs_of_nothing_are_refused(tokens: float, cost: float) -> None:
    with pytest.raises(ConfigError, match=r"--tokens-per-step|--step-cost"):
        SpeedUp(tokens_per_step=tokens, step_cost=cost)


@pytest.mark.parametrize("link", [0.0, -1.0, float("nan")])
def test_a_link_that_cannot_be_is_refused(link: float) -> None:
    with pytest.raises(ConfigError, match="--link is"):
        check_link(link)
    check_link(12.5)
    check_link(None)
