"""What stands at the places that a line names: pipes under another name, links, and patterns over the whole disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentaccel.effects import places as patterns
from agentaccel.effects.places import Surroundings, matching
from agentaccel.effects.shell import judge_shell
from agentaccel.effects.verdict import Refused
from agentaccel.executors import Shell
from tests.effects.test_sandbox import _bash


def verdict(text: str, cwd: Path) -> str:
    return judge_shell(text, Surroundings(cwd=cwd, home=cwd)).launchable


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        ("zcat q", ".gz"),
        ("gzip -dc q", ".gz"),
        ("gunzip -c q", ".gz"),
        ("zgrep x q", ".gz"),
        ("zdiff q r", ".gz"),
        ("zcat q", ".Z"),
        ("unzip -l q", ".zip"),
        ("zipinfo q", ".ZIP"),
    ],
)
def test_a_pipe_that_a_program_would_find_by_a_longer_name_refuses(text: str, ending: str, tmp_path: Path) -> None:
    assert verdict(text, tmp_path) == "predicted"
    os.mkfifo(tmp_path / f"q{ending}")
    assert verdict(text, tmp_path) == "never"


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    """A folder with a link to one that lies elsewhere."""
    (tmp_path / "far/in").mkdir(parents=True)
    (tmp_path / "work/src").mkdir(parents=True)
    (tmp_path / "work/link").symlink_to("../far/in")
    return tmp_path / "work"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cd link/.. && ls", "never"),
        ("cd link && cd .. && ls", "never"),
        ("cd src && cd ../link/.. && cat a", "never"),
        ("cd link && pwd", "never"),
        ("cd link && pwd -L", "never"),
        ("cd link && pwd -P", "predicted"),
        ("cd link && ls", "predicted"),
        ("cd src && cd .. && pwd", "predicted"),
    ],
)
async def test_a_folder_behind_a_link_is_left_as_a_shell_leaves_it(text: str, expected: str, linked: Path) -> None:
    """Those that remain print what bash prints."""
    assert verdict(text, linked) == expected
    shell = Shell(cwd=linked, home=linked)
    theirs = _bash(text, shell)
    assert (await shell.execute(text)).out == theirs.stdout.decode()


async def test_a_line_that_is_not_proven_goes_up_from_the_same_folder(
    linked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the user's own shell went there by a link, and says so."""
    monkeypatch.setenv("PWD", str(linked / "link"))
    shell = Shell(cwd=linked / "link", home=linked)
    proven, other = await shell.run("cd .. && pwd"), await shell.run("cd .. && pwd && echo >/dev/null && : x")
    assert proven == other == str(tmp_path / "far")


PATTERNS = [
    "*",
    "*/",
    "*/*",
    "a/*.py",
    "./*",
    "**/*.py",
    "[a-z]*",
    "[!a]*",
    "[^a]*",
    ".*",
    "a/.*",
    "link/*",
    "link/../*",
]


@pytest.mark.parametrize("pattern", [*PATTERNS, "?", "*/none", "*d", "[[]x]/*", "*.py/*", "a/./*", "*/..", "none/*"])
async def test_a_pattern_matches_what_it_matches_in_bash(pattern: str, tmp_path: Path) -> None:
    for name in ("a/1.py", "a/.x.py", "a/b/2.py", ".dot", "[x]/f", "A2", "ä.py", "z", "b c"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "dead").symlink_to("nowhere")
    theirs = _bash(f'shopt -s nullglob; for f in {pattern}; do echo "$f"; done', Shell(cwd=tmp_path))
    assert sorted(matching(pattern, str(tmp_path))) == theirs.stdout.decode().splitlines()
    whole = sorted(matching(f"{tmp_path}/{pattern}", "/nowhere"))
    assert whole == [f"{tmp_path}/{name}" for name in theirs.stdout.decode().splitlines()]


def test_a_pattern_that_goes_over_too_many_names_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though none of them matches: what is looked at counts."""
    for number in range(12):
        (tmp_path / f"{number}/{number}").mkdir(parents=True)
    assert verdict("cat */*/none", tmp_path) == "predicted"
    monkeypatch.setattr(patterns, "MOST_LISTED", 20)
    assert verdict("cat */*/none", tmp_path) == "never"
    assert verdict("cat */none", tmp_path) == "predicted"
    assert verdict("cat 1/*/none", tmp_path) == "predicted"


def test_a_pattern_that_opens_too_many_folders_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(12):
        (tmp_path / f"{number}").mkdir()
    assert verdict("cat */*", tmp_path) == "predicted"
    monkeypatch.setattr(patterns, "MOST_OPENED", 12)
    assert verdict("cat */*", tmp_path) == "never"
    assert verdict("cat */none", tmp_path) == "predicted", "a name without a wildcard is asked for, not looked for"


@pytest.mark.parametrize("pattern", ["/proc/*/none", "/sys/*", "/*/self/none*", "kernel/*/none"])
def test_a_pattern_is_never_looked_for_among_the_files_of_the_kernel(pattern: str, tmp_path: Path) -> None:
    (tmp_path / "kernel").symlink_to("/proc")
    with pytest.raises(Refused, match="kernel"):
        list(matching(pattern, str(tmp_path)))


def test_a_pattern_that_goes_too_deep_refuses(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="deep"):
        list(matching("./" * 5_000 + "*", str(tmp_path)))
