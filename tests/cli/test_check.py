"""`agentaccel check`: what holds is 0, what is broken is 1, what nobody can tell is 2."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentaccel import Policy, TraceError
from agentaccel.records import TurnRecord
from agentaccel.report import report, to_json
from agentaccel.report.gate import Demands, baseline_of, judge
from agentaccel.testing import assert_hit_rate
from agentaccel.types import Cause, Miss, Usage
from tests.cli.test_commands import run
from tests.docs.pages import session_log
from tests.driver import MODEL, Driver, loop, prose
from tests.store.span_lines import batch, chat, span

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
        ([turn("a", usage=Usage()), turn("b")], "n/a", ()),
        ([turn("a", usage=Usage()), turn("b", Cause.EXPIRED)], "broken", ("expired",)),
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
    """Three of ten without telemetry: 7 · 800 of 7 · 1,000 tokens are 80 %, and what the ten cost has no upper bound;
    none of them at all is n/a.
    """
    told, silent = [turn("a")] * 7, [turn("a", usage=Usage(input=1000))] * 3
    some, dear = judge(report([*told, *silent], "agent"), Demands(hit_rate=0.8, cost=1.0))
    assert (some.outcome, some.value) == ("holds", pytest.approx(0.8))
    assert "over 7 requests; 3 more did not report what the cache did" in some.why
    assert dear.outcome == "n/a"
    assert "over 7 requests; 3 more have no price, or no cache counters" in dear.why
    for one in judge(report(silent, "agent"), Demands(hit_rate=0.0, cost=9.0, cost_per_request=9.0)):
        assert (one.outcome, one.value) == ("n/a", None)


KNOWN = 7 * (200 * 3.0 + 800 * 0.3) / 1e6
"""USD of seven requests of 200 tokens plain and 800 read."""


@pytest.mark.parametrize(
    "other",
    [
        {"usage": Usage(input=1000, read=800, write={}), "answered_by": "nobody-knows", "model": "nobody-knows"},
        {"usage": Usage(input=1000)},
        {"usage": Usage()},
        {"terms": {"service_tier": "of-another-world"}},
    ],
    ids=["no price", "no cache counters", "no usage", "a term that nobody knows"],
)
@pytest.mark.parametrize(
    ("share", "before", "now"),
    [(1.01, "holds", "n/a"), (0.99, "broken", "broken")],
    ids=["the known part holds it", "the known part breaks it"],
)
def test_an_upper_bound_never_holds_over_a_cost_that_nobody_knows(
    other: dict[str, Any], share: float, before: str, now: str
) -> None:
    """Neither in all nor for each request: one of eight may have cost anything. What the seven cost can break it.

    The twin: the same limits over the seven alone.
    """
    told = [turn("a")] * 7
    demands = Demands(cost=share * KNOWN, cost_per_request=share * KNOWN / 7)

    def outcomes(records: list[TurnRecord]) -> list[str]:
        return [one.outcome for one in judge(report(records, "agent", prices=PRICES), demands)]

    eighth = replace(turn("a"), **other)
    assert outcomes(told) == [before] * 2
    assert outcomes([*told, eighth]) == [now] * 2


def test_an_agent_that_is_not_there_has_no_request_and_one_that_is_silent_has_told_nothing() -> None:
    """Neither had no new cause: of both it is not known."""
    baseline = baseline_of(to_json(report(BEFORE, "agent")))
    found = report([turn("a", usage=Usage()), turn("b")], "agent")
    [absent, silent] = (judge(found, Demands(baseline=baseline), ("b", name))[0] for name in ("z", "a"))
    assert (absent.outcome, silent.outcome) == ("n/a", "n/a")
    assert absent.why == "new causes of misses: none; not known of z, where there is no request"
    assert silent.why.endswith("; not known of a, where no request reported what the cache did")
    assert judge(found, Demands(baseline=baseline), ("b",))[0].outcome == "holds"


@pytest.mark.parametrize(
    "said",
    [
        [],
        {},
        None,
        "changed",
        {"causes_by_agent": {"a": "changed"}, "total": {"causes": []}},
        {"causes_by_agent": {"a": {"expired": 1}}, "total": {"causes": []}},
        {"causes_by_agent": {"a": [1]}, "total": {"causes": []}},
        {"causes_by_agent": {"a": None}, "total": {"causes": []}},
        {"causes_by_agent": ["a"], "total": {"causes": []}},
        {"causes_by_agent": {}, "total": {"causes": "changed"}},
        {"causes_by_agent": {}, "total": {"causes": {}}},
        {"causes_by_agent": {}, "total": {"causes": [{"cause": None}]}},
        {"causes_by_agent": {}, "total": {"causes": ["expired"]}},
        {"causes_by_agent": {}, "total": []},
        {"causes_by_agent": {}},
        {"by": "agent", "groups": "", "total": {"causes": []}},
        {"by": "agent", "groups": [{"name": "a", "causes": "changed"}], "total": {"causes": []}},
        {"by": "agent", "groups": [{"name": ["a"], "causes": []}], "total": {"causes": []}},
    ],
    ids=json.dumps,
)
def test_what_is_no_report_is_no_baseline(said: object) -> None:
    """A text is no list of causes: its letters are none."""
    with pytest.raises(TraceError, match="it is no report with the causes of misses"):
        baseline_of(said)
    assert baseline_of({"causes_by_agent": {"a": ["expired"]}, "total": {"causes": []}}).of("a") == {"expired"}


@pytest.mark.parametrize(
    "rest",
    [
        "not JSON\n",
        '{"type": "user", "cut in the mid',
        '{"type": "assistant", "unheard": "of", "message": {"usage": {"input_tokens": 5}}}\n',
    ],
    ids=["garbage", "cut", "no known form"],
)
def test_of_a_log_that_is_read_by_halves_nothing_holds(rest: str, here: Path) -> None:
    """It may tell of anything. What the half breaks is broken; the whole log holds."""
    demands = ("--min-hit-rate", "0.48", "--max-cost", "1")
    assert run("check", "run.jsonl", "--prices", "prices.json", *demands, cwd=here).exit_code == 0
    (here / "run.jsonl").write_text(session_log() + rest)
    half = run("check", "run.jsonl", "--prices", "prices.json", *demands, cwd=here)
    assert half.exit_code == 2
    assert [line.split()[0] for line in half.stdout.splitlines()] == ["n/a", "n/a", "note:"]
    assert "not all of the source could be read, as the notes say" in half.stdout
    assert run("check", "run.jsonl", "--min-hit-rate", "0.49", cwd=here).exit_code == 1


def test_of_a_folder_with_a_file_that_is_no_log_nothing_holds(here: Path) -> None:
    """It may have been one; named alone, the other is judged."""
    (here / "other.jsonl").write_text("garbage\n")
    assert run("check", ".", "--min-hit-rate", "0.4", cwd=here).exit_code == 2
    assert run("check", "run.jsonl", "--min-hit-rate", "0.4", cwd=here).exit_code == 0


def test_of_spans_whose_counters_are_not_understood_nothing_holds(tmp_path: Path) -> None:
    """The first is: 8,000 of 9,000 are 88.9 %. The other counts under names that nobody knows."""
    first = chat(9000, read=8000, write=0)
    other = {"gen_ai.operation.name": "chat", "gen_ai.request.model": MODEL, "x.prompt_tokens_seen": 9000}
    demand = ("check", "spans.jsonl", "--min-hit-rate", "0.88")
    (tmp_path / "spans.jsonl").write_text(batch(span("a", first)))
    assert run(*demand, cwd=tmp_path).exit_code == 0
    (tmp_path / "spans.jsonl").write_text(batch(span("a", first), span("b", other)))
    done = run(*demand, cwd=tmp_path)
    assert done.exit_code == 2, done.output
    assert "note: spans whose counters are not understood" in done.stdout


def test_of_a_store_with_a_row_that_cannot_be_read_nothing_holds(tmp_path: Path) -> None:
    """Six rows hold the demand, and the seventh may tell of anything; the test kit refuses such a store, too."""
    loop(Driver(tmp_path), 7, system=prose(1200))
    demand = ("check", "trace.db", "--min-hit-rate", "0.1")
    assert run(*demand, cwd=tmp_path).exit_code == 0
    with contextlib.closing(sqlite3.connect(tmp_path / "trace.db")) as connection, connection:
        connection.execute("UPDATE turns SET record = 'garbage' WHERE id = 1")
    done = run(*demand, cwd=tmp_path)
    assert done.exit_code == 2
    assert "note: rows of the store that could not be read, and were skipped: 1" in done.stdout
    assert run(*demand[:-1], "1", cwd=tmp_path).exit_code == 1
    with pytest.raises(TraceError, match="1 of its rows cannot be read"):
        assert_hit_rate(tmp_path / "trace.db", at_least=0.1)


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
