"""Opening what somebody named: judged by what was opened, never by what stood there a moment before."""

from __future__ import annotations

import errno
import io
import os
import select
import stat
from pathlib import Path

PATIENCE = 3.0
"""Seconds that a pipe is given until somebody writes to it."""

MOST = 64 << 20
"""Bytes of a file that is read as a whole."""


def real(path: Path) -> str:
    """Where `path` leads; a link that leads to itself is itself."""
    return os.path.realpath(path)


def open_file(path: Path, *, pipes: bool = False) -> io.FileIO:
    """The file at `path` for reading; with `pipes`, a pipe that somebody writes to, too.

    Never waits for the other end of a pipe, and opens no device for good. Raises OSError for anything else than a file.
    """
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
    try:
        mode = os.fstat(number).st_mode
        if pipes and stat.S_ISFIFO(mode):
            _await_writer(number)
        elif not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "not a regular file")
        os.set_blocking(number, True)
        return io.FileIO(number)
    except BaseException:
        os.close(number)
        raise


def read_bytes(path: Path) -> bytes:
    """A whole small file, or what comes through a pipe. Raises OSError for what is neither, or larger than `MOST`."""
    with open_file(path, pipes=True) as raw, io.BufferedReader(raw) as file:
        data = file.read(MOST + 1)
    if len(data) > MOST:
        raise OSError(errno.EFBIG, f"larger than {MOST >> 20} MiB")
    return data


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
