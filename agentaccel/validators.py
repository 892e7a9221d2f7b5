"""Validators: the version of what a tool call reads, so that a change by anybody shows.

A validator is a function of a call's arguments, like the validators of HTTP caches (`ETag`, `Last-Modified`). Its value
is compared by equality: before an early run, after the run, and again before the result is served. A validator is
called on the event loop, so it must be quick. If a validator raises, the result is not served.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, Final

from agentaccel.errors import ConfigError
from agentaccel.locks import Lock

Validator = Callable[[Mapping[str, Any]], Hashable]


class _Unknown:
    """The version where a validator failed: equal to nothing, not even itself."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return False


UNKNOWN: Final = _Unknown()


def version_of(validator: Validator | None, arguments: Mapping[str, Any]) -> object:
    """The version that `validator` gives now; None without a validator, and a value that equals nothing if it fails."""
    if validator is None:
        return None
    try:
        return validator(arguments)
    except Exception:  # noqa: BLE001 - the user's function; what it cannot tell is not served
        return UNKNOWN


def is_unchanged(validator: Validator | None, arguments: Mapping[str, Any], seen: object) -> bool:
    """True if `validator` gives the version that was `seen`, or if there is no validator. Raises nothing."""
    if validator is None:
        return True
    try:
        return bool(version_of(validator, arguments) == seen)
    except Exception:  # noqa: BLE001 - values that cannot be compared tell nothing
        return False


def file_state(path: str | Path) -> Hashable:
    """The state of one file or folder: when its content and its entry were last changed, in nanoseconds, size, inode
    and device; None where there is none.

    Programs set the first time back (`rsync -t --inplace`, `tar`), and cannot the second. Raises `OSError` where that
    cannot be told.
    """
    try:
        return state_of(Path(path).stat())
    except FileNotFoundError:
        return None


def state_of(seen: os.stat_result) -> Hashable:
    """The same of what was looked at."""
    return seen.st_mtime_ns, seen.st_ctime_ns, seen.st_size, seen.st_ino, seen.st_dev


def file_stat(*names: str) -> Validator:
    """A validator for a tool that reads files: `names` are its arguments that hold their paths.

        @accel.tool(effect="read_local", concurrent=True, in_thread=True, validator=file_stat("path"))
        def read_file(path: str) -> str: ...

    Raises `ConfigError` for no names: a change would never show.

    >>> file_stat("path")({"path": "/nowhere/at/all"})
    (None,)
    """
    if not names or not all(isinstance(name, str) for name in names):
        raise ConfigError(f"file_stat takes the names of arguments that hold paths: file_stat('path'); got {names}")
    return lambda arguments: tuple(file_state(arguments[name]) for name in names)


def git_head(folder: str | Path = ".") -> Validator:
    """A validator for a tool that reads the history of the repository at `folder`: what HEAD names, and its commit.

    Uncommitted changes do not show in it.
    """
    return lambda arguments: _head(Path(folder) / ".git")


def _head(git: Path) -> Hashable:
    if git.is_file():  # a worktree: the file names the folder
        git = (git.parent / _text(git).partition("gitdir: ")[2].strip()).resolve()
    head = _text(git / "HEAD")
    name = head.partition("ref: ")[2].strip()
    common = git / "commondir"
    shared = (git / _text(common).strip()).resolve() if common.is_file() else git
    return head, file_state(shared / name) if name else None, file_state(shared / "packed-refs")


_LONGEST = 65_536
"""Bytes of a file of git's that names something."""


def _text(path: Path) -> str:
    """The text of a small file. Raises `OSError` for what is no plain file: to open a pipe waits for a writer."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is no plain file")
        return file.read(_LONGEST).decode()


# --- Databases that this process may have locked ----------------------------------------------------------------------
# When a process closes any descriptor of a file, POSIX takes away all locks that it has on that file (close(2)), and so
# those of SQLite's. So the descriptor by which a database was looked at stays open, one for each file.

SQLITE = b"SQLite format 3\0"
"""The first bytes of every database of SQLite that is not empty; while it is being made, zeros may stand there."""
_INDEX = (b"\x18\xe2\x2d\x00", b"\x00\x2d\xe2\x18")
"""The first bytes of what SQLite keeps beside a database with a log, and locks in its place: 3007000, in either order
(SQLite, WAL-mode File Format, 2.1)."""
_MOST_KEPT = 256
"""Descriptors that stay open; the oldest of more is closed all the same."""
_kept: dict[int, tuple[int, int]] = {}
"""Those, each with the device and the inode of its file, the oldest first."""
_keeping = Lock()


def head_of(path: str | Path, most: int) -> bytes:
    """The first bytes of a plain file, at most `most`. Raises `OSError` for what is none: to open a pipe takes what its
    reader waits for."""
    with _keeping:
        seen = os.stat(path)
        if not stat.S_ISREG(seen.st_mode):
            raise OSError(f"{path} is no plain file")
        kept = next((one for one, file in _kept.items() if file == (seen.st_dev, seen.st_ino)), None)
        if kept is not None:
            return os.pread(kept, most, 0)
        if not seen.st_size:
            return b""
        flags = sum(getattr(os, flag, 0) for flag in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY"))
        descriptor = os.open(path, os.O_RDONLY | flags)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(f"{path} is no plain file")
            return os.read(descriptor, most)
        finally:
            if not keeps(descriptor):
                os.close(descriptor)


def keeps(descriptor: int) -> bool:
    """True if an open file is one that SQLite locks, or may become one: then it stays open, no more the caller's.

    Where there are no locks of POSIX, as on Windows, that is never needed.
    """
    found = os.fstat(descriptor)
    if not hasattr(os, "pread") or not stat.S_ISREG(found.st_mode):
        return False
    with _keeping:
        head = os.pread(descriptor, len(SQLITE), 0)
        if not head or (head != SQLITE and head[:4] not in _INDEX and any(head)):
            return False
        gone = [one for one in _kept if not os.fstat(one).st_nlink]
        for one in gone or list(_kept)[:1] * (len(_kept) >= _MOST_KEPT):
            del _kept[one]
            os.close(one)
        _kept[descriptor] = found.st_dev, found.st_ino
        return True


def is_kept(seen: os.stat_result) -> bool:
    """True if a descriptor of the file that was looked at stays open."""
    return (seen.st_dev, seen.st_ino) in tuple(_kept.values())
