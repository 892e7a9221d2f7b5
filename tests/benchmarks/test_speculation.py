"""`python -m benchmarks speculation`: both models on made-up runs, and the baseline on recorded ones."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentaccel.predict.events import Said
from benchmarks.__main__ import main
from benchmarks.speculation.baseline.joint import Joint
from benchmarks.speculation.guesses import Model
from benchmarks.speculation.judge import Judge
from benchmarks.speculation.ours import Ours
from benchmarks.speculation.outcome import Outcome, outcome
from benchmarks.speculation.protocols import one_per_task
from benchmarks.speculation.read import Run, read_sources, run_of
from benchmarks.speculation.statements import broken
from tests.benchmarks.recorded_desk import Clairvoyant, Silent, desk, written

RUNS = [run_of(desk(number, trial)) for number in range(8) for trial in range(2)]
MODELS: tuple[Callable[[], Model], ...] = (Joint, Ours)


@functools.cache
def judged(ours: Callable[[], Model]) -> Outcome:
    judge = Judge(ours=ours)
    return outcome("desk", judge.judged(one_per_task(RUNS), "folds"))


def told_the_future(model: Model, run: Run) -> bool:
    """Whether what a model expects depends on what has not yet happened."""
    found = model.before(run)
    for i, turn in enumerate(run.turns):
        beginning = replace(
            run, id=f"{run.id}/{i}", events=(*run.events[: turn.at], run.events[turn.at], Said("other"))
        )
        if model.before(beginning)[i] != found[i]:
            return True
        swapped = replace(run, id=f"{run.id}/{i}/x", events=(*run.events[: turn.at], RUNS[-1].events[1]))
        if model.before(swapped)[i] != found[i]:
            return True
    return False


@pytest.mark.parametrize("make", MODELS)
def test_no_model_is_told_the_future(make: Callable[[], Model]) -> None:
    """What stands before a turn is all that it may go by."""
    model = make()
    model.learn(RUNS[4:])
    assert not told_the_future(model, RUNS[0])


def test_a_model_that_is_told_the_future_is_found_out() -> None:
    """The twin."""
    assert told_the_future(Clairvoyant(), RUNS[0])


@pytest.mark.slow
@pytest.mark.parametrize("make", MODELS)
def test_judging_teaches_nothing(make: Callable[[], Model]) -> None:
    """Whatever was judged before, the same is expected; learning it changes that."""
    model = make()
    model.learn(RUNS[6:])
    first = model.before(RUNS[0])
    for run in RUNS[:6]:
        model.before(run)
    assert model.before(RUNS[0]) == first
    model.learn([RUNS[1]])
    assert model.before(RUNS[0]) != first


@pytest.mark.parametrize("make", MODELS)
def test_both_models_learn_the_desk(make: Callable[[], Model]) -> None:
    """Who the customer is stands in what they said, and their orders in a list: that is for any model to find."""
    model = make()
    model.learn(RUNS[4:])
    expected = model.before(RUNS[0])
    foreseen = [
        turn.keys[0] in [guess.key for guess in before.guesses[:3]]
        for turn, before in zip(RUNS[0].turns, expected, strict=True)
        if turn.keys
    ]
    assert foreseen == [True, True, True, False]


@pytest.mark.slow
def test_the_statements_fail_for_a_model_that_does_nothing() -> None:
    """And for none that knows everything."""
    assert any(sentence.startswith("exact top-1: surely worse") for sentence in broken([judged(Silent)]))
    assert list(broken([judged(Clairvoyant)])) == []


@pytest.mark.slow
def test_sums_are_those_of_the_runs() -> None:
    """Eight tasks of four calls each; a clairvoyant wastes nothing."""
    found = judged(Clairvoyant)
    assert (found.tasks, found.runs, found.measures["exact top-1"].of) == (8, 8, 32)
    assert found.measures["exact top-1"].ours == found.ours.served == found.ours.launches == 32
    assert found.ours.waste == 0.0


@pytest.mark.slow
def test_online_expects_nothing_of_the_first_run() -> None:
    """Nothing has been learned; of the last one the calls that can be told are."""
    runs = one_per_task(RUNS)
    found = Judge().judged(runs, "online")
    assert [one.run.id for one in found] == [run.id for run in runs]
    assert all(not before.guesses for before in found[0].theirs)
    last = found[-1]
    for befores in (last.ours, last.theirs):
        assert all(last.run.turns[i].keys[0] in {guess.key for guess in befores[i].guesses[:3]} for i in (0, 1, 2))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("protocol", "tasks"),
    [("split", range(5, 11)), *(pytest.param(one, range(16), marks=pytest.mark.soak) for one in ("split", "folds"))],
)
def test_the_command_tells_both_variants(tmp_path: Path, protocol: str, tasks: Sequence[int]) -> None:
    """All runs, and one per task, with numerators and denominators, as JSON."""
    path = written(tmp_path, "desk", [desk(number, trial) for number in tasks for trial in range(2)])
    result = CliRunner().invoke(main, ["speculation", "--traces", str(path), "--protocol", protocol, "--json"])
    told = json.loads(result.stdout)
    assert result.exit_code == bool(told["broken"])
    whole, single = (
        {row[1]: row for row in table["rows"]} for table in told["tables"] if table["title"].startswith("Guesses")
    )
    assert whole["exact top-1"][2] == 2 * single["exact top-1"][2]
    assert whole["exact top-3"][3] / whole["exact top-3"][2] > 0.5
    assert told["inputs"]["protocol"] == protocol


@pytest.mark.soak
def test_several_dealings_are_averaged(tmp_path: Path) -> None:
    """The first is told as ever, and beside it the means of all."""
    path = written(tmp_path, "desk", [desk(number) for number in range(12)])
    result = CliRunner().invoke(main, ["speculation", "--traces", str(path), "--dealings", "2", "--json"])
    told = json.loads(result.stdout)
    [means] = [table for table in told["tables"] if table["title"].startswith("Means over 2 dealings")]
    rows = {row[1]: row for row in means["rows"]}
    assert set(rows) == {"exact top-1", "exact top-3", "served"}
    assert rows["exact top-1"][2] == 48  # of each dealing, not of both together


def test_bad_input_is_a_usage_error(tmp_path: Path) -> None:
    """In words, with exit code 2."""
    path = written(tmp_path, "desk", [desk(0)])
    for arguments, words in (
        (["--traces", str(tmp_path / "nowhere")], "no such file or folder"),
        (["--traces", str(path), "--protocol", "split"], "desk: split leaves nothing to judge of 1 tasks"),
        (["--traces", str(path), "--only", "shop"], "has no source shop; it has desk"),
        (["--traces", str(path), "--protocol", "guess"], "Invalid value for '--protocol'"),
        ([], "Missing option '--traces'"),
    ):
        result = CliRunner().invoke(main, ["speculation", *arguments], env={"AGENTACCEL_TRACES": None})
        assert result.exit_code == 2
        assert words in " ".join(result.output.replace("│", " ").split())


PUBLISHED = {
    "taubench_airline_gpt4o": ((32.7, 39.6, 50.3), (54.5, 65.3, 35.5), (37.9, 45.6, 44.5)),
    "tau2_airline": ((43.8, 49.4, 30.3), (73.9, 91.3, 15.6), (59.6, 73.4, 25.7)),
    "agentdojo_dev": ((32.6, 38.4, 48.4), (58.9, 61.6, 16.7), (20.8, 27.4, 45.7)),
    "entire_cli_claude": ((1.8, 3.3, 1.4), (), ()),
    "moatless_swebench": ((0.7, 2.0, 2.0), (), ()),
    "webdancer": ((0.0, 0.0, 0.0), (), ()),
}
"""Exact top-1 and top-3 and read-only calls in the top-3; what hit, hit within five turns and was covered of one launch
a turn at p >= 0.3; the same of three at p >= 0.1; none where nothing was launched: the README of the development
traces, 4.2, of 2026-11-20."""


@pytest.mark.traces
@pytest.mark.timeout(600)
def test_the_baseline_is_as_good_as_the_published_one() -> None:
    """At most two points below on its own split, in every figure."""
    for source in read_sources(Path(os.environ["AGENTACCEL_TRACES"])):
        exact, *launched = PUBLISHED[source.name]
        found = outcome(source.name, Judge(ours=Silent).judged(source.runs, "split"))
        names = ("exact top-1", "exact top-3", "read-only in top-3")
        shares = [100 * one.theirs / one.of for name in names for one in [found.measures[name]]]
        points = {one.name: one for one in found.points}
        for name, published in zip(("p >= 0.3, 1 a turn", "p >= 0.1, 3 a turn"), launched, strict=True):
            point = points[name]
            assert bool(point.launches) == bool(published), (source.name, name)
            if published:
                shares += [100 * point.hits / point.launches, 100 * point.within / point.launches]
                shares.append(100 * point.hits / found.theirs.reads)
        for share, least in zip(shares, (*exact, *launched[0], *launched[1]), strict=True):
            assert share >= least - 2, (source.name, shares)
