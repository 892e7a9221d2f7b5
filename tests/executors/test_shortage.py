"""An early run that fails for want of memory, processes or files has no result: on time there may be enough."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from agentaccel.effects.spec import running_early
from agentaccel.executors import Folder, Shell

KILLED = "kill -KILL $$"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes.txt").write_text("alpha\nbeta\n")
    return folder


def shell_with(work: Path, name: str, script: str) -> Shell:
    """Our executor where the program `name` is that script."""
    folder = work.parent / "bin"
    folder.mkdir()
    (folder / name).write_text(script)
    (folder / name).chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    return Shell(cwd=work, path=path, environment={"PATH": path, "HOME": str(work.parent)}, timeout=20)


@pytest.mark.parametrize("line", ["wc notes.txt", "wc notes.txt | cat", "cat notes.txt && wc notes.txt"])
async def test_a_program_that_a_signal_ended_has_no_result_early(work: Path, line: str) -> None:
    """As the system does where memory runs out."""
    shell = shell_with(work, "wc", f"#!/bin/sh\n{KILLED}\n")
    with running_early(), pytest.raises(ChildProcessError, match="signal 9"):
        await shell.run(line)
    assert (await shell.execute("wc notes.txt")).status == 137, "on time it is told as shells do"


async def test_a_program_whose_reader_has_enough_has_a_result_early(work: Path) -> None:
    """It is ended by a signal too, as in every shell."""
    (work / "long.txt").write_text("line\n" * 200_000)
    shell = Shell(cwd=work, environment={"PATH": os.environ["PATH"], "HOME": str(work.parent)}, timeout=20)
    with running_early():
        assert await shell.run("cat long.txt | head -n 1") == "line"


async def test_a_sort_that_needs_more_room_than_an_early_run_has_has_no_result_early(work: Path) -> None:
    """It may write no file there, and fails where its memory is full. On time it may."""
    shell = shell_with(work, "sort", '#!/bin/sh\ncase "$*" in *-T*) exit 2 ;; *) echo "sorted $*" ;; esac\n')
    with running_early(), pytest.raises(ChildProcessError, match="sort"):
        await shell.run("cat notes.txt | sort -r | head -n 1")
    assert await shell.run("cat notes.txt | sort -r | head -n 1") == "sorted -r"


async def test_a_sort_that_has_room_has_a_result_early(work: Path) -> None:
    with running_early():
        ran = await Shell(cwd=work, environment={"PATH": os.environ["PATH"], "HOME": "/"}).run("sort -r notes.txt")
    assert ran == "beta\nalpha"


async def test_a_program_that_cannot_be_started_has_no_result_early(work: Path) -> None:
    shell = shell_with(work, "wc", "no program")
    (work.parent / "bin/wc").write_bytes(b"\x7fELF and no more")
    with running_early(), pytest.raises(OSError, match="wc"):
        await shell.run("wc notes.txt")
    assert (await shell.execute("wc notes.txt")).status == 127


async def test_a_file_that_cannot_be_opened_has_no_result_early(work: Path) -> None:
    shell = Shell(cwd=work, environment={"PATH": os.environ["PATH"], "HOME": str(work.parent)}, timeout=20)
    with running_early(), pytest.raises(FileNotFoundError):
        await shell.run("wc -l < gone.txt")
    assert "gone.txt: No such file" in await shell.run("wc -l < gone.txt")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone is told whom to end first")
async def test_where_memory_runs_out_an_early_run_is_the_first_to_go(work: Path) -> None:
    """The program waits until it has been told so."""
    waiting = 'until [ "$(cat /proc/$$/oom_score_adj)" = 1000 ]; do :; done; echo first\n'
    shell = shell_with(work, "wc", f"#!/bin/sh\n{waiting}")
    with running_early():
        assert await shell.run("wc notes.txt") == "first"


@contextmanager
def files_left(count: int) -> Iterator[None]:
    """No more than so many files can be opened inside, beside those that are open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(free := os.dup(0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("left", range(5))
@pytest.mark.parametrize("path", [".", "notes.txt", "inner"])
async def test_a_search_without_files_left_to_open_does_not_say_that_nothing_matches(
    work: Path, path: str, left: int
) -> None:
    """Of the folder, of one in it, or of the file."""
    (work / "inner").mkdir()
    (work / "inner/more.txt").write_text("alpha\n")
    whole = await Folder(work).search_text("alpha", path)
    assert "[no match]" not in whole
    found = None
    with files_left(left), suppress(OSError):
        found = await Folder(work).search_text("alpha", path)
    assert found in (None, whole)


async def test_a_search_that_lacks_files_says_so(work: Path) -> None:
    with files_left(0), pytest.raises(OSError, match="Too many open files"):
        await Folder(work).search_text("alpha")
