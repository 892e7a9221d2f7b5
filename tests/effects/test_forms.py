"""Every allowed form of a command was seen to change nothing, wherever its program is installed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agentaccel.effects.places import Surroundings
from agentaccel.effects.shell import judge_shell
from agentaccel.effects.tables import table
from tests.effects import forms, sandbox, watched
from tests.effects.forms import LISTS, Form, said

SHARES = 6
"""Parts of the soak that run beside one another."""
FAST = 250
"""Of so many forms the fast suite tries one."""


@pytest.fixture(scope="module")
def every() -> list[Form]:
    return forms.forms()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holds `place`, what the programs may see, beside what the test needs for itself."""
    folder = tmp_path_factory.mktemp("forms")
    (folder / "place").mkdir()
    sandbox.furnished(folder / "place")
    return folder


def there(root: Path) -> Surroundings:
    return Surroundings(cwd=root / "place/work", home=root / "place/home")


def rows() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each row of the data files with the program that it is of, and groups for themselves."""
    for file, name in ("shell", ""), ("git", "git"):
        for row in table(file)["command"]:
            yield name or row["name"], row
    for client in table("clients")["client"]:
        for row in () if "refused" in client else (client["anywhere"], *client["verb"]):
            yield client["name"], row


def test_every_row_and_every_option_has_a_line(every: list[Form]) -> None:
    """Who adds one says in `forms.toml` how it is tried, or this fails."""
    tried: dict[str, set[str]] = {}
    for form in every:
        tried.setdefault(form.program, set()).update((form.tried, *form.tried.split()))
    for program, row in rows():
        assert program in tried, program
        listed = [f"-{one}" if key.startswith("short") else one for key in LISTS for one in row.get(key, ())]
        assert set(listed) <= tried[program], (program, set(listed) - tried[program])
    for option, names in table("shell")["versions"].items():
        assert all(option in tried[name] for name in names)
    assert {row["name"] for row in table("git")["command"]} <= tried["git"]


def test_every_row_of_a_small_language_has_a_line(every: list[Form]) -> None:
    """What rules of code take: each word of their tables stands in a line that tries it."""
    data = table("shell")
    for one in (*data["test"]["of_files"], *data["test"]["of_texts"], *data["test"]["comparisons"]):
        assert any(f" {one} " in line.replace("'", "") for line in said()["lines"]["test"]), one
    for script in next(row for row in data["command"] if row["name"] == "sed")["scripts"]:
        given = [word.strip("'") for line in said()["lines"]["sed"] for word in re.findall(r"'[^']*'|\S+", line)]
        assert any(re.fullmatch(script, one) for one in given), script
    for one in (*data["awk"]["words"], *data["awk"]["variables"]):
        assert any(re.search(rf"\b{one}\b", line) for line in said()["lines"]["awk"]), one
    for one in data["xargs"]["options"]:
        assert any(f"xargs {one} " in line or f" {one} " in line for line in said()["lines"]["xargs"]), one
    for letter in "tzjJv":
        assert any(letter in line.split()[1] for line in said()["lines"]["tar"]), letter
    assert set(data["wrappers"]) <= set(said()["lines"])
    assert {form.tried for form in every} >= {*data["prefixes"], *data["find"]["leading"], *data["find"]["tests"]}


def test_an_option_with_a_value_of_which_nothing_is_said_is_found_out() -> None:
    """The twin."""
    row = {"name": "ls", "long_values": ["--of-tomorrow"]}
    with pytest.raises(AssertionError, match="does not say values of ls"):
        list(forms._of(("ls",), row))


@pytest.mark.parametrize("one_in", [FAST, pytest.param(1, marks=pytest.mark.soak)])
def test_every_form_is_allowed(every: list[Form], root: Path, one_in: int) -> None:
    """A row that no line reaches says more than is true."""
    never = [form.line for form in every[::one_in] if judge_shell(form.line, there(root)).launchable == "never"]
    assert not never


@pytest.mark.slow
@pytest.mark.parametrize(
    ("share", "of"), [(0, FAST), *(pytest.param(n, SHARES, marks=pytest.mark.soak) for n in range(SHARES))]
)
def test_no_form_changes_anything(every: list[Form], root: Path, share: int, of: int) -> None:
    """Must show 5, for whatever is installed: neither folder, repository and home, nor any file elsewhere."""
    here, _ = forms.installed(every, forms.path_of(root))
    given = [form for form in here if of < FAST or form.program not in said()["slow"]][share::of]
    local = [form.line for form in given if judge_shell(form.line, there(root)).launchable == "predicted"]
    watched.harmless(root, list(dict.fromkeys(local)))


@pytest.mark.slow
def test_all_of_them_can_be_seen_here(root: Path) -> None:
    """Skipped, with the names of the programs that are not installed, where that is not so."""
    summary = forms.told(forms.path_of(root))
    if "not installed" in summary or not watched.traces():
        pytest.skip(summary if watched.traces() else f"{summary}; without a tracer, writes elsewhere are not seen")


def test_a_write_elsewhere_is_found_out() -> None:
    """The twin, on a log as the tracer writes it: what our own process does is not looked at."""
    log = [
        '7 rmdir("/the/line/that/is/on/0") = -1 ENOENT (No such file or directory)',
        '7 openat(AT_FDCWD, "/tmp/ours", O_RDWR|O_CREAT, 0600) = 3</tmp/ours>',
        '8 openat(AT_FDCWD, "/etc/hosts", O_RDONLY) = 3</etc/hosts>',
        '8 openat(AT_FDCWD, "/dev/null", O_RDWR) = 3</dev/null>',
        '7 rmdir("/the/line/that/is/on/1") = -1 ENOENT (No such file or directory)',
        '9 openat(AT_FDCWD, "/tmp/tacx", O_RDWR|O_CREAT|O_EXCL, 0600 <unfinished ...>',
        '8 mkdir("/dev/null/x", 0700) = -1 ENOTDIR (Not a directory)',
        "9 <... openat resumed>) = 3</tmp/tacx>",
        '9 unlink("/tmp/tacx") = 0',
        '8 connect(3<socket:[5]>, {sa_family=AF_UNIX, sun_path="/run/x"}, 110) = -1 ENOENT (No such file)',
        '8 connect(3<socket:[5]>, {sa_family=AF_INET, sin_addr=inet_addr("10.0.0.1")}, 16) = 0',
    ]
    assert [call.split("(")[0] for call in watched.calls_of(log)[1]] == ["openat", "unlink", "connect"]
    assert 0 not in watched.calls_of(log)
