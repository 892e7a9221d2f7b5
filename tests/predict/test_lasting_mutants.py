"""The guards of what came of early runs bite: without one of them a named test fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import Mutant, running, survives

MUTANTS = {
    "test_two_processes_learn_as_one_that_saw_everything": Mutant(
        guard="writing over what others have written",
        at="agentaccel.store.experience:_add",
        old="there = _of(connection.execute(_SELECT).fetchone()) or Experience()",
        new="there = Experience()",
    ),
    "test_what_was_learned_before_the_store_was_read_is_not_lost": Mutant(
        guard="forgetting what was not written yet",
        at="agentaccel.store.experience:TrackRecord._go_on_from",
        old="            for lesson in self._news:\n                lesson(there)\n",
        new="",
    ),
    "test_a_locked_store_gets_it_later": Mutant(
        guard="forgetting what could not be written",
        at="agentaccel.store.experience:TrackRecord.save",
        old="self._news = deque((*news, *self._news), maxlen=MOST_LESSONS)",
        new="pass",
    ),
    "test_it_holds_names_of_tools_and_numbers_and_nothing_of_a_pattern": Mutant(
        guard="patterns in clear",
        at="agentaccel.store.experience:TrackRecord.named",
        old='return digest(rule.encode("utf-8", "surrogatepass"), self._recorder.key).hex()',
        new="return rule",
    ),
    "test_what_a_parent_had_not_written_its_child_does_not_write": Mutant(
        guard="a child that writes what its parent has learned",
        at="agentaccel.store.experience:TrackRecord._after_fork",
        old="            self._forks = forks()\n            self._news.clear()",
        new="            self._forks = forks()",
    ),
    "test_a_newer_version_is_left_alone": Mutant(
        guard="writing over what a newer version has written",
        at="agentaccel.store.experience:_add",
        old="        if isinstance(there, str):\n            return there\n",
        new="        if isinstance(there, str):\n            there = Experience()\n",
    ),
}


@pytest.mark.soak
@pytest.mark.parametrize("test", MUTANTS)
def test_without_a_guard_its_test_fails(test: str, tmp_path: Path) -> None:
    """One at a time."""
    assert survives(MUTANTS[test], tmp_path, running("tests/predict/test_lasting.py", only=test)) is None


@pytest.mark.soak
def test_with_every_guard_they_pass(tmp_path: Path) -> None:
    """Or the others would prove nothing."""
    assert survives(None, tmp_path, running("tests/predict/test_lasting.py", only=" or ".join(MUTANTS))) is not None
