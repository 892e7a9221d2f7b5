"""The command line, as a user types it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from rich.markup import escape

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.__main__ import main as started
from agentaccel.cli import main, options
from agentaccel.cli.options import say, write
from agentaccel.records import TurnRecord
from agentaccel.report import numbers
from agentaccel.report.numbers import clean
from agentaccel.report.render import drawn, terminal
from agentaccel.store.codec import TurnWrite
from agentaccel.store.store import Store
from agentaccel.types import Cause, Miss, Usage
from tests.docs.pages import session_log
from tests.driver import MODEL, Driver, assistant, body, loop, prose, tool, user

ROOT = Path(__file__).parent.parent.parent


def typed(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "agentaccel", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=100)


def run(*arguments: str, cwd: Path = ROOT, stdin: str = "") -> Result:
    """The same in this process, where the other adds nothing."""
    with contextlib.chdir(cwd):
        return CliRunner(env={"NO_COLOR": "1"}).invoke(main, arguments, input=stdin, prog_name="agentaccel")


@pytest.mark.slow
def test_explain_names_segment_byte_and_cause(tmp_path: Path) -> None:
    """Must show 6, as typed."""
    for name, second in (("old", "07"), ("new", "09")):
        request = body(user("a"), system=f"{prose(900)} It is 2026-11-21 12:30:{second}.")
        (tmp_path / f"{name}.json").write_text(json.dumps(request))
    done = typed("explain", "new.json", "old.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "first difference: system, byte" in done.stdout
    assert "likely cause: clock" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_explain_notices_a_change_of_key_order(tmp_path: Path) -> None:
    """Must show 6, second half."""
    one = tool("x")
    (tmp_path / "old.json").write_text(json.dumps(body(user("a"), tools=[one])))
    (tmp_path / "new.json").write_text(json.dumps(body(user("a"), tools=[dict(reversed(list(one.items())))])))
    assert "key order" in run("explain", "new.json", "old.json", cwd=tmp_path).stdout


def test_explain_reads_standard_input_and_prints_json() -> None:
    """For programs."""
    done = run("explain", "-", "--json", stdin=json.dumps(body(user(prose(2000)), system=prose(900))))
    explained = json.loads(done.stdout)
    assert [marker["at"] for marker in explained["markers"]] == ["system", "messages[0].content"]
    assert explained["drift"] is None


def test_explain_on_a_request_that_only_goes_on(tmp_path: Path) -> None:
    """No false alarm, and the warm prefix is expected to be read."""
    messages = [user(prose(1500)), assistant("ok"), user("more")]
    (tmp_path / "old.json").write_text(json.dumps(body(messages[0])))
    (tmp_path / "new.json").write_text(json.dumps(body(*messages)))
    out = run("explain", "new.json", "old.json", "--json", cwd=tmp_path).stdout
    assert json.loads(out)["expected"]["read"] > 1500


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("[]", "not a request body"),
        ('{"messages": [], "model": "gpt-99"}', "gpt-99"),
    ],
)
def test_explain_says_what_is_wrong_with_its_input(content: str, says: str, tmp_path: Path) -> None:
    """One sentence and exit code 2."""
    (tmp_path / "x.json").write_text(content)
    done = typed("explain", "x.json", cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("named", [{"model": "prod"}, {}], ids=["a deployment", "no name"])
def test_explain_reads_a_request_as_one_for_the_model_that_is_named(named: dict[str, str], tmp_path: Path) -> None:
    """And so the one before it: to be called otherwise is no change of the model."""
    for name, messages in (("old", [user(prose(1500))]), ("new", [user(prose(1500)), assistant("ok"), user("more")])):
        request = {**body(*messages), "model": None, **named}
        (tmp_path / f"{name}.json").write_text(json.dumps(request))
    assert "--as claude-sonnet-5" in str(run("explain", "new.json", "old.json", cwd=tmp_path).exception)
    done = run("explain", "new.json", "old.json", "--as", "claude-sonnet-5", "--json", cwd=tmp_path)
    explained = json.loads(done.stdout)
    assert explained["model"] == "claude-sonnet-5"
    assert explained["expected"]["read"] > 1500
    assert explained["drift"] is None


def test_explain_says_that_a_provider_without_the_usual_platform_needs_another() -> None:
    """What was not given cannot be wrong."""
    done = run("explain", "-", "--provider", "compatible", stdin=json.dumps(body(user("hi"), model="qwen")))
    assert "of platform 'server': name one with --platform: openrouter," in str(done.exception)


@pytest.mark.parametrize(
    ("platform", "model", "field"),
    [
        ("openrouter", "openai/gpt-5.5", "session_id"),
        ("mistral", "mistral-large-latest", "prompt_cache_key"),
        ("vllm", "qwen", "stream_options"),
    ],
)
def test_explain_shows_every_field_that_a_run_adds(platform: str, model: str, field: str) -> None:
    """And not markers alone: it is the plan that a run sends by."""
    request = {"model": model, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    arguments = ("explain", "-", "--platform", platform)
    assert f"Fields + {field} " in " ".join(run(*arguments, stdin=json.dumps(request)).stdout.split())
    explained = json.loads(run(*arguments, "--json", stdin=json.dumps(request)).stdout)
    run_adds = Accel(Policy(store=StorePolicy(enabled=False))).plan(request, platform=platform)
    assert explained["options"].keys() == run_adds.options.keys()
    assert field in run_adds.options


def test_explain_takes_a_pause_for_a_tool_as_one(tmp_path: Path) -> None:
    """Where the request brings a result, the reply before it had asked for that: as in a run, nobody thinks it over."""
    call = {"type": "tool_use", "id": "t", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "seen"}
    first = body(user(prose(300)), system=prose(3000), tools=[tool("look", 600)])
    loop_ = {**first, "messages": [*first["messages"], assistant([call]), user([result])]}
    lifetimes = []
    for request in (loop_, {**first, "messages": [*first["messages"], assistant("ok"), user("more")]}):
        (tmp_path / "old.json").write_text(json.dumps(first))
        (tmp_path / "new.json").write_text(json.dumps(request))
        out = run("explain", "new.json", "old.json", "--gap", "2000", "--json", cwd=tmp_path).stdout
        lifetimes.append({marker["ttl"] for marker in json.loads(out)["markers"]})
    assert lifetimes == [{"5m"}, {"1h"}]


def test_explain_says_that_a_request_names_no_model() -> None:
    """There is nothing that an alias could be for."""
    done = run("explain", "-", stdin=json.dumps({"messages": [user("hi")]}))
    assert str(done.exception).startswith("the request names no model: add one")


def test_explain_says_what_is_missing_where_there_are_only_instructions() -> None:
    """A developer's message is one, and no turn of the conversation."""
    request = {"model": "gpt-5.5", "messages": [{"role": "developer", "content": "Be brief."}]}
    said = " ".join(run("explain", "-", stdin=json.dumps(request)).stdout.split())
    assert "a message of the user is missing (system and developer messages are instructions)" in said


@pytest.mark.slow
def test_purge_as_typed(tmp_path: Path) -> None:
    """By age."""
    loop(Driver(tmp_path), 3)
    done = typed("purge", "trace.db", "--older-than", "30d", cwd=tmp_path)
    assert done.stdout.startswith("3 records removed")
    assert typed("purge", "trace.db", "--older-than", "soon", cwd=tmp_path).returncode == 2
    assert typed("purge", "nowhere.db", "--older-than", "1d", cwd=tmp_path).returncode == 2


def test_emulate_says_how_to_use_it() -> None:
    """Its help, at least; the server has tests of its own."""
    done = run("emulate", "--help")
    assert done.exit_code == 0
    assert "--faults" in done.stdout


def test_the_commands_and_the_version_are_listed_quickly() -> None:
    """Commands load when they are used."""
    done = run("--help")
    assert all(name in done.stdout for name in ("report", "explain", "demo", "emulate", "purge"))
    assert run("--version").stdout.startswith("agentaccel, version 0.")


@pytest.mark.parametrize("name", main.list_commands(None))  # type: ignore[arg-type]  # no context is needed
def test_the_page_of_the_command_line_lists_every_option_and_what_it_takes(name: str) -> None:
    """By the options' own definitions."""
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    section = page.split(f"## agentaccel {name}\n")[1].split("\n## ")[0]
    command = main.get_command(None, name)  # type: ignore[arg-type]
    assert command is not None
    for option in command.params:
        if isinstance(option, click.Option):
            taken = option.type.choices if isinstance(option.type, click.Choice) else ()
            missing = [one for one in (*option.opts, *taken) if f"`{one}" not in section]
            assert not missing


def test_the_report_prices_an_alias_and_takes_prices_from_a_file(tmp_path: Path) -> None:
    """A deployment's name has no price of its own: the alias in the record, or the user's file, gives one."""
    driver = Driver(tmp_path, policy=Policy(strict=True, aliases={"prod": MODEL}))
    driver.ask({**body(user(prose(1500))), "model": "prod"}, as_model=MODEL)
    listed = json.loads(run("report", "trace.db", "--format", "json", cwd=tmp_path).stdout)["total"]["costs"]["paid"]
    assert listed > 0
    (tmp_path / "prices.json").write_text(json.dumps({"prod": {"input": 200.0}}))
    done = run("report", "trace.db", "--prices", "prices.json", "--format", "json", cwd=tmp_path)
    found = json.loads(done.stdout)
    assert found["total"]["costs"]["paid"] > 50 * listed
    assert not found["notes"]
    (tmp_path / "prices.json").write_text("[]")
    wrong = run("report", "trace.db", "--prices", "prices.json", cwd=tmp_path)
    assert wrong.exit_code == 2
    assert "prices by model" in wrong.stderr


@pytest.mark.parametrize("command", ["report", "replay"])
def test_prices_that_no_request_uses_are_named_with_the_models_there_are(command: str, tmp_path: Path) -> None:
    """A name that is written otherwise would be ignored without a word."""
    loop(Driver(tmp_path), 2)
    prices = {MODEL: {"input": 3.0}, "sonnet": {"input": 3.0}}
    (tmp_path / "prices.json").write_text(json.dumps(prices))
    done = run(command, "trace.db", "--prices", "prices.json", "--format", "json", cwd=tmp_path)
    assert f"no request uses the prices of sonnet: the models are {MODEL}" in json.loads(done.stdout)["notes"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "x" * 300),
        ("replay", "x" * 300),
        ("purge", "--older-than", "1d", "x" * 300),
        ("demo", "--store", "a-file/demo.db"),
    ],
)
def test_a_path_that_cannot_be_is_one_sentence(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """As typed: a traceback says nothing of what to do."""
    (tmp_path / "a-file").touch()
    done = typed(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"agentaccel {arguments[0]}: ")


@pytest.mark.parametrize("gap", ["-1", "nan", "inf"])
def test_a_gap_is_a_number_of_seconds(gap: str) -> None:
    """Nothing can be said of another one."""
    done = run("explain", "-", "--gap", gap, stdin=json.dumps(body(user("hi"))))
    assert "seconds between the two requests, 0 or more" in str(done.exception)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--provider", "openai"), "'openai' does not serve it; name another provider or platform"),
        (("--platform", "server"), "nothing is known of the cache of platform 'server'"),
    ],
)
def test_explain_says_what_to_give_where_a_known_model_has_no_rules(options: tuple[str, ...], says: str) -> None:
    """To map a name to itself would change nothing."""
    done = run("explain", "-", *options, stdin=json.dumps(body(user("hi"), model=MODEL)))
    assert says in str(done.exception)
    assert "aliases" not in str(done.exception)


def test_learning_from_what_is_not_there_leaves_nothing_behind(tmp_path: Path) -> None:
    done = run("learn", "nowhere", "--store", "store.db", cwd=tmp_path)
    assert "no such file or folder: nowhere" in str(done.exception)
    assert not list(tmp_path.iterdir())


def test_learning_from_nothing_is_no_lesson_that_was_learned_before(tmp_path: Path) -> None:
    """A folder without logs is mistaken more often than it is meant."""
    (tmp_path / "logs").mkdir()
    done = run("learn", "logs", "--store", "store.db", cwd=tmp_path)
    assert "there is no conversation in these records" in str(done.exception)


def test_a_dialect_that_is_not_known_is_an_error_that_names_the_known_ones() -> None:
    """A verdict about another dialect is no answer."""
    done = run("effects", "select 1", "--dialect", "foo")
    assert done.exit_code != 0
    assert str(done.exception).startswith("--dialect is 'foo'; known are ")
    assert "postgres" in str(done.exception)
    assert run("effects", "select 1", "--dialect", "SQLite").exit_code == 0


@pytest.mark.parametrize(("typed_", "meant"), [("reprot", "report"), ("chek", "check"), ("efects", "effects")])
def test_a_command_that_is_nearly_one_is_suggested(typed_: str, meant: str) -> None:
    done = run(typed_)
    assert done.exit_code == 2
    assert f"Did you mean '{meant}'?" in done.stderr


HOSTILE = "e\x1b]0;x\x07\x9b31m\u202eb\nfake"
"""Sets a terminal's title, its colour and its direction, and begins a line of its own."""
PRINTING: dict[str, tuple[str, ...]] = {
    "check": ("check", ".", "--min-hit-rate", "0.1", "--no-new-cause", "baseline.json"),
    "check of an agent": ("check", ".", "--min-hit-rate", "0.1", "--max-cost", "1", "--agent", HOSTILE),
    "check of nothing": ("check", f"{HOSTILE}/none", "--max-cost", "1"),
    "check against": ("check", ".", "--no-new-cause", HOSTILE),
    "check in prices": ("check", ".", "--max-cost", "1", "--prices", f"{HOSTILE}.json"),
    "report": ("report", ".", "--causes", "--advise"),
    "report in Markdown": ("report", ".", "--causes", "--advise", "--format", "markdown"),
    "report by": ("report", ".", "--by", HOSTILE),
    "report since": ("report", ".", "--since", HOSTILE),
    "report of a store": ("report", f"{HOSTILE}.db", "--by", "agent", "--causes"),
    "replay": ("replay", "."),
    "replay in Markdown": ("replay", ".", "--format", "markdown"),
    "replay of nothing": ("replay", f"{HOSTILE}/none"),
    "learn": ("learn", ".", "--store", f"{HOSTILE}.db"),
    "learn nothing": ("learn", f"{HOSTILE}.jsonl", "--store", f"{HOSTILE}.db"),
    "patterns": ("patterns", "--store", f"{HOSTILE}.db"),
    "patterns of": ("patterns", "--store", f"{HOSTILE}.db", "--workload", HOSTILE),
    "patterns --export": ("patterns", "--store", f"{HOSTILE}.db", "--export", f"{HOSTILE}.out"),
    "patterns --import": ("patterns", "--store", f"{HOSTILE}.db", "--import", f"{HOSTILE}.json"),
    "patterns --clear": ("patterns", "--store", f"{HOSTILE}.db", "--workload", HOSTILE, "--clear"),
    "patterns --clear --yes": ("patterns", "--store", f"{HOSTILE}.db", "--clear", "--yes"),
    "purge": ("purge", f"{HOSTILE}.db", "--older-than", "1d"),
    "purge nothing": ("purge", f"{HOSTILE}.none", "--older-than", "1d"),
    "purge, of an age": ("purge", "--older-than", HOSTILE),
    "explain": ("explain", f"{HOSTILE}.json"),
    "explain as": ("explain", f"{HOSTILE}.json", "--as", HOSTILE),
    "explain on": ("explain", f"{HOSTILE}.json", "--platform", HOSTILE),
    "explain after": ("explain", f"{HOSTILE}.json", "changed.json", "--as", "claude-sonnet-5"),
    "effects of a command": ("effects", f"echo {HOSTILE}"),
    "effects of tools": ("effects", f"{HOSTILE}.tools.json"),
    "demo": ("demo", "--store", f"{HOSTILE}.jsonl"),
    "emulate": ("emulate", "--script", f"{HOSTILE}.jsonl"),
    "emulate nothing": ("emulate", "--script", f"{HOSTILE}.none"),
    "a command": (HOSTILE,),
    "an option": ("report", f"--{HOSTILE}"),
    "an option of all": (f"--{HOSTILE}",),
    "too many arguments": ("purge", "a", HOSTILE.replace("\n", " "), "--older-than", "1d"),
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which everything is called so: files, sessions, agents, models, tools and arguments."""
    folder = tmp_path_factory.mktemp("hostile")
    entry = json.loads(session_log().splitlines()[0])
    entry["message"]["model"] = HOSTILE
    (folder / f"{HOSTILE}.jsonl").write_text(json.dumps({**entry, "sessionId": HOSTILE, "uuid": HOSTILE}) + "\n")
    (folder / f"{HOSTILE}0.jsonl").write_text("garbage\n")
    call = {"id": HOSTILE, "function": {"name": HOSTILE, "arguments": json.dumps({HOSTILE: HOSTILE})}}
    messages = [user(HOSTILE), {"role": "assistant", "content": None, "tool_calls": [call]}]
    run_ = {"id": HOSTILE, "task_id": HOSTILE, "domain": HOSTILE, "tools": [tool(HOSTILE)], "messages": messages}
    (folder / "runs.jsonl").write_text(json.dumps(run_) + "\n")
    request = body(user(HOSTILE), model=HOSTILE, system=HOSTILE, tools=[tool(HOSTILE)])
    (folder / f"{HOSTILE}.json").write_text(json.dumps(request))
    (folder / "changed.json").write_text(json.dumps({**request, "tools": [tool(f"{HOSTILE}2")]}))
    (folder / f"{HOSTILE}.tools.json").write_text(json.dumps([{"name": HOSTILE, HOSTILE: HOSTILE}]))
    (folder / "baseline.json").write_text(json.dumps({"causes_by_agent": {}, "total": {"causes": []}}))
    told = {
        "misses": (Miss(cause=Cause.CHANGED, tokens=9, detail=HOSTILE),),
        "usage": Usage(input=99, read=9, write={}),
    }
    record = TurnRecord(
        session=HOSTILE, agent=HOSTILE, provider="anthropic", model=HOSTILE, started=1e9, outcome="ok", **told
    )
    store = Store(folder / f"{HOSTILE}.db")  # what is no printable name, sessions refuse
    store.write_turn(TurnWrite(record, None, (), None, (), 1, (), ()))
    store.close()
    return folder


@pytest.mark.parametrize("words", PRINTING.values(), ids=PRINTING)
def test_no_command_prints_what_moves_a_terminal(
    words: tuple[str, ...], hostile: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever comes from outside: no escape, no change of direction, and no line that a name has made.

    What click takes off where output is no terminal is not in these names: it would hide what a terminal gets.
    """
    monkeypatch.chdir(hostile)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys, "argv", ["agentaccel", *words])
    monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
    with pytest.raises(SystemExit) as ended:
        started()
    printed = "".join(capsys.readouterr())
    assert ended.value.code in (0, 1, 2)
    assert printed
    assert "Traceback" not in printed
    lines = printed.split("\n")
    assert lines == [clean(line) for line in lines]
    assert not [line for line in lines if line.startswith("fake")]


def test_the_gate_is_what_keeps_a_terminal_still(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The twin: without it a name that nobody else looked at comes through. Styles do, and make nothing move."""
    say(HOSTILE)
    write(f"a {HOSTILE} \x1b[1mbold\x1b[0m\n")
    console = terminal(80, color=False, markup=True)
    console.print(escape(HOSTILE))
    printed = capsys.readouterr().out
    assert "\x07" not in printed
    assert "\x9b" not in printed + drawn(console)
    for module in (options, numbers):
        monkeypatch.setattr(module, "clean", lambda text: text)
    say(HOSTILE)
    write(f"a {HOSTILE}\n")
    console.print(escape(HOSTILE))
    assert capsys.readouterr().out.count("\x1b]0;x\x07") == 2
    assert "\x9b31m" in drawn(console)


def test_commands_print_through_the_gate_alone() -> None:
    """What a new command prints goes through it, too."""
    for path in (ROOT / "agentaccel" / "cli").glob("*.py"):
        text = path.read_text()
        found = re.findall(r"click\.(?:echo|confirm|prompt|secho)\(|(?<![.\w])print\(|sys\.std(?:out|err)\.write", text)
        assert path.name == "options.py" or not found, path.name


def test_a_command_that_is_like_no_other_is_just_not_there() -> None:
    """The twin: nothing is suggested for anything."""
    assert "Did you mean" not in run("frobnicate").stderr


def test_explain_plans_as_with_the_consents_that_are_given(tmp_path: Path) -> None:
    """A removed tool is kept, and said to be; without the consent nothing is changed."""
    tools = [tool("x", 900), tool("y", 900)]
    (tmp_path / "old.json").write_text(json.dumps(body(user("a"), tools=tools)))
    (tmp_path / "new.json").write_text(json.dumps(body(user("a"), tools=list(reversed(tools)))))
    arguments = ("explain", "new.json", "old.json", "--json")
    assert json.loads(run(*arguments, cwd=tmp_path).stdout)["consents"] == []
    with_consent = json.loads(run(*arguments, "--consent", "freeze_tools", cwd=tmp_path).stdout)
    assert with_consent["consents"] == ["freeze_tools"]
    assert with_consent["expected"]["read"] > 0
    shown = run(*arguments[:-1], "--consent", "freeze_tools", cwd=tmp_path).stdout
    assert "+ changed with freeze_tools" in shown
    assert run(*arguments, "--consent", "everything", cwd=tmp_path).exit_code == 2


def test_a_request_without_a_model_is_said_to_have_none(tmp_path: Path) -> None:
    """And not to be for one that is called nothing."""
    with Accel(Policy(store=StorePolicy(enabled=False))) as accel:
        assert "the request names no model" in accel.plan({"messages": [user("hi")]}).reasons
