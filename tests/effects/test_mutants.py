"""The corpora bite: without any single guard they fail."""

from __future__ import annotations

from tests.effects import (
    guards_of_arguments,
    guards_of_found,
    guards_of_orders,
    guards_of_places,
    guards_of_programs,
    guards_of_requests,
    guards_of_sql,
    guards_of_texts,
    guards_of_words,
)
from tests.mutants import biting, running

GUARDS = (
    *guards_of_words.GUARDS,
    *guards_of_places.GUARDS,
    *guards_of_programs.GUARDS,
    *guards_of_requests.GUARDS,
    *guards_of_sql.GUARDS,
    *guards_of_texts.GUARDS,
    *guards_of_found.GUARDS,
    *guards_of_arguments.GUARDS,
    *guards_of_orders.GUARDS,
)

FAST = [
    f"tests/effects/test_{name}.py"
    for name in ("corpora", "found", "verdicts", "clients", "places", "repository", "sql_size", "blocks", "sandbox")
]
"""The quickest first: the first failure ends a run."""
COMMAND = [*running(*FAST), "-m", "not traces"]

test_the_corpora_fail_without_the_guard, test_with_every_guard_they_pass = biting(GUARDS, COMMAND)
