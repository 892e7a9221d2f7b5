"""The benchmark of advice, and the files it reads."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from benchmarks.advice import run
from benchmarks.workloads import Workload, billed, bundled, load, sessions, wall
from benchmarks.workloads.form import FOLDER


def only(name: str, folder: Path) -> Path:
    """A folder with one of the bundled files, of half as many sessions."""
    text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    assert "sessions = 4" in text
    (folder / f"{name}.toml").write_text(text.replace("sessions = 4", "sessions = 2"), encoding="utf-8")
    return folder


@pytest.mark.slow
def test_it_prints_prediction_truth_and_their_ratio(tmp_path: Path) -> None:
    done = CliRunner().invoke(run, ["--workloads", str(only("cache_off", tmp_path)), "--json"])
    assert done.exit_code == 0, done.output
    (table,) = json.loads(done.stdout)["tables"]
    row = dict(zip(table["columns"], table["rows"][0], strict=True))
    assert (row["fault"], row["rank"]) == ("cache off", 1)
    assert row["ratio"] == pytest.approx(row["predicted"] / row["true"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("cache_off", {"cache off": None}),
        pytest.param("volatile", {"volatile text early": 1}, marks=pytest.mark.soak),
    ],
)
def test_what_agentaccel_mends_is_not_asked_for(name: str, told: dict[str, int | None], tmp_path: Path) -> None:
    """With agentaccel on; the clock that it cannot mend is."""
    done = CliRunner().invoke(run, ["--workloads", str(only(name, tmp_path)), "--mode", "on", "--json"])
    assert done.exit_code == 0, done.output
    (table,) = json.loads(done.stdout)["tables"]
    ranks = {fault: rank for _, fault, rank, *_ in table["rows"]}
    assert ranks == told


@pytest.mark.slow
def test_a_fault_that_is_not_found_ends_with_one(tmp_path: Path) -> None:
    """A lifetime that is right, called wrong."""
    path = only("lifetime", tmp_path) / "lifetime.toml"
    path.write_text(path.read_text(encoding="utf-8").replace('ttl = "5m"', 'ttl = "1h"'), encoding="utf-8")
    done = CliRunner().invoke(run, ["--workloads", str(tmp_path)])
    assert done.exit_code == 1
    assert "DOES NOT HOLD" in done.stdout


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ('unit = "cost"', 'unit = "joules"', "unit"),
        ('unit = "cost"', 'unit = "cost"\nplaces = 3', "places"),
        ("[fault]", "[default]", "no more"),
        ('ttl = "5m"', "ttl = 5", "ttl"),
        ("mend =", "# mend =", "mend is missing"),
        ("sessions = 2", 'sessions = "two"', "sessions"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_by_name(old: str, new: str, named: str, tmp_path: Path) -> None:
    path = only("lifetime", tmp_path) / "lifetime.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(click.UsageError, match=named) as raised:
        load(path)
    assert "lifetime.toml" in str(raised.value)


@pytest.mark.soak
def test_every_fault_says_what_it_costs_and_how_it_is_mended() -> None:
    """The same seeds and texts: without the fault nothing is dearer, and nothing takes longer."""
    for workload in bundled():
        if workload.fault is None:
            continue
        assert workload.fault.mend
        faulty, mended = (sessions(workload, mended=mended) for mended in (False, True))
        assert len(faulty) == len(mended)
        if workload.fault.unit == "seconds":
            assert wall(mended) < wall(faulty)
            bodies = [[[one.exchange.body for one in session] for session in every] for every in (faulty, mended)]
            assert bodies[0] == bodies[1]
        else:
            assert billed(workload.situation, mended) < billed(workload.situation, faulty)


@pytest.mark.many(4)
@pytest.mark.parametrize("workload", bundled(), ids=lambda one: one.name)
def test_sessions_are_the_same_every_time(workload: Workload) -> None:
    for mended in (False, True):
        assert sessions(workload, mended=mended) == sessions(workload, mended=mended)
