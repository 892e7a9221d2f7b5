"""The key of a trace store, which lies beside it: who has both could test whether a text was in a prompt."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from agentaccel.errors import TraceError
from agentaccel.trace.files import open_file, place_file
from agentaccel.trace.ownership import check_files, check_key, followed, tighten_key
from agentaccel.trace.schema import format_of

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
