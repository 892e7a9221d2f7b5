"""Every allowed form of a command was seen to change nothing: neither the folder, nor the repository, nor the home."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from agentaccel.effects.places import Surroundings
from agentaccel.effects.shell import judge_shell
from agentaccel.effects.spec import running_early
from agentaccel.executors import Shell
from tests.effects import sandbox
from tests.effects.corpora import shell as cases

MOVING = ("ps", "date", "uptime", "free", "df", "ss", "lsof", "mount", "findmnt", "apt-cache", "shuf")
"""Programs that print something else each time."""

SHUFFLED = ("rg", "fd", "fdfind")
"""Programs that print their lines in any order: several threads look for them."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return sandbox.made(tmp_path_factory.mktemp("sandbox"))


@pytest.fixture(scope="module")
def lines(place: tuple[Path, Path]) -> list[str]:
    """The ordinary command lines that our executor proves to read, there."""
    shell = sandbox.shell(*place)
    texts = [case.case["input"]["command"] for case in cases("reads_shell", escapes=False)]
    there = Surroundings(cwd=place[0], home=place[1])
    texts = [text for text in texts if judge_shell(text, there).launchable == "predicted"]
    proven = [text for text in texts if shell.judge(text).launchable == "predicted"]
    assert len(proven) >= 0.75 * len(texts), "too few of the programs are installed to prove anything"
    return proven


@pytest.mark.slow
@pytest.mark.parametrize("one_in", [12, pytest.param(1, marks=pytest.mark.soak)])
async def test_allowed_commands_change_nothing_as_our_executor_runs_them(
    place: tuple[Path, Path], lines: list[str], one_in: int
) -> None:
    """Must show 5: contents, modes, times and the state of git before and after each line of the corpus."""
    work, home = place
    shell, root = sandbox.shell(work, home), work.parent
    before = sandbox.snapshot(root)
    for text in lines[::one_in]:
        with running_early():
            await shell.run(text)
        after = sandbox.snapshot(root)
        assert after == before, f"{text!r} changed {sorted(set(after.items()) ^ set(before.items()))[:4]}"


@pytest.mark.slow
@pytest.mark.parametrize("one_in", [12, pytest.param(1, marks=pytest.mark.soak)])
async def test_a_proven_line_prints_what_a_shell_would_print(
    place: tuple[Path, Path], lines: list[str], one_in: int
) -> None:
    """Pipes, lists, redirections, patterns and folders mean what they mean to bash."""
    work, home = place
    shell = sandbox.shell(work, home)
    compared = [text for text in lines[::one_in] if not set(MOVING) & set(text.split())]
    for text in compared:
        ran = await shell.execute(text)
        theirs = await asyncio.to_thread(_bash, text, shell)
        printed = theirs.stdout.decode()
        assert ran.status == theirs.returncode, text
        assert told(text, ran.out) == told(text, printed), text
    assert len(compared) >= 0.9 * len(lines[::one_in])


def told(text: str, printed: str) -> str | list[str]:
    """What a line has `printed`, as far as two runs of it agree."""
    return sorted(printed.split("\n")) if set(SHUFFLED) & set(text.split()) else printed


def _bash(text: str, shell: Shell) -> subprocess.CompletedProcess[bytes]:
    environment = {**(shell.environment or {}), "LC_ALL": "C.UTF-8", "GIT_OPTIONAL_LOCKS": "0"}
    command = ["bash", "-c", text]
    return subprocess.run(
        command, cwd=shell.cwd, env=environment, capture_output=True, stdin=subprocess.DEVNULL, timeout=60
    )


def test_the_snapshot_notices_what_git_does_by_itself(place: tuple[Path, Path], tmp_path: Path) -> None:
    """The proof bites: git as a user runs it rewrites the index, and the snapshot says so."""
    work, _ = sandbox.made(tmp_path)
    before = sandbox.snapshot(tmp_path)
    sandbox.git(work, "status")
    assert sandbox.snapshot(tmp_path) != before


@pytest.mark.slow
async def test_a_client_without_a_server_keeps_nothing(tmp_path: Path) -> None:
    """Those that are installed: they find nobody to ask, and change nothing for it."""
    work, home = sandbox.made(tmp_path)
    shell = sandbox.shell(work, home)
    before = sandbox.snapshot(tmp_path)
    asked = [
        "docker ps",
        "psql -c 'select 1'",
        "lsof -v",
    ]
    for text in asked:
        if shell.judge(text).launchable == "asked":
            await shell.run(text)
        assert sandbox.snapshot(tmp_path) == before, text
