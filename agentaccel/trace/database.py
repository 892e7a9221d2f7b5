"""The file behind the trace store: where it lies, who may read it, and how several processes share it."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentaccel.errors import TraceError
from agentaccel.locks import Lock
from agentaccel.policy import ENV_STORE
from agentaccel.trace.schema import migrate

KEY_BYTES = 32
BUSY_SECONDS = 0.25
"""How long a write waits for another process before it counts as failed; a turn's write takes well under 1 ms."""


def default_path() -> Path:
    """`trace.db` in the user's data folder."""
    from platformdirs import user_data_dir

    return Path(user_data_dir("agentaccel", appauthor=False)) / "trace.db"


def store_path(path: Path | None) -> Path:
    """`path`, else what the environment names, else the default."""
    named = os.environ.get(ENV_STORE, "").strip()
    return path or (Path(named).expanduser() if named else default_path())


def load_key(path: Path) -> bytes:
    """The key under which hashes of this store are made: random, in a file beside it that only its owner may read."""
    key_path = path.with_name(path.name + ".key")
    try:
        descriptor = os.open(key_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        key = key_path.read_bytes()
        if len(key) != KEY_BYTES:
            raise TraceError(f"{key_path} is not a key of agentaccel: move it and the store away") from None
        return key
    with os.fdopen(descriptor, "wb") as file:
        key = os.urandom(KEY_BYTES)
        file.write(key)
    return key


class Database:
    """One SQLite file, opened. Thread-safe: one connection behind a lock; a forked child opens its own.

    Raises what SQLite and the file system raise, and `TraceError` for a store of a newer version.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path.absolute()
        self._read_only = read_only
        self._lock = Lock()
        self.generation = 0
        """Rises whenever row ids that were handed out may not hold any more."""
        self._inherited: list[sqlite3.Connection] = []
        """Connections of the processes that this one was forked from: never used here, and never closed either."""
        self._begin()

    def _begin(self) -> None:
        """Open the connection of this process, which is closed when nobody holds the database any more."""
        connection = self._open()
        self._connection, self._pid = connection, os.getpid()
        self._closing = weakref.finalize(self, _close, connection, self._pid)

    def _open(self) -> sqlite3.Connection:
        if self._read_only:
            if not self.path.exists():
                raise TraceError(f"there is no trace store at {self.path}")
            connection = sqlite3.connect(
                f"file:{self.path}?mode=ro", uri=True, timeout=BUSY_SECONDS, check_same_thread=False
            )
            connection.isolation_level = None
            return connection
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, check_same_thread=False)
        connection.isolation_level = None  # transactions are written out below
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")  # a killed process loses nothing, a lost power supply may
            migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if os.getpid() != self._pid:
                self.generation += 1
                self._inherited.append(self._connection)
                self._begin()
            yield self._connection

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        with self.using() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                self.generation += 1
                if connection.in_transaction:  # SQLite has rolled back by itself where the disk is full
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def close(self) -> None:
        with self._lock:
            self._closing()


def _close(connection: sqlite3.Connection, pid: int) -> None:
    if os.getpid() == pid:
        connection.close()
