"""The guards of the predictor, of what it learns for good, and against lookalikes and unruly tools bite: without any
single one, the test that names it fails."""

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
    # --- what came of early runs, and lasts
    (
        "test_lasting.py::test_two_processes_learn_as_one_that_saw_everything",
        Mutant(
            guard="writing over what others have written",
            at="agentaccel.store.experience:_add",
            old="there = _of(connection.execute(_SELECT).fetchone()) or Experience()",
            new="there = Experience()",
        ),
    ),
    (
        "test_lasting.py::test_what_was_learned_before_the_store_was_read_is_not_lost",
        Mutant(
            guard="forgetting what was not written yet",
            at="agentaccel.store.experience:TrackRecord._go_on_from",
            old="            for lesson in self._news:\n                lesson(there)\n",
            new="",
        ),
    ),
    (
        "test_lasting.py::test_a_locked_store_gets_it_later",
        Mutant(
            guard="forgetting what could not be written",
            at="agentaccel.store.experience:TrackRecord.save",
            old="self._news = deque((*news, *self._news), maxlen=MOST_LESSONS)",
            new="pass",
        ),
    ),
    (
        "test_lasting.py::test_it_holds_names_of_tools_and_numbers_and_nothing_of_a_pattern",
        Mutant(
            guard="patterns in clear",
            at="agentaccel.store.experience:TrackRecord.named",
            old='return digest(rule.encode("utf-8", "surrogatepass"), self._recorder.key).hex()',
            new="return rule",
        ),
    ),
    (
        "test_lasting.py::test_what_a_parent_had_not_written_its_child_does_not_write",
        Mutant(
            guard="a child that writes what its parent has learned",
            at="agentaccel.store.experience:TrackRecord._after_fork",
            old="            self._forks = forks()\n            self._news.clear()",
            new="            self._forks = forks()",
        ),
    ),
    (
        "test_lasting.py::test_a_newer_version_is_left_alone",
        Mutant(
            guard="writing over what a newer version has written",
            at="agentaccel.store.experience:_add",
            old="        if isinstance(there, str):\n            return there\n",
            new="        if isinstance(there, str):\n            there = Experience()\n",
        ),
    ),
    # --- lookalikes and unruly tools
    (
        "test_sub_agents.py::test_a_write_in_a_session_that_an_early_run_opens_waits_for_the_call",
        Mutant(
            guard="an early run that opens a session",
            at="agentaccel.engine.scope:Scope.entering",
            old="return replace(self, stays=(*[one for one in self.stays if not one.over], stay))",
            new="return Scope(stays=(*[one for one in self.stays if not one.over], stay))",
        ),
    ),
    (
        "test_lookalikes.py::test_two_functions_of_one_name_answer_for_themselves",
        Mutant(
            guard="the result of another function of that name",
            at="agentaccel.tools.call:Call._look",
            old=" or not serving.tools.stands(self._known, self._here.id):",
            new=":",
        ),
    ),
    (
        "test_lookalikes.py::test_a_call_belongs_to_the_session_that_it_is_made_through",
        Mutant(
            guard="the result of the session that is open inside",
            at="agentaccel.engine.scope:Session.tool",
            old="entered = enter(Stay(self))  # another",
            new="entered = enter(Stay(over=True))  # another",
        ),
    ),
    (
        "test_lookalikes.py::test_an_answer_of_one_tenant_never_reaches_another_by_the_id_of_a_session",
        Mutant(
            guard="the session of another tenant",
            at="agentaccel.engine.conversation:own_id",
            old="    if tenant is None:",
            new="    if True:",
        ),
    ),
    (
        "test_lookalikes.py::test_removed_means_that_nothing_is_remembered",
        Mutant(
            guard="memory where we were removed",
            at="agentaccel.accel:Accel.__init__",
            old="OnlyRuns() if off else self._toolbox",
            new="self._toolbox",
        ),
    ),
    (
        "test_lookalikes.py::test_a_call_that_the_tool_would_refuse_is_not_answered",
        Mutant(
            guard="names for what is given by position",
            at="agentaccel.tools.catalog:Tools.key",
            old="None if tool.nameless else ",
            new="",
        ),
    ),
    (
        "test_lookalikes.py::test_whatever_is_given_and_returned_goes_through_untouched",
        Mutant(
            guard="arguments that have no form as text",
            at="agentaccel.engine.lineage:identity_of",
            old="    except Exception:  # noqa: BLE001 - they hold",
            new="    except ImportError:  # noqa: BLE001 - they hold",
        ),
    ),
    (
        "test_unruly.py::test_what_a_tool_returns_when_its_time_is_up_is_not_served",
        Mutant(
            guard="what a tool returns when its time is up",
            at="agentaccel.tools.running:Runner._run_async",
            old="if entry.handle.guard.expired() or (",
            new="if (",
        ),
    ),
    (
        "test_unruly.py::test_what_a_tool_returns_when_its_session_is_left_is_not_served",
        Mutant(
            guard="what a tool returns when it is cancelled",
            at="agentaccel.tools.running:Runner._run_async",
            old="task is not None and task.cancelling()",
            new="False",
        ),
    ),
    (
        "test_unruly.py::test_a_write_shows_by_the_arguments_it_was_given_whatever_it_does_to_them",
        Mutant(
            guard="the arguments as they were given",
            at="agentaccel.tools.serving:Writes.begins",
            old="            call = given\n",
            new="",
        ),
    ),
    (
        "test_unruly.py::test_a_guess_from_before_a_tool_that_nobody_wrapped_is_not_served_in_its_message",
        Mutant(
            guard="runs that do not go by here, in their message",
            at="agentaccel.tools.speculator:Speculator._asked",
            old="            self._unseen(step.following)\n",
            new="            pass\n",
        ),
    ),
    (
        "test_unruly.py::test_a_result_that_is_remembered_from_before_it_is_not_served_either",
        Mutant(
            guard="runs that do not go by here, until the next request",
            at="agentaccel.tools.call:Call._look",
            old="self._here.following.unseen or ",
            new="",
        ),
    ),
    (
        "test_unruly.py::test_what_a_call_that_goes_past_us_asks_for_may_write",
        Mutant(
            guard="what a bypassed request asks for",
            at="agentaccel.tools.speculator:Speculator.begins",
            old="            self._unseen(following)  # nobody",
            new="            pass  # nobody",
        ),
    ),
    (
        "test_unruly.py::test_a_tool_that_hands_out_a_generator_writes_until_that_is_done_with",
        Mutant(
            guard="a generator that is not done with",
            at="agentaccel.tools.toolbox:Toolbox._sync",
            old="watch.goes_on = result",
            new="pass",
        ),
    ),
    (
        "test_unruly.py::test_nothing_is_fetched_by_the_tools_of_another_session",
        Mutant(
            guard="the tools of another session",
            at="agentaccel.tools.warming:ToolPrewarmer._fetch",
            old="self.judging.tools.had_by(owner)",
            new="self.judging.tools.all()",
        ),
    ),
    (
        "test_exactly.py::test_a_default_of_the_function_inside_is_not_one_of_the_decorator_around_it",
        Mutant(
            guard="defaults of a function that is wrapped",
            at="agentaccel.tools.catalog:made",
            old="_signature(function), _signature(function, own=True)",
            new="_signature(function), _signature(function)",
        ),
    ),
    (
        "test_exactly.py::test_a_signature_that_a_function_only_shows_has_no_defaults",
        Mutant(
            guard="defaults that a function only shows",
            at="agentaccel.tools.catalog:_signature",
            old='if function is None or (own and getattr(function, "__signature__", None) is not None):',
            new="if function is None:",
        ),
    ),
    (
        "test_exactly.py::test_the_order_of_fields_in_a_value_tells_two_calls_apart",
        Mutant(
            guard="the order of fields in a value",
            at="agentaccel.predict.identity:arguments_key",
            old="wire_bytes(whole if ordered else dict(sorted(whole.items())))",
            new="orjson.dumps(whole, option=orjson.OPT_SORT_KEYS)",
        ),
    ),
    (
        "test_exactly.py::test_the_order_of_arguments_tells_two_calls_apart_where_a_function_takes_any",
        Mutant(
            guard="the order of arguments where any are taken",
            at="agentaccel.tools.catalog:made",
            old="ordered=own is None or any(one.kind is one.VAR_KEYWORD for one in its_own)",
            new="ordered=False",
        ),
    ),
    (
        "test_exactly.py::test_arguments_that_a_loop_goes_on_to_change_are_those_that_it_gave",
        Mutant(
            guard="arguments as they were when it was begun",
            at="agentaccel.tools.launching:Launcher.launch",
            old="own = copied(call)  # as",
            new="own = call  # as",
        ),
    ),
    (
        "test_aftermath.py::test_a_worker_that_an_unused_run_left_behind_writes_once_its_tool_was_really_called",
        Mutant(
            guard="what a tool goes on from that was called since",
            at="agentaccel.tools.early:EarlyRun.past",
            old="(self.state is EarlyRunState.SERVED or self.repeated())",
            new="self.state is EarlyRunState.SERVED",
        ),
    ),
    (
        "test_aftermath.py::test_before_that_it_writes_nothing_that_nobody_has_asked_for",
        Mutant(
            guard="what an unused run has left behind",
            at="agentaccel.tools.early:EarlyRun.past",
            old="(self.state is EarlyRunState.SERVED or self.repeated())",
            new="True",
        ),
    ),
    (
        "test_aftermath.py::test_what_another_program_writes_is_not_put_down_to_an_executor_of_ours",
        Mutant(
            guard="executors of ours, which write nothing",
            at="agentaccel.tools.running:Runner._finished",
            old="not tool.spec.own and ",
            new="",
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
