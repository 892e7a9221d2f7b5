"""The tests of the predictor bite: without any single guard they fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import ROOT, Mutant, running, survives

GUARDS = (
    (
        "test_repeats.py::test_what_one_session_did_many_times_tells_little_of_others",
        Mutant(
            guard="repeats in the trees of all sessions",
            at="agentaccel.predict.predictor:SessionHistory._opened",
            old="        if self._opening in self._knowledge.openings:\n",
            new="        if False:\n",
        ),
    ),
    (
        "test_repeats.py::test_a_constant_of_repeats_alone_is_offered_to_repeats_alone",
        Mutant(
            guard="constants of repeats in other sessions",
            at="agentaccel.predict.offers:Stat.learn",
            old="            self.openings += not repeats\n",
            new="            self.openings += 1\n",
        ),
    ),
    (
        "test_predict.py::test_a_record_does_not_make_up_for_an_argument_that_is_not_known",
        Mutant(
            guard="a call with a hole",
            at="agentaccel.predict.rank:_Binder._from_records",
            old="            if len(rest) < len(names):\n                continue\n",
            new="",
        ),
    ),
    (
        "test_predict.py::test_a_call_of_which_one_argument_is_not_known_is_not_predicted",
        Mutant(
            guard="an argument without an offer being left out",
            at="agentaccel.predict.rank:_Binder._joined",
            old="            beam = joined\n",
            new="            beam = joined or beam\n",
        ),
    ),
    (
        "test_predict.py::test_a_constant_of_one_session_is_not_offered_in_another",
        Mutant(
            guard="constants of one session in another",
            at="agentaccel.predict.rank:_Binder.offers",
            old="(stat.sessions if self.scene.repeats else stat.openings) < _SESSIONS:\n",
            new="False:\n",
        ),
    ),
    (
        "test_knowledge.py::test_what_one_session_said_is_not_in_a_dump",
        Mutant(
            guard="constants of one session in a dump",
            at="agentaccel.predict.patterns:_known",
            old="                if source.place is not None or stat.sessions >= shared\n",
            new="",
        ),
    ),
    (
        "test_knowledge.py::test_a_sensitive_constant_is_neither_kept_nor_offered",
        Mutant(
            guard="sensitive constants",
            at="agentaccel.predict.tables:SymbolTables._learn_argument",
            old="            if len(key) <= MOST_CONSTANT and not secret:\n",
            new="            if len(key) <= MOST_CONSTANT:\n",
        ),
    ),
    (
        "test_predict.py::test_a_tool_that_is_not_there_is_not_predicted",
        Mutant(
            guard="tools that are not there",
            at="agentaccel.predict.predictor:SessionHistory._symbols",
            old="if not tools or one == REPLY or tool_of(one, tools) in tools}",
            new="if True}",
        ),
    ),
    (
        "test_predict.py::test_a_supposition_goes_on_and_leaves_no_trace",
        Mutant(
            guard="suppositions that learn",
            at="agentaccel.predict.predictor:SessionHistory._replied",
            old="        if self._learns:\n            if self._opening:\n",
            new="        if True:\n            if self._opening:\n",
        ),
    ),
    (
        "test_predict.py::test_soon_is_told_from_calls_that_come_before_anything_is_written",
        Mutant(
            guard="calls after a write counting as soon",
            at="agentaccel.predict.predictor:Outcomes.learn",
            old="                    one.left = 0  # what is asked for from here on would see another world\n",
            new="                    pass\n",
        ),
    ),
    (
        "test_ctw.py::test_a_tree_stays_within_its_bound_and_still_knows_what_comes_often",
        Mutant(
            guard="a tree without a bound",
            at="agentaccel.predict.tree:Tree.update",
            old="        if self.nodes > self._most:\n            self._make_room()\n        return below\n",
            new="        return below\n",
        ),
    ),
    (
        "test_predict.py::test_stated_probabilities_come_true_as_often_as_they_say",
        Mutant(
            guard="stated probabilities that nobody checked",
            at="agentaccel.predict.predictor:predictions",
            old="        highest = min(highest, coming.of(guess.next))\n",
            new="        highest = min(highest, 0.5 + 0.5 * guess.next)\n",
        ),
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize(("test", "mutant"), GUARDS, ids=lambda one: one.guard if isinstance(one, Mutant) else "")
def test_without_its_guard_a_test_fails(test: str, mutant: Mutant, tmp_path: Path) -> None:
    file, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / "tests/predict" / file).read_text(encoding="utf-8")
    passed = survives(mutant, tmp_path, running(f"tests/predict/{test}"))
    assert passed is None, passed


@pytest.mark.soak
def test_with_every_guard_they_pass(tmp_path: Path) -> None:
    """Or the others would prove nothing."""
    assert survives(None, tmp_path, running(*{f"tests/predict/{test}" for test, _ in GUARDS})) is not None
