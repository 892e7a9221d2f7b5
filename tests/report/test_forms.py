"""The report as people see it: 80 columns, with and without colour, in Markdown, and from the command line."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from inline_snapshot import snapshot
from rich.cells import cell_len

from agentaccel.cli.report import report_command
from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.report import render_markdown, render_text, report
from agentaccel.sources.logs import ImportTally
from agentaccel.store.store import Store
from agentaccel.types import Cause, Drift, Miss, Usage

NOON = 1_770_000_000.0
MODEL = "claude-sonnet-4-5"
PRICES = {MODEL: {"input": 10.0, "output": 50.0, "read": 1.0, "write": {"5m": 12.5, "1h": 20.0}}}


def records() -> list[TurnRecord | ToolRecord]:
    """A session of ours that saved, a sub-agent, a silent one, and a failure."""
    first = TurnRecord(
        session="0b6ad9f0-0000-4000-8000-000000000001",
        provider="anthropic",
        model=MODEL,
        started=NOON,
        first_byte=NOON + 1.5,
        finished=NOON + 4,
        usage=Usage(input=20_000, read=0, write={"5m": 19_000}, output=300),
        as_written=Usage(input=20_000, read=0, write={}),
        reusable=0,
        misses=(Miss(cause=Cause.FIRST, tokens=20_000),),
    )
    second = replace(
        first,
        started=NOON + 10,
        first_byte=NOON + 10.4,
        finished=NOON + 12,
        usage=Usage(input=25_000, read=12_000, write={"5m": 12_500}, output=200),
        as_written=Usage(input=25_000, read=0, write={}),
        reusable=20_000,
        misses=(Miss(cause=Cause.CHANGED, tokens=8_000),),
        drift=Drift(level="system", where="system[0].text", likely="clock", byte=41),
    )
    silent = replace(second, session="silent", usage=Usage(), as_written=None, misses=(), drift=None, mode="observe")
    failed = replace(silent, outcome="failed", error="OverloadedError", mode="on", first_byte=None)
    sub = replace(first, session=f"{first.session}/a7f5273", parent=first.session, mode="holdout")
    call = ToolRecord(session=first.session, name="search", key="", started=NOON + 4, finished=NOON + 9, outcome="ok")
    return [first, call, second, silent, failed, sub]


def test_the_text_is_whole_in_80_columns() -> None:
    """Pinned as a whole: what a user reads after `agentaccel report --causes`."""
    text = render_text(report(records(), causes=True, prices=PRICES))
    assert max(map(len, text.splitlines())) <= 80
    assert text == snapshot("""\
2 sessions, 1 sub-agent, 4 requests, 2026-02-02

Prompt cache (tokens)
  hit rate         18.5 %  cache reads / all input tokens
    possible       30.8 %  had every earlier prefix been read
  input            65,000
    read           12,000
    written        50,500  50,500 for 5m
    neither         2,500
  re-write factor    1.12  written / had to be written once
  output             ≥800  at least; 1 of 4 recorded incompletely

Cost (USD)
  paid for input    0.6683  1 request not priced, in no row
  as you wrote it   0.6975  agentaccel saved 0.0292 (4.2 %)
  without cache     0.6500  0.97 times what was paid
  perfect cache     0.4700  0.70 times what was paid
  output            0.0400
  input and output  0.7083
  Modelled: the control group below is too small.

Against the control group (USD per 1,000 input tokens)
  control group    0.0124  1 session left as written
  with agentaccel  0.0094  1 session
  measured saving  0.0030  n/a
  Too small to tell: it takes 10 sessions in each group.

Why tokens were not read
  cause           times  tokens     USD
  first request       2  40,000  0.4550
  prompt changed      1   8,000  0.0912
  total               3  48,000  0.5462
  A first request has nothing of its own session to read.

Time
  first byte, warm  0.40 / 0.40 s  p50 / p90 of 1
  first byte, cold  1.50 / 1.50 s  p50 / p90 of 2
  tool calls                    1
  share in tools           29.4 %  of the time at work, pauses left out

Rate limit (input tokens)
  counted           53,000  53,000 in the busiest minute
  with cache reads  65,000  65,000 in the busiest minute

Requests
  answered        4
  no telemetry    1  n/a in the figures; 1 session without any
  failed          1  counted apart

By mode
  mode     requests  hit rate  USD a request
  holdout         1     0.0 %         0.2475
  observe         1       n/a            n/a
  on              2    26.7 %         0.2104
  total           4    18.5 %         0.2228
  USD of input. Holdout and bypass are left as written.

By session (tokens)
  session                          requests  uncached    read  written  output
  0b6ad9f0-0000-4000-800…00000001         2     1,500  12,000   31,500     500
  0b6ad9f0-0000-4000-800…/a7f5273         1     1,000       0   19,000     300
  silent                                  1       n/a     n/a      n/a     n/a
  total                                   4     2,500  12,000   50,500    ≥800

By session (USD)
  session                                     hit rate   input  output   total
  0b6ad9f0-0000-4000-8000-000000000001          26.7 %  0.4208  0.0250  0.4458
  0b6ad9f0-0000-4000-8000-000000000…/a7f5273     0.0 %  0.2475  0.0150  0.2625
  silent                                           n/a     n/a     n/a     n/a
  total                                         18.5 %  0.6683  0.0400  0.7083

Causes by session
  session                                cause           times  tokens     USD
  0b6ad9f0-0000-4000-8000-000000000001   first request       1  20,000  0.2275
  0b6ad9f0-0000-4000-8000-000000000001   prompt changed      1   8,000  0.0912
  0b6ad9f0-0000-4000-8000-0000…/a7f5273  first request       1  20,000  0.2275
  total                                                      3  48,000  0.5462

Largest misses (times in UTC)
  when         session           tokens  why
  02-02 02:40  0b6ad9f…00000001   8,000  prompt changed: system[0].text: clock
""")


def test_colour_changes_nothing_but_the_colour() -> None:
    """The same words, with escapes around them."""
    found = report(records(), causes=True, prices=PRICES)
    coloured = render_text(found, color=True)
    assert "\x1b[" in coloured
    assert "\x1b[" not in render_text(found)
    assert "hit rate" in coloured


@pytest.mark.parametrize("width", [40, 60, 80, 132])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """From narrow to wide; numbers stay whole from 80 columns on."""
    text = render_text(report(records(), causes=True, prices=PRICES), width)
    assert max(map(len, text.splitlines())) <= max(width, 40)


def test_without_any_usage_the_input_is_not_known() -> None:
    """Not zero; and what is in no row counts what reported nothing at all, as the requests without telemetry do."""
    silent = TurnRecord(session="s", provider="anthropic", model=MODEL, started=NOON)
    lines = render_text(report([silent, silent])).splitlines()
    assert "  input            n/a" in lines
    assert "  paid for input    n/a  2 requests not priced, in no row" in lines
    assert [line.split()[:3] for line in lines if "no telemetry" in line] == [["no", "telemetry", "2"]]
    assert "  input             70  70 of them without cache telemetry" in render_text(
        report([silent, replace(silent, usage=Usage(input=70))])
    )


def test_a_loss_is_called_a_loss() -> None:
    """In plain words."""
    dear = replace(records()[0], as_written=Usage(input=20_000, read=20_000, write={}))  # type: ignore[type-var]
    assert "agentaccel cost 0.2275 more" in render_text(report([dear], prices=PRICES))


def test_nothing_to_report_says_what_to_do() -> None:
    """An empty store is a beginning."""
    text = render_text(report([]))
    assert "agentaccel report ~/.claude/projects" in text
    assert "Accel().wrap(" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "Nothing to report" in render_markdown(report([]))


def test_a_wide_form_leaves_names_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every table, the one of the largest misses included; also where the text goes to no terminal."""
    name = "support/claude-sonnet-4-5/task-29"
    missed = [{"role": "assistant", "usage": {"input_tokens": 20_000, "cache_read_input_tokens": 0}}] * 2
    runs = [{"id": one, "model": MODEL, "messages": missed} for one in (name, "other")]
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(run) + "\n" for run in runs), encoding="utf-8")
    monkeypatch.setenv("COLUMNS", "180")
    text = CliRunner().invoke(report_command, [str(tmp_path), "--causes"]).stdout
    for title in ("By session", "Causes by session", "Largest misses"):
        assert f" {name} " in text.split(title)[1].split("\n\n")[0]


def test_what_the_import_skipped_is_said() -> None:
    """Lines, files, and replies that were told twice."""
    tally = ImportTally(lines=1000, skipped=3, cut=1, duplicates=7, unrecognised=["x.jsonl"], empty=2)
    text = render_text(report(records(), prices=PRICES, tally=tally))
    notes = [line for line in text.splitlines() if line.startswith("note: ")]
    assert notes == snapshot(
        [
            "note: lines that could not be read, and were skipped: 3 of 1,000",
            "note: last lines that were cut or still being written, and were skipped: 1",
            "note: neither Claude Code logs nor agent runs nor spans: x.jsonl",
            "note: replies or runs that were there more than once, and count once: 7",
            "note: empty files: 2",
        ]
    )


def test_names_from_logs_cannot_write_to_the_terminal_or_break_a_table() -> None:
    """Escapes, directions and pipes are made harmless; markup is shown as it is."""
    evil = replace(records()[0], session="a|b\x1b[31m\n[bold]\u202e\ud800")
    found = report([evil, records()[2]], causes=True, prices=PRICES)
    text, page = render_text(found), render_markdown(found)
    assert "\x1b" not in text + page
    assert "\x1b[31" not in render_text(found, color=True)
    assert "[bold]" in text
    assert "a\\|b" in page
    text.encode()
    page.encode()


@pytest.mark.parametrize("name", ["日本語のエージェント" * 6, "고객지원" * 20, "a" * 200], ids=["kana", "hangul", "a"])
def test_a_long_name_leaves_the_figures_beside_it_whole(name: str) -> None:
    """Letters that take two columns of a terminal included."""
    first, _, second, silent, *_ = records()
    named = [replace(one, session=name) for one in (first, second) if isinstance(one, TurnRecord)]
    text = render_text(report([*named, silent], prices=PRICES))
    for part, figures in ((1, "2 1,500 12,000 31,500 500"), (2, "26.7 % 0.4208 0.0250 0.4458")):
        row = text.split("By session")[part].splitlines()[2]
        assert row.split()[1:] == figures.split()
        assert cell_len(row) <= 80


def test_markdown_is_headings_and_tables() -> None:
    """For a pull request."""
    page = render_markdown(report(records(), by="model", prices=PRICES))
    assert page.startswith("# agentaccel report\n\n2 sessions, 1 sub-agent")
    assert "\n| hit rate |" in page
    assert "\n## By model (tokens)\n" in page
    assert "\n## By model (USD)\n" in page


def log(path: Path) -> Path:
    message = {"id": "m", "model": MODEL, "usage": {"input_tokens": 5, "cache_read_input_tokens": 95}}
    entry = {
        "type": "assistant",
        "sessionId": "s1",
        "requestId": "r",
        "timestamp": "2026-02-02T00:00:00Z",
        "message": message,
    }
    path.write_text(json.dumps(entry) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("form", ["text", "markdown", "json"])
@pytest.mark.parametrize("by", ["session", "agent", "model", "tenant", "day", "week", "month"])
def test_the_command_reads_logs_and_shows_them(tmp_path: Path, form: str, by: str) -> None:
    """Every form with every grouping."""
    done = CliRunner().invoke(report_command, [str(log(tmp_path / "a.jsonl")), "--by", by, "--format", form])
    assert done.exit_code == 0, done.output
    if form == "json":
        assert json.loads(done.stdout)["total"]["hit_rate"] == 0.95
    else:
        assert "95.0 %" in done.stdout


def test_the_command_refuses_what_it_cannot_read(tmp_path: Path) -> None:
    """Exit code 2 and one sentence."""
    (tmp_path / "b.jsonl").write_text('{"event": 1}\n', encoding="utf-8")
    for argument in ("nowhere", "b.jsonl"):
        done = CliRunner().invoke(report_command, [str(tmp_path / argument)])
        assert done.exit_code == 2
        assert argument in done.stderr
    (tmp_path / "store").write_bytes(b"SQLite format 3\x00")
    done = CliRunner().invoke(report_command, [str(tmp_path / "store"), str(log(tmp_path / "a.jsonl"))])
    assert done.exit_code == 2


def test_a_folder_without_logs_is_an_error_that_names_the_store_in_it(tmp_path: Path) -> None:
    """Nothing could be read, whatever else is there."""
    (tmp_path / "notes.txt").write_text("hi", encoding="utf-8")
    done = CliRunner().invoke(report_command, [str(tmp_path)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"agentaccel report: there is no log in {tmp_path}\n"
    (tmp_path / "data").mkdir()
    Store(tmp_path / "data" / "trace.db").close()
    done = CliRunner().invoke(report_command, [str(tmp_path)])
    assert done.exit_code == 2
    assert f"a trace store is read where it is named itself: {tmp_path / 'data' / 'trace.db'}\n" in done.stderr


def test_logs_without_a_request_are_nothing_to_report(tmp_path: Path) -> None:
    """They could be read: not an error."""
    (tmp_path / "a.jsonl").write_text('{"messages": []}\n', encoding="utf-8")
    done = CliRunner().invoke(report_command, [str(tmp_path)])
    assert done.exit_code == 0
    assert "Nothing to report" in done.stdout


@pytest.mark.parametrize("named", [".", "one.json", "one.json.gz"])
def test_a_trace_that_only_a_replay_reads_is_said_to_be_one(named: str, tmp_path: Path) -> None:
    """Whole on one line without an end, it is no log that is still being written."""
    trace = json.dumps({"id": "s", "block_size": 64, "requests": [{"t": 0, "hash_ids": [1]}]}).encode()
    (tmp_path / "one.json").write_bytes(trace)
    (tmp_path / "one.json.gz").write_bytes(gzip.compress(trace))
    done = CliRunner().invoke(report_command, [str(tmp_path / named)])
    assert done.exit_code == 2
    assert "for `agentaccel replay`, which reads prefix traces: " in done.stderr
    assert "cut" not in done.stderr


def test_a_default_store_that_is_not_there_yet_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first thing a new user may try."""
    monkeypatch.setenv("AGENTACCEL_STORE", str(tmp_path / "none.db"))
    done = CliRunner().invoke(report_command, [])
    assert done.exit_code == 2
    assert "none.db" in done.stderr
    assert "agentaccel report ~/.claude/projects" in done.stderr


def test_a_trace_store_is_read_in_the_order_of_time(tmp_path: Path) -> None:
    """Turns and tools of one session are woven together."""
    path = tmp_path / "traces.db"
    store = Store(path, max_bytes=1 << 30)
    call = records()[1]
    assert isinstance(call, ToolRecord)
    store.write_tool(call)
    store.close()
    done = CliRunner().invoke(report_command, [str(path), "--format", "json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["total"]["tools"]["calls"] == 1


@pytest.mark.slow
def test_advice_stands_first_in_every_form(tmp_path: Path) -> None:
    """On a trace store; in JSON with its figures, and null where nobody asked."""
    from benchmarks.workloads import bundled, record, sessions

    workload = next(one for one in bundled() if one.fault is not None and one.fault.kind == "volatile text early")
    store = tmp_path / "trace.db"
    record(workload.situation, sessions(workload, mended=False)[:2], store)
    shown = CliRunner().invoke(report_command, [str(store), "--advise"]).stdout
    text = " ".join(shown.split())
    assert "What to change first" in text
    assert text.index("volatile text early") < text.index("Prompt cache (tokens)")
    assert "system[0]: Move what" in text
    assert "Savings are modelled" in text
    assert max(map(len, shown.splitlines())) <= 80
    assert (
        "| volatile text early |"
        in CliRunner().invoke(report_command, [str(store), "--advise", "--format", "markdown"]).stdout
    )
    found = json.loads(CliRunner().invoke(report_command, [str(store), "--advise", "--format", "json"]).stdout)
    (first, *_) = found["advice"]
    assert (first["kind"], first["unit"], first["sure"]) == ("volatile text early", "USD", "computed")
    assert json.loads(CliRunner().invoke(report_command, [str(store), "--format", "json"]).stdout)["advice"] is None


def test_where_nothing_is_wrong_the_advice_says_so(tmp_path: Path) -> None:
    """From logs, too; and where no counters are, that only times were looked at."""
    done = CliRunner().invoke(report_command, [str(log(tmp_path / "a.jsonl")), "--advise"])
    assert done.exit_code == 0, done.output
    assert "Nothing was found that would save 2 %" in done.stdout
    assert "No request says" not in done.stdout
    blind = TurnRecord(session="s", provider="anthropic", model=MODEL, started=NOON, usage=Usage(input=5))
    assert "No request says" in " ".join(render_text(replace(report([blind]), advice=())).split())
