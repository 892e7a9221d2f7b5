"""The comparison, its drawn times and the command, as a user meets them."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import statistics
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentaccel.cli import main
from agentaccel.errors import ConfigError
from agentaccel.facts import cache_facts
from agentaccel.replay.compare import (
    ACCELERATED,
    AS_RECORDED,
    BEST,
    columns_of,
    compare,
    cost_of,
    cost_of_steps,
    has_cost,
)
from agentaccel.replay.pace import pace, paces, placed
from agentaccel.replay.placements import PLACEMENTS
from agentaccel.replay.read import read
from agentaccel.replay.simulate import accelerate
from agentaccel.replay.source import Rules, Source
from agentaccel.sources.logs import ImportTally
from agentaccel.types import Usage
from tests.driver import Driver, body, prose, user
from tests.replay.test_reading import Json, asked, conversation, result, run_line, said, used, write


def desk(folder: Path, sessions: int = 3) -> Path:
    """Conversations with bodies and without times."""
    messages = [said("user", "Hello"), asked("1"), result("1"), said("assistant", "Yes"), said("user", "And?")]
    lines = [run_line(f"r{i}", *messages, said("assistant", f"No {i}")) for i in range(sessions)]
    return write(folder / "desk.jsonl", lines)


def logged(folder: Path) -> Path:
    """Conversations with times and usage."""
    usages = [used(0, 30_000), used(30_000, 400), used(30_400, 900), used(0, 31_900)]
    return write(folder / "logged.jsonl", [conversation("r", *usages, gap=120.0)])


def source(path: Path) -> Source:
    (found,) = read([path], Rules(), ImportTally())
    return found


def replay(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["replay", *map(str, arguments)], prog_name="agentaccel")


def tables(*arguments: object) -> list[Json]:
    done = replay(*arguments, "--format", "json")
    assert done.exit_code == 0, done.output
    found: list[Json] = json.loads(done.output)["sources"]
    return found


# --- times ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_drawn_times_are_the_same_in_every_process(tmp_path: Path) -> None:
    """And different for another seed and another run."""
    found = source(desk(tmp_path))
    times = {
        seed: [[step.started for step in run.steps] for run in placed(found.runs, found.untimed, paces()[0], seed)]
        for seed in (0, 1)
    }
    program = (
        "import sys; from pathlib import Path\n"
        "from agentaccel.replay.pace import paces, placed\n"
        "from agentaccel.replay.read import read\n"
        "from agentaccel.replay.source import Rules\n"
        "from agentaccel.sources.logs import ImportTally\n"
        "found = read([Path(sys.argv[1])], Rules(), ImportTally())[0]\n"
        "runs = placed(found.runs, found.untimed, paces()[0], 0)\n"
        "print([[step.started for step in run.steps] for run in runs])"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "desk.jsonl")]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert json.loads(printed) == times[0]
    assert times[0] != times[1]
    assert [b - a for a, b, _ in times[0]] != [b - a for a, b, _ in times[0][:1]] * 3


@pytest.mark.soak
def test_gaps_have_the_stated_median(tmp_path: Path) -> None:
    """After results of tools and after a user's words, each by its own."""
    found = source(desk(tmp_path, sessions=400))
    for how in paces():
        runs = placed(found.runs, found.untimed, how, 0)
        after_tool = statistics.median(run.steps[1].started - run.steps[0].started for run in runs)
        after_user = statistics.median(run.steps[2].started - run.steps[1].started for run in runs)
        assert after_tool == pytest.approx(how.after_tool.median, rel=0.2)
        assert after_user == pytest.approx(how.after_user.median, rel=0.3)


def test_no_request_goes_on_from_a_reply_that_has_not_begun(tmp_path: Path) -> None:
    """And its twin: some gaps are drawn as short."""
    found = source(desk(tmp_path, sessions=100))
    at_once = 0
    for run in placed(found.runs, found.untimed, paces()[0], 0):
        for before, after in pairwise(run.steps):
            assert before.visible <= after.started
            at_once += before.visible == after.started
    assert at_once > 5


def test_recorded_times_stay(tmp_path: Path) -> None:
    """And a pace that is not stated is refused."""
    found = source(logged(tmp_path))
    assert placed(found.runs, found.untimed, paces()[0], 0) == found.runs
    with pytest.raises(ConfigError):
        pace("leisurely")


# --- figures ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_policy_is_a_column_and_every_pace_a_table(tmp_path: Path) -> None:
    """One table where all times were recorded."""
    told: list[None] = []
    found = compare(source(desk(tmp_path)), paces(), tell=lambda: told.append(None))
    assert [table.pace for table in found.tables] == [one.name for one in paces()]
    names = [AS_RECORDED, *PLACEMENTS, ACCELERATED, BEST]
    assert [[column.name for column in table.columns] for table in found.tables] == [names] * 3
    assert len(told) == columns_of(source(desk(tmp_path)), paces()) == 3 * len(names)
    assert [table.pace for table in compare(source(logged(tmp_path)), paces()).tables] == [None]


def test_what_was_not_reported_is_not_known(tmp_path: Path) -> None:
    """Never zero; and half of it is no bill either."""
    column = compare(source(desk(tmp_path)), paces()[:1]).tables[0].column(AS_RECORDED)
    assert (column.read, column.units, column.usd) == (None, None, None)
    half = conversation("r", used(0, 30_000), {"input_tokens": 30_500}, gap=120.0)
    found = compare(source(write(tmp_path / "half.jsonl", [half])), paces())
    assert found.tables[0].column(AS_RECORDED).units is None
    assert any("only 1 of 2 requests" in note for note in found.notes)


PRICES = {
    name: {"input": usd, "output": 0.0, "read": usd / 10, "write": {"5m": 1.25 * usd, "1h": 2 * usd}}
    for name, usd in (("claude-sonnet-4-6", 3.0), ("claude-opus-4-8", 5.0))
}


def three_replies(folder: Path, **third: object) -> Path:
    """Of claude-sonnet-4-6, without a cache: 20,000 tokens, 23,000 after a compaction that read 180,000, and 24,000."""
    lines = []
    for number, (tokens, more) in enumerate(((20_000, {}), (23_000, {}), (24_000, third))):
        usage: Json = {"input_tokens": tokens, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
        usage["output_tokens"] = 10
        if number == 1:
            rounds = (("compaction", 180_000), ("message", tokens))
            usage["iterations"] = [{**usage, "type": kind, "input_tokens": count} for kind, count in rounds]
        usage |= {name: value for name, value in more.items() if name != "model"}
        said_ = {"id": f"m{number}", "model": more.get("model", "claude-sonnet-4-6"), "usage": usage, "content": []}
        at = f"2026-11-01T00:0{number}:00Z"
        line = {"type": "assistant", "sessionId": "s", "uuid": f"u{number}", "requestId": f"r{number}", "timestamp": at}
        lines.append(json.dumps({**line, "message": {**said_, "role": "assistant"}}))
    path = folder / "log.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("third", "last"),
    [({}, 24_000 * 3.0), ({"service_tier": "batch"}, 24_000 * 1.5), ({"model": "claude-opus-4-8"}, 24_000 * 5.0)],
    ids=["the usual price", "a batch at half of it", "another model"],
)
def test_a_replay_pays_for_all_that_replies_took_as_a_report_does(
    third: dict[str, object], last: float, tmp_path: Path
) -> None:
    """20,000, 23,000 and 180,000 at 3 USD a million, and the third at its own price. No policy changes what the
    compaction took: where nothing is cached, it is in that column, too.
    """
    whole = ((20_000 + 23_000 + 180_000) * 3.0 + last) / 1e6
    log, prices = three_replies(tmp_path, **third), tmp_path / "prices.json"
    prices.write_text(json.dumps(PRICES))
    [found] = json.loads(replay(log, "--format", "json", "--prices", prices).stdout)["sources"]
    usd = {column["name"]: column["usd"] for column in found["tables"][0]["columns"]}
    assert (usd[AS_RECORDED], usd["none"]) == (pytest.approx(whole), pytest.approx(whole))
    shown = json.loads(
        CliRunner().invoke(main, ["report", str(log), "--format", "json", "--prices", str(prices)]).stdout
    )
    assert shown["total"]["costs"]["paid"] == pytest.approx(whole)
    [note] = [one for one in found["notes"] if one.startswith("replies that took more than their answer")]
    assert "(a compaction, an advisor): 1;" in note


def test_a_term_that_nobody_knows_leaves_a_replay_without_usd(tmp_path: Path) -> None:
    """And it says which; tokens are counted as ever."""
    [found] = json.loads(replay(three_replies(tmp_path, service_tier="of_another_world"), "--format", "json").stdout)[
        "sources"
    ]
    assert [column["usd"] for column in found["tables"][0]["columns"]] == [None] * (len(PLACEMENTS) + 3)
    assert found["tables"][0]["columns"][0]["read"] == 0
    assert "no price is known, so USD are n/a: service_tier of_another_world" in found["notes"]


def test_under_the_rules_of_another_model_its_prices_hold(tmp_path: Path) -> None:
    """All at 5 USD a million: whoever had answered."""
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps(PRICES))
    log = three_replies(tmp_path)
    done = replay(log, "--model", "claude-opus-4-8", "--format", "json", "--prices", prices)
    [found] = json.loads(done.stdout)["sources"]
    assert found["tables"][0]["columns"][0]["usd"] == pytest.approx((20_000 + 23_000 + 180_000 + 24_000) * 5.0 / 1e6)


def test_shares_of_advice_are_of_all_that_was_paid(tmp_path: Path) -> None:
    """The bill is 247,000 tokens at 3 USD a million, 0.741. With a cache 24,000 are written at 3.75, and 20,000 and
    23,000 read at 0.3, in place of 67,000 at 3: 0.0981 saved, which are 13.24 %. Of the answers alone it would be 48.8.
    """
    prices = tmp_path / "prices.json"
    prices.write_text(json.dumps(PRICES))
    words = ["report", str(three_replies(tmp_path)), "--advise", "--format", "json", "--prices", str(prices)]
    [advice] = json.loads(CliRunner().invoke(main, words).stdout)["advice"]
    saving = (67_000 * 3.0 - 24_000 * 3.75 - 43_000 * 0.3) / 1e6
    assert advice["saving"] == pytest.approx(saving)
    assert advice["share"] == pytest.approx(saving / 0.741)


def test_the_bill_as_recorded_is_the_usage_at_the_models_multiples(tmp_path: Path) -> None:
    """Tokens by tokens."""
    column = compare(source(logged(tmp_path)), paces()).tables[0].column(AS_RECORDED)
    assert (column.read, column.write) == (60_400, {"5m": 63_200})
    assert column.units == pytest.approx(40 + 60_400 * 0.1 + 63_200 * 1.25)
    assert column.usd == pytest.approx(column.units * 2e-6)


def test_columns_are_what_the_simulation_says(tmp_path: Path) -> None:
    """Summed over requests; and the best is no dearer than any other."""
    found = source(logged(tmp_path))
    table = compare(found, paces()).tables[0]
    steps = [step for run in found.runs for step in run.steps]
    usages = [usage for run in accelerate(found.runs).usages for usage in run]
    cost = cost_of_steps(steps, usages)
    assert table.column(ACCELERATED).units == pytest.approx(cost)
    assert table.column("none").units == sum(step.total for step in steps)
    best = table.column(BEST).units
    assert best is not None
    assert all(best <= column.units + 1e-6 for column in table.columns[1:] if column.units is not None)


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_shows_each_source_and_says_what_was_concluded(tmp_path: Path) -> None:
    """In text, at a terminal's width."""
    done = replay(desk(tmp_path), logged(tmp_path), "--gaps", "attended")
    assert done.exit_code == 0
    assert "desk: 3 sessions, 9 requests" in done.output
    assert "logged: 1 session, 4 requests" in done.output
    assert done.output.count("tools+system+tail 1h") == 2
    assert "inferred from usage alone" in done.output
    assert "times of 3 of 3 sessions are not recorded" in done.output
    assert "attended: A person works with the agent" in done.output
    assert max(map(len, done.output.splitlines())) <= 80


@pytest.mark.slow
def test_markdown_and_json_hold_the_same_figures(tmp_path: Path) -> None:
    """For a pull request, and for programs."""
    desk(tmp_path)
    done = replay(tmp_path, "--format", "markdown")
    assert done.output.startswith("# agentaccel replay\n\n## desk\n")
    assert done.output.count("| tools+system+tail 5m |") == 3
    (found,) = tables(tmp_path)
    assert [table["pace"] for table in found["tables"]] == [one.name for one in paces()]
    assert found["tables"][0]["columns"][0]["usd"] is None
    assert found["requests"] == 9


def test_a_model_that_only_its_family_is_known_of_is_named(tmp_path: Path) -> None:
    """Its figures are the family's, and nobody knows its price; with one of the user's, that is all there is to say."""
    path = desk(tmp_path)
    cautious = "not listed, so their family's cautious figures hold: claude-sonnet-9"
    unpriced = "no price is known, so USD are n/a: claude-sonnet-9"
    prices = tmp_path / "prices.json"
    prices.write_text('{"claude-sonnet-9": {"input": 3}}')
    (found,) = tables(path, "--gaps", "attended", "--model", "claude-sonnet-9")
    assert {cautious, unpriced} <= set(found["notes"])
    (found,) = tables(path, "--gaps", "attended", "--model", "claude-sonnet-9", "--prices", prices)
    assert cautious in found["notes"]
    assert unpriced not in found["notes"]
    (found,) = tables(path, "--gaps", "attended")
    assert not any("family" in note or "no price" in note for note in found["notes"])


def test_a_reply_that_does_not_say_what_was_written_has_no_bill(tmp_path: Path) -> None:
    """Gateways leave the field out. Where it is written at no charge, there is nothing to say; and it is said where it
    is missing."""
    half = {name: count for name, count in used(30_000, 400).items() if name != "cache_creation_input_tokens"}
    path = write(tmp_path / "logged.jsonl", [conversation("r", used(0, 30_000), half, used(30_400, 900))])
    (found,) = tables(path, "--gaps", "attended")
    recorded, *others = found["tables"][0]["columns"]
    assert recorded["usd"] is None
    assert all(one["usd"] is not None for one in others)
    assert "only 2 of 3 requests say what their cache did: no bill as recorded" in found["notes"]
    claude, gpt = cache_facts("claude-sonnet-5"), cache_facts("gpt-5", provider="openai", wire="chat")
    assert claude is not None
    assert gpt is not None
    usage = Usage(input=1000, read=600)
    assert (has_cost(usage, claude), has_cost(usage, gpt)) == (False, True)
    assert cost_of(usage, gpt) == pytest.approx(400 + 600 * gpt.read)


@pytest.mark.parametrize("command", [("replay",), ("report", "--advise")], ids=" ".join)
@pytest.mark.parametrize("table", ["segments", "sessions"])
def test_a_store_with_damaged_pages_ends_a_command_with_one_sentence(
    tmp_path: Path, table: str, command: tuple[str, ...]
) -> None:
    """Records can be read, and what their prompts were, or whose, cannot."""
    driver = Driver(tmp_path)
    for number in range(3):
        driver.ask(body(user(prose(300, number))))
    driver.accel.close()
    store = tmp_path / "trace.db"
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    data = bytearray(store.read_bytes())
    data[(page - 1) * size : page * size] = b"\xff" * size
    store.write_bytes(data)
    name, *options = command
    done = CliRunner().invoke(main, [name, str(store), *options], prog_name="agentaccel")
    assert done.exit_code == 2
    assert "cannot be read as a trace store" in done.output


@pytest.mark.soak
def test_rules_change_the_bill(tmp_path: Path) -> None:
    """Another model, another lifetime, other prices, another seed."""
    path = desk(tmp_path)

    def usd(policy: str, *more: object) -> Any:
        (found,) = tables(path, "--gaps", "occasional", *more)
        return next(one["usd"] for one in found["tables"][0]["columns"] if one["name"] == policy)

    prices = tmp_path / "prices.json"
    prices.write_text('{"claude-sonnet-5": {"input": 30, "output": 15}}')
    assert usd("none", "--model", "claude-opus-5") > usd("none")
    assert usd("none", "--prices", prices) == pytest.approx(usd("none") * 15)
    assert usd(ACCELERATED, "--ttl", "1h") != usd(ACCELERATED)
    assert usd("tail", "--seed", "3") == usd("tail", "--seed", "3")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere.jsonl"], "no such file or folder"),
        (["empty.jsonl"], "no request"),
        (["other.jsonl"], "in no format that a replay knows"),
        (["desk.jsonl", "--model", "my-deployment"], "my-deployment"),
        (["desk.jsonl", "--prices", "nowhere.json"], "cannot be read"),
        (["desk.jsonl", "--gaps", "leisurely"], "leisurely"),
        (["desk.jsonl", "--ttl", "12h"], "is not one of 'auto', '5m', '1h'"),
        ([], "TRACES"),
    ],
)
def test_what_cannot_be_replayed_is_one_sentence_and_exit_code_2(
    arguments: list[str], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never a stack trace."""
    monkeypatch.chdir(tmp_path)
    desk(tmp_path)
    write(tmp_path / "empty.jsonl", [run_line("r", said("user", "Hello"))])
    write(tmp_path / "other.jsonl", [{"event": 1}])
    done = replay(*arguments)
    assert done.exit_code == 2
    assert complaint in done.output
    assert "Traceback" not in done.output


# --- real traces ------------------------------------------------------------------------------------------------------


def raw_usage(paths: list[Path]) -> tuple[int, int, int]:
    """Uncached, read and written tokens, sub-agents included, by the shortest code that can be right."""
    last: dict[tuple[str, str], Json] = {}
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for entry in map(json.loads, file):
                inner = entry.get("data", {}).get("message") if entry["type"] == "progress" else entry
                if isinstance(inner, dict) and inner.get("type") == "assistant" and "usage" in inner["message"]:
                    last[inner["message"]["id"], inner.get("requestId", "")] = inner["message"]["usage"]
    keys = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    plain, read_, written = (sum(use[key] for use in last.values()) for key in keys)
    return plain, read_, written


@pytest.mark.traces
def test_the_recorded_bill_of_real_logs_reconciles_to_the_token() -> None:
    """Against an independent count of the raw files."""
    folder = Path(os.environ["AGENTACCEL_TRACES"]) / "claude_code"
    found = source(folder)
    usages = [step.recorded for run in found.runs for step in run.steps]
    sums = [sum(getattr(usage, key) for usage in usages) for key in ("uncached", "read", "written")]
    assert tuple(sums) == raw_usage(sorted(folder.glob("*.jsonl.gz")))
    assert [step.total for run in found.runs for step in run.steps] == [usage.input for usage in usages if usage]


@pytest.mark.traces
def test_prefixes_rebuilt_from_usage_are_billed_as_they_were(tmp_path: Path) -> None:
    """Sessions that wrote entries of one hour, under the policy nearest to their client's: to a tenth."""
    found = source(Path(os.environ["AGENTACCEL_TRACES"]) / "entire_cli_claude.jsonl.gz")
    hourly = tuple(
        run for run in found.runs
        if all(set(step.recorded.write or ()) <= {"1h"} for step in run.steps if step.recorded is not None)
    )  # fmt: skip
    assert len(hourly) > 5
    table = compare(Source(name="hourly", runs=hourly), paces()).tables[0]
    recorded, simulated = table.column(AS_RECORDED).units, table.column("tools+system+tail 1h").units
    assert recorded is not None
    assert simulated == pytest.approx(recorded, rel=0.1)


@pytest.mark.traces
@pytest.mark.timeout(600)  # the best plans of eight sources, on whatever machine this is
def test_every_real_trace_is_replayed() -> None:
    """Nothing is left out but the recorded exchanges, which are no conversations; and no bound is passed."""
    done = replay(os.environ["AGENTACCEL_TRACES"], "--format", "json")
    assert done.exit_code == 0, done.output
    for one in json.loads(done.output)["sources"]:
        for table in one["tables"]:
            units = {column["name"]: column["units"] for column in table["columns"]}
            best = table["columns"][-1]
            assert (best["bound"] or best["units"]) <= min(units[name] for name in (*PLACEMENTS, ACCELERATED)) + 1e-3
