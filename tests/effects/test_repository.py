"""git starts programs that no word of its command line names: where settings could do that, it is not run early."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agentaccel.effects import unnamed
from agentaccel.effects.cases import judge
from tests.effects.sandbox import git, made

STARTS = (
    "[core]\n\tfsmonitor = ./evil",
    "[core]\n\tfsmonitor = true",
    "[core]\n\tfsmonitor",
    "[CORE]\n\tFSMonitor=./evil",
    "[core] fsmonitor = ./evil",
    '[core]\n\thooksPath = "./evil"',
    "[core]\n\tworktree = /",
    "[core]\n\talternateRefsCommand = ./evil",
    "[diff]\n\texternal = ./evil",
    '[diff "x"]\n\ttextconv = ./evil',
    '[diff "x"]\n\tcommand = ./evil',
    '[diff "a.b"]\n\ttextconv = ./evil',
    "[diff.x]\n\ttextconv = ./evil",
    "[diff]\n\tsubmodule = log",
    '[filter "x"]\n\tclean = ./evil',
    '[filter "x"]\n\tprocess = ./evil',
    "[include]\n\tpath = evil",
    '[includeIf "gitdir:/"]\n\tpath = evil',
    '[merge "x"]\n\tdriver = ./evil',
    "[log]\n\tdiffMerges = remerge",
    "[submodule]\n\trecurse = true",
    '[remote "x"]\n\tpromisor = true',
    "[extensions]\n\tpartialClone = x",
    "[extensions]\n\tworktreeConfig = true",
    "[user]\n\tname = a \\\n[core]\n\tfsmonitor = x",
    "[user\n\tname = x",
    "[core]\n\t= x",
    "[core]\n\tfsmonitor = ./evil\n\tfsmonitor = false",
    "[some]\n\tthing = unheard of",
    '[diff "x"] # c\r[alias]\n\ttextconv = ./evil',  # to git, the comment goes on
    "[core]\n\tfsmonitor = false\x0b",  # to git, that is the name of a program
    "[core]\n\tfsmonitor = false\u2003",
)


def verdict(command: str, cwd: Path, home: Path) -> str:
    case = {"kind": "shell", "input": {"command": command}, "cwd": str(cwd), "home": str(home)}
    return judge(case).launchable


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `made` makes takes git a dozen starts; each test has a copy."""
    root = tmp_path_factory.mktemp("template")
    made(root)
    return root


@pytest.fixture
def place(tmp_path: Path, template: Path) -> tuple[Path, Path]:
    shutil.copytree(template, tmp_path, dirs_exist_ok=True)
    return tmp_path / "work", tmp_path / "home"


def test_git_reads_where_settings_start_nothing(place: tuple[Path, Path]) -> None:
    """A usefulness floor for what follows."""
    work, home = place
    for command in ("git status", "git diff", "git log -p", "git show", "git blame README.md", "git -C src status"):
        assert verdict(command, work, home) == "predicted", command
    assert verdict("git status", work / "src", home) == "predicted"
    assert verdict("git status", home, home) == "predicted"  # no repository: git says so and ends


@pytest.mark.parametrize("settings", STARTS)
def test_a_setting_that_may_start_a_program_refuses(place: tuple[Path, Path], settings: str) -> None:
    """In the repository and in the user's own file alike; what is not understood refuses too."""
    work, home = place
    for file in (work / ".git/config", home / ".gitconfig", home / ".config/git/config"):
        file.parent.mkdir(parents=True, exist_ok=True)
        kept = file.read_text(encoding="utf-8") if file.exists() else ""
        file.write_text(f"{kept}\n{settings}\n", encoding="utf-8", newline="")
        for command in (
            "git status",
            "git diff",
            "cd src && git diff",
            "git -C src status",
            "ls && git blame README.md",
        ):
            assert verdict(command, work, home) == "never", (command, file.name)
        file.write_text(kept, encoding="utf-8")
    assert verdict("git status", work, home) == "predicted"


def test_a_filter_matters_only_where_files_are_read(place: tuple[Path, Path]) -> None:
    """git-lfs stands in the settings of many users: history stays readable."""
    work, home = place
    (home / ".gitconfig").write_text('[filter "lfs"]\n\tclean = git-lfs clean -- %f\n')
    assert verdict("git status", work, home) == verdict("git diff", work, home) == "never"
    assert verdict("git log --oneline", work, home) == verdict("git branch -a", work, home) == "predicted"


def test_settings_are_found_where_git_finds_them(place: tuple[Path, Path], tmp_path: Path) -> None:
    """A linked work tree, a .git file, a bare repository that lies in a folder, and no folder known."""
    work, home = place
    git(work, "worktree", "add", "-q", str(tmp_path / "linked"), "feature")
    assert verdict("git status", tmp_path / "linked", home) == "predicted"
    (work / ".git/config").write_text("[core]\n\tfsmonitor = ./evil\n")
    assert verdict("git status", tmp_path / "linked", home) == "never"
    bare = tmp_path / "download"
    (bare / "objects").mkdir(parents=True)
    (bare / "HEAD").write_text("ref: refs/heads/main\n")
    assert verdict("git status", bare, home) == "never"
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/.git").write_text("gitdir: ../nowhere\n")
    assert verdict("git status", tmp_path / "odd", home) == "never"
    assert judge({"kind": "shell", "input": {"command": "git status"}}).launchable == "never"


def _empty(work: Path) -> Path:
    (work / "src/.git").mkdir()
    return work / "src"


def _other_head(work: Path) -> Path:
    shutil.copytree(work / ".git", work / "src/.git")
    (work / "src/.git/HEAD").write_text("none\n")
    return work / "src"


def _closed(work: Path) -> Path:
    shutil.copytree(work / ".git", work / "src/.git")
    shutil.rmtree(work / "src/.git/refs")
    return work / "src"


def _bare_by_reference(work: Path) -> Path:
    there = work / "src"
    (there / "HEAD").write_text("ref: refs/heads/main\n")
    (there / "commondir").write_text(f"{work / '.git'}\n")
    return there


def _bare_by_link(work: Path) -> Path:
    there = work / "src"
    (there / "HEAD").symlink_to("refs/heads/none")
    (there / "objects").mkdir()
    (there / "refs").mkdir()
    return there


@pytest.mark.parametrize("lays", [_empty, _other_head, _closed, _bare_by_reference, _bare_by_link])
def test_where_git_may_take_another_repository_nothing_is_read(
    place: tuple[Path, Path], lays: Callable[[Path], Path]
) -> None:
    """What git does not take for its folder it passes by; what it does take may not look like one."""
    work, home = place
    assert verdict("git log", lays(work), home) == "never"


def test_line_ends_of_other_systems_are_those_of_git(place: tuple[Path, Path]) -> None:
    work, home = place
    config = work / ".git/config"
    config.write_bytes(config.read_bytes().replace(b"\n", b"\r\n"))
    assert verdict("git status", work, home) == "predicted"


def test_a_submodule_refuses_what_looks_into_it(place: tuple[Path, Path]) -> None:
    """It has settings of its own, and git status runs there too."""
    work, home = place
    inner = work / "inner"
    inner.mkdir()
    git(inner, "-c", "init.defaultBranch=main", "init", "-q")
    (inner / "a").write_text("a")
    for words in (("add", "a"), ("-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "a")):
        subprocess.run(["git", *words], cwd=inner, env={**os.environ, "HOME": str(home)}, check=True, timeout=30)
    git(work, "add", "inner")
    assert verdict("git status", work, home) == verdict("git diff", work, home) == "never"
    assert verdict("git log --oneline", work, home) == "predicted"


def test_what_is_no_plain_file_is_not_read(place: tuple[Path, Path]) -> None:
    """Reading a pipe takes from its reader; a link may lead to a device."""
    work, home = place
    os.mkfifo(work / "pipe")
    (work / "link").symlink_to("/dev/zero")
    (work / "folder").symlink_to("/dev")
    for command in (
        "cat pipe",
        "head -n 1 ./pipe",
        "cat p*",
        "cat link",
        "cat folder/tty",
        "grep x pipe",
        "cd src && wc ../pipe",
        "git diff README.md pipe",
        "git blame pipe",
    ):
        assert verdict(command, work, home) == "never", command
    assert verdict("cat README.md", work, home) == verdict("ls -la", work, home) == "predicted"


def test_a_file_that_a_setting_names_is_a_plain_one(place: tuple[Path, Path]) -> None:
    """git reads it to its end: of a pipe or a device there may be none."""
    work, home = place
    os.mkfifo(work / "pipe")
    for setting in ("core.excludesFile", "core.attributesFile", "diff.orderFile"):
        section, name = setting.split(".")
        for value, expected in (
            ("~/list", "predicted"),
            ("/dev/zero", "never"),
            ("pipe", "never"),
            ('"/dev/tty"', "never"),
            ('"~/list"', "predicted"),
            ("", "predicted"),
            ("~/list # of mine", "never"),  # git leaves out what stands behind # and ;, and puts quoted parts together
            ("~/list;", "never"),
            ('~/"list"', "never"),
            ("list", "never"),  # below the work tree, or the folder
            ("~dev/list", "never"),
        ):
            (home / ".gitconfig").write_text(f"[{section}]\n\t{name} = {value}\n")
            assert verdict("git diff", work, home) == expected, (setting, value)


def _alternates(work: Path) -> None:
    (work / ".git/objects/info/alternates").write_text("/nowhere/objects\n")


def _linked_folder(work: Path) -> None:
    (work / ".git/refs/heads/d").symlink_to(work / "src")


def _named_as_what_is_passed_by(work: Path) -> None:
    (work / ".git/refs/heads/hooks").mkdir()
    os.mkfifo(work / ".git/refs/heads/hooks/x")


def _dot_of_two_lines(work: Path) -> None:
    (work / "src/.git").write_text("gitdir: ../far\n\n")


def _shared_with_a_pipe(work: Path) -> None:
    (work / "src/.git").write_text("gitdir: ../far")
    (work / "far").mkdir()
    (work / "far/commondir").write_text("../common\n")
    (work / "common").mkdir()
    os.mkfifo(work / "common/config")


def _kernel_log(work: Path) -> None:
    (work / ".git/info/exclude").unlink(missing_ok=True)
    (work / ".git/info/exclude").symlink_to("/proc/kmsg")


def _settings_of_the_kernel(work: Path) -> None:
    (work / ".git/config").unlink()
    (work / ".git/config").symlink_to("/proc/kmsg")


@pytest.mark.parametrize(
    "lays",
    [
        _kernel_log,
        _settings_of_the_kernel,
        _alternates,
        _linked_folder,
        _named_as_what_is_passed_by,
        _dot_of_two_lines,
        _shared_with_a_pipe,
    ],
)
def test_what_git_would_open_elsewhere_refuses(place: tuple[Path, Path], lays: Callable[[Path], None]) -> None:
    work, home = place
    assert verdict("git status", work, home) == "predicted"
    lays(work)
    assert verdict("git status", work, home) == "never"


def test_links_pipes_and_sockets_that_git_does_not_open_keep_nothing_from_being_run(
    place: tuple[Path, Path],
) -> None:
    """A usefulness floor: hooks may be a link to a folder or hold anything, a list may be a link to a file, and a
    monitor of the file system leaves a socket, which nobody can open."""
    work, home = place
    shutil.rmtree(work / ".git/hooks")
    (work / ".git/hooks").symlink_to(work / "src")
    (work / ".git/info/exclude").unlink(missing_ok=True)
    (work / ".git/info/exclude").symlink_to(work / "names.txt")
    (work / ".git/lfs").mkdir()
    os.mkfifo(work / ".git/lfs/x")
    with socket.socket(socket.AF_UNIX) as monitor:
        here = os.getcwd()
        os.chdir(work / ".git")  # a path of a socket is short
        try:
            monitor.bind("fsmonitor--daemon.ipc")
        finally:
            os.chdir(here)
    (work / "src/.git").write_text("no way on\n")
    for command in ("git status", "git log -n 1", "git -C src diff"):
        expected = "never" if "-C src" in command else "predicted"  # from there, git itself would stop
        assert verdict(command, work, home) == expected, command


def test_a_git_folder_of_more_names_than_are_looked_at_refuses(
    place: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sixty objects in thirty folders are ninety names more than there are without them."""
    work, home = place
    names = sum(1 for _ in (work / ".git").rglob("*"))
    monkeypatch.setattr(unnamed, "MOST_LOOKED_AT", names + 90)
    for number in range(30):
        (work / f".git/objects/o{number}").mkdir()
        for name in ("a", "b"):
            (work / f".git/objects/o{number}" / name).touch()
    assert verdict("git log", work, home) == "predicted"
    monkeypatch.setattr(unnamed, "MOST_LOOKED_AT", 60)
    assert verdict("git log", work, home) == "never"


def test_xargs_is_handed_what_the_index_names_where_these_are_plain_files(place: tuple[Path, Path]) -> None:
    """A link may lead to a device, and a name with a blank becomes two words, which may name one."""
    work, home = place
    plain, apart = "git ls-files | xargs wc -l", "git ls-files -z | xargs -0 wc -l"
    assert verdict(apart, work, home) == "predicted"
    assert verdict(plain, work, home) == "never"  # "file with spaces.txt"
    git(work, "rm", "-q", "--cached", "file with spaces.txt")
    assert verdict(plain, work, home) == verdict(f"cd src && {plain}", work, home) == "predicted"
    (work / "link").symlink_to("/dev/zero")
    assert verdict(plain, work, home) == "predicted"
    git(work, "add", "link")
    assert verdict(plain, work, home) == verdict(apart, work, home) == "never"
    (work / "link").unlink()
    assert verdict(plain, work, home) == "never"  # a checkout puts it back
    git(work, "rm", "-q", "--cached", "link")
    git(work, "mv", "names.txt", 'a"b.txt')
    assert verdict(plain, work, home) == "never"
    (work / ".git/index").write_bytes(b"DIRC" + bytes(40))
    assert verdict(apart, work, home) == "never"


def test_a_folder_that_cd_may_miss_is_judged_from_both(place: tuple[Path, Path], tmp_path: Path) -> None:
    """Behind ; the rest runs also where cd has failed."""
    work, home = place
    (work / ".git/config").write_text("[core]\n\tfsmonitor = ./evil\n")
    other = tmp_path / "other"
    other.mkdir()
    assert verdict(f"cd {other} && git status", work, home) == "predicted"
    assert verdict(f"cd {other} && ls; git status", work, home) == "never"
    assert verdict(f"cd {work} && git status", other, home) == "never"


def test_places_are_looked_at_where_they_lead(tmp_path: Path) -> None:
    """A link to the root, a folder of devices as the current one, a name with a dash among those that match."""
    (tmp_path / "all").symlink_to("/")
    (tmp_path / "a.txt").write_text("a\n")
    assert verdict("grep -r x .", tmp_path, tmp_path) == verdict("cat *.txt", tmp_path, tmp_path) == "predicted"
    for command in ("grep -r x all", "find all -name x", "du all", "cd all && rg x"):
        assert verdict(command, tmp_path, tmp_path) == "never", command
    for command, folder in (("cat zero", "/dev"), ("cat stdin", "/dev"), ("cat fd/0", "/proc/self"), ("rg x", "/proc")):
        assert verdict(command, Path(folder), tmp_path) == "never", command
    (tmp_path / "-n.txt").write_text("b\n")
    assert verdict("cat *.txt", tmp_path, tmp_path) == "never"
