"""A program that keeps no store: what its sessions teach is kept in memory, and bounded."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentaccel import Accel, Policy, StorePolicy, Usage
from agentaccel.cache.beliefs import Observation
from agentaccel.cache.waiting import OpenEnd
from agentaccel.store import learned as workloads
from agentaccel.store.learned import Workloads
from tests.driver import Driver, assistant, body, prose, user

DAY = 86_400.0


def talks(driver: Driver, turns: list[int], gap: float = DAY) -> list[Usage]:
    """Sessions of so many turns each, one after another, each with a prompt of its own."""
    usages = []
    for number, count in enumerate(turns):
        messages = [user(f"{number} {prose(900, number)}")]
        with driver.accel.session(f"s{number}", agent="clerk"):
            for turn in range(count):
                usages.append(driver.ask(body(*messages, system=prose(1_200))))
                messages = [*messages, assistant(prose(30, turn)), user(prose(200, number + turn))]
        driver.clock.advance(gap)
    return usages


def in_memory(folder: Path) -> Driver:
    driver = Driver(folder)
    driver.accel = Accel(Policy(strict=True, store=StorePolicy(enabled=False)), clock=driver.clock)
    return driver


@pytest.mark.slow
@pytest.mark.parametrize("gap", [60.0, 1_500.0, DAY])
@pytest.mark.parametrize("turns", [[1] * 6, [4, 4, 4, 4], [3, 1, 6, 2, 1, 1]])
def test_sessions_of_one_process_learn_as_they_do_with_a_store(tmp_path: Path, turns: list[int], gap: float) -> None:
    """To the token."""
    (tmp_path / "with").mkdir()
    assert talks(in_memory(tmp_path), turns, gap) == talks(Driver(tmp_path / "with"), turns, gap)


def test_questions_that_nobody_follows_are_soon_not_written(tmp_path: Path) -> None:
    """The floor: something is learned."""
    assert sum(one.written or 0 for one in talks(in_memory(tmp_path), [1] * 6)[3:]) == 0


def test_what_is_not_taken_is_not_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr(Workloads, "take", lambda self, write: None)
    assert all(one.written for one in talks(in_memory(tmp_path), [1] * 6))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=60))
def test_what_was_not_heard_of_for_longest_is_forgotten(heard: list[tuple[int, int]]) -> None:
    """However many workloads, sessions and beginnings there are."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_MOST_WORKLOADS", "_MOST_BEGINNINGS", "MOST_WAITING"):
            patch.setattr(workloads, name, 3)
        memory = Workloads()
        for at, (workload, session) in enumerate(heard):
            memory.learn(f"w{workload}", [Observation("goes_on/0", 0.0)])
            memory.answered(f"w{workload}", session, OpenEnd(0, 0, "", float(at)))
            memory.used([bytes([session])], float(at))
        latest = list(dict.fromkeys(f"w{workload}" for workload, _ in reversed(heard)))[:3]
        assert set(memory.learned) == set(latest)
        used = list(dict.fromkeys(session for _, session in reversed(heard)))
        assert [memory.last_used(bytes([one])) is not None for one in used] == [n < 3 for n in range(len(used))]
        assert all(memory.believed(name, 1e3, tools=True).counts["goes_on/0"][1] >= 1.0 for name in latest)
