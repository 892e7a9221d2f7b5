"""The shell tool: what is proven runs without a shell, early or not; all else as in any; nothing outlives a call."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
from pathlib import Path
from typing import TextIO

import pytest

from agentaccel.effects.launch import permission
from agentaccel.effects.spec import NotProven, running_early, spec_of
from agentaccel.errors import ConfigError
from agentaccel.executors import Shell
from agentaccel.types import ToolCall
from tests.effects import sandbox

SECRET = "s3cret-value"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes.txt").write_text("alpha\nbeta\ngamma\n")
    (tmp_path / "home").mkdir()
    return folder


def made(work: Path, **more: object) -> Shell:
    given = {"PATH": os.environ["PATH"], "HOME": str(work.parent / "home"), "API_KEY": SECRET}
    return Shell(**{"cwd": work, "environment": given, "timeout": 20, **more})  # type: ignore[arg-type]


def program(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


def text_of(file: Path) -> str:
    return file.read_text()


def restored(config: Path) -> None:
    config.write_text(config.read_text().replace("[core]\nfsmonitor = x\n", ""))


class Life:
    """Tells when a child is under way and when it, and whoever it started, is gone: they hold the end of a pipe."""

    def __init__(self, file: Path) -> None:
        os.mkfifo(file)
        self.file = file
        self.begin = f"exec 3>{file}; echo $$ >&3"
        """What the child does first."""
        self._heard: TextIO | None = None
        self._pid = 0

    def _first(self) -> int:
        self._heard = self.file.open()
        return int(self._heard.readline())

    def _rest(self) -> None:
        assert self._heard is not None
        with self._heard as heard:
            heard.read()

    async def begun(self) -> None:
        self._pid = await asyncio.wait_for(asyncio.to_thread(self._first), 20)

    async def over(self) -> bool:
        """Bounded: what was killed is gone within milliseconds, and what was not is killed here."""
        try:
            await asyncio.wait_for(asyncio.to_thread(self._rest), 5)
        except TimeoutError:
            os.killpg(self._pid, signal.SIGKILL)
            return False
        return True


def slow(work: Path, folder: Path, lives: dict[str, Life], **more: object) -> Shell:
    """A shell whose system has programs of these names that never end."""
    folder.mkdir()
    for name, life in lives.items():
        program(folder, name, f"{life.begin}; exec sleep 600")
    path = f"{folder}:/usr/bin:/bin"
    return made(work, path=path, environment={"PATH": path, "HOME": "/"}, **more)


# --- what the model sees


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("cat notes.txt", "alpha\nbeta\ngamma"),
        ("echo it > made.txt && cat made.txt", "it"),
        ("true", "[no output]"),
        ("grep -c delta notes.txt", "0\n[exit status 1]"),
        ("ls missing 2>/dev/null; echo after", "after"),
        ("ls missing 2>/dev/null || echo none", "none"),
        ("ls missing 2>&1 | wc -l", "1"),
        ("cd missing 2>/dev/null && ls || echo stayed", "stayed"),
        (
            "cd gone 2>&1 || ls missing",
            "cd: gone: No such file or directory\n[errors]\nls: cannot access 'missing': No such file or directory\n"
            "[exit status 2]",
        ),
        (
            "ls missing || cat notes.txt && cd gone",
            "alpha\nbeta\ngamma\n[errors]\nls: cannot access 'missing': No such file or directory\n"
            "cd: gone: No such file or directory\n[exit status 1]",
        ),
        ("echo hidden >/dev/null", "[no output]"),
        ("echo told >&2", "[errors]\ntold"),
        ("exit 3", "[exit status 3]"),
        ("kill -9 $$", "[exit status 137]"),
        ("cat", "[no output]"),
        ("read line; echo got $line", "got"),
        (
            "cat no*.txt not/h?ng",
            "alpha\nbeta\ngamma\n[errors]\ncat: 'not/h?ng': No such file or directory\n[exit status 1]",
        ),
        ("cat nul\0byte", "[not run: it holds a character that no command line can]"),
        ("echo \ud800", "[not run: it holds a character that no command line can]"),
    ],
)
async def test_the_model_sees_output_then_errors_then_the_exit_status(work: Path, line: str, seen: str) -> None:
    assert await made(work).run(line) == seen


@pytest.mark.parametrize("line", ["cat notes.txt | sort -r | head -n 1", "grep -c delta notes.txt", "ls missing"])
async def test_an_early_run_prints_what_the_run_on_time_prints(work: Path, line: str) -> None:
    with running_early():
        sooner = await made(work).run(line)
    assert sooner == await made(work).run(line)


async def test_output_that_is_binary_invalid_or_huge_is_text_of_a_bounded_size(work: Path) -> None:
    (work / "binary").write_bytes(b"\xff\xfe\0caf\xc3\xa9")
    assert await made(work).run("cat binary") == "\ufffd\ufffd\ufffdcafé"
    for line in ("seq 1 20000", "for i in $(seq 1 20000); do echo $i; done"):
        ran = await made(work, max_result_bytes=1_000).execute(line)
        assert ran.out.startswith("1\n2\n")
        assert ran.out.endswith("20000\n")
        assert "bytes left out" in ran.out
        assert len(ran.out) < 1_100
        assert ran.status == 0, "what is not kept is read all the same"


# --- what runs early


@pytest.mark.parametrize("line", ["rm notes.txt", "cat notes.txt > copy", "cat notes.txt; touch x", "git status"])
async def test_what_is_not_proven_is_never_run_early(work: Path, line: str) -> None:
    program(work, "git", "touch touched")
    shell = made(work, environment={"PATH": f"{work}:{os.environ['PATH']}", "HOME": str(work)})
    before = sorted(os.listdir(work))
    with running_early(), pytest.raises(NotProven):
        await shell.run(line)
    assert sorted(os.listdir(work)) == before
    await shell.run(line)
    assert sorted(os.listdir(work)) != before, "asked for, it runs"


def test_the_tool_declares_itself_and_each_call_is_judged_by_its_line(work: Path) -> None:
    spec = spec_of(made(work).run)
    assert spec is not None

    def launch(**arguments: object) -> str:
        return permission(ToolCall(name="bash", arguments=arguments), spec).launch

    assert launch(command="cat notes.txt") == "predicted"
    assert launch(command="rm notes.txt") == "never"
    assert launch(command="cat notes.txt", cwd="/") == "never"
    assert launch(command=["cat"]) == "never"
    assert launch() == "never"


async def test_settings_that_change_between_verdict_and_run_keep_an_early_run_from_starting(tmp_path: Path) -> None:
    work, home = sandbox.made(tmp_path)
    shell = sandbox.shell(work, home)
    assert shell.judge("git status").launchable == "predicted"
    monitor = program(tmp_path, "monitor", f"touch {tmp_path}/started")
    (work / ".git/config").write_text(f"[core]\n\tfsmonitor = {monitor}\n")
    with running_early(), pytest.raises(NotProven):
        await shell.run("git status")
    assert not (tmp_path / "started").exists()


async def test_a_line_that_loses_its_proof_midway_goes_no_further_early(tmp_path: Path) -> None:
    """The second pipeline waits for the first, which here lasts until the settings have changed."""
    work, home = sandbox.made(tmp_path)
    shell = sandbox.shell(work, home)
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin", "wc", f"echo '[core]' >> {work}/.git/config; echo 'fsmonitor = x' >> {work}/.git/config")
    path = f"{tmp_path}/bin:{shell.path}"
    shell = Shell(cwd=work, home=home, path=path, environment={"PATH": path, "HOME": str(home)})
    with running_early(), pytest.raises(NotProven, match="no longer"):
        await shell.run("wc README.md; git log --oneline")
    # the same line on time goes on, as the model asked for it
    restored(work / ".git/config")
    assert "fix the app" in await shell.run("wc README.md; git log --oneline")


# --- what proven lines see of the user's surroundings


async def test_proven_lines_see_no_secret_of_the_environment(work: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin", "uname", "env")
    path = f"{tmp_path}/bin:/usr/bin:/bin"
    loader = {
        "LD_PRELOAD": "",
        "GREP_OPTIONS": "-v",
        "BASH_ENV": "/nowhere",
        "RIPGREP_CONFIG_PATH": "/nowhere",
        "TZ": "/etc/x",
    }
    shell = made(work, path=path, environment={"PATH": path, "HOME": "/home/dev", "API_KEY": SECRET, **loader})
    seen = await shell.run("uname -a")
    names = {one.partition("=")[0] for one in seen.splitlines()}
    assert SECRET not in seen
    assert not names & set(loader)
    assert {"PATH", "HOME", "LC_ALL", "GIT_OPTIONAL_LOCKS"} <= names
    assert SECRET in await shell.run("env"), "a line that is not proven has the user's environment"


async def test_a_program_that_shadows_one_of_the_system_is_not_taken_for_it(work: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin", "ls", "echo mine")
    shell = made(work, environment={"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "HOME": "/"})
    assert shell.judge("ls").launchable == "never"
    assert shell.judge("which ls").launchable == "never"
    assert shell.judge("cat notes.txt").launchable == "predicted"
    assert await shell.run("ls") == "mine", "the user's own answers, on time"
    program(work, "cat", "echo here")
    assert await shell.run("cat notes.txt") == "alpha\nbeta\ngamma", "a program in the folder is none"


def test_git_is_not_proven_where_variables_lead_it_elsewhere(work: Path) -> None:
    assert made(work).judge("git log").launchable == "predicted"
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_COUNT"):
        led = made(work, environment={"PATH": os.environ["PATH"], "HOME": str(work), name: "x"})
        assert led.judge("git log").launchable == "never"


async def test_a_folder_behind_a_link_is_the_folder(work: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(work)
    shell = made(work, cwd=tmp_path / "link")
    assert await shell.run("cat notes.txt | head -n 1") == "alpha"
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("/")
    assert await shell.run("cat notes.txt | head -n 1") == "alpha", "what was named is what is meant"


async def test_a_pipe_among_the_operands_is_not_opened_early(work: Path) -> None:
    os.mkfifo(work / "pipe.txt")
    for line in ("cat pipe.txt", "cat p*.txt", "head -n 1 notes.txt pipe.txt", "grep a n*.txt p*"):
        with running_early(), pytest.raises(NotProven):
            await made(work).run(line)


# --- nothing outlives a call


async def test_a_line_that_takes_too_long_is_stopped_and_says_so(work: Path) -> None:
    life = Life(work / "life")
    run = asyncio.ensure_future(made(work, timeout=0.3).execute(f"echo begun; {life.begin}; sleep 600"))
    await life.begun()
    ran = await run
    assert (ran.out, ran.status) == ("begun\n", None)
    assert str(ran) == "begun\n[stopped after 0.3 seconds]"
    assert await life.over()


async def test_an_early_run_that_takes_too_long_has_no_result(work: Path, tmp_path: Path) -> None:
    life = Life(work / "life")
    shell = slow(work, tmp_path / "bin", {"wc": life}, timeout=0.3)
    with running_early():
        run = asyncio.ensure_future(shell.run("cat notes.txt | wc -l"))
    await life.begun()
    with pytest.raises(TimeoutError):
        await run
    assert await life.over()


async def test_cancelling_in_the_middle_of_a_pipeline_leaves_no_process(work: Path, tmp_path: Path) -> None:
    lives = {name: Life(work / f"{name}.life") for name in ("sort", "uniq", "wc")}
    shell = slow(work, tmp_path / "bin", lives)
    with running_early():
        run = asyncio.ensure_future(shell.run("sort notes.txt | uniq -c | wc -l"))
    for life in lives.values():
        await life.begun()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert all([await life.over() for life in lives.values()])


@pytest.mark.slow
async def test_cancelling_a_shell_takes_what_it_started_along(work: Path) -> None:
    life = Life(work / "life")
    run = asyncio.ensure_future(made(work).run(f"(trap '' TERM; {life.begin}; sleep 600) & wait"))
    await life.begun()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert await life.over()


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["", ">/dev/null 2>&1"])
async def test_what_a_line_leaves_behind_ends_with_it(work: Path, lost: str) -> None:
    life = Life(work / "life")
    run = asyncio.ensure_future(made(work).run(f"{life.begin}; sleep 600 {lost} & echo over"))
    await life.begun()
    assert await run == "over"
    assert await life.over()


@pytest.mark.slow
async def test_a_process_that_left_its_session_does_not_hold_the_answer_up(work: Path) -> None:
    os.mkfifo(work / "ready")
    line = "setsid sh -c 'echo $$ > pid; echo > ready; exec sleep 600' & read x < ready; echo over"
    assert await made(work).run(line) == "over"
    os.kill(int(text_of(work / "pid")), signal.SIGKILL)  # it was left alone, as it asked for


@pytest.mark.slow
async def test_a_call_that_is_cancelled_at_any_step_leaves_no_file_open(work: Path) -> None:
    """Also where nothing has been started yet, and where everything is over."""
    shell = made(work)
    await shell.run("cat notes.txt")
    before = len(os.listdir("/dev/fd"))
    for steps in range(40):
        run = asyncio.ensure_future(shell.run("cat notes.txt | sort | head -n 1"))
        for _ in range(steps):
            await asyncio.sleep(0)
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(os.listdir("/dev/fd")) <= before


# --- what it refuses


def test_what_cannot_work_is_refused_when_the_tool_is_made(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ({"cwd": work / "missing"}, {"timeout": 0}, {"max_result_bytes": 0}, {"path": "/bin:."}, {"path": ""}):
        with pytest.raises(ConfigError):
            made(work, **wrong)
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(ConfigError, match="Linux or macOS"):
        made(work)


async def test_without_the_analyser_every_line_runs_as_in_any_shell(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter_bash", None)
    from agentaccel.effects.shell import _parser

    _parser.cache_clear()
    try:
        assert made(work).judge("ls").launchable == "never"
        assert await made(work).run("ls") == "notes.txt"
    finally:
        _parser.cache_clear()
