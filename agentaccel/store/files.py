"""Opening what somebody named: judged by what was opened, never by what stood there a moment before."""

from __future__ import annotations

import errno
import io
import os
import select
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from agentaccel.validators import is_kept, keeps

PATIENCE = 3.0
"""Seconds that a pipe is given until somebody writes to it."""

MOST = 64 << 20
"""Bytes of a file that is read as a whole."""


def real(path: Path) -> str:
    """Where `path` leads; a link that leads to itself is itself."""
    return os.path.realpath(path)


def open_file(path: Path, *, pipes: bool = False, follow: bool = True) -> io.FileIO:
    """The file at `path` for reading; with `pipes`, a pipe that somebody writes to, too; without `follow`, no link.

    Never waits for the other end of a pipe, and opens no device for good. Raises OSError for anything else than a file,
    and for a database of SQLite, on which this process may have locks that closing it would take away.
    """
    if path.exists() and is_kept(os.stat(path)):
        raise OSError(errno.EINVAL, "a database", str(path))
    flags = ["O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY", *["O_NOFOLLOW"] * (not follow)]  # as far as they exist
    number = os.open(path, os.O_RDONLY | sum(getattr(os, flag, 0) for flag in flags))
    try:
        mode = os.fstat(number).st_mode
        if pipes and stat.S_ISFIFO(mode):
            _await_writer(number)
        elif not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        if keeps(number):
            number = -1
            raise OSError(errno.EINVAL, "a database", str(path))
        if hasattr(os, "O_NONBLOCK"):
            os.set_blocking(number, True)
        return io.FileIO(number)
    except BaseException:
        if number >= 0:
            os.close(number)
        raise


def read_bytes(path: Path) -> bytes:
    """A whole small file, or what comes through a pipe. Raises OSError for what is neither, or larger than `MOST`."""
    with open_file(path, pipes=True) as raw, io.BufferedReader(raw) as file:
        data = file.read(MOST + 1)
    if len(data) > MOST:
        raise OSError(errno.EFBIG, f"larger than {MOST >> 20} MiB")
    return data


def place_file(path: Path, content: bytes) -> None:
    """Write a file that nobody else may read, unless there is one; one that is empty has to give way to content."""
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=path.name, dir=path.parent)  # mode 0600
    except OSError as error:  # it names the temporary file, of which nobody has heard
        raise OSError(error.errno, error.strerror, str(path)) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        try:
            os.link(temporary, path)
        except OSError:  # it is there, or this file system has no links
            if not path.exists() or (content and not path.stat().st_size):
                os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _await_writer(number: int) -> None:
    waiting = select.poll()
    waiting.register(number, select.POLLIN | select.POLLHUP)
    if waiting.poll(PATIENCE * 1000):
        return
    try:
        os.read(number, 1)
    except BlockingIOError:
        return  # somebody has it open, and has not written yet
    raise OSError(errno.EPIPE, "a pipe that nobody writes to")
