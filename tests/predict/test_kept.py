"""What is kept of calls and results takes the memory that it needs, whatever it was written with leaves behind."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from agentaccel import ToolCall
from agentaccel.predict.events import Asked
from agentaccel.predict.identity import arguments_key, plain_bytes
from agentaccel.tools.transcript import SpeculationState
from tests.mutants import Mutant, running, survives

MANY = 900


def bytes_each(made: Callable[[int], object]) -> float:
    """Bytes that stay in use for each of many things."""
    made(MANY)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = [made(number) for number in range(MANY)]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) / len(kept)


def test_the_key_of_a_call_takes_no_more_than_its_arguments() -> None:
    assert bytes_each(lambda number: arguments_key({"key": f"k{number}"}, {})) < 100


def test_a_result_that_is_kept_takes_no_more_than_its_text() -> None:
    assert bytes_each(lambda number: plain_bytes({"key": f"k{number}"}, 1000)) < 100


@pytest.mark.slow
def test_a_call_that_is_remembered_as_made_takes_less_than_half_a_kilobyte_however_long_its_arguments() -> None:
    following, name = SpeculationState(reads=lambda call: True), "look"

    def ask(number: int) -> None:
        following.take([Asked((ToolCall(name=name, arguments={"key": number, "rest": [None] * 1000}),))])

    assert bytes_each(ask) < 500
    assert following.made(ToolCall(name=name, arguments={"key": 1, "rest": [None] * 1000}))


MUTANTS = (
    (
        "test_the_key_of_a_call_takes_no_more_than_its_arguments",
        Mutant(
            guard="keys that hold what was written around them",
            at="agentaccel.predict.identity:arguments_key",
            old="return to_keep(wire_bytes(",
            new="return (wire_bytes(",
        ),
    ),
    (
        "test_a_result_that_is_kept_takes_no_more_than_its_text",
        Mutant(
            guard="results that hold what was written around them",
            at="agentaccel.predict.identity:plain_bytes",
            old="return to_keep(written) if",
            new="return written if",
        ),
    ),
    (
        "test_a_call_that_is_remembered_as_made",
        Mutant(
            guard="calls that are remembered in full",
            at="agentaccel.tools.transcript:_identity",
            old="digest(identity_bytes(call.arguments))",
            new="identity_bytes(call.arguments)",
        ),
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize(("test", "mutant"), MUTANTS, ids=lambda one: one.guard if isinstance(one, Mutant) else "")
def test_the_case_that_names_a_guard_tells_when_it_is_gone(test: str, mutant: Mutant, tmp_path: Path) -> None:
    assert survives(mutant, tmp_path, running("tests/predict/test_kept.py", only=test)) is None
