"""The guards of early results bite: without any single one, random histories or a named case tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants import Mutant, running, survives

HISTORIES = "tests/predict/test_histories.py"
PARTS = "tests/predict/test_early_parts.py"
SERVED, EAGER, MEMO = (f"tests/predict/test_{name}.py" for name in ("served", "eager", "memo"))

FUZZED = (
    Mutant(
        guard="a result from before a write",
        at="agentaccel.tools.early:EarlyRuns._fresh",
        old="return entry.version == self.world.version(entry.scope) and now",
        new="return now",
    ),
    Mutant(
        guard="a result from before a write that ran while its caller waited",
        at="agentaccel.tools.early:EarlyRuns.serve",
        old="""            if not (unchanged and self._fresh(entry, now)) or self.world.closed(entry.scope):
                self._end(entry, EarlyRunState.STALE)
                return False
""",
        new="",
    ),
    Mutant(
        guard="a result that is served twice",
        at="agentaccel.tools.early:EarlyRuns.serve",
        old="""            if entry.state is not EarlyRunState.FINISHED:
                return False
            if not""",
        new="""            if entry.state is EarlyRunState.FINISHED:
                self._waiting.setdefault(entry.key, deque()).append(entry)
            if not""",
    ),
    Mutant(
        guard="a stalled guess that is waited for to its end",
        at="agentaccel.tools.serving:Serving.join",
        old="await self._is_spoiled(entry, waiting, limit)",
        new="await self._is_spoiled(entry, waiting, None)",
    ),
)

NAMED: tuple[tuple[str, Mutant], ...] = (
    (
        f"{PARTS}::TestWorld::test_a_read_begun_while_a_write_runs_is_dead_once_that_ends",
        Mutant(
            guard="a read that overlaps the end of a write",
            at="agentaccel.tools.epochs:WriteEpochs",
            old="        self._wrote(self._open[call])\n        self._open.pop(call, None)\n\n    def suspect",
            new="        self._open.pop(call, None)\n\n    def suspect",
        ),
    ),
    (
        f"{SERVED}::test_a_write_kills_what_was_read_before_it",
        Mutant(
            guard="a write that is not noted as it begins and ends",
            at="agentaccel.tools.epochs:WriteEpochs._wrote",
            old="        self._any = number\n",
            new="",
        ),
    ),
    (
        f"{SERVED}::test_no_other_call_is_served",
        Mutant(
            guard="a result of other arguments",
            at="agentaccel.tools.catalog:Tools.key",
            old="return None if data is None else Key(tool.name, data, principal, self.epoch)",
            new='return Key(tool.name, b"", principal, self.epoch)',
        ),
    ),
    (
        f"{SERVED}::test_two_sessions_share_nothing",
        Mutant(
            guard="a result of another session",
            at="agentaccel.tools.catalog:Tools.key",
            old="return None if data is None else Key(tool.name, data, principal, self.epoch)",
            new='return None if data is None else Key(tool.name, data, Principal(None, ""), self.epoch)',
        ),
    ),
    (
        f"{SERVED}::test_what_a_witness_tells_of_a_change_is_not_served",
        Mutant(
            guard="a result of what has changed since",
            at="agentaccel.tools.early:EarlyRun.unchanged",
            old="return is_unchanged(self.validator, self.call.arguments, self.seen)",
            new="return True",
        ),
    ),
    (
        f"{PARTS}::test_a_validator_of_files_shows_a_change_whose_time_was_set_back",
        Mutant(
            guard="a result of a file that was written and given its old time",
            at="agentaccel.validators:state_of",
            old="seen.st_mtime_ns, seen.st_ctime_ns, seen",
            new="seen.st_mtime_ns, seen",
        ),
    ),
    (
        f"{SERVED}::test_what_fails_early_is_run_for_its_call",
        Mutant(
            guard="a result that is too large to keep",
            at="agentaccel.tools.running:Runner._finished",
            old="if size_of(result, self.policy.max_result_bytes) > self.policy.max_result_bytes:",
            new="if False:",
        ),
    ),
    (
        "tests/engine/test_sizes.py",
        Mutant(
            guard="a large text in an object",
            at="agentaccel.tools.running:size_of",
            old="if is_plain(result) else _within(result, most)",
            new="if is_plain(result) else 0",
        ),
    ),
    (
        f"{SERVED}::test_cancelling_a_caller_leaves_the_run_for_the_next_one",
        Mutant(
            guard="a caller that is cancelled and takes the run along",
            at="agentaccel.tools.serving:Serving",
            old="""                self._given_up(entry, began)
                raise
        return self._served(entry, began, joined=joined)

    def""",
            new="""                run.cancel()
                raise
        return self._served(entry, began, joined=joined)

    def""",
        ),
    ),
    (
        f"{SERVED}::test_tools_with_people_order_state_or_context_are_never_launched",
        Mutant(
            guard="a tool whose runs need a person, an order, state or context",
            at="agentaccel.effects.launch:permission",
            old="    if kept is not None:\n",
            new="    if False:\n",
        ),
    ),
    (
        f"{SERVED}::test_leaving_a_session_leaves_no_run",
        Mutant(
            guard="a run that outlives its session",
            at="agentaccel.concurrency:Background.spawn",
            old="        self._own(owner, _RunningWork(over, lambda: _call(loop, task.cancel, over), loop))\n",
            new="pass",
        ),
    ),
    (
        f"{SERVED}::test_a_nested_call_that_may_write_ends_the_run_that_nobody_asked_for",
        Mutant(
            guard="a write inside a run that nobody asked for",
            at="agentaccel.tools.call:Call._look",
            old="        if within.early is not None:\n            if not",
            new="        if within.early is not None:\n            if False and not",
        ),
    ),
    (
        f"{SERVED}::test_audit_hooks_see_each_early_run_once_and_flagged",
        Mutant(
            guard="an early run that is not told apart from a call",
            at="agentaccel.tools.running:_RunReport._record",
            old="            speculative=True,\n",
            new="",
        ),
    ),
    (
        f"{EAGER}::test_a_read_after_a_write_in_the_same_message_waits_for_it",
        Mutant(
            guard="a read before the write that its message puts first",
            at="agentaccel.predict.order:Order._next",
            old="        while self._begun < len(self._calls) and self._calls[self._begun].reads:",
            new="        while self._begun < len(self._calls):",
        ),
    ),
    (
        f"{EAGER}::test_a_dropped_stream_that_is_retried_runs_each_call_once",
        Mutant(
            guard="a call that runs once for each attempt to stream it",
            at="agentaccel.tools.launching:Eager._launch",
            old="            serving.buffer.waits(key) >= order.copies(placed)\n            or ",
            new="            ",
        ),
    ),
    (
        f"{EAGER}::test_a_slow_run_that_the_model_asked_for_is_the_calls_own_and_never_doubled",
        Mutant(
            guard="a second run of a call that the model asked for",
            at="agentaccel.tools.serving:Serving.join",
            old='if entry.tier == "asked":\n                    run.awaited()',
            new='if entry.tier == "none":\n                    run.awaited()',
        ),
    ),
    (
        f"{EAGER}::test_a_write_begins_the_fresh_run_of_a_read_that_waits_for_its_early_one",
        Mutant(
            guard="waiting for a result that will not be served",
            at="agentaccel.tools.serving:Writes.begins",
            old="            mark.number = self.world.begins(mark.scope)\n            self.spoil()\n",
            new="            mark.number = self.world.begins(mark.scope)\n",
        ),
    ),
    (
        f"{MEMO}::test_after_a_write_it_runs_again",
        Mutant(
            guard="an earlier result from before a write",
            at="agentaccel.tools.results:Read.holds",
            old="            and world.holds(self.version, self.scope)\n",
            new="",
        ),
    ),
    (
        f"{EAGER}::test_a_write_ends_the_wait_of_a_sync_caller_for_an_early_run",
        Mutant(
            guard="a sync caller that waits for what will not be served",
            at="agentaccel.tools.serving:Serving.join_here",
            old="concurrent.futures.wait([work, spoiled], limit,",
            new="concurrent.futures.wait([work], limit,",
        ),
    ),
    (
        f"{MEMO}::test_what_a_caller_does_to_its_result_is_not_seen_by_the_next",
        Mutant(
            guard="a result that two callers share",
            at="agentaccel.tools.results:ResultCache.find",
            old="Remembered(orjson.loads(kept.text),",
            new='Remembered(globals().setdefault("one", orjson.loads(kept.text)),',
        ),
    ),
    (
        f"{MEMO}::test_a_call_of_which_only_a_long_look_tells_what_it_does_closes_the_world_until_it_was_looked_at",
        Mutant(
            guard="a long look before a call is dispatched",
            at="agentaccel.tools.serving:Writes.begins",
            old="asyncio.get_running_loop().call_soon(self.settle)",
            new="self.settle()",
        ),
    ),
)


@pytest.mark.soak
@pytest.mark.parametrize("mutant", FUZZED, ids=lambda mutant: mutant.guard)
def test_random_histories_tell_when_a_guard_is_gone(mutant: Mutant, tmp_path: Path) -> None:
    assert survives(mutant, tmp_path, running(HISTORIES)) is None


@pytest.mark.soak
@pytest.mark.parametrize(("test", "mutant"), NAMED, ids=lambda one: one.guard if isinstance(one, Mutant) else "")
def test_the_case_that_names_a_guard_tells_when_it_is_gone(test: str, mutant: Mutant, tmp_path: Path) -> None:
    assert survives(mutant, tmp_path, running(test)) is None


@pytest.mark.soak
def test_with_every_guard_they_pass(tmp_path: Path) -> None:
    """Or the others would prove nothing."""
    assert survives(None, tmp_path, [*running(HISTORIES, *{test for test, _ in NAMED}), "-m", "not soak"]) is not None
