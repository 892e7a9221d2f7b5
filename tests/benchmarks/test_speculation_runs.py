"""Recorded runs as events, and what each protocol learns and judges."""

from __future__ import annotations

import doctest
import gzip
import importlib
import json
import pkgutil
from pathlib import Path

import pytest

from agentaccel.errors import TraceError
from agentaccel.predict.events import Answered, Asked, Returned, Said
from agentaccel.types import ToolCall
from benchmarks import speculation
from benchmarks.speculation.calls import key_of, only_reads
from benchmarks.speculation.protocols import by_folds, fold_of, in_training, one_per_task, split
from benchmarks.speculation.read import read_sources, run_of
from tests.benchmarks.recorded_desk import desk, line, run, written

MODULES = [one.name for one in pkgutil.walk_packages(speculation.__path__, "benchmarks.speculation.")]
RUNS = [run_of(desk(number, trial)) for number in range(30) for trial in range(2)]


def test_messages_become_events_in_their_order() -> None:
    """Parallel calls are one event, each result is one."""
    found = run("t", [("user", "hi"), ("calls", ("a", {"x": 1}, "one"), ("b", {}, "two")), ("text", "done")])
    said, asked, first, second, answered = found.events
    assert isinstance(said, Said)
    assert isinstance(asked, Asked)
    assert [call.name for call in asked.calls] == ["a", "b"]
    assert isinstance(first, Returned)
    assert isinstance(second, Returned)
    assert (first.call.name, first.result, second.result) == ("a", "one", "two")
    assert answered == Answered("done")
    assert [len(turn.keys) for turn in found.turns] == [2, 0]


def test_what_is_cut_or_orphaned_is_left_out() -> None:
    """A call without a result stays one; a result without a call is none; a client's marker was never seen."""
    entry = line("t", [("user", "hi"), ("calls", ("a", {}, "one"))])
    del entry["messages"][-1]
    entry["messages"] += [
        {"role": "tool", "tool_call_id": "nobody", "content": "lost"},
        {"role": "user", "content": "[compacted]", "compact_boundary": True},
    ]
    assert [type(event) for event in run_of(entry).events] == [Said, Asked]


def test_inferred_tools_are_not_offered() -> None:
    """They were listed after the fact: whoever is told them is told the future. Their labels stay."""
    entry = desk(0)
    entry["tools"][0]["origin"] = "inferred"
    found = run_of(entry)
    assert [tool["name"] for tool in found.tools] == ["get_order", "cancel_order"]
    assert found.labels["find_user"] is True


def test_arguments_without_effect_make_no_other_call() -> None:
    """By tool and argument; elsewhere an argument of that name counts."""
    plain, told = ({"command": "ls"}, {"command": "ls", "description": "List"})
    assert key_of(ToolCall(name="Bash", arguments=plain)) == key_of(ToolCall(name="Bash", arguments=told))
    assert key_of(ToolCall(name="run", arguments=plain)) != key_of(ToolCall(name="run", arguments=told))


@pytest.mark.parametrize(("command", "reads"), [("grep -rn TODO src", True), ("rm -r src", False), ("ls > out", False)])
def test_a_shell_is_told_by_its_command(command: str, reads: bool) -> None:
    """Whatever its label says."""
    assert only_reads(ToolCall(name="Bash", arguments={"command": command}), {"Bash": not reads}) is reads


def test_tools_without_a_label_may_write() -> None:
    """Silence is no permission."""
    assert not only_reads(ToolCall(name="get_all", arguments={}), {})
    assert only_reads(ToolCall(name="get_all", arguments={}), {"get_all": True})


def test_a_folder_is_read_by_its_files_of_runs(tmp_path: Path) -> None:
    """Compressed or not; logs in other formats beside them are no source."""
    written(tmp_path, "plain", [desk(0), desk(0), desk(1)])
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress(json.dumps(desk(2)).encode()))
    (tmp_path / "log.jsonl").write_text('{"type": "user", "sessionId": "s"}\nnot json\n')
    found = {source.name: len(source.runs) for source in read_sources(tmp_path)}
    assert found == {"packed": 1, "plain": 2}


def test_nothing_to_read_is_said(tmp_path: Path) -> None:
    """In words that name the place and the format."""
    with pytest.raises(TraceError, match="no such file or folder"):
        read_sources(tmp_path / "nowhere")
    with pytest.raises(TraceError, match="holds no runs: a run is a line of JSON with id, task_id"):
        read_sources(tmp_path)
    (tmp_path / "cut.jsonl.gz").write_bytes(gzip.compress(json.dumps(desk(2)).encode() * 50)[:-20])
    with pytest.raises(TraceError, match=r"cut\.jsonl\.gz"):
        read_sources(tmp_path)


def test_no_task_is_on_both_sides() -> None:
    """Its trials are near copies of one another."""
    for part in (*split(RUNS), *by_folds(RUNS)):
        assert {one.task for one in part.learned}.isdisjoint(one.task for one in part.judged)
        assert len(part.learned) + len(part.judged) == len(RUNS)


def test_folds_judge_every_run_once() -> None:
    """And `split` some three tenths of them, as the first bits of a hash say."""
    judged = [one.id for part in by_folds(RUNS) for one in part.judged]
    assert sorted(judged) == sorted(one.id for one in RUNS)
    [whole] = split(RUNS)
    assert {one.task for one in whole.learned} == {one.task for one in RUNS if in_training(one.task)}
    assert 0.1 < len(whole.judged) / len(RUNS) < 0.5


def test_a_task_keeps_its_fold() -> None:
    """Whatever else there is: figures of two versions are about the same folds."""
    assert [fold_of(f"task-{i}") for i in range(8)] == [fold_of(f"task-{i}") for i in range(8)]
    assert {fold_of(f"task-{i}") for i in range(40)} == set(range(5))


def test_another_dealing_puts_other_tasks_together() -> None:
    tasks = [f"task-{i}" for i in range(40)]
    first, second = ([fold_of(task, dealing=dealing) for task in tasks] for dealing in (0, 1))
    assert first == [fold_of(task) for task in tasks] != second
    assert set(second) == set(range(5))


def test_one_run_per_task_is_the_first() -> None:
    """In the order of the file."""
    assert [one.id for one in one_per_task(RUNS)] == [f"desk-{number}/0" for number in range(30)]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_hold(name: str) -> None:
    """As printed."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0
