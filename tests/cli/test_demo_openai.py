"""The demo with the OpenAI SDK: a model that caches, and charges for writing, by itself."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agentaccel.cli import main
from tests.docs.pages import generator

pytestmark = pytest.mark.soak  # that SDK takes 40 ms of CPU a call, and the demo makes 180

Demo = tuple[Mapping[str, Any], Path]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    folder = tmp_path_factory.mktemp("demo")
    with contextlib.chdir(folder):
        done = CliRunner().invoke(main, ["demo", "--json", "--provider", "openai"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout), folder / "agentaccel-demo.db"


def test_no_form_is_dearer_than_bare_by_over_the_first_two_write_premiums(demo: Demo) -> None:
    """Promised: bare is the SDK as it comes, which caches automatically; nor dearer than no caching by over those."""
    figures, _ = demo
    assert figures["ok"]
    assert figures["sdk"] == "openai"
    assert len(figures["forms"]) == 5
    for form in figures["forms"]:
        cost = {name: column["cost"] for name, column in form["columns"].items()}
        premium = form["columns"]["agentaccel"]["first_two_premium"]
        for other in ("automatic", "no caching"):
            assert cost["agentaccel"] <= cost[other] + premium + 1e-12, (form["form"], other)


def test_without_consent_writing_is_switched_off_where_the_prefix_does_not_come_back(tmp_path: Path) -> None:
    """What markers alone save: less than automatic caching costs, which pays for writes that nobody reads."""
    with contextlib.chdir(tmp_path):
        words = ["demo", "--json", "--provider", "openai", "--without-consent"]
        done = CliRunner().invoke(main, words, catch_exceptions=False)
    forms = {form["form"]: form["columns"] for form in json.loads(done.stdout)["forms"]}
    for name in ("clock in system", "shuffled tools"):
        assert forms[name]["agentaccel"]["cost"] < 0.85 * forms[name]["automatic"]["cost"]


def test_with_consent_a_clock_and_a_new_tool_order_cost_no_prefix(demo: Demo) -> None:
    """The usefulness floor: doing nothing would cost what automatic caching costs."""
    forms = {form["form"]: form["columns"] for form in demo[0]["forms"]}
    for name in ("clock in system", "shuffled tools"):
        assert forms[name]["agentaccel"]["cost"] < 1.15 * forms["plain loop"]["agentaccel"]["cost"]
    for name in ("plain loop", "30 pairs a turn", "7-minute pause"):
        assert forms[name]["agentaccel"]["cost"] < 0.5 * forms[name]["no caching"]["cost"]


def test_the_report_on_the_demo_equals_the_emulators_counters(demo: Demo) -> None:
    """To the token, per form and in total."""
    figures, store = demo
    columns = {form["form"]: form["columns"]["agentaccel"] for form in figures["forms"]}
    report = json.loads(CliRunner().invoke(main, ["report", str(store), "--format", "json"]).stdout)
    total = report["total"]["tokens"]
    for ours, theirs in (("input", "input"), ("read", "read"), ("written", "write"), ("uncached", "uncached")):
        assert total[ours] == sum(one[theirs] for column in columns.values() for one in (column, *column["earlier"])), (
            ours
        )
    by_session = {group["name"]: group["tokens"] for group in report["groups"]}
    for form, column in columns.items():
        assert by_session[f"demo: {form}"]["input"] == column["input"]
        assert by_session[f"demo: {form}"]["read"] == column["read"]


def test_the_figures_of_the_readme_are_those_of_the_demo(demo: Demo) -> None:
    """`python docs/generate_figures.py` writes them."""
    figures = generator("generate_figures")
    shown = figures.OPENAI.search(figures.README.read_text(encoding="utf-8"))
    assert shown is not None
    assert shown[0].strip() == figures.rows(demo[0]).strip()
