"""`agentaccel patterns` and `agentaccel learn`, as a user types them."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from agentaccel.predict.events import Asked, Returned, Said
from agentaccel.store.migrations import MIGRATIONS
from tests.cli.test_commands import run, typed
from tests.driver import Driver, body, user
from tests.predict.agent import Case, cases, foreseen, foresees
from tests.sources.session_lines import line, reply, usage
from tests.sources.session_lines import write as write_log
from tests.store.test_library import known


def recordings(folder: Path, sessions: list[Case], name: str = "runs.jsonl") -> Path:
    """The sessions as a file of agent runs."""
    lines = []
    for number, case in enumerate(sessions):
        messages: list[dict[str, object]] = []
        for event in case.events():
            if isinstance(event, Said):
                messages.append({"role": "user", "content": event.text})
            elif isinstance(event, Asked):
                [call] = event.calls
                function = {"name": call.name, "arguments": json.dumps(call.arguments)}
                messages.append(
                    {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": function}]}
                )
            elif isinstance(event, Returned):
                messages.append({"role": "tool", "tool_call_id": "c", "content": event.result})
            else:
                messages.append({"role": "assistant", "content": event.text})
        tools = [{"name": name, "read_only": True} for name in ("get_user", "get_trip")]
        id_ = f"{case.user}-{number}"
        lines.append({"id": id_, "task_id": id_, "domain": "desk", "tools": tools, "messages": messages})
    path = folder / name
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path


def test_learn_says_how_well_the_first_runs_tell_the_last(tmp_path: Path) -> None:
    """And what it has learned is there for the next process."""
    recordings(tmp_path, cases(20))
    done = run("learn", "runs.jsonl", "--values", "--store", "t.db", "--json", cwd=tmp_path)
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert (found["runs"], found["calls"], found["turns"]) == (20, 60, 12)
    assert found["first"] >= 8
    assert found["first"] <= found["among"] <= found["turns"]
    assert found["patterns"] > 0
    assert foresees(known(tmp_path / "t.db"))


def test_a_run_teaches_once(tmp_path: Path) -> None:
    """However often its file is given: twice would make two sessions of one."""
    recordings(tmp_path, cases(1))
    for _ in range(3):
        done = run("learn", "runs.jsonl", "runs.jsonl", ".", "--store", "t.db", cwd=tmp_path)
        assert done.exit_code == 0, done.output
    assert "nothing new" in done.output
    assert not foresees(known(tmp_path / "t.db"))
    kept = bytes_of_store(tmp_path)
    for case in cases(1):
        for secret in (case.user, *case.trips):
            assert secret.encode() not in kept


def bytes_of_store(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("t.db*"))


def test_learn_reads_logs_of_a_coding_agent(tmp_path: Path) -> None:
    """Two sessions in which a look follows a search."""
    for number in range(6):
        found = {"type": "tool_use", "id": "a", "name": "Search", "input": {"word": f"word{number}"}}
        look = {"type": "tool_use", "id": "b", "name": "Look", "input": {"where": f"place-{number}{number}"}}
        result = {
            "type": "tool_result",
            "tool_use_id": "a",
            "content": json.dumps({"place": f"place-{number}{number}"}),
        }
        lines = [
            line("user", 0, session=f"s{number}", message={"role": "user", "content": "go on"}),
            reply(1, f"{number}1", usage(), found, sessionId=f"s{number}"),
            line("user", 2, session=f"s{number}", message={"role": "user", "content": [result]}),
            reply(3, f"{number}2", usage(), look, sessionId=f"s{number}"),
        ]
        write_log(tmp_path / f"s{number}.jsonl", lines)
    done = run("learn", ".", "--store", "t.db", cwd=tmp_path)
    assert "6 runs, 12 calls" in done.output
    shown = json.loads(run("patterns", "--store", "t.db", "--workload", "claude-code", "--json", cwd=tmp_path).output)
    assert shown["workloads"] == ["agent claude-code"]
    assert {"after": "Search", "then": "Look", "times": 6, "of": 6} in shown["steps"]
    assert "Look(where=result Search.place, last)" in [one["words"] for one in shown["patterns"]]


@pytest.mark.slow
def test_export_clear_and_import_give_the_same_guesses(tmp_path: Path) -> None:
    """Also in a store with a key of its own."""
    recordings(tmp_path, cases(20))
    run("learn", "runs.jsonl", "--values", "--store", "t.db", cwd=tmp_path)
    before = foreseen(known(tmp_path / "t.db"))
    assert foresees(known(tmp_path / "t.db"))
    assert run("patterns", "--store", "t.db", "--export", "p.json", cwd=tmp_path).exit_code == 0
    assert run("patterns", "--store", "t.db", "--clear", "--yes", cwd=tmp_path).exit_code == 0
    assert foreseen(known(tmp_path / "t.db")) == []
    assert "nothing was learned yet" in run("patterns", "--store", "t.db", cwd=tmp_path).output
    for store in ("t.db", "other.db"):
        done = run("patterns", "--store", store, "--import", "p.json", cwd=tmp_path)
        assert done.exit_code == 0, done.output
        assert foreseen(known(tmp_path / store)) == before
    again = typed("patterns", "--store", "t.db", "--import", "p.json", cwd=tmp_path)
    assert again.returncode == 2
    assert "imported before" in again.stderr


def test_an_export_holds_no_words_results_or_values_of_single_sessions(tmp_path: Path) -> None:
    """Nor does the store: neither in clear nor under hashes that somebody else could test."""
    recordings(tmp_path, [Case(user="mia_li_1000", trips=("K0QX0A",), note="swordfish holiday"), *cases(6, 1)])
    run("learn", "runs.jsonl", "--values", "--store", "t.db", cwd=tmp_path)
    run("patterns", "--store", "t.db", "--export", "p.json", cwd=tmp_path)
    exported = (tmp_path / "p.json").read_bytes()
    assert b"get_trip" in exported
    assert b'"#' not in exported
    for secret in (b"mia_li_1000", b"K0QX0A", b"swordfish", b"nothing special"):
        assert secret not in exported
        assert secret not in bytes_of_store(tmp_path)


def test_sensitive_arguments_are_kept_out_on_the_command_line_too(tmp_path: Path) -> None:
    """As is every value without `--values`; beside a value that all runs have in common, which is kept with it."""
    for options in ([], ["--values"], ["--values", "--sensitive", "get_*.language"]):
        folder = tmp_path / str(len(options))
        folder.mkdir()
        recordings(folder, [Case(user=f"u{at}", trips=("A1",), language="plain") for at in range(12)])
        run("learn", "runs.jsonl", "--store", "t.db", *options, cwd=folder)
        assert (b"plain" in bytes_of_store(folder)) is (options == ["--values"])


@pytest.mark.slow
def test_patterns_shows_what_follows_what_and_every_value(tmp_path: Path) -> None:
    """As people read it, 80 columns wide."""
    recordings(tmp_path, cases(20))
    run("learn", "runs.jsonl", "--values", "--store", "t.db", cwd=tmp_path)
    out = run("patterns", "--store", "t.db", cwd=tmp_path).output
    assert "get_user(user_id=user a_a_94, last)" in out
    assert "'en'" in out
    assert all(len(row) <= 80 for row in out.splitlines())
    assert "known are desk" in typed("patterns", "--store", "t.db", "--workload", "x", cwd=tmp_path).stderr


@pytest.mark.slow
@pytest.mark.many(4)
@pytest.mark.parametrize("file", ["{", "[]", '{"kind": "agentaccel patterns", "version": 9, "parts": {}}', None])
def test_a_file_that_holds_no_patterns_is_refused(file: str | None, tmp_path: Path) -> None:
    """One sentence, exit code 2, and the store as it was."""
    if file is not None:
        (tmp_path / "p.json").write_text(file)
    done = typed("patterns", "--store", "t.db", "--import", "p.json", cwd=tmp_path)
    assert done.returncode == 2
    assert "p.json" in done.stderr
    assert "Traceback" not in done.stderr


def test_clear_asks_first(tmp_path: Path) -> None:
    """No is no."""
    recordings(tmp_path, cases(8))
    run("learn", "runs.jsonl", "--values", "--store", "t.db", cwd=tmp_path)
    assert run("patterns", "--store", "t.db", "--clear", cwd=tmp_path, stdin="n\n").exit_code == 1
    assert foresees(known(tmp_path / "t.db"))


def test_one_workload_can_be_named_for_what_is_learned(tmp_path: Path) -> None:
    """The name that the live agent has."""
    recordings(tmp_path, cases(8))
    run("learn", "runs.jsonl", "--values", "--store", "t.db", "--workload", "front-desk", cwd=tmp_path)
    assert list(known(tmp_path / "t.db").workloads) == ["agent front-desk"]


def test_what_nothing_can_be_learned_from_is_said_as_what_it_is(tmp_path: Path) -> None:
    """A store as it is by default can be read to its end; and a file that is no recording concerns no replay."""
    driver = Driver(tmp_path)
    driver.ask(body(user("hello")))
    driver.accel.close()
    (tmp_path / "junk.txt").write_text("hi\n", encoding="utf-8")
    said = str(run("learn", "trace.db", "--store", "l.db", cwd=tmp_path).exception)
    assert said == "sessions without content, which StorePolicy(content=True) keeps: trace.db (1)"
    said = str(run("learn", "junk.txt", "--store", "l.db", cwd=tmp_path).exception)
    assert said == "in no format that calls can be learned from: junk.txt"


def test_looking_at_patterns_leaves_the_store_as_it_is(tmp_path: Path) -> None:
    """One from before there were any, too: it has none, and is brought up to date when it is next written."""
    old = sqlite3.connect(tmp_path / "t.db", isolation_level=None)
    for statement in filter(str.strip, MIGRATIONS[0].split(";")):
        old.execute(statement)
    old.execute("PRAGMA user_version = 1")
    old.close()
    before = (tmp_path / "t.db").read_bytes()
    done = run("patterns", "--store", "t.db", cwd=tmp_path)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "t.db").read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["t.db"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("patterns", "--store", "mine.db"),
        ("patterns", "--store", "mine.db", "--clear", "--yes"),
        ("patterns", "--store", "mine.db", "--import", "none.json"),
        ("learn", "runs.jsonl", "--store", "mine.db"),
        ("purge", "mine.db", "--older-than", "1d"),
        ("report", "mine.db"),
        ("replay", "mine.db"),
    ],
    ids=" ".join,
)
def test_no_command_takes_over_the_database_of_another_program(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """It says what the file is, and leaves nothing in it or beside it."""
    mine = sqlite3.connect(tmp_path / "mine.db")
    mine.execute("CREATE TABLE invoices (n)")
    mine.close()
    before = (tmp_path / "mine.db").read_bytes()
    recordings(tmp_path, cases(1))
    (tmp_path / "none.json").write_text("{}")
    names = sorted(one.name for one in tmp_path.iterdir())
    done = run(*arguments, cwd=tmp_path)
    assert "mine.db is an SQLite database but not a trace store of agentaccel" in f"{done.output}{done.exception}"
    assert done.exit_code
    assert (tmp_path / "mine.db").read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == names
