"""The demo keeps what it promises, and what else is said of it is true of one and the same run."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agentaccel.cli import main
from agentaccel.demo import run
from agentaccel.errors import TraceError
from agentaccel.report.advise.choose import advise
from agentaccel.report.advise.reading import talks_of_store
from agentaccel.store.store import open_reader
from benchmarks.advice import WITHIN
from tests.docs.pages import generator
from tests.driver import Driver, body, user
from tests.predict.agent import cases
from tests.store.test_library import learn

Demo = tuple[Mapping[str, Any], Path]
"""What `agentaccel demo --json` says, and the store that it leaves."""

CONSENTS = {"clock in system": ["move_volatile"], "shuffled tools": ["freeze_tools"]}
"""The forms in which a consent is used."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    folder = tmp_path_factory.mktemp("demo")
    with contextlib.chdir(folder):
        done = CliRunner().invoke(main, ["demo", "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout), folder / "agentaccel-demo.db"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The demo where nobody consents to anything, in the forms where it would matter, and one beside them."""
    folder = tmp_path_factory.mktemp("plain")
    with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "FORMS", [one for one in run.FORMS if one.name in ("plain loop", *CONSENTS)])
        done = CliRunner().invoke(main, ["demo", "--json", "--without-consent"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout), folder / "agentaccel-demo.db"


def test_nothing_but_what_a_demo_has_left_is_replaced(tmp_path: Path) -> None:
    """Neither a file of another kind, nor a store with sessions of its user's, or with what was learned of them."""
    (tmp_path / "mine.py").write_text("print(7)\n")
    learn(tmp_path / "learned.db", cases(3))
    driver = Driver(tmp_path)
    driver.ask(body(user("hello")))
    driver.accel.close()
    for name in ("mine.py", "trace.db", "learned.db"):
        before = (tmp_path / name).read_bytes()
        done = CliRunner().invoke(main, ["demo", "--store", str(tmp_path / name)], catch_exceptions=False)
        assert done.exit_code == 2
        assert "is not what a demo has left: choose another path with --store" in done.stderr
        assert (tmp_path / name).read_bytes() == before


def test_a_key_of_somebody_elses_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no store, what lies beside its path is none of a demo's."""
    (tmp_path / "server.key").write_text("secret")
    monkeypatch.setattr(run, "FORMS", [])
    with pytest.raises(TraceError, match="is not a key of agentaccel"):
        run.run_demo(tmp_path / "server")
    assert (tmp_path / "server.key").read_text() == "secret"


@pytest.mark.soak
def test_the_demo_holds_its_promise_in_all_five_forms(demo: Demo) -> None:
    """Must show 1: never dearer than automatic caching, nor than none by over the first two write premiums."""
    figures, _ = demo
    assert figures["ok"]
    assert len(figures["forms"]) == 5
    assert figures["turns"] >= 10
    for form in figures["forms"]:
        cost = {name: column["cost"] for name, column in form["columns"].items()}
        assert cost["agentaccel"] <= cost["automatic"] * (1 + 1e-9), form["form"]
        allowed = cost["no caching"] + form["columns"]["agentaccel"]["first_two_premium"]
        assert cost["agentaccel"] <= allowed + 1e-12, form["form"]


@pytest.mark.soak
def test_the_demo_saves_where_automatic_caching_fails(demo: Demo) -> None:
    """The usefulness floor: doing nothing, or what automatic caching does, would fail."""
    forms = {form["form"]: form["columns"] for form in demo[0]["forms"]}
    for name in ("plain loop", "30 pairs a turn", "7-minute pause"):
        assert forms[name]["agentaccel"]["cost"] < 0.5 * forms[name]["no caching"]["cost"]
    assert forms["7-minute pause"]["agentaccel"]["cost"] < 0.85 * forms["7-minute pause"]["automatic"]["cost"]
    for name in ("clock in system", "shuffled tools"):  # with consent, about as cheap as a plain loop
        assert forms[name]["agentaccel"]["cost"] < 1.15 * forms["plain loop"]["agentaccel"]["cost"]
    assert forms["30 pairs a turn"]["agentaccel"]["cost"] < 0.5 * forms["30 pairs a turn"]["automatic"]["cost"]


@pytest.mark.soak
def test_the_demo_says_which_consent_it_used_and_where(demo: Demo, plain: Demo) -> None:
    """Where it is not needed none is used; without consent nothing is moved, and what markers alone save is saved."""
    used = {form["form"]: form["consents"] for form in demo[0]["forms"] if form["consents"]}
    assert used == CONSENTS
    forms = {form["form"]: form for form in plain[0]["forms"]}
    assert not any(form["consents"] for form in forms.values())
    clock = {name: column["cost"] for name, column in forms["clock in system"]["columns"].items()}
    assert clock["agentaccel"] < 0.8 * clock["no caching"]


@pytest.mark.slow
def test_a_plain_loop_costs_less_than_half_and_no_more_than_automatic_caching(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The promise and the floor in one form; the others are soak, and `make demo` runs them all."""
    monkeypatch.setattr(run, "FORMS", [one for one in run.FORMS if one.name == "plain loop"])
    done = CliRunner().invoke(main, ["demo", "--json", "--store", str(tmp_path / "s.db")], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    (form,) = json.loads(done.stdout)["forms"]
    cost = {name: column["cost"] for name, column in form["columns"].items()}
    assert cost["agentaccel"] <= cost["automatic"] * (1 + 1e-9)
    assert cost["agentaccel"] < 0.5 * cost["no caching"]


@pytest.mark.soak
def test_the_table_names_the_consents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For people, as it stands in the policy."""
    monkeypatch.setattr(run, "FORMS", [one for one in run.FORMS if one.name in CONSENTS])
    printed = CliRunner().invoke(main, ["demo", "--store", str(tmp_path / "s.db")], catch_exceptions=False).stdout
    assert "move_volatile=True for clock in system" in printed
    assert "freeze_tools=True for shuffled tools" in printed


@pytest.mark.soak
def test_the_report_on_the_demo_equals_the_emulators_counters(demo: Demo) -> None:
    """Must show 3: to the token, per form and in total."""
    figures, store = demo
    columns = {form["form"]: form["columns"]["agentaccel"] for form in figures["forms"]}
    report = json.loads(CliRunner().invoke(main, ["report", str(store), "--format", "json"]).stdout)
    total = report["total"]["tokens"]
    for ours, theirs in (("input", "input"), ("read", "read"), ("written", "write")):
        sessions = [one for column in columns.values() for one in (column, *column["earlier"])]
        assert total[ours] == sum(one[theirs] for one in sessions), ours
    by_session = {group["name"]: group["tokens"] for group in report["groups"]}
    for form, column in columns.items():
        assert by_session[f"demo: {form}"]["input"] == column["input"]
        assert by_session[f"demo: {form}"]["read"] == column["read"]


@pytest.mark.soak
def test_the_figures_of_the_readme_are_those_of_the_demo(demo: Demo) -> None:
    """`python docs/generate_figures.py` writes them; the emulator and the script make them equal in every run."""
    figures = generator("generate_figures")
    shown = figures.PLACE.search(figures.README.read_text(encoding="utf-8"))
    assert shown is not None
    assert shown[0].strip() == figures.rows(demo[0]).strip()


@pytest.mark.soak
def test_the_demo_is_told_of_its_clock_and_of_its_tool_order(plain: Demo) -> None:
    """With markers alone, nothing is marked behind them: what they cost shows only where the mended is planned anew."""
    figures, store = plain
    cost = {f"support desk, {form['form']}": form["columns"]["agentaccel"]["cost"] for form in figures["forms"]}
    with open_reader(store) as reader:
        said = [one for one in advise(talks_of_store(reader)) if one.unit == "USD"]
    assert {(one.kind, one.workload) for one in said} == {
        ("volatile text early", "support desk, clock in system"),
        ("tool order", "support desk, shuffled tools"),
    }
    for one in said:
        saved = cost[one.workload] - cost["support desk, plain loop"]
        assert one.saving == pytest.approx(saved, rel=WITHIN)
