"""The guards against lookalikes and unruly tools bite: without any single one, the case that names it tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import Mutant, running, survives

CASES: dict[str, tuple[tuple[str, Mutant], ...]] = {
    "sub_agents": (
        (
            "test_a_write_in_a_session_that_an_early_run_opens_waits_for_the_call",
            Mutant(
                guard="an early run that opens a session",
                at="agentaccel.engine.scope:Scope.entering",
                old="return replace(self, stays=(*[one for one in self.stays if not one.over], stay))",
                new="return Scope(stays=(*[one for one in self.stays if not one.over], stay))",
            ),
        ),
    ),
    "lookalikes": (
        (
            "test_two_functions_of_one_name_answer_for_themselves",
            Mutant(
                guard="the result of another function of that name",
                at="agentaccel.tools.call:Call._look",
                old=" or not serving.tools.stands(self._known, self._here.id):",
                new=":",
            ),
        ),
        (
            "test_a_call_belongs_to_the_session_that_it_is_made_through",
            Mutant(
                guard="the result of the session that is open inside",
                at="agentaccel.engine.scope:Session.tool",
                old="entered = enter(Stay(self))  # another",
                new="entered = enter(Stay(over=True))  # another",
            ),
        ),
        (
            "test_an_answer_of_one_tenant_never_reaches_another_by_the_id_of_a_session",
            Mutant(
                guard="the session of another tenant",
                at="agentaccel.engine.conversation:own_id",
                old="    if tenant is None:",
                new="    if True:",
            ),
        ),
        (
            "test_removed_means_that_nothing_is_remembered",
            Mutant(
                guard="memory where we were removed",
                at="agentaccel.accel:Accel.session",
                old='OnlyRuns() if self.policy.mode == "off" else self._toolbox',
                new="self._toolbox",
            ),
        ),
        (
            "test_a_call_that_the_tool_would_refuse_is_not_answered",
            Mutant(
                guard="names for what is given by position",
                at="agentaccel.tools.catalog:Tools.key",
                old="None if tool.nameless else ",
                new="",
            ),
        ),
        (
            "test_whatever_is_given_and_returned_goes_through_untouched",
            Mutant(
                guard="arguments that have no form as text",
                at="agentaccel.engine.lineage:identity_of",
                old="    except Exception:  # noqa: BLE001 - they hold",
                new="    except ImportError:  # noqa: BLE001 - they hold",
            ),
        ),
    ),
    "unruly": (
        (
            "test_what_a_tool_returns_when_its_time_is_up_is_not_served",
            Mutant(
                guard="what a tool returns when its time is up",
                at="agentaccel.tools.running:Runner._run_async",
                old="if entry.handle.guard.expired() or (",
                new="if (",
            ),
        ),
        (
            "test_what_a_tool_returns_when_its_session_is_left_is_not_served",
            Mutant(
                guard="what a tool returns when it is cancelled",
                at="agentaccel.tools.running:Runner._run_async",
                old="task is not None and task.cancelling()",
                new="False",
            ),
        ),
        (
            "test_a_write_shows_by_the_arguments_it_was_given_whatever_it_does_to_them",
            Mutant(
                guard="the arguments as they were given",
                at="agentaccel.tools.serving:Writes.begins",
                old="            call = given\n",
                new="",
            ),
        ),
        (
            "test_a_guess_from_before_a_tool_that_nobody_wrapped_is_not_served_in_its_message",
            Mutant(
                guard="runs that do not go by here, in their message",
                at="agentaccel.tools.speculator:Speculator._asked",
                old="            self._unseen(step.following)\n",
                new="            pass\n",
            ),
        ),
        (
            "test_a_result_that_is_remembered_from_before_it_is_not_served_either",
            Mutant(
                guard="runs that do not go by here, until the next request",
                at="agentaccel.tools.call:Call._look",
                old="self._here.following.unseen or ",
                new="",
            ),
        ),
        (
            "test_what_a_call_that_goes_past_us_asks_for_may_write",
            Mutant(
                guard="what a bypassed request asks for",
                at="agentaccel.tools.speculator:Speculator.begins",
                old="            self._unseen(following)  # nobody",
                new="            pass  # nobody",
            ),
        ),
        (
            "test_a_tool_that_hands_out_a_generator_writes_until_that_is_done_with",
            Mutant(
                guard="a generator that is not done with",
                at="agentaccel.tools.toolbox:Toolbox._sync",
                old="watch.goes_on = result",
                new="pass",
            ),
        ),
        (
            "test_nothing_is_fetched_by_the_tools_of_another_session",
            Mutant(
                guard="the tools of another session",
                at="agentaccel.tools.warming:ToolPrewarmer._fetch",
                old="self.judging.tools.had_by(owner)",
                new="self.judging.tools.all()",
            ),
        ),
    ),
    "exactly": (
        (
            "test_a_default_of_the_function_inside_is_not_one_of_the_decorator_around_it",
            Mutant(
                guard="defaults of a function that is wrapped",
                at="agentaccel.tools.catalog:made",
                old="_signature(function), _signature(function, own=True)",
                new="_signature(function), _signature(function)",
            ),
        ),
        (
            "test_a_signature_that_a_function_only_shows_has_no_defaults",
            Mutant(
                guard="defaults that a function only shows",
                at="agentaccel.tools.catalog:_signature",
                old='if function is None or (own and getattr(function, "__signature__", None) is not None):',
                new="if function is None:",
            ),
        ),
        (
            "test_the_order_of_fields_in_a_value_tells_two_calls_apart",
            Mutant(
                guard="the order of fields in a value",
                at="agentaccel.predict.identity:arguments_key",
                old="wire_bytes(whole if ordered else dict(sorted(whole.items())))",
                new="orjson.dumps(whole, option=orjson.OPT_SORT_KEYS)",
            ),
        ),
        (
            "test_the_order_of_arguments_tells_two_calls_apart_where_a_function_takes_any",
            Mutant(
                guard="the order of arguments where any are taken",
                at="agentaccel.tools.catalog:made",
                old="ordered=own is None or any(one.kind is one.VAR_KEYWORD for one in its_own)",
                new="ordered=False",
            ),
        ),
        (
            "test_arguments_that_a_loop_goes_on_to_change_are_those_that_it_gave",
            Mutant(
                guard="arguments as they were when it was begun",
                at="agentaccel.tools.launching:Launcher.launch",
                old="own = copied(call)  # as",
                new="own = call  # as",
            ),
        ),
    ),
    "aftermath": (
        (
            "test_a_worker_that_an_unused_run_left_behind_writes_once_its_tool_was_really_called",
            Mutant(
                guard="what a tool goes on from that was called since",
                at="agentaccel.tools.early:EarlyRun.past",
                old="(self.state is EarlyRunState.SERVED or self.repeated())",
                new="self.state is EarlyRunState.SERVED",
            ),
        ),
        (
            "test_before_that_it_writes_nothing_that_nobody_has_asked_for",
            Mutant(
                guard="what an unused run has left behind",
                at="agentaccel.tools.early:EarlyRun.past",
                old="(self.state is EarlyRunState.SERVED or self.repeated())",
                new="True",
            ),
        ),
        (
            "test_what_another_program_writes_is_not_put_down_to_an_executor_of_ours",
            Mutant(
                guard="executors of ours, which write nothing",
                at="agentaccel.tools.running:Runner._finished",
                old="not tool.spec.own and ",
                new="",
            ),
        ),
    ),
}


@pytest.mark.soak
@pytest.mark.parametrize(
    ("test", "mutant"),
    [(f"tests/predict/test_{name}.py::{test}", mutant) for name, found in CASES.items() for test, mutant in found],
    ids=lambda one: one.guard if isinstance(one, Mutant) else "",
)
def test_the_case_that_names_a_guard_tells_when_it_is_gone(test: str, mutant: Mutant, tmp_path: Path) -> None:
    assert survives(mutant, tmp_path, running(test)) is None


@pytest.mark.soak
def test_with_every_guard_they_pass(tmp_path: Path) -> None:
    """Or the others would prove nothing."""
    assert survives(None, tmp_path, running(*(f"tests/predict/test_{name}.py" for name in CASES))) is not None
