"""`agentaccel selfhost export`: consent first, private files that appear as a whole, and what is said of them."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentaccel import Policy, StorePolicy
from agentaccel.cli import main
from agentaccel.cli.export import HELD_OUT, TRAIN, write_files
from agentaccel.effects.masking import MASK
from agentaccel.replay.export import Chat, ExportTally, chosen
from tests.driver import Driver, body, tool, user
from tests.replay.test_export import told
from tests.sources.session_lines import line, reply, usage
from tests.sources.session_lines import write as write_log

KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["selfhost", "export", *words])


def one(number: int, **fields: Any) -> dict[str, Any]:
    call = {"id": "c1", "type": "function", "function": {"name": "login", "arguments": '{"password": "plumpie"}'}}
    messages = [
        {"role": "user", "content": f"task {number}, with {KEY}"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "plumpie is right"},
        {"role": "assistant", "content": "done"},
    ]
    return {"id": f"r{number}", "task_id": f"t{number // 2}", "model": "m", "messages": messages, **fields}


def traces(*entries: dict[str, Any], name: str = "runs.jsonl") -> str:
    Path(name).write_text("".join(json.dumps(one) + "\n" for one in entries), encoding="utf-8")
    return name


def lines(folder: str = "out") -> list[dict[str, Any]]:
    files = sorted(Path(folder).iterdir())
    assert {one.name for one in files} <= {TRAIN, HELD_OUT}
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def test_nothing_is_read_or_written_without_consent() -> None:
    """And it is said what consent means."""
    Path("runs.jsonl").write_bytes(b"\xff\xfe")
    done = run("runs.jsonl", "--out", "out")
    assert done.exit_code == 2
    assert "--consent" in done.stderr
    assert "training data" in done.stderr
    assert not done.stdout
    assert os.listdir() == ["runs.jsonl"]


def test_conversations_become_private_files_split_by_task() -> None:
    done = run(traces(*map(one, range(12)), one(3)), "--out", "out", "--consent", "--held-out", "0.5")
    assert done.exit_code == 0, done.stderr
    assert stat.S_IMODE(os.stat("out").st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in Path("out").iterdir()} == {0o600}
    train, held_out = (Path("out", name).read_text(encoding="utf-8").splitlines() for name in (TRAIN, HELD_OUT))
    tasks = [{json.loads(one)["task"] for one in side} for side in (train, held_out)]
    assert len(tasks[0] | tasks[1]) == 6
    assert not tasks[0] & tasks[1]
    said = done.stdout.splitlines()
    assert said[:3] == [
        f"{Path('out', TRAIN)}: {len(train)} conversations of {len(tasks[0])} tasks",
        f"{Path('out', HELD_OUT)}: {len(held_out)} conversations of {len(tasks[1])} tasks",
        "in all 24 replies and 12 calls; secrets masked: 36",
    ]
    assert "note: replies or runs that were there more than once, and count once: 1" in said
    assert os.listdir() == ["runs.jsonl", "out"] or set(os.listdir()) == {"runs.jsonl", "out"}


def test_no_secret_is_written_and_all_else_is() -> None:
    run(traces(one(1), one(2, system=f"Use {KEY}.")), "--out", "out", "--consent", "--sensitive", "login.user")
    whole = json.dumps(lines())
    assert KEY not in whole
    assert "plumpie" not in whole
    assert "task 1, with " + MASK in whole
    assert f"{MASK} is right" in whole


def test_what_was_written_twice_is_the_same_to_the_byte() -> None:
    name = traces(*map(one, range(12)))
    for folder in ("out", "again"):
        run(name, "--out", folder, "--consent", "--held-out", "0.4")
    for file in (TRAIN, HELD_OUT):
        assert Path("out", file).read_bytes() == Path("again", file).read_bytes()


@pytest.mark.parametrize("there", ["folder", "file", "link"])
def test_nothing_is_overwritten(there: str) -> None:
    """What to do is said."""
    if there == "folder":
        Path("out").mkdir()
        Path("out", "mine.txt").write_text("mine", encoding="utf-8")
    elif there == "file":
        Path("out").write_text("mine", encoding="utf-8")
    else:
        Path("out").symlink_to("nowhere")
    done = run(traces(one(1)), "--out", "out", "--consent")
    assert done.exit_code == 2
    assert "is there already, and nothing is overwritten: name a new folder" in done.stderr
    assert not (Path("out") / TRAIN).exists()
    assert set(os.listdir()) == {"runs.jsonl", "out"}


def test_an_empty_folder_is_taken() -> None:
    Path("out").mkdir()
    assert run(traces(one(1)), "--out", "out", "--consent").exit_code == 0
    assert len(lines()) == 1


def test_an_export_that_breaks_off_leaves_nothing() -> None:
    def chats() -> Iterator[tuple[Chat, bool]]:
        yield from chosen([told(*_talk())], ExportTally(), share=0)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_files(Path("out"), chats(), "messages")
    assert os.listdir() == []


def test_a_folder_that_comes_to_be_there_in_the_meantime_is_left_alone() -> None:
    def chats() -> Iterator[tuple[Chat, bool]]:
        yield from chosen([told(*_talk())], ExportTally(), share=0)
        Path("out").mkdir()
        Path("out", TRAIN).write_text("mine", encoding="utf-8")

    with pytest.raises(OSError, match="not empty"):
        write_files(Path("out"), chats(), "messages")
    assert Path("out", TRAIN).read_text(encoding="utf-8") == "mine"
    assert os.listdir() == ["out"]


def _talk() -> tuple[Any, ...]:
    from agentaccel.predict.events import Answered, Said

    return Said("a"), Answered("b")


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_no_folder_that_looks_whole(tmp_path: Path) -> None:
    """What it leaves has another name, and nobody else may read it."""
    program = (
        "import os, signal, sys\nfrom pathlib import Path\nfrom agentaccel.cli.export import write_files\n"
        "from agentaccel.replay.export import ExportTally, chosen\nfrom tests.replay.test_export import told\n"
        "from tests.cli.test_export import _talk\n"
        "def chats():\n"
        "    yield from chosen([told(*_talk())], ExportTally(), share=0)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        f"write_files(Path({str(tmp_path / 'out')!r}), chats(), 'messages')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == -9
    [left] = tmp_path.iterdir()
    assert left.name.startswith(".out.")
    assert left.name.endswith(".partial")
    assert stat.S_IMODE(left.stat().st_mode) == 0o700


def test_every_kind_of_recording_is_taken() -> None:
    """A store that keeps content with its tools and its model; logs of Claude Code with theirs."""
    driver = Driver(Path.cwd(), policy=Policy(strict=True, store=StorePolicy(content=True)))
    said = [user("hello"), {"role": "assistant", "content": [{"type": "text", "text": "a tree"}]}, user("thanks")]
    with driver.accel.session("talk", agent="wood"):
        driver.ask(body(*said[:1], system="Be brief.", tools=[tool("look", 3)]))
        driver.ask(body(*said, system="Be brief.", tools=[tool("look", 3)]))
    driver.accel.close()
    Path("logs").mkdir()
    log = [
        line("user", 0, message={"role": "user", "content": "hi"}),
        reply(1, "1", usage(), {"type": "text", "text": "x"}),
    ]
    write_log(Path("logs/s1.jsonl"), log)
    done = run("trace.db", "logs", "--out", "out", "--consent", "--held-out", "0", "--form", "messages")
    assert done.exit_code == 0, done.stderr
    stored, logged = lines()
    assert [one["content"] for one in stored["messages"]] == ["Be brief.", "hello", "a tree"]
    assert stored["tools"][0]["function"]["name"] == "look"
    assert stored["tools"][0]["function"]["parameters"] == {"type": "object", "properties": {}}
    assert stored["model"] == "claude-sonnet-5"
    assert [one["content"] for one in logged["messages"]] == ["hi", "x"]
    assert "the terms of providers may forbid to train on what their models reply" in done.stdout


def test_what_was_left_out_is_said() -> None:
    """Stores without content, spans, and conversations to which no model replied."""
    driver = Driver(Path.cwd())
    driver.ask(body(user("hello")))
    driver.accel.close()
    Path("spans.json").write_text(json.dumps({"resourceSpans": []}), encoding="utf-8")
    mute = one(5, messages=[{"role": "user", "content": "hello?"}])
    done = run("trace.db", "spans.json", traces(one(1), mute), "--out", "out", "--consent", "--held-out", "0")
    assert done.exit_code == 0, done.stderr
    assert "note: in no format that holds conversations: spans.json" in done.stdout
    assert "note: sessions without content, which StorePolicy(content=True) keeps: trace.db (1)" in done.stdout
    assert "note: conversations without a reply to anything that a user said, left out: 1" in done.stdout


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("none.jsonl",), "no such file"),
        (("empty.jsonl",), "empty files: 1"),
        (("runs.jsonl", "--sensitive", "password"), "sensitive"),
        (("runs.jsonl", "--out", "no/such/out"), "cannot be written"),
    ],
)
def test_what_cannot_be_is_refused_with_one_sentence_and_leaves_nothing(words: tuple[str, ...], why: str) -> None:
    traces(one(1))
    Path("empty.jsonl").touch()
    before = set(os.listdir())
    done = run("--consent", "--out", "out", *words)
    assert done.exit_code == 2
    assert why in done.stderr
    assert set(os.listdir()) == before


@pytest.mark.parametrize(
    ("entries", "share", "note"),
    [
        ([one(1)], "0.01", "no task is held out, of 1 task: a larger --held-out may have some"),
        ([one(1)], "0.999", "every task is held out, and there is nothing to train on"),
        ([one(1)], "0", "replies are of m (1); a draft learns best from replies of the very model that it drafts for"),
        ([one(1), one(2, model="n")], "0", "replies are of 2 models: m (1), n (1); a draft learns best"),
        ([one(1, model=None)], "0", "which model replied is not recorded"),
        ([one(1, model="gpt-4o")], "0", "the terms of providers may forbid to train on what their models reply"),
    ],
)
def test_what_to_know_before_training_is_said(entries: list[dict[str, Any]], share: str, note: str) -> None:
    done = run(traces(*entries), "--out", "out", "--consent", "--held-out", share)
    assert done.exit_code == 0, done.stderr
    assert f"note: {note}" in done.stdout


def test_names_from_outside_bring_no_escapes_to_a_terminal() -> None:
    done = run(traces(one(1, model="m\x1b[31m\nn")), "--out", "out", "--consent")
    assert "\x1b" not in done.stdout
    assert "m?[31m?n (1)" in done.stdout


@pytest.mark.slow
def test_memory_does_not_grow_with_what_is_exported() -> None:
    """A conversation at a time is held, of however many."""

    def peak(conversations: int) -> int:
        name = traces(*(one(n, system=f"{n} {'the lamp weighs 12.5 kg; ' * 2000}") for n in range(conversations)))
        tracemalloc.start()
        try:
            assert run(name, "--out", f"out{conversations}", "--consent").exit_code == 0
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(5) > 0  # what is loaded once
    assert peak(60) < 2 * peak(6)
