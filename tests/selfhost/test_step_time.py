"""What a step takes: from a line through measured ones, and from a model and its GPU."""

from __future__ import annotations

import pytest

from agentaccel.selfhost.gpus import Gpu, gpu_of
from agentaccel.selfhost.model_shape import read_shape
from agentaccel.selfhost.sizing import ServerPlan
from agentaccel.selfhost.step_time import StepTime, assumed, between, estimated, fitted
from tests.selfhost.configs import LLAMA_70B, QWEN3_30B


def test_a_step_reads_once_and_computes_each_token() -> None:
    step = StepTime(fixed=10, per_request=1, per_token=0.5, sure="measured", source="")
    assert step.seconds(4) == 10 + 4 + 2
    assert step.cost(4, 3) == (10 + 4 + 6) / 16


def test_measured_steps_lie_on_their_line() -> None:
    step = fitted([(1, 11.0), (8, 18.0), (16, 26.0)])
    assert step is not None
    assert [step.seconds(load) for load in (1, 8, 16, 32)] == pytest.approx([11, 18, 26, 42])


@pytest.mark.parametrize("measured", [[], [(4, 1.0)], [(4, 1.0), (4, 2.0)], [(1, 5.0), (8, 4.0)], [(1, 1.0), (2, 9.0)]])
def test_steps_that_no_line_goes_through_tell_nothing(measured: list[tuple[int, float]]) -> None:
    """Too few, faster with more requests, or less than nothing without any."""
    assert fitted(measured) is None


def plan(config: dict[str, object]) -> ServerPlan:
    return ServerPlan(shape=read_shape(config), gpu=gpu_of("h100"), context=8192, gpus=4)


def test_a_dense_model_reads_its_weights_and_computes_two_operations_each() -> None:
    """By hand: 141.1 GB over 4 x 3.35 TB/s, 2 x 70.55e9 operations over 4 x 989e12, 2.68 GB of keys and values."""
    step = estimated(plan(LLAMA_70B))
    assert step is not None
    assert step.fixed == pytest.approx(141.1e9 / 13.4e12, rel=0.01)
    assert step.per_token == pytest.approx(2 * 70.55e9 / 3956e12, rel=0.01)
    assert step.per_request == pytest.approx(2.684e9 / 13.4e12, rel=0.01)
    assert step.experts == 0


def test_more_tokens_wake_more_experts() -> None:
    """So verifying a draft of one request costs nearly what its tokens cost; with many requests, all are awake."""
    step = estimated(plan(QWEN3_30B))
    assert step is not None
    assert 0 < step.active < 0.2
    assert step.per_token == pytest.approx(2 * 3.35e9 / 3956e12, rel=0.02)  # a tenth of its weights compute a token
    assert step.cost(1, 5) > 2
    assert step.cost(256, 5) < step.cost(1, 5)


def test_a_gpu_of_which_only_the_memory_is_known_tells_nothing() -> None:
    shape = read_shape(LLAMA_70B)
    assert estimated(ServerPlan(shape=shape, gpu=Gpu(name="a GPU", memory=10**12), context=8192)) is None


def test_without_anything_known_the_least_gpu_is_taken_and_a_cpu_computes_dearly() -> None:
    gpu, cpu, h100 = assumed("gpu", 8), assumed("cpu", 8), assumed("gpu", 8, gpu_of("h100"))
    assert [one.sure for one in (gpu, cpu, h100)] == ["assumed"] * 3
    assert cpu.cost(1, 5) > gpu.cost(1, 5) >= h100.cost(1, 5)
    assert h100.fixed == pytest.approx(989e12 / 3.35e12)


def test_between_what_is_known_lies_a_line_and_beyond_it_the_last() -> None:
    known = [(16, 3.0), (1, 1.0), (8, 2.0)]
    assert [between(known, load) for load in (0.5, 1, 4.5, 12, 16, 99)] == [1.0, 1.0, 1.5, 2.5, 3.0, 3.0]
