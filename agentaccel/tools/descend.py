"""Looks up a path from a folder by descriptors: what is opened is what was looked at, whatever is renamed meanwhile."""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

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
    held = _Held(root, path)
    try:
        held.descend()
        yield held.found()
    finally:
        held.close()


class _Held:
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
