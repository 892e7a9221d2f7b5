"""Tools that read files: nothing outside of the folder, nothing that is no plain file, nothing without a bound."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from agentaccel.effects.launch import permission
from agentaccel.effects.spec import running_early, spec_of
from agentaccel.errors import ConfigError
from agentaccel.executors import Folder
from agentaccel.executors import folder as descend
from agentaccel.types import ToolCall
from agentaccel.validators import git_head


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "src/deep").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("needle\n")
    (folder / "notes.txt").write_text("one\ntwo needle\nthree\n")
    (folder / "src/app.py").write_text("# Needle\npass")
    (folder / "src/deep/blob").write_bytes(b"needle\0needle")
    (tmp_path / "secret.txt").write_text("needle of others\n")
    (folder / "out").symlink_to(tmp_path / "secret.txt")
    (folder / "up").symlink_to(tmp_path)
    (folder / "same").symlink_to("notes.txt")
    os.mkfifo(folder / "pipe")
    return folder


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        ({"path": "notes.txt"}, "one\ntwo needle\nthree"),
        ({"path": "same"}, "one\ntwo needle\nthree"),
        ({"path": "src/../notes.txt", "first_line": 2, "lines": 1}, "two needle\n[lines 2 to 2 of 3]"),
        ({"path": "notes.txt", "first_line": 9}, "[3 lines in all]"),
        ({"path": "src/app.py"}, "# Needle\npass"),
        ({"path": "src/deep/blob"}, "[src/deep/blob is no text; it has 13 bytes]"),
    ],
)
async def test_a_file_is_read_by_lines(root: Path, arguments: dict[str, Any], seen: str) -> None:
    assert await Folder(root).read_file(**arguments) == seen


async def test_bytes_that_are_no_utf8_are_shown_as_such(root: Path) -> None:
    (root / "latin").write_bytes(b"caf\xe9\n")
    assert await Folder(root).read_file("latin") == "caf\ufffd"


@pytest.mark.parametrize(
    "path", ["out", "up/secret.txt", "../secret.txt", "/etc/passwd", "up", "..", "src/../../secret.txt"]
)
async def test_nothing_outside_of_the_folder_is_read_listed_or_searched(root: Path, path: str) -> None:
    folder = Folder(root)
    for call in (folder.read_file(path), folder.list_folder(path), folder.search_text("needle", path)):
        with pytest.raises(PermissionError, match="outside of the folder"):
            await call


async def test_the_folder_itself_may_stand_behind_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert await Folder(tmp_path / "link").read_file("same") == "one\ntwo needle\nthree"


@pytest.mark.parametrize(
    ("path", "error"),
    [("missing", FileNotFoundError), ("src", IsADirectoryError), ("pipe", OSError), ("a\0b", ValueError)],
)
async def test_what_is_no_plain_file_is_refused_with_words(root: Path, path: str, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"there is no|is a folder|no plain file|no NUL"):
        await Folder(root).read_file(path)


async def test_a_pipe_is_not_even_opened(root: Path) -> None:
    """Who waits to write into it would be let in by any reader, however short."""
    let_in = threading.Event()

    def write() -> None:
        with (root / "pipe").open("wb"):
            let_in.set()

    writer = asyncio.create_task(asyncio.to_thread(write))
    await Folder(root).search_text("needle")
    with pytest.raises(OSError, match="no plain file"):
        await Folder(root).read_file("pipe")
    assert not let_in.is_set()
    reader = os.open(root / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    await writer
    os.close(reader)


async def test_a_file_that_is_replaced_between_looking_and_opening_is_refused(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def swapped(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if path == "notes.txt":
            os.unlink(path, **more)
            os.link(tmp_path / "secret.txt", root / path)
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", swapped)
    with pytest.raises(OSError, match="replaced"):
        await Folder(root).read_file("notes.txt")


async def test_a_folder_is_listed_with_marks(root: Path) -> None:
    assert await Folder(root).list_folder() == ".git/\nnotes.txt\nout@\npipe\nsame@\nsrc/\nup@"
    assert await Folder(root).list_folder("src/deep") == "blob"
    (root / "empty").mkdir()
    assert await Folder(root).list_folder("empty") == "[empty]"
    with pytest.raises(NotADirectoryError):
        await Folder(root).list_folder("notes.txt")


async def test_text_is_found_in_files_but_not_in_hidden_folders_links_and_binaries(root: Path) -> None:
    folder = Folder(root)
    assert await folder.search_text("needle") == "notes.txt:2: two needle"
    assert await folder.search_text("needle", ignore_case=True) == "notes.txt:2: two needle\nsrc/app.py:1: # Needle"
    assert await folder.search_text("needle", "notes.txt") == "notes.txt:2: two needle"
    assert await folder.search_text("n.edle") == "[no match]", "text is no pattern"
    with pytest.raises(FileNotFoundError):
        await folder.search_text("needle", "missing")
    with pytest.raises(ValueError, match="one line"):
        await folder.search_text("")


async def test_what_is_read_and_what_is_shown_is_bounded_and_said_to_be(root: Path) -> None:
    (root / "long.txt").write_text("".join(f"{number} needle\n" for number in range(1_000)))
    (root / "wide.txt").write_text("x" * 5_000)
    small = Folder(root, most_bytes=6_000, max_result_chars=600)
    with pytest.raises(OSError, match="more than the 6,000"):
        await small.read_file("long.txt")
    assert (await Folder(root, max_result_chars=600).read_file("long.txt")).endswith("of 1000]")
    assert (await Folder(root).read_file("wide.txt")).endswith("x [cut]")
    found = await Folder(root, max_result_chars=600).search_text("needle", "long.txt")
    assert found.endswith("[there are more]")
    assert len(found) < 700
    assert (await Folder(root).search_text("needle", "long.txt")).count("\n") == 200


async def test_the_tools_declare_what_may_be_run_early(root: Path) -> None:
    folder = Folder(root)
    for name, tool in folder.tools().items():
        spec = spec_of(tool)
        assert spec is not None
        assert permission(ToolCall(name=name, arguments={"path": "notes.txt"}), spec).launch == "predicted"
        assert spec.prefetch_key == "path"
        assert spec.prefetch is not None
        await spec.prefetch("notes.txt")
        with pytest.raises(PermissionError):
            await spec.prefetch("out")
    with running_early():
        assert await folder.read_file("notes.txt") == "one\ntwo needle\nthree"


def test_the_witness_tells_a_change_of_what_a_call_reads(root: Path) -> None:
    folder = Folder(root)
    read, listed = folder.specs["read_file"].validator, folder.specs["list_folder"].validator
    assert read is not None
    assert listed is not None
    before = read({"path": "same"}), listed({})
    assert (read({"path": "same"}), listed({})) == before
    (root / "notes.txt").write_text("other\n")
    (root / "another").write_text("")
    assert read({"path": "same"}) != before[0]
    assert listed({}) != before[1]
    missing = read({"path": "missing"})
    (root / "missing").write_text("")
    assert read({"path": "missing"}) != missing


def test_what_cannot_work_is_refused_when_the_tools_are_made(root: Path) -> None:
    for wrong in ({"root": root / "missing"}, {"root": root, "most_bytes": 0}, {"root": root, "max_result_chars": 0}):
        with pytest.raises(ConfigError):
            Folder(**wrong)  # type: ignore[arg-type]


class Swapping:
    """Calls of the system by the folder tool; before the one with a given number, somebody swaps names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int, swap: Callable[[], None]) -> None:
        self.made, self.number, self._swap = 0, number, swap
        for name in ("open", "stat", "readlink", "fstat", "scandir"):
            monkeypatch.setattr(descend.os, name, partial(self._call, getattr(os, name)))

    def _call(self, real: Callable[..., Any], *given: Any, **named: Any) -> Any:
        if self.made == self.number:
            self.made += 1
            self._swap()
        self.made += 1
        return real(*given, **named)


@pytest.mark.parametrize("target", ["secret folder", "link out", "pipe"])
@pytest.mark.parametrize("part", ["src", "src/deep", "src/deep/note.txt"])
async def test_nothing_outside_is_read_whenever_a_part_of_the_path_is_swapped(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str, target: str
) -> None:
    """Between any two calls of the system, a part of the path becomes a link that leads out, or a pipe. What is read is
    what stood there before, or nothing: `needle inside`, or an error."""
    (root / "src/deep/note.txt").write_text("needle inside\n")
    (tmp_path / "others/src/deep").mkdir(parents=True)
    (tmp_path / "others/src/deep/note.txt").write_text("needle of others\n")
    folder, seen, number = Folder(root), set[str](), 0

    def swap() -> None:
        (root / part).rename(tmp_path / "away")
        if target == "pipe":
            os.mkfifo(root / part)
        else:
            (root / part).symlink_to(tmp_path / "others" / part if target == "secret folder" else "../" * 9 + "etc")

    while True:
        with monkeypatch.context() as patched:
            swapping = Swapping(patched, number, swap)
            for call in (folder.read_file("src/deep/note.txt"), folder.search_text("needle", "src"),
                         folder.list_folder("src/deep")):  # fmt: skip
                try:
                    seen.add(await call)
                except OSError as failure:
                    seen.add(type(failure).__name__)
        if swapping.made <= number:
            break  # there are no more calls to swap before
        if (tmp_path / "away").exists():
            (root / part).unlink()
            (tmp_path / "away").rename(root / part)
        number += 1
    assert number > 10
    assert not any("others" in one for one in seen), seen
    assert "needle inside" in seen


@pytest.mark.soak
@pytest.mark.timeout(120)
def test_nothing_outside_is_read_while_another_process_renames(root: Path, tmp_path: Path) -> None:
    """20,000 reads beside a program that swaps a folder for a link as fast as it can."""
    (root / "src/deep/note.txt").write_text("needle inside\n")
    (tmp_path / "others/deep").mkdir(parents=True)
    (tmp_path / "others/deep/note.txt").write_text("needle of others\n")
    program = (
        "import os, sys\nroot, others = sys.argv[1:]\n"
        "while True:\n os.rename(f'{root}/src', f'{root}/was'); os.symlink(others, f'{root}/src')\n"
        " os.unlink(f'{root}/src'); os.rename(f'{root}/was', f'{root}/src')\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(root), str(tmp_path / "others")]) as swapping:
        folder, seen = Folder(root), Counter[str]()
        for _ in range(20_000):
            try:
                seen[folder._read_file("src/deep/note.txt", 1, 9)] += 1
            except OSError as failure:
                seen[type(failure).__name__] += 1
        swapping.kill()
    assert seen["needle inside"]
    assert "needle of others" not in seen, seen


async def test_links_and_steps_back_lead_as_far_as_they_stay_inside(root: Path, tmp_path: Path) -> None:
    """By hand: where each of them leads, as the system has it."""
    (root / "src/up").symlink_to("..")
    (root / "src/whole").symlink_to(root / "notes.txt")
    (root / "round").symlink_to("round")
    folder = Folder(root)
    for path in ("src/up/notes.txt", "src/deep/../../notes.txt", "src/whole", "src/up/src/up/same",
                 "../project/notes.txt", str(root / "notes.txt"), "./src//./up/notes.txt"):  # fmt: skip
        assert await folder.read_file(path, 1, 1) == "one\n[lines 1 to 1 of 3]", path
    with pytest.raises(OSError, match="leads nowhere"):
        await folder.read_file("round")
    for path in ("src/up/../secret.txt", "src/../../secret.txt", str(tmp_path / "secret.txt"), "src/up/out"):
        with pytest.raises(PermissionError, match="outside of the folder"):
            await folder.read_file(path)


@contextmanager
def not_as_root() -> Iterator[None]:
    """Root may do anything: in the block, its process is nobody's."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder with `shut/`, which may be entered but not listed, as homes of users often are, and `names/`, which may
    be listed but not entered."""
    with TemporaryDirectory() as made:
        root = Path(made).resolve()
        (root / "shut/in").mkdir(parents=True)
        (root / "shut/in/note.txt").write_text("needle\n")
        (root / "shut/note.txt").write_text("needle\n")
        (root / "names").mkdir()
        (root / "names/note.txt").write_text("needle\n")
        (root / "link").symlink_to("shut/in")
        for path, mode in (("shut", 0o111), ("names", 0o444), (".", 0o755)):
            os.chmod(root / path, mode)
        yield root
        for path in ("shut", "names", "."):
            os.chmod(root / path, 0o755)


can_pass = pytest.mark.skipif(descend._PASS == descend._READ, reason="this system opens folders only to be read")


@can_pass
async def test_what_lies_in_a_folder_that_may_only_be_entered_is_read(closed: Path) -> None:
    """By hand, as POSIX has it: to look a name up takes the permission to enter, to list takes that to read."""
    folder = Folder(closed)
    await folder.read_file("shut/note.txt")  # a thread is there before the user changes
    with not_as_root():
        for path in ("shut/note.txt", "shut/in/note.txt", "link/note.txt", "shut/in/../note.txt"):
            assert await folder.read_file(path) == "needle", path
        assert await folder.search_text("needle", "shut/note.txt") == "shut/note.txt:1: needle"
        for path in ("shut/in", "link", "shut/in/.", "names"):
            assert await folder.list_folder(path) == "note.txt", path
        for path in (".", "shut/..", "link/../.."):
            assert await folder.list_folder(path) == "link@\nnames/\nshut/", path
        for path in ("shut", "shut/in/..", "link/.."):
            with pytest.raises(PermissionError):
                await folder.list_folder(path)
        with pytest.raises(PermissionError):
            await folder.read_file("names/note.txt")


@can_pass
async def test_a_root_that_may_only_be_entered_is_read(closed: Path) -> None:
    """The same for the folder itself."""
    folder = Folder(closed / "shut")
    await folder.read_file("note.txt")
    with not_as_root():
        assert await folder.read_file("note.txt") == await folder.read_file("in/note.txt") == "needle"
        with pytest.raises(PermissionError):
            await folder.list_folder()


@can_pass
async def test_without_passing_such_a_folder_cannot_be_read_in(closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin."""
    monkeypatch.setattr(descend, "_PASS", descend._READ)
    folder = Folder(closed)
    await folder.read_file("shut/note.txt")
    with not_as_root(), pytest.raises(PermissionError):
        await folder.read_file("shut/note.txt")


def test_a_witness_of_git_opens_no_pipe(tmp_path: Path) -> None:
    """To open one waits for somebody who writes to it; a validator is asked on the event loop."""
    (tmp_path / ".git").mkdir()
    os.mkfifo(tmp_path / ".git/HEAD")
    with pytest.raises(OSError, match="no plain file"):
        git_head(tmp_path)({})
