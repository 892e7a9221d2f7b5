"""`python -m benchmarks`: what it lists, prints and returns."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from agentaccel.replay.hindsight import best
from agentaccel.replay.placements import PLACEMENTS
from agentaccel.replay.simulate import simulate
from benchmarks import cache
from benchmarks.__main__ import main
from benchmarks.cache import outcome
from benchmarks.registry import Result, benchmark, claim_of
from benchmarks.situations import Situation, bundled, runs
from tests.benchmarks.recorded_desk import desk, written

SITUATION = "[[situation]]\nname = 'mine'\nsessions = 2\nturns = 4\n"


def test_every_benchmark_is_listed_with_its_claim() -> None:
    """Found by looking: a module is one line here, and helpers are none."""
    result = CliRunner().invoke(main, ["--list"])
    assert result.exit_code == 0
    names = [line.split()[0] for line in result.output.splitlines()]
    assert {"cache", "oracle", "situations"} <= set(names)
    assert not {"registry", "measure", "workloads"} & set(names)
    assert all(line.endswith(".") for line in result.output.splitlines())


def test_a_benchmark_that_is_none_is_refused() -> None:
    """With click's own words."""
    result = CliRunner().invoke(main, ["registry"])
    assert result.exit_code == 2
    assert "No such command 'registry'" in result.output


def test_the_oracle_benchmark_counts_equal_cases() -> None:
    """Few of them here."""
    result = CliRunner().invoke(main, ["oracle", "--cases", "10", "--most", "4", "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    assert told["n"] == 10
    assert told["tables"][0]["rows"][0] == ["equal", 10]
    assert {"python", "agentaccel", "date"} <= set(told["stamp"])


def test_the_cache_benchmark_shows_every_policy(tmp_path: Path) -> None:
    """On somebody's own situations, as a table and as JSON."""
    path = tmp_path / "mine.toml"
    path.write_text(SITUATION)
    runner, command = CliRunner(env={"AGENTACCEL_TRACES": ""}), ["cache", "--situations", str(path)]
    result = runner.invoke(main, command)
    assert result.exit_code == 0, result.output
    assert all(name in result.output for name in ("mine", "automatic", "agentaccel", "oracle", "n/a", "python 3."))
    told = json.loads(runner.invoke(main, [*command, "--json"]).output)
    assert told["broken"] == []


def test_a_policy_below_the_bound_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: with an oracle that thinks too little of what can be had, the benchmark exits with 1."""
    path = tmp_path / "mine.toml"
    path.write_text(SITUATION)
    monkeypatch.setattr(cache, "best", lambda steps, ttls: replace(best(steps), bound=best(steps).cost * 1.2))
    result = CliRunner().invoke(main, ["cache", "--situations", str(path)], env={"AGENTACCEL_TRACES": ""})
    assert result.exit_code == 1
    assert "DOES NOT HOLD: agentaccel costs" in result.output


@pytest.mark.slow
def test_a_recorded_source_is_set_beside_the_simple_policies_over_all_its_paces(tmp_path: Path) -> None:
    """Each pace by the one that is cheapest there; where agentaccel does worse at a single one, that is shown."""
    found = _recorded(tmp_path)
    title, columns, rows = (found.tables[-1][name] for name in ("title", "columns", "rows"))
    assert title == "Recorded traces: input cost of a source over its paces, in uncached tokens"
    [row] = rows
    told = dict(zip(columns, row, strict=True))
    assert told["paces"] == 3
    assert told["times"] == pytest.approx(told["agentaccel"] / told["simple"], rel=1e-3)
    assert 0 < told["agentaccel"] <= told["simple"]
    assert found.broken == []


@pytest.mark.slow
def test_a_source_that_simple_policies_do_better_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: where agentaccel marks as nobody should, the benchmark exits with 1."""
    monkeypatch.setattr(cache, "accelerate", lambda runs: simulate(runs, PLACEMENTS["tools+system+tail 1h"]))
    [sentence] = _recorded(tmp_path, code=1).broken
    assert sentence.startswith("agentaccel costs ")
    assert "in 'desk', and simple policies" in sentence


class _Found(NamedTuple):
    tables: list[dict[str, Any]]
    broken: list[str]


def _recorded(folder: Path, code: int = 0) -> _Found:
    """The benchmark on made-up runs without times, long enough to be cached, and on one tiny situation."""
    situations, traces = folder / "mine.toml", folder / "traces"
    situations.write_text(SITUATION)
    traces.mkdir()
    rules = {"role": "system", "content": "Be brief. " * 1000}
    desks = [desk(number) for number in range(6)]
    written(traces, "desk", [{**one, "messages": [rules, *one["messages"]]} for one in desks])
    command = ["cache", "--situations", str(situations), "--traces", str(traces), "--json"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == code, result.output
    told = json.loads(result.stdout)
    return _Found(told["tables"], told["broken"])


@pytest.mark.many(10)
@pytest.mark.parametrize("one", bundled(), ids=lambda one: one.name)
def test_no_policy_beats_the_oracle_in_any_bundled_situation(one: Situation) -> None:
    """Smaller ones of the same kinds; the benchmark itself takes them whole. And the bound says something of each."""
    found = outcome(one.name, "stated", runs(replace(one, sessions=min(one.sessions, 3), turns=min_turns(one))))
    assert list(found.beaten()) == []
    assert 0.94 * found.costs["best"] <= found.bound <= found.costs["best"] * (1 + 1e-9)


def min_turns(one: Situation) -> float:
    return 12 if one.turns != 1 else 1


def test_a_claim_is_the_first_sentence() -> None:
    """Of a docstring of any shape."""
    assert claim_of("One thing. And another.\n\nMore.") == "One thing."
    assert claim_of("Over two\nlines\n\nMore.") == "Over two lines."


def test_what_does_not_hold_ends_with_one() -> None:
    """And is said."""

    @benchmark()
    def run() -> Result:
        return Result(figure="None.", inputs={}, n=0, broken=("the claim",))

    result = CliRunner().invoke(run, [])
    assert result.exit_code == 1
    assert "DOES NOT HOLD: the claim" in result.output


@pytest.mark.slow
def test_the_fanout_benchmark_holds_what_it_says() -> None:
    """Few branches here; written once from tasks and from threads, whatever becomes of the first one."""
    result = CliRunner().invoke(main, ["fanout", "--agents", "5", "--tokens", "20000", "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    at_once, held = told["tables"][0]["rows"]
    assert (at_once[2], held[2]) == (5, 1)
    assert told["tables"][2]["rows"] == [["at once", 5], ["held", 1]]


@pytest.mark.slow
def test_a_fanout_that_writes_more_than_once_is_an_error() -> None:
    """The twin: with nobody held."""
    result = CliRunner().invoke(main, ["fanout", "--agents", "3", "--tokens", "50000", "--hold", "0"])
    assert result.exit_code == 1
    assert "DOES NOT HOLD: a prefix of 50,000 tokens is written 3 times" in result.output
