"""What the soak proves of guards, by deleting them, it can prove only where they stand."""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest

from tests.mutants import MADE, ROOT, Mutant


@pytest.fixture(scope="module")
def mutants() -> list[Mutant]:
    """All that the suite knows."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if "tests.mutants import Mutant" in path.read_text(encoding="utf-8") and path.name != "test_guards.py":
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    return list(MADE)


def test_every_guard_that_a_mutant_deletes_is_where_the_mutant_looks_for_it(mutants: list[Mutant]) -> None:
    """A guard that has moved is found at once, and not when the soak is next run."""
    assert len(mutants) >= 50
    for mutant in mutants:
        assert mutant.new != mutant.old
        mutant.found(ROOT / "agentaccel")


def test_a_guard_that_has_moved_is_found_out(mutants: list[Mutant]) -> None:
    """The twin."""
    with pytest.raises(AssertionError, match="has moved"):
        replace(mutants[0], old="what no file of ours says").found(ROOT / "agentaccel")
