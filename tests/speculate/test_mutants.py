"""The tests of the predictor bite: without any single guard they fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import Mutant, survives

GUARDS = (
    Mutant(
        guard="a call with a hole",
        file="speculate/bind.py",
        old="            if len(rest) < len(names):\n                continue\n",
        new="",
    ),
    Mutant(
        guard="an argument without an offer being left out",
        file="speculate/bind.py",
        old="            beam = joined\n",
        new="            beam = joined or beam\n",
    ),
    Mutant(
        guard="constants of one session in another",
        file="speculate/bind.py",
        old="            if source.place is None and stat.sessions < _SESSIONS:\n",
        new="            if False:\n",
    ),
    Mutant(
        guard="constants of one session in a dump",
        file="speculate/dumps.py",
        old="                if source.place is not None or stat.sessions >= _SHARED\n",
        new="",
    ),
    Mutant(
        guard="sensitive constants",
        file="speculate/tables.py",
        old="            if len(key) <= MOST_CONSTANT and not secret:\n",
        new="            if len(key) <= MOST_CONSTANT:\n",
    ),
    Mutant(
        guard="tools that are not there",
        file="speculate/predict.py",
        old="if not tools or one == REPLY or tool_of(one, tools) in tools}",
        new="if True}",
    ),
    Mutant(
        guard="suppositions that learn",
        file="speculate/predict.py",
        old="        if self._learns:\n            self._learn(calls)\n",
        new="        self._learn(calls)\n",
    ),
    Mutant(
        guard="calls after a write counting as soon",
        file="speculate/guesses.py",
        old="                    one.left = 0  # what is asked for from here on would see another world\n",
        new="                    pass\n",
    ),
    Mutant(
        guard="a tree without a bound",
        file="speculate/ctw.py",
        old="        if self.nodes > self._most:\n            self._make_room()\n        return below\n",
        new="        return below\n",
    ),
    Mutant(
        guard="stated probabilities that nobody checked",
        file="speculate/guesses.py",
        old='        highest = min(highest, knowledge.stated["next"].of(guess.next))\n',
        new="        highest = min(highest, 0.5 + 0.5 * guess.next)\n",
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize("mutant", GUARDS, ids=lambda mutant: mutant.guard)
def test_without_its_guard_a_test_fails(mutant: Mutant, tmp_path: Path) -> None:
    command = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests/speculate", "-c", "/dev/null"]
    passed = survives(mutant, tmp_path, command)
    assert passed is None, passed
