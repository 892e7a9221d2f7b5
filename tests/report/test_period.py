"""Output, totals, and reports on some days only: every figure is added up by hand beside it."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from click.testing import CliRunner, Result

from agentaccel.cli import main
from agentaccel.cli.options import Bounds, read_period
from agentaccel.errors import ConfigError
from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.report import render_text, report
from agentaccel.report.advise.choose import advise
from agentaccel.report.advise.reading import talks_of_store
from agentaccel.report.period import Calendar, Period
from agentaccel.store.codec import TurnWrite
from agentaccel.store.store import Store
from agentaccel.types import Usage

BERLIN = ZoneInfo("Europe/Berlin")
PRICES = {"m": {"input": 10.0, "output": 50.0, "read": 1.0, "write": {"5m": 12.5, "1h": 20.0}}}


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def turn(when: str, session: str = "s", **fields: Any) -> TurnRecord:
    usage = Usage(input=100, read=0, write={}, output=10)
    return TurnRecord(
        session=session,
        provider="anthropic",
        model="m",
        started=at(when),
        **{"usage": usage, "mode": "observe", **fields},
    )


def line(number: int, when: str, *, plain: int, read: int, output: int, stop: str | None = None) -> str:
    """A line of a coding agent's log."""
    usage = {"input_tokens": plain, "cache_read_input_tokens": read, "cache_creation_input_tokens": 0}
    usage["output_tokens"] = output
    message = {"id": f"m{number}", "model": "m", "usage": usage, "stop_reason": stop}
    entry = {"type": "assistant", "sessionId": "s", "requestId": f"r{number}", "timestamp": when, "message": message}
    return json.dumps(entry) + "\n"


def run(folder: Path, *arguments: str) -> Result:
    (folder / "prices.json").write_text(json.dumps(PRICES))
    return CliRunner().invoke(main, ["report", "--prices", str(folder / "prices.json"), *arguments])


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Three replies of three days; only the second tells how it ended."""
    lines = [
        line(1, "2026-02-01T12:00:00Z", plain=1_000, read=0, output=4),
        line(2, "2026-02-02T12:00:00Z", plain=200, read=1_000, output=400, stop="end_turn"),
        line(3, "2026-02-09T23:30:00Z", plain=300, read=1_200, output=8),
    ]
    (tmp_path / "a.jsonl").write_text("".join(lines))
    return tmp_path


def test_output_of_logs_is_a_lower_bound_and_input_and_output_add_up(logs: Path) -> None:
    """
    Input 1,500 plain at 10 USD a million and 2,200 read at 1: 0.0172. Output 4 + 400 + 8 = 412 at 50: 0.0206.
    In all 0.0378. Of two of three replies the log does not tell how they ended.
    """
    found = json.loads(run(logs, str(logs / "a.jsonl"), "--format", "json").stdout)["total"]
    assert (found["tokens"]["output"], found["tokens"]["partial"]) == (412, 2)
    assert found["tokens"]["total"] == 1_500 + 2_200 + 412
    costs = found["costs"]
    assert (costs["paid"], costs["output_at_least"], costs["total"]) == (
        pytest.approx(0.0172),
        pytest.approx(0.0206),
        pytest.approx(0.0378),
    )
    assert (costs["output"], costs["output_partial"]) == (None, 2)
    shown = run(logs, str(logs / "a.jsonl")).stdout
    assert "  output             ≥412  at least; 2 of 3 recorded incompletely" in shown
    assert "  input and output  ≥0.0378" in shown


def test_what_a_log_records_to_its_end_is_no_lower_bound(logs: Path) -> None:
    """The second reply alone: 200 at 10, 1,000 at 1, 400 at 50 USD a million."""
    done = run(logs, str(logs / "a.jsonl"), "--since", "2026-02-02", "--until", "2026-02-02", "--format", "json")
    found = json.loads(done.stdout)["total"]
    assert (found["requests"], found["tokens"]["partial"], found["costs"]["output_partial"]) == (1, 0, 0)
    assert found["costs"]["total"] == pytest.approx((200 * 10 + 1_000 * 1 + 400 * 50) / 1e6)


def test_every_table_has_a_row_for_everything(logs: Path) -> None:
    """Groups, causes, causes by group, and modes; what stands there is the sum of what stands above it."""
    shown = run(logs, str(logs / "a.jsonl"), "--by", "day", "--causes").stdout
    tables = {part.splitlines()[0]: part.splitlines()[1:] for part in shown.split("\n\n")}
    tokens = [row.split() for row in tables["By day (tokens)"]]
    assert tokens[1:] == [
        ["2026-02-01", "1", "1,000", "0", "0", "≥4"],
        ["2026-02-02", "1", "200", "1,000", "0", "400"],
        ["2026-02-09", "1", "300", "1,200", "0", "≥8"],
        ["total", "3", "1,500", "2,200", "0", "≥412"],
    ]
    assert [row.split()[-1] for row in tables["By day (USD)"]] == [
        "total",
        "≥0.0102",  # 1,000 at 10 and 4 at 50 USD a million
        "0.0230",
        "≥0.0046",  # 300 at 10, 1,200 at 1 and 8 at 50
        "≥0.0378",
    ]
    many = [turn("2026-02-01T12:00:00+00:00", mode=mode) for mode in ("on", "observe", "observe")]
    modes = next(part for part in render_text(report(many, prices=PRICES)).split("\n\n") if part.startswith("By mode"))
    assert modes.splitlines()[-2].split() == ["total", "3", "0.0", "%", "0.0010"]


@pytest.mark.parametrize(
    ("by", "zone", "names"),
    [
        ("day", "UTC", ["2026-02-01", "2026-02-02", "2026-02-09"]),
        ("day", "Europe/Berlin", ["2026-02-01", "2026-02-02", "2026-02-10"]),  # 23:30 UTC is 00:30 there
        ("week", "UTC", ["2026-W05", "2026-W06", "2026-W07"]),  # the first of February was a Sunday
        ("month", "America/New_York", ["2026-02"]),
    ],
)
def test_days_weeks_and_months_are_those_of_the_zone(logs: Path, by: str, zone: str, names: list[str]) -> None:
    """By the calendar: 2026-02-01 was a Sunday, and Mondays begin weeks of ISO 8601."""
    done = run(logs, str(logs / "a.jsonl"), "--by", by, "--tz", zone, "--format", "json")
    found = json.loads(done.stdout)
    assert ([group["name"] for group in found["groups"]], found["tz"]) == (names, zone)


def test_the_year_of_a_week_is_that_of_its_thursday() -> None:
    """The first of January 2027 is a Friday: it belongs to the last week of 2026."""
    assert Calendar("week", UTC).name(at("2027-01-01T12:00:00+00:00")) == "2026-W53"


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)], ids=["spring", "autumn", "summer"]
)
def test_a_day_is_as_long_as_its_clocks_say(day: str, hours: int) -> None:
    """Both options with one date are that day, also where the clocks change (2026-03-29 and 2026-10-25 in Berlin)."""
    period = read_period(Bounds(day, day, "Europe/Berlin"))
    assert period.since is not None
    assert period.until is not None
    assert period.until - period.since == hours * 3600
    calendar = Calendar("day", BERLIN)
    quarters = range(int(period.since), int(period.until), 900)
    assert {calendar.name(quarter) for quarter in quarters} == {day}
    assert calendar.name(period.since - 1) != day != calendar.name(period.until)


NOW = at("2026-02-10T12:00:00+00:00")


@pytest.mark.parametrize(
    ("said", "since", "until"),
    [
        ("7d", "2026-02-03T12:00:00+00:00", "2026-02-03T12:00:00+00:00"),
        ("36h", "2026-02-09T00:00:00+00:00", "2026-02-09T00:00:00+00:00"),
        ("2026-02-01", "2026-02-01T00:00:00+01:00", "2026-02-02T00:00:00+01:00"),
        ("20260201", "2026-02-01T00:00:00+01:00", "2026-02-02T00:00:00+01:00"),
        ("2026-W06", "2026-02-02T00:00:00+01:00", "2026-02-09T00:00:00+01:00"),
        ("2026W06", "2026-02-02T00:00:00+01:00", "2026-02-09T00:00:00+01:00"),
        ("2026-W06-2", "2026-02-03T00:00:00+01:00", "2026-02-04T00:00:00+01:00"),
        ("2026-W53", "2026-12-28T00:00:00+01:00", "2027-01-04T00:00:00+01:00"),
        ("2026-02", "2026-02-01T00:00:00+01:00", "2026-03-01T00:00:00+01:00"),
        ("2026-12", "2026-12-01T00:00:00+01:00", "2027-01-01T00:00:00+01:00"),
        ("2026-10", "2026-10-01T00:00:00+02:00", "2026-11-01T00:00:00+01:00"),
        ("2026-02-01T12:30", "2026-02-01T12:30:00+01:00", "2026-02-01T12:30:00+01:00"),
        ("2026-02-01T12:30:00Z", "2026-02-01T12:30:00+00:00", "2026-02-01T12:30:00+00:00"),
        ("2026-02-01 12:30-05:00", "2026-02-01T17:30:00+00:00", "2026-02-01T17:30:00+00:00"),
    ],
)
def test_a_time_is_an_age_a_date_or_a_moment(said: str, since: str, until: str) -> None:
    """In Berlin, at noon of 2026-02-10 in UTC; a date, a week or a month after --until is part of the period.

    By the calendar: 2026-02-02 is the Monday of week 6, and 2026, which begins on a Thursday, has 53 weeks.
    """
    assert read_period(Bounds(said, None, "Europe/Berlin"), NOW).since == at(since)
    assert read_period(Bounds(None, said, "Europe/Berlin"), NOW).until == at(until)


@pytest.mark.parametrize(
    ("bounds", "says"),
    [
        (Bounds("soon", None, "UTC"), "--since is 'soon'; give an age"),
        (Bounds(None, "2026-02-30", "UTC"), "--until is '2026-02-30'; give an age"),
        (Bounds(None, "-7d", "UTC"), "--until is '-7d'"),
        (Bounds("2026-W54", None, "UTC"), "--since is '2026-W54'"),
        (Bounds(None, "2026-W6", "UTC"), "--until is '2026-W6'"),
        (Bounds("2026-13", None, "UTC"), "--since is '2026-13'"),
        (Bounds(None, "2026", "UTC"), "--until is '2026'"),
        (Bounds("2026-W06T12:00", None, "UTC"), "--since is '2026-W06T12:00'"),
        (Bounds(None, "2026W06 12:00", "UTC"), "--until is '2026W06 12:00'"),
        (Bounds(None, "9999-12", "UTC"), "--until is '9999-12'"),
        (Bounds("2026-02-02", "2026-02-01", "UTC"), "nothing is --since 2026-02-02 and --until 2026-02-01"),
        (Bounds("1d", "2d", "UTC"), "nothing is --since 1d and --until 2d"),
        (Bounds(None, None, "Berlin"), "--tz is 'Berlin'; give the name of a zone"),
        (Bounds(None, None, "Europe"), "--tz is 'Europe'"),
        (Bounds(None, None, "../etc/passwd"), "--tz is '../etc/passwd'"),
        (Bounds(None, None, ""), "--tz is ''"),
    ],
)
def test_what_is_no_time_or_no_zone_is_one_sentence(bounds: Bounds, says: str, tmp_path: Path) -> None:
    """Which option, what was said, and what to give."""
    with pytest.raises(ConfigError, match=f"^{says.replace('.', '[.]')}"):
        read_period(bounds, NOW)
    given = (("--since", bounds.since), ("--until", bounds.until), ("--tz", bounds.zone))
    done = run(tmp_path, *[word for name, value in given if value is not None for word in (f"{name}={value}",)])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize(("unit", "name"), [("day", "2026-02-01"), ("week", "2026-W05"), ("month", "2026-02")])
def test_a_group_of_a_report_by_time_is_the_period_of_its_name(unit: str, name: str) -> None:
    """What `--by` prints, `--since` and `--until` take: every quarter of an hour from the one to the other is of it."""
    period = read_period(Bounds(name, name, "Europe/Berlin"))
    calendar = Calendar(unit, BERLIN)
    assert period.since is not None
    assert period.until is not None
    quarters = range(int(period.since), int(period.until), 900)
    assert {calendar.name(quarter) for quarter in quarters} == {name}
    assert calendar.name(period.since - 1) != name != calendar.name(period.until)


def test_a_request_without_a_time_is_of_no_period_and_is_told() -> None:
    """Without bounds it counts."""
    records = [turn("2026-02-01T12:00:00+00:00"), turn("1970-01-01T00:00:00+00:00")]
    assert report(records).total.requests == 2
    found = report(records, period=Period(since=1.0))
    assert found.total.requests == 1
    assert "requests without a time, which are of no period and were left out: 1" in found.notes


def test_a_period_holds_its_first_moment_and_not_its_last() -> None:
    period = Period(since=10.0, until=20.0)
    assert [period.holds(one) for one in (9.9, 10.0, 19.9, 20.0)] == [False, True, True, False]


def test_a_store_is_reported_and_advised_on_for_the_period_alone(tmp_path: Path) -> None:
    """Tools, too."""
    path = tmp_path / "trace.db"
    store = Store(path)
    for day in (1, 2, 3):
        record = turn(f"2026-02-0{day}T12:00:00+00:00", session=f"s{day}")
        store.write_turn(TurnWrite(record))
        began = record.started + 1
        store.write_tool(
            ToolRecord(session=record.session, name="t", key="", started=began, finished=began + 1, outcome="ok")
        )
    period = read_period(Bounds("2026-02-02", "2026-02-02", "UTC"))
    assert [talk.id for talk in talks_of_store(store, period)] == ["s2"]
    assert len(talks_of_store(store)) == 3
    store.close()
    done = run(tmp_path, str(path), "--since", "2026-02-02", "--until", "2026-02-02", "--format", "json")
    found = json.loads(done.stdout)
    assert [(group["name"], group["requests"], group["tools"]["calls"]) for group in found["groups"]] == [("s2", 1, 1)]
    assert (found["since"], found["until"]) == (period.since, period.until)


def test_replies_that_were_not_streamed_are_said_to_come_as_a_whole() -> None:
    """Their first byte was not missed: there is none to see. Of logs nothing is said."""
    live = turn("2026-02-01T12:00:00+00:00")
    assert "n/a  no reply was streamed, so each came as a whole" in render_text(report([live]))
    assert "not recorded in these records" in render_text(report([turn("2026-02-01T12:00:00+00:00", mode="log")]))
    streamed = turn("2026-02-01T12:00:00+00:00", streamed=True)
    assert "not recorded in these records" in render_text(report([streamed]))


def test_nothing_is_advised_on_nothing() -> None:
    assert advise([]) == ()
