"""The guards of learning that lasts bite: without one of them a named test fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import Mutant, running, survives

MUTANTS = {
    "test_two_processes_that_learn_at_once_lose_nothing": Mutant(
        guard="writing over what others have written",
        at="agentaccel.store.patterns:add_to_shelf",
        old="parts = shelved(before.parts, news,",
        new="parts = shelved({}, news,",
    ),
    "test_what_was_written_is_not_written_again": Mutant(
        guard="writing all of it again",
        at="agentaccel.store.patterns:Library._save",
        old="news = since(mine, self._mine)",
        new="news = mine",
    ),
    "test_what_a_parent_had_learned_its_child_does_not_write_again": Mutant(
        guard="a child that writes what its parent has learned",
        at="agentaccel.store.patterns:Library._begin_in_child",
        old="self._guarded(self._count_anew)",
        new="pass",
    ),
    "test_no_words_results_or_values_of_a_single_session_are_written": Mutant(
        guard="templates of a single session",
        at="agentaccel.predict.merge",
        old="TWO = 2",
        new="TWO = 1",
    ),
    "test_what_looks_like_somebodys_own_is_not_written_however_often_it_is_seen": Mutant(
        guard="values that look like somebody's own",
        at="agentaccel.predict.redaction:_source_may_be_kept",
        old="(not secret and value_may_be_kept(value))",
        new="not secret",
    ),
    "test_a_value_that_is_marked_sensitive_is_not_written": Mutant(
        guard="values that are marked sensitive",
        at="agentaccel.predict.redaction:is_secret",
        old="return sensitive is not None and sensitive(tool_of(symbol, frozenset()), argument)",
        new="return False",
    ),
    "test_patterns_that_cannot_be_read_stay_as_they_are": Mutant(
        guard="writing over what a newer version has written",
        at="agentaccel.store.patterns:add_to_shelf",
        old="            parts.pop(workload, None)",
        new="            pass",
    ),
    "test_a_store_that_was_locked_gets_everything_later": Mutant(
        guard="forgetting what could not be written",
        at="agentaccel.store.patterns:Library._save",
        old="            return  # what is new stays new",
        new="            self._mine = mine.parts\n            return",
    ),
}


@pytest.mark.soak
@pytest.mark.parametrize("test", MUTANTS)
def test_without_a_guard_its_test_fails(test: str, tmp_path: Path) -> None:
    """One at a time."""
    assert survives(MUTANTS[test], tmp_path, running("tests/store/test_library.py", only=test)) is None


@pytest.mark.soak
def test_with_every_guard_they_pass(tmp_path: Path) -> None:
    """Or the others would prove nothing."""
    assert survives(None, tmp_path, running("tests/store/test_library.py", only=" or ".join(MUTANTS))) is not None
