"""Kinds of calls that strangers saw run early: none of them is, and their harmless twins still are."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from agentaccel.effects import unnamed
from agentaccel.effects.mcp import judge_mcp
from agentaccel.effects.places import Surroundings
from agentaccel.effects.shell import judge_shell
from agentaccel.effects.spec import NotProven, running_early
from agentaccel.executors import Shell, Sql, line
from tests.effects import sandbox
from tests.effects.found import KINDS, Found, found, standing, verdicts
from tests.effects.test_sandbox import _bash


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return sandbox.furnished(tmp_path_factory.mktemp("found"))


def test_the_cases_are_many_of_each_kind_and_no_two_alike() -> None:
    """Chosen by us: sixty at least, and twenty of each kind."""
    counts = Counter(one.kind for one in found())
    assert sum(counts.values()) >= 60
    assert min(counts[kind] for kind in KINDS) >= 20
    assert len({repr(sorted(one.row.items())) for one in found()}) == len(found())


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_case_may_be_run_early_and_its_twin_may(kind: str, place: tuple[Path, Path]) -> None:
    """Must show 5: none of the cases; of the twins all but one in twelve (we have all)."""
    judged = [(one, *verdicts(one, *place)) for one in found() if one.kind == kind]
    leaks = [one.name for one, case, _ in judged if case.launchable != "never"]
    lost = [(one.name, twin.evidence[0].why) for one, _, twin in judged if twin.launchable == "never"]
    sys.stdout.write(f"{kind}: {len(leaks)} of {len(judged)} early, {len(judged) - len(lost)} twins\n")
    assert not leaks
    assert not lost


@pytest.mark.slow
def test_no_case_stumbles(place: tuple[Path, Path]) -> None:
    """A refusal is a decision: none comes from an analyser that broke."""
    for one in found():
        assert not any("failed with" in said.why for verdict in verdicts(one, *place) for said in verdict.evidence)


@pytest.mark.slow
@pytest.mark.parametrize("one", [one for one in found() if one.kind == "pipe"], ids=lambda one: one.name)
async def test_a_pipe_still_holds_what_was_put_into_it(one: Found, place: tuple[Path, Path]) -> None:
    """Our executor refuses the line at the time of the run, and takes no byte; nobody is kept waiting either."""
    work, home = place
    with standing(one, work, home, twin=False) as pipe:
        assert pipe is not None
        held = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        try:
            os.write(held, b"x\n")
            with running_early(), pytest.raises(NotProven):
                await sandbox.shell(work, home).execute(one.row["line"])
            assert os.read(held, 9) == b"x\n"
        finally:
            os.close(held)


@pytest.mark.slow
@pytest.mark.parametrize("one", [one for one in found() if one.kind == "starts"], ids=lambda one: one.name)
async def test_what_settings_name_is_not_started(one: Found, place: tuple[Path, Path]) -> None:
    work, home = place
    evil, ran = work.parent / "evil", work.parent / "ran"
    evil.write_text(f"#!/bin/sh\necho yes > {ran}\n")
    evil.chmod(0o755)
    with standing(one, work, home, twin=False), running_early(), pytest.raises(NotProven):
        await sandbox.shell(work, home).execute(one.row["line"])
    assert not ran.exists()


@pytest.mark.slow
@pytest.mark.parametrize("one", [one for one in found() if one.kind == "pipe"], ids=lambda one: one.name)
async def test_the_twin_prints_what_a_shell_prints(one: Found, place: tuple[Path, Path]) -> None:
    """With a plain file there; where the program is installed."""
    work, home = place
    shell = sandbox.shell(work, home)
    with standing(one, work, home, twin=True):
        if shell.judge(one.row["line"]).launchable == "never":
            pytest.skip("the program is not installed here")
        with running_early():
            ran = await shell.execute(one.row["line"])
        assert ran.out == _bash(one.row["line"], shell).stdout.decode()


async def test_a_pipe_that_comes_behind_a_redirection_after_the_verdict_keeps_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was opened is looked at once more, and opening it waits for nobody."""
    (tmp_path / "names").write_text("a\n")
    shell, opened = Shell(cwd=tmp_path, home=tmp_path, timeout=9), line.expanded
    ends = list[int]()

    def swapped(word: object, there: Surroundings) -> list[str]:
        if not ends:
            (tmp_path / "names").unlink()
            os.mkfifo(tmp_path / "names")
            ends.append(os.open(tmp_path / "names", os.O_RDWR | os.O_NONBLOCK))
            os.write(ends[0], b"x\n")
        return opened(word, there)  # type: ignore[arg-type]

    monkeypatch.setattr(line, "expanded", swapped)
    with running_early(), pytest.raises(NotProven):
        await shell.execute("wc -l < names")
    assert os.read(ends[0], 9) == b"x\n"
    os.close(ends[0])


def test_a_database_that_has_become_a_pipe_is_neither_opened_nor_waited_for(tmp_path: Path) -> None:
    """To open it would wait for a writer, while everything else waits for the verdict."""
    (tmp_path / "app.db").touch()
    tool = Sql.sqlite(tmp_path / "app.db")
    assert tool.judge("select 1").launchable == "predicted"
    (tmp_path / "app.db").unlink()
    os.mkfifo(tmp_path / "app.db")
    held = os.open(tmp_path / "app.db", os.O_RDWR | os.O_NONBLOCK)
    os.write(held, b"x" * 20)
    assert tool.judge("select 1").launchable == "never"
    assert os.read(held, 99) == b"x" * 20
    os.close(held)


def test_sockets_and_links_to_nothing_keep_no_walk_from_being_run_early(tmp_path: Path) -> None:
    """A usefulness floor: they cannot be opened, or are passed by; so is a list that is a link to /dev/null."""
    (tmp_path / "dead").symlink_to("nowhere")
    (tmp_path / "null").symlink_to(os.devnull)
    (tmp_path / ".gitignore").symlink_to(os.devnull)
    there = Surroundings(cwd=tmp_path, home=tmp_path)
    assert judge_shell("grep -rn x .", there).launchable == judge_shell("rg x", there).launchable == "predicted"


def test_a_pipe_that_an_argument_names_is_seen_from_where_this_process_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody says where a server runs: a relative name is looked for below our own folder. Its twin is a plain file."""
    tool = {"name": "look", "annotations": {"readOnlyHint": True, "openWorldHint": False}}
    given = {"server": {"name": "desk", "trusted": True}, "tool": tool, "arguments": {"document": "notes"}}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").touch()
    assert judge_mcp(given, Surroundings()).launchable == "predicted"
    (tmp_path / "notes").unlink()
    os.mkfifo(tmp_path / "notes")
    assert judge_mcp(given, Surroundings()).launchable == "never"


def test_a_folder_with_more_names_than_are_looked_at_is_not_run_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten folders and nine files below the first: nineteen names, chosen by us; with eighteen looked at it refuses."""
    for number in range(9):
        (tmp_path / f"a/{number}").mkdir(parents=True)
        (tmp_path / f"a/{number}/file").touch()
    there = Surroundings(cwd=tmp_path, home=tmp_path)
    monkeypatch.setattr(unnamed, "MOST_LOOKED_AT", 19)
    assert judge_shell("grep -rn x .", there).launchable == "predicted"
    monkeypatch.setattr(unnamed, "MOST_LOOKED_AT", 18)
    assert judge_shell("grep -rn x .", there).launchable == "never"


def test_git_is_still_run_early_in_a_repository_of_many_names_and_sees_a_pipe_behind_them(tmp_path: Path) -> None:
    """2,100 names lie nearer than the pipe, as many as no earlier bound let through."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "big").mkdir()
    for number in range(2_100):
        (tmp_path / f"big/{number}").touch()
    (tmp_path / "a/b/c").mkdir(parents=True)
    there = Surroundings(cwd=tmp_path, home=tmp_path, root=tmp_path)
    assert judge_shell("git status", there).launchable == "predicted"
    os.mkfifo(tmp_path / "a/b/c/.gitignore")
    assert judge_shell("git status", there).launchable == "never"
