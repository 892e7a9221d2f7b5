"""Whose the files of a trace store are: nothing is written to what somebody else may have put there.

A file of ours that others may read or write is made ours alone. A file of another user is used where nobody but us can
have put it into its folder, and is refused elsewhere: `/tmp` is open to all. Nothing is ever deleted, and no key is
made in the place of another one.

The database is judged by its name, before and after SQLite has opened it, and not by a descriptor of our own, which
could never be closed (`validators.keeps`).
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal

from agentaccel.errors import TraceError
from agentaccel.once import Once
from agentaccel.store.files import open_file, place_file
from agentaccel.store.migrations import format_of

Verdict = Literal["use", "tighten", "trust", "refuse"]

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a database."""
_ROOT = 0
"""Whose links are followed: whoever can make them can do anything."""
_MOST_LINKS = 40
"""That lead from one to the other, as in Linux."""
_once = Once()


def judge(owner: int, mode: int, folder_owner: int, folder_mode: int, us: int) -> Verdict:
    """Whether the user `us` may write to a file, by whom it belongs to and who may change its folder.

    "use": it is ours alone. "tighten": it is ours, and others may read or write it. "trust": it is another user's, and
    only we can have put it into its folder. "refuse": anybody may have.
    """
    if owner == us:
        return "tighten" if mode & _OTHERS else "use"
    return "trust" if folder_owner == us and not folder_mode & _OTHERS_WRITE else "refuse"


def how_to_read(*, ours: bool, log: bool, writable: bool) -> str:
    """The options by which SQLite reads a store: one that is not ours, or whose folder cannot be written, stays as it
    is.

    `log` says that there is something in its write-ahead log. Without one SQLite would make one, and its index, and
    leave both; with "immutable" it looks at the database alone, which then holds everything.
    """
    if not log and not (ours and writable):
        return "mode=ro&immutable=1"
    return "mode=ro" if ours else "mode=ro&readonly_shm=1"


def reading(path: Path) -> tuple[str, Path | None]:
    """The address by which SQLite reads the store at `path`; and the file, where that leaves a log that is ours to take
    away. Raises OSError where there is none.
    """
    place = Path(os.path.realpath(path))
    us, log = _us(), _found(place.with_name(f"{place.name}-wal"))
    ours = us is None or os.stat(place).st_uid == us
    check_kind(place)
    has_log, writable = log is not None and bool(log.st_size), os.access(place.parent, os.W_OK)
    options = how_to_read(ours=ours, log=has_log, writable=writable)
    return f"{place.as_uri()}?{options}", place if ours and log is None else None


def followed(path: Path) -> Path:
    """Where `path` leads, if it is a link. Raises `TraceError` for a link that somebody else may have put there."""
    for _ in range(_MOST_LINKS):
        found = _found(path)
        if found is None or not stat.S_ISLNK(found.st_mode):
            return path
        if found.st_uid != _ROOT and _verdict(path, found) == "refuse":
            raise _refusal(path, found)
        path = path.parent / os.readlink(path)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def check_kind(place: Path) -> None:
    """Raises `TraceError` where the database at `place`, or what SQLite keeps beside it, is there and no regular file:
    who opens a pipe waits for the other end of it, without end.
    """
    for path in _files(place):
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise TraceError(f"{path} cannot be opened as a trace store: it is no regular file")


def check_files(place: Path) -> None:
    """Raises `TraceError` where somebody else may have put there the database at `place`, or what SQLite keeps beside
    it, and where one of them is no file; what is another user's and used all the same is said once.
    """
    check_kind(place)
    for path in _files(place):
        found = _found(path)
        if found is not None:
            _check(path, found, place)


def tighten_files(place: Path) -> None:
    """Nobody else may read these files from now on, as far as they are ours; that is said once."""
    for path in _files(place):
        found = _found(path)
        if found is not None and stat.S_ISREG(found.st_mode) and _verdict(path, found) == "tighten":
            _tighten(path, None, found.st_mode, place)


def check_key(path: Path, descriptor: int, store: Path) -> None:
    """`check_files` for the key at `path`, which is open as `descriptor`."""
    _check(path, os.fstat(descriptor), store)


def tighten_key(path: Path, descriptor: int, store: Path) -> None:
    """`tighten_files` for it."""
    found = os.fstat(descriptor)
    if _verdict(path, found) == "tighten":
        _tighten(path, descriptor, found.st_mode, store)


def _files(place: Path) -> tuple[Path, ...]:
    """The database, and what SQLite keeps beside it."""
    return place, *(place.with_name(place.name + ending) for ending in _BESIDE)


def _check(path: Path, found: os.stat_result, store: Path) -> None:
    verdict = _verdict(path, found)
    if verdict == "refuse":
        raise _refusal(path, found)
    if verdict == "trust":
        _once.say_aloud(
            f"{path} belongs to user {found.st_uid}, not to you; it is used, because its folder is yours alone",
            about=f"trusted {store}",
        )


def _verdict(path: Path, found: os.stat_result) -> Verdict:
    us = _us()
    if us is None:
        return "use"
    folder = os.stat(path.parent)
    verdict = judge(found.st_uid, found.st_mode, folder.st_uid, folder.st_mode, us)
    if verdict == "refuse" and (here := _us_in(path.parent)) not in (None, us):
        return judge(found.st_uid, found.st_mode, folder.st_uid, folder.st_mode, here)
    return verdict


def _us() -> int | None:
    """The user whose files we make; None on a system that knows no such numbers."""
    return os.geteuid() if hasattr(os, "geteuid") else None


def _us_in(folder: Path) -> int | None:
    """Whom a file that we make in `folder` belongs to: some file systems (network shares, FAT) decide that alone."""
    with suppress(OSError), tempfile.TemporaryFile(dir=folder) as made:
        return os.fstat(made.fileno()).st_uid
    return None


def _refusal(path: Path, found: os.stat_result) -> TraceError:
    return TraceError(
        f"{path} belongs to user {found.st_uid}, and its folder is not yours alone, so they may have put it there: make"
        " both yours, or give the trace store another path"
    )


def _tighten(path: Path, descriptor: int | None, mode: int, store: Path) -> None:
    mode, why = stat.S_IMODE(mode) & ~_OTHERS, "its file system keeps no modes"
    try:
        if descriptor is not None:
            os.fchmod(descriptor, mode)
        else:
            try:
                os.chmod(path, mode, follow_symlinks=False)
            except NotImplementedError:  # an old C library
                os.chmod(path, mode)
    except OSError as error:
        why = error.strerror or str(error)
    now = os.fstat(descriptor) if descriptor is not None else os.lstat(path)
    if now.st_mode & _OTHERS:
        _once.say_aloud(
            f"others may read the trace store: {path} cannot be made yours alone: {why}", about=f"open {store}"
        )
    else:
        _once.say_aloud(
            f"others could read the trace store at {store} or its key; now only you can (mode {mode:04o})",
            about=f"tightened {os.path.abspath(store)}",
        )


def _found(path: Path) -> os.stat_result | None:
    """What stands at `path`, a link as itself; None where there is nothing."""
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


# --- The key of a trace store, which lies beside it: who has both could test whether a text was in a prompt -----------

KEY_BYTES = 32


def load_key(path: Path, wanted: bytes | None = None) -> bytes:
    """The key under which hashes of this store are made: random, in a file beside it that only its owner may read.

    Made where there is none yet, from `wanted` if that is given. It appears whole or not at all, and once: a process
    that comes second, or that is killed in between, leaves what the first one wrote. Raises `TraceError` where none is
    to be made, because what stands at `path` is no trace store, and where somebody else may have put one there.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    key_path = followed(path.with_name(path.name + ".key"))
    key = _read_key(key_path, path)
    if not key:
        _refuse_others(path)
        place_file(key_path, wanted or os.urandom(KEY_BYTES))
        key = _read_key(key_path, path)
    if len(key) != KEY_BYTES:
        raise TraceError(f"{key_path} is not a key of agentaccel: move it and the store away")
    return key


def _read_key(key_path: Path, store: Path) -> bytes:
    """What is in the file; nothing where there is none."""
    try:
        with open_file(key_path, follow=False) as file:
            check_key(key_path, file.fileno(), store)
            key = file.read(KEY_BYTES + 1)
            if len(key) == KEY_BYTES:  # what is no key stays as it is
                tighten_key(key_path, file.fileno(), store)
            return key
    except FileNotFoundError:
        return b""


def _refuse_others(path: Path) -> None:
    """Nothing is written beside what is no trace store, or is not to be written. What cannot be opened now, whoever
    opens it is told.
    """
    place = followed(path)
    check_files(place)
    if not place.exists():
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0.0)) as connection:
            format_of(connection, path)
    except sqlite3.OperationalError:
        return
    except sqlite3.DatabaseError as error:
        raise TraceError(f"{path} cannot be opened as a trace store: {error}") from error
