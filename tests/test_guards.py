"""What the soak proves of guards, by deleting them, it can prove only where they stand."""

from __future__ import annotations

import ast
import importlib
from dataclasses import replace
from pathlib import Path

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
        text = mutant.without(ROOT)
        if mutant.file.suffix == ".py":
            ast.parse(text)  # a module that cannot be read fails every test, and proves nothing


def test_a_guard_that_has_moved_is_found_out(mutants: list[Mutant]) -> None:
    """The twin."""
    with pytest.raises(AssertionError, match="has moved"):
        replace(mutants[0], old="what no file of ours says").without(ROOT)


def test_a_guard_is_found_however_it_is_laid_out_and_in_its_own_function_alone(
    mutants: list[Mutant], tmp_path: Path
) -> None:
    """Chosen by us: a formatter breaks lines, and two functions may hold the same words."""
    text = "def one(a, b):\n    if a and b:\n        return 1\n\n\n"
    text += "def two(a, b):\n    if (\n        a and b\n    ):\n        return 2\n"
    (tmp_path / "made.py").write_text(text, encoding="utf-8")
    mutant = replace(mutants[0], guard="both", at="made:two", old="if (a and b): return 2", new="return 3")
    assert mutant.without(tmp_path) == text[: text.index("if (\n")] + "return 3\n"
    with pytest.raises(AssertionError, match="found 2 times"):
        replace(mutant, at="made", old="a and b").without(tmp_path)
