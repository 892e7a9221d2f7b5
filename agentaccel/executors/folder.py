"""Files for agents to read: one folder and what is below it, without a program or a shell.

Nothing here follows a link out of the folder, opens a pipe or a device, or reads more than it may. Errors are raised as
Python has them (`FileNotFoundError`, `PermissionError`, …) with words that a model can act on.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

from agentaccel.effects.spec import Arguments, ToolSpec
from agentaccel.errors import ConfigError
from agentaccel.executors.processes import readable
from agentaccel.former import former_fields
from agentaccel.types import Effect
from agentaccel.validators import is_kept, keeps, state_of

# --- Looks up a path from a folder by descriptors: what is opened is what was looked at, whatever is renamed meanwhile

MOST_LINKS = 40
"""Links that are followed for one path, as on Linux."""
BY_DESCRIPTOR = {os.open, os.stat, os.readlink} <= os.supports_dir_fd and os.scandir in os.supports_fd
"""True if this system can look names up from an open folder (Windows cannot)."""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_ALWAYS = (
    _NO_LINK
    | getattr(os, "O_NONBLOCK", 0)  # a pipe that takes the place of a file is opened at once, and then seen to be none
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)
_READ = os.O_RDONLY | _ALWAYS
_PASS = getattr(os, "O_PATH", getattr(os, "O_SEARCH", os.O_RDONLY)) | _ALWAYS
"""For folders on the way: one may be entered without being allowed to list it (Linux: `O_PATH`; POSIX: `O_SEARCH`)."""


class IsADatabase(OSError):
    """The file is a database of SQLite: to close it would take away the locks that this process has on it."""

    def __init__(self, path: str, size: int) -> None:
        super().__init__(f"{path} is no text; it has {size:,} bytes")


class Opened(NamedTuple):
    """A file or a folder that is open."""

    descriptor: int
    place: tuple[str, ...]
    """Where it lies below the root, without links."""
    state: os.stat_result

    @property
    def is_folder(self) -> bool:
        """True if it is a folder; else it is a plain file."""
        return stat.S_ISDIR(self.state.st_mode)


@contextmanager
def opened(root: Path, path: str) -> Iterator[Opened]:
    """What `path` names, seen from `root`: a plain file or a folder, which lies below it.

    Links are followed as long as they stay below. Raises `PermissionError` for what lies outside, and `OSError` for a
    pipe, a device and what was replaced while it was looked up.
    """
    held = _OpenFolders(root, path)
    try:
        held.descend()
        yield held.found()
    finally:
        held.close()


class _OpenFolders:
    """The folders from the root to where a look-up has come, all open: so `..` is where it came from."""

    def __init__(self, root: Path, path: str) -> None:
        self._root, self._path = root, path
        self._way = self._parts(path)
        self._reads = not self._way
        """True if the end of the way is open to be read, not only to be passed."""
        self._open = [os.open(root, (_READ if self._reads else _PASS) & ~_NO_LINK)]
        self._place = list[str]()
        self._links = 0

    def descend(self) -> None:
        left = deque(self._way)
        while left:
            part = left.popleft()
            if part == "..":
                if self._place:
                    os.close(self._open.pop())
                    self._place.pop()
                else:  # it may lead back inside
                    self._follows()
                    left = deque(self._inside(os.path.join(self._root, part, *left)))
                continue
            seen = os.stat(part, dir_fd=self._open[-1], follow_symlinks=False)
            if not stat.S_ISLNK(seen.st_mode):
                self._enter(part, seen, last=not left)
                continue
            self._follows()
            target = os.readlink(part, dir_fd=self._open[-1])
            if os.path.isabs(target):
                self.close(most=1)
            left.extendleft(reversed(self._parts(target)))

    def _enter(self, part: str, seen: os.stat_result, *, last: bool) -> None:
        """One step down. A device is not even opened: that may do anything."""
        self._plain(seen.st_mode)
        if is_kept(seen):
            raise IsADatabase(self._path, seen.st_size)
        try:
            descriptor = os.open(part, _READ if last else _PASS, dir_fd=self._open[-1])
        except OSError as failure:
            if failure.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
                raise OSError(f"{self._path} was replaced while it was read") from None
            raise
        self._open.append(descriptor)
        self._place.append(part)
        self._reads = last
        found = os.fstat(descriptor)
        self._plain(found.st_mode)
        if (found.st_dev, found.st_ino) != (seen.st_dev, seen.st_ino):
            raise OSError(f"{self._path} was replaced while it was read")
        if last and keeps(descriptor):
            self._open.pop()
            raise IsADatabase(self._path, found.st_size)

    def _plain(self, mode: int) -> None:
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise OSError(f"{self._path} is no plain file")

    def _follows(self) -> None:
        self._links += 1
        if self._links > MOST_LINKS:
            raise OSError(f"{self._path} is a link that leads nowhere")

    def _parts(self, path: str) -> list[str]:
        if os.path.isabs(path):
            return self._inside(path)
        return [part for part in path.split("/") if part not in ("", ".")]

    def _inside(self, path: str) -> list[str]:
        """The way to an absolute path from the root. It is gone by descriptors: this only tells names."""
        try:
            real = Path(path).resolve()
        except RuntimeError:  # links in a circle, before 3.13
            raise OSError(f"{self._path} is a link that leads nowhere") from None
        if not real.is_relative_to(self._root):
            raise PermissionError(f"{self._path} lies outside of the folder")
        return list(real.relative_to(self._root).parts)

    def found(self) -> Opened:
        if not self._reads:  # a link or `..` led back to it
            self._open.append(os.open(".", _READ, dir_fd=self._open[-1]))
        return Opened(self._open[-1], tuple(self._place), os.fstat(self._open[-1]))

    def close(self, most: int = 0) -> None:
        """Let go of all but the first `most`."""
        while len(self._open) > most:
            os.close(self._open.pop())
        self._place.clear()


T = TypeVar("T")

MOST_ENTRIES = 1_000
"""Names in a list of a folder."""
MOST_MATCHES = 200
"""Lines that a search shows."""
MOST_FILES = 20_000
"""Files that a search looks into."""
LONGEST_LINE = 2_000
"""Characters of a line that are shown."""
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO)
"""Errors that say nothing of the file."""
_LOOKED_AT = 8_192
"""Bytes at the beginning of a file in which a NUL says that it is no text, as in git."""


@former_fields(output_cap="max_result_chars", fresh_for="max_age")
@dataclass(frozen=True, slots=True)
class Folder:
    """Three tools that read a folder: `accel.tools({"read_file": folder.read_file, …})`, or all with `tools()`.

    Links inside are followed as long as they stay inside. Safe to run beside anything; each run is in a thread.
    """

    root: str | os.PathLike[str]
    """The folder; must be there when the tools are made."""
    _: KW_ONLY
    most_bytes: int = 10_000_000
    """Of a file; a larger one is not read."""
    max_result_chars: int = 60_000
    """Characters of a result."""
    max_age: float | None = 10.0
    """Seconds that the early result of a search may wait for its call (`ToolSpec`); the others are told by the disk."""
    _root: Path = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not BY_DESCRIPTOR:
            raise ConfigError("agentaccel.executors.Folder needs Linux or macOS: it looks names up from open folders")
        root = Path(self.root).resolve()
        if not root.is_dir():
            raise ConfigError(f"root must be a folder that is there; got {str(self.root)!r}")
        if self.most_bytes <= 0 or self.max_result_chars <= 0:
            raise ConfigError("most_bytes and max_result_chars must be above 0")
        object.__setattr__(self, "_root", root)

    def tools(self) -> dict[str, Callable[..., object]]:
        """All three by name, for `accel.tools`."""
        return {"read_file": self.read_file, "list_folder": self.list_folder, "search_text": self.search_text}

    @property
    def specs(self) -> Mapping[str, ToolSpec]:
        """They read what is local. Validators show when a file or a folder has changed; a search has no validator."""

        def spec(validator: Callable[[Arguments], Hashable] | None, max_age: float | None) -> ToolSpec:
            return ToolSpec(
                effect=Effect.READ_LOCAL,
                concurrent=True,
                scope="files",
                validator=validator,
                max_age=max_age,
                prefetch_key="path",
                prefetch=self._warm,
                own=True,
            )

        return {
            "read_file": spec(self._state, None),
            "list_folder": spec(self._state, None),
            "search_text": spec(None, self.max_age),
        }

    async def read_file(self, path: str, first_line: int = 1, lines: int = 2_000) -> str:
        """Return the text of a file of the project, `lines` lines from `first_line` on (counted from 1)."""
        return await asyncio.to_thread(self._read_file, path, first_line, lines)

    async def list_folder(self, path: str = ".") -> str:
        """List a folder of the project, one name a line: folders end with "/", links with "@"."""
        return await asyncio.to_thread(self._list_folder, path)

    async def search_text(self, text: str, path: str = ".", ignore_case: bool = False) -> str:
        """Find lines that hold `text`, as it stands, in the files below `path`: "file:line: the line".

        Hidden folders, links and files that are no text are left out.
        """
        if not text or "\n" in text:
            raise ValueError("text must be some characters of one line")
        over = threading.Event()
        try:
            return await asyncio.to_thread(self._search_text, text, path, ignore_case, over)
        finally:
            over.set()  # a search that nobody waits for any more ends with the file that it is at

    def _bytes(self, file: Opened, name: str) -> bytes:
        """All of a plain file."""
        if file.is_folder:
            raise IsADirectoryError(f"{name} is a folder")
        size = file.state.st_size
        if size > self.most_bytes:
            raise OSError(f"{name} has {size:,} bytes, more than the {self.most_bytes:,} that may be read")
        with os.fdopen(file.descriptor, "rb", closefd=False) as opened_file:
            return opened_file.read(self.most_bytes)

    @contextmanager
    def _opened(self, path: str) -> Iterator[Opened]:
        """What `path` names, open. Raises `PermissionError` where that is outside of the folder."""
        if "\0" in path:
            raise ValueError("a path holds no NUL")
        with ExitStack() as held:
            try:
                found = held.enter_context(opened(self._root, path))
            except FileNotFoundError:
                raise FileNotFoundError(f"there is no {path}") from None
            yield found

    def _read_file(self, path: str, first_line: int, lines: int) -> str:
        if first_line < 1 or lines < 1:
            raise ValueError("first_line and lines count from 1")
        try:
            with self._opened(path) as file:
                data = self._bytes(file, path)
        except IsADatabase as said:
            return f"[{said}]"
        if b"\0" in data[:_LOOKED_AT]:
            return f"[{path} is no text; it has {len(data):,} bytes]"
        found = readable(data).split("\n")
        if found[-1] == "":
            found.pop()
        shown, length = list[str](), 0
        for line in found[first_line - 1 : first_line - 1 + lines]:
            shown.append(_cut(line))
            length += len(shown[-1]) + 1
            if length > self.max_result_chars and len(shown) > 1:
                shown.pop()
                break
        text = "\n".join(shown)
        if len(shown) == len(found):
            return text
        last = first_line - 1 + len(shown)
        return f"{text}\n[lines {first_line} to {last} of {len(found)}]" if shown else f"[{len(found)} lines in all]"

    def _list_folder(self, path: str) -> str:
        try:
            with self._opened(path) as folder:
                if not folder.is_folder:
                    raise NotADirectoryError
                with os.scandir(folder.descriptor) as entries:
                    names = sorted(entry.name + _mark(entry) for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            raise NotADirectoryError(f"there is no folder {path}") from None
        more = [f"[{len(names) - MOST_ENTRIES:,} more]"] if len(names) > MOST_ENTRIES else []
        return "\n".join(name.encode(errors="replace").decode() for name in names[:MOST_ENTRIES] + more) or "[empty]"

    def _search_text(self, text: str, path: str, ignore_case: bool, over: threading.Event) -> str:
        wanted = text.casefold() if ignore_case else text
        shown, length = list[str](), 0
        for looked, place in enumerate(self._files(path)):
            if over.is_set() or looked == MOST_FILES:
                shown.append(f"[only the first {MOST_FILES:,} files were searched]")
                break
            for line in self._matches(place, wanted, ignore_case):
                length += len(line) + 1
                if len(shown) == MOST_MATCHES or length > self.max_result_chars:
                    return "\n".join([*shown, "[there are more]"])
                shown.append(line)
        return "\n".join(shown) or "[no match]"

    def _matches(self, name: str, wanted: str, ignore_case: bool) -> Iterator[str]:
        try:
            with self._opened(name) as file:
                if "/".join(file.place) != name:
                    return  # by now it is a link, or stands behind one
                data = self._bytes(file, name)
        except OSError as failure:
            return _passed_over(failure)  # too large, not to be read, or gone by now
        if b"\0" in data[:_LOOKED_AT]:
            return
        for number, line in enumerate(readable(data).split("\n"), start=1):
            if wanted in (line.casefold() if ignore_case else line):
                yield f"{name}:{number}: {_cut(line.strip())}".encode(errors="replace").decode()

    def _files(self, path: str) -> Iterator[str]:
        """The places of plain files below `path`, by name; a single file is its own folder."""
        with self._opened(path) as start:
            first = "/".join(start.place)
            if not start.is_folder:
                yield first
                return
        left = [first]
        while left:
            folder = left.pop()
            inner, files = self._listed(folder)
            left += [f"{folder}/{name}".lstrip("/") for name in sorted(inner, reverse=True)]
            yield from (f"{folder}/{name}".lstrip("/") for name in sorted(files))

    def _listed(self, folder: str) -> tuple[list[str], list[str]]:
        """The names of the folders that are searched in a folder, and of its plain files."""
        inner, files = list[str](), list[str]()
        try:
            with self._opened(folder) as there:
                if "/".join(there.place) != folder:
                    return [], []  # by now it is a link, or stands behind one
                with os.scandir(there.descriptor) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                            inner.append(entry.name)
                        elif entry.is_file(follow_symlinks=False):
                            files.append(entry.name)
        except OSError as failure:
            _passed_over(failure)
        return inner, files

    def _state(self, arguments: Arguments) -> Hashable:
        """The version of the file or the folder that a call names, as the disk tells it."""
        try:
            with self._opened(str(arguments.get("path", "."))) as there:
                return state_of(there.state)
        except FileNotFoundError:
            return None

    async def _warm(self, path: str) -> None:
        """Read it once, so that the system has it at hand; a folder has nothing to warm."""

        def read() -> None:
            with self._opened(path) as found:
                if not found.is_folder:
                    self._bytes(found, path)

        await asyncio.to_thread(read)


def _passed_over(failure: OSError) -> None:
    """Go on without what cannot be read; raises where that says nothing of it, and would look like no match."""
    if failure.errno in _SHORTAGES:
        raise failure


def _mark(entry: os.DirEntry[str]) -> str:
    if entry.is_symlink():
        return "@"
    return "/" if entry.is_dir(follow_symlinks=False) else ""


def _cut(line: str) -> str:
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} [cut]"
