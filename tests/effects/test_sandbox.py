"""Every allowed form of a command was seen to change nothing: neither the folder, nor the repository, nor the home."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from agentaccel.effects.cases import judge
from tests.effects import sandbox
from tests.effects.corpora import shell


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return sandbox.made(tmp_path_factory.mktemp("sandbox"))


@pytest.mark.parametrize("one_in", [6, pytest.param(1, marks=pytest.mark.soak)])
def test_allowed_commands_change_nothing(place: tuple[Path, Path], one_in: int) -> None:
    """Must show 5: contents, modes, times and the state of git before and after each line of the corpus."""
    work, home = place
    root, unseen = work.parent, list[str]()
    before = sandbox.snapshot(root)
    for case in islice(shell("reads_shell", escapes=False), 0, None, one_in):
        text = case.case["input"]["command"]
        verdict = judge({**case.case, "cwd": str(work), "home": str(home)})
        if verdict.launchable == "never":
            continue
        if not sandbox.run(text, work, home):
            unseen.append(text)
        after = sandbox.snapshot(root)
        assert after == before, f"{text!r} changed {sorted(set(after.items()) ^ set(before.items()))[:4]}"
    assert len(unseen) <= 40, f"too few of the programs are installed to prove anything: {unseen}"


def test_the_snapshot_notices_what_git_does_by_itself(place: tuple[Path, Path], tmp_path: Path) -> None:
    """The proof bites: git as a user runs it rewrites the index, and the snapshot says so."""
    work, _ = sandbox.made(tmp_path)
    before = sandbox.snapshot(tmp_path)
    sandbox.git(work, "status")
    assert sandbox.snapshot(tmp_path) != before
