"""`agentaccel check`: what holds is 0, what is broken is 1, what nobody can tell is 2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentaccel import Policy
from agentaccel.records import TurnRecord
from agentaccel.report import report, to_json
from agentaccel.report.gate import Demands, baseline_of, judge
from agentaccel.types import Cause, Miss, Usage
from tests.cli.test_commands import run
from tests.docs.pages import session_log
from tests.driver import Driver, loop, prose

PRICES = {"claude-sonnet-5": {"input": 3.0, "read": 0.3, "write": {"5m": 3.75}}}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A log of two replies: 10 plain and 9,000 written, then 10 plain, 9,000 read and 400 written.

    Hit rate 9,000 of 9,010 + 9,410 = 18,420, which is 48.86 %. Cost, in USD per million: 10 · 3 + 9,000 · 3.75 = 33,780
    and 10 · 3 + 9,000 · 0.3 + 400 · 3.75 = 4,230: 0.03801 USD, and 0.019005 for each request.
    """
    (tmp_path / "run.jsonl").write_text(session_log())
    (tmp_path / "prices.json").write_text(json.dumps(PRICES))
    return tmp_path


@pytest.mark.parametrize(
    ("demand", "code", "says"),
    [
        (("--min-hit-rate", "0.48"), 0, "holds   hit rate: 48.8599 %, at least 48 %, over 2 requests"),
        (("--min-hit-rate", "0.49"), 1, "broken  hit rate: 48.8599 %, at least 49 %, over 2 requests"),
        (("--max-cost", "0.03801"), 0, "holds   cost: 0.03801 USD of input, at most 0.03801, over 2 requests"),
        (("--max-cost", "0.03"), 1, "broken  cost: 0.03801 USD of input, at most 0.03, over 2 requests"),
        (("--max-cost-per-request", "0.02"), 0, "cost per request: 0.019005 USD of input, at most 0.02"),
        (("--max-cost-per-request", "0.019"), 1, "cost per request: 0.019005 USD of input, at most 0.019"),
        (("--min-hit-rate", "0.4", "--agent", "nobody"), 2, "n/a     hit rate of nobody: there is no request"),
        (("--min-hit-rate", "0.4", "--until", "2020-01-01"), 2, "n/a     hit rate: n/a"),
        (("--min-hit-rate", "0.4", "--since", "2026-11-21", "--until", "2026-11-21"), 0, "over 2 requests"),
    ],
)
def test_the_exit_code_says_whether_a_demand_holds(demand: tuple[str, ...], code: int, says: str, here: Path) -> None:
    """With the figure and the limit, in the report's own figures."""
    done = run("check", "run.jsonl", "--prices", "prices.json", *demand, cwd=here)
    assert done.exit_code == code, done.output
    assert says in done.stdout


def test_one_broken_demand_breaks_all_and_each_has_its_line(here: Path) -> None:
    """Broken goes before what cannot be told, and that before what holds."""
    rates = ("--min-hit-rate", "0.4")
    both = run("check", "run.jsonl", "--prices", "prices.json", *rates, "--max-cost", "0.01", cwd=here)
    assert both.exit_code == 1
    assert [line.split()[0] for line in both.stdout.splitlines()] == ["holds", "broken"]
    some = run(
        "check", "run.jsonl", "--prices", "prices.json", *rates, "--agent", "nobody", "--max-cost", "9", cwd=here
    )
    assert some.exit_code == 2
    shown = json.loads(run("check", "run.jsonl", *rates, "--format", "json", cwd=here).stdout)
    assert shown["outcome"] == "holds"
    assert shown["demands"][0]["value"] == pytest.approx(9_000 / 18_420)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("run.jsonl",), "nothing is demanded"),
        (("run.jsonl", "--min-hit-rate", "80"), "a share from 0 to 1"),
        (("run.jsonl", "--min-hit-rate", "nan"), "a share from 0 to 1"),
        (("run.jsonl", "--max-cost", "-1"), "USD, 0 or more"),
        (("nowhere", "--max-cost", "1"), "no such file or folder: nowhere"),
        (("prices.json", "--max-cost", "1"), "prices.json"),
        (("run.jsonl", "--no-new-cause", "nowhere.json"), "nowhere.json cannot be read"),
        (("run.jsonl", "--no-new-cause", "run.jsonl"), "is not JSON"),
        (("run.jsonl", "--no-new-cause", "prices.json"), "agentaccel report --format json > BASELINE.json"),
        (("--max-cost", "1"), "there is no trace store"),
    ],
)
def test_what_cannot_be_judged_is_exit_code_2_and_one_sentence(
    arguments: tuple[str, ...], says: str, here: Path
) -> None:
    """Neither a typing error nor a missing file passes a gate."""
    done = run("check", *arguments, cwd=here)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("agentaccel check: ")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def turn(agent: str | None = None, *causes: Cause, **fields: Any) -> TurnRecord:
    usage = fields.pop("usage", Usage(input=1000, read=800, write={}))
    misses = tuple(Miss(cause=cause, tokens=10) for cause in causes)
    return TurnRecord(
        session=agent or "s", provider="anthropic", model="claude-sonnet-5", started=1.0, agent=agent, misses=misses,
        usage=usage, **fields,
    )  # fmt: skip


BEFORE = [turn("a", Cause.FIRST, Cause.EXPIRED), turn("b", Cause.CHANGED), turn("c")]


@pytest.mark.parametrize("by", ["session", "agent", "model"])
@pytest.mark.parametrize(
    ("now", "outcome", "new"),
    [
        ([turn("a", Cause.EXPIRED)], "holds", ()),
        ([turn("c", Cause.FIRST)], "holds", ()),
        ([turn("a", Cause.CHANGED)], "broken", ("prompt changed",)),
        ([turn("c", Cause.EXPIRED)], "broken", ("expired",)),
        ([turn("d", Cause.EXPIRED)], "broken", ("expired",)),
        ([turn("a", usage=Usage())], "n/a", None),
        ([turn("a", usage=Usage()), turn("b")], "holds", ()),
        ([], "n/a", None),
    ],
)
def test_a_cause_is_new_where_that_agent_did_not_have_it(
    by: Any, now: list[TurnRecord], outcome: str, new: tuple[str, ...] | None
) -> None:
    """Whatever the baseline is grouped by; a first request is no fault, and silence no absence of faults."""
    baseline = baseline_of(json.loads(json.dumps(to_json(report(BEFORE, by)))))
    [judged] = judge(report(now, "agent"), Demands(baseline=baseline))
    assert (judged.outcome, judged.value) == (outcome, new)


def test_a_baseline_that_tells_no_agents_apart_stands_for_each_and_says_so() -> None:
    """One that an older version made, by session."""
    old = to_json(report(BEFORE))
    del old["causes_by_agent"]
    [judged] = judge(report([turn("a", Cause.CHANGED)], "agent"), Demands(baseline=baseline_of(old)))
    assert judged.outcome == "holds"
    assert "the baseline tells no agents apart" in judged.why


def test_what_is_known_of_some_requests_alone_is_judged_and_said() -> None:
    """Three of ten without telemetry: 7 · 800 of 7 · 1,000 tokens are 80 %; none of them at all is n/a."""
    told, silent = [turn("a")] * 7, [turn("a", usage=Usage(input=1000))] * 3
    some, dear = judge(report([*told, *silent], "agent"), Demands(hit_rate=0.8, cost=1.0))
    assert (some.outcome, some.value) == ("holds", pytest.approx(0.8))
    assert "over 7 requests; 3 more did not report what the cache did" in some.why
    assert "over 7 requests; 3 more have no price, or no cache counters" in dear.why
    for one in judge(report(silent, "agent"), Demands(hit_rate=0.0, cost=9.0, cost_per_request=9.0)):
        assert (one.outcome, one.value) == ("n/a", None)


def test_a_store_is_judged_by_the_figures_of_its_report(tmp_path: Path) -> None:
    """The same rate and the same money as `report` shows, with requests of our own and the control group in them."""
    driver = Driver(tmp_path, policy=Policy(strict=True, holdout=0.0))
    loop(driver, 6, system=prose(1200))
    total = json.loads(run("report", "trace.db", "--format", "json", cwd=tmp_path).stdout)["total"]
    shown = json.loads(
        run("check", "trace.db", "--min-hit-rate", "0.1", "--max-cost", "9", "--format", "json", cwd=tmp_path).stdout
    )
    assert [one["value"] for one in shown["demands"]] == [total["hit_rate"], total["costs"]["paid"]]


def test_the_baseline_is_what_report_printed(tmp_path: Path) -> None:
    """From the command to the file and back: the same store brings nothing new."""
    driver = Driver(tmp_path)
    loop(driver, 3, system=prose(1200))
    (tmp_path / "baseline.json").write_text(run("report", "trace.db", "--format", "json", cwd=tmp_path).stdout)
    same = run("check", "trace.db", "--no-new-cause", "baseline.json", cwd=tmp_path)
    assert (same.exit_code, same.stdout) == (0, "holds   new causes of misses: none\n")
