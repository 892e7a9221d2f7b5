"""The file behind the trace store: where it lies, who may read it, and how several processes share it."""

from __future__ import annotations

import errno
import os
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from agentaccel.errors import ConfigError, TraceError
from agentaccel.locks import Lock
from agentaccel.policy import ENV_STORE
from agentaccel.store.files import place_file
from agentaccel.store.migrations import format_of, migrate
from agentaccel.store.ownership import check_files, followed, reading, tighten_files
from agentaccel.validators import SQLITE, head_of

BUSY_SECONDS = 0.25
"""How long a write waits for another process before it counts as failed; a turn's write takes well under 1 ms."""
_SWITCHES = 5
"""How often switching to the write-ahead log is tried, while other processes create the store, too."""
DAMAGED = (sqlite3.Error, UnicodeDecodeError)
"""What reading a damaged file raises: SQLite's own message may quote bytes that are no text."""
SYNCHRONOUS = "NORMAL"
"""When SQLite waits for the disk. A killed process loses nothing; a lost power supply may take the last turns."""


def default_path() -> Path:
    """`trace.db` in the user's data folder."""
    from platformdirs import user_data_dir

    return Path(user_data_dir("agentaccel", appauthor=False)) / "trace.db"


def store_path(path: Path | None) -> Path:
    """`path`, else what the environment names, else the default."""
    named = os.environ.get(ENV_STORE, "").strip()
    return path or (Path(named).expanduser() if named else default_path())


def check_place(path: Path) -> None:
    """Raises `ConfigError` where no store can ever be at a path that a user has named: what stands there tells."""
    if path.is_dir():
        raise ConfigError(f"the trace store cannot be at {path}, which is a folder: give the path of a file")
    if path.exists() and not path.is_file():
        raise ConfigError(f"the trace store cannot be at {path}, which is no file: give another path")
    try:
        head = head_of(path, len(SQLITE))
    except OSError:
        return  # it is not there, or whoever opens it is told
    if not SQLITE.startswith(head):
        raise ConfigError(f"the trace store cannot be at {path}, which is no SQLite database: give another path")


def is_sqlite(path: Path) -> bool:
    """Whether an SQLite database stands at `path`; not where that cannot be told."""
    try:
        return head_of(path, len(SQLITE)) == SQLITE
    except (OSError, ValueError):
        return False


class Database:
    """One SQLite file, opened. Thread-safe: one connection behind a lock; parent and child of a fork open their own.

    Raises what SQLite and the file system raise, and `TraceError` for a store of a newer version, for a database of
    another program, and for one to be written that somebody else may have put there.
    """

    def __init__(self, path: Path, *, read_only: bool = False, patient: bool = True) -> None:
        self.path = path.absolute()
        self._read_only = read_only
        self._lock = Lock(before_fork=self._rest)
        self.patient = patient
        """Whether a write waits a moment for another process that writes, or fails at once."""
        self.generation = 0
        """Rises whenever row ids that were handed out may not hold any more."""
        self.reopened = 0
        """How often the file was found deleted or replaced."""
        self._inherited: list[sqlite3.Connection] = []
        """Connections of the processes that this one was forked from in the middle of a use: never used here, and never
        closed either."""
        self._connection: sqlite3.Connection | None = None
        self.empty = False
        """True if the file was opened for reading and is no store yet, nor anything else."""
        self._leaves: Path | None = None
        """The file, where reading it leaves a write-ahead log beside it that was not there."""
        self._begin()

    def _begin(self) -> sqlite3.Connection:
        """Open the connection of this process, which is closed when nobody holds the database any more."""
        connection = self._open()
        self._connection, self._pid, self._waits = connection, os.getpid(), self.patient
        self.file = self._file_there()
        self._closing = weakref.finalize(self, _close, connection, self._pid, self._leaves)
        return connection

    def _file_there(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _open(self) -> sqlite3.Connection:
        wait = BUSY_SECONDS if self.patient else 0.0
        if self._read_only:
            if not self.path.exists():
                raise TraceError(f"there is no trace store at {self.path}")
            there, self._leaves = reading(self.path)
            connection = sqlite3.connect(there, uri=True, timeout=wait, check_same_thread=False)
            connection.isolation_level = None
            try:
                self.empty = not format_of(connection, self.path)
            except BaseException:
                _close(connection, os.getpid(), self._leaves)
                raise
            return connection
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        place = followed(self.path)
        if not place.exists():
            place_file(place, b"")
        check_files(place)
        if not os.access(place, os.R_OK | os.W_OK):  # SQLite would go on without writing
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(place))
        connection = sqlite3.connect(place, timeout=wait, check_same_thread=False)
        connection.isolation_level = None  # transactions are written out below
        try:
            format_of(connection, self.path)  # before anything is set: a database of another program stays as it is
            tighten_files(place)
            connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
            _keep_log(connection)
            check_files(place)  # what was there when SQLite opened it
            migrate(connection, self.path)
        except BaseException:
            connection.close()
            raise
        return connection

    @contextmanager
    def using(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            yield self._own()

    def _own(self) -> sqlite3.Connection:
        """The connection of this process; to be used in the lock."""
        connection = self._connection
        if connection is None or os.getpid() != self._pid:
            if connection is not None:
                self._inherited.append(connection)
            self.generation += 1
            connection = self._begin()
        if self._waits != self.patient:
            self._waits = self.patient
            connection.execute(f"PRAGMA busy_timeout = {int(BUSY_SECONDS * 1000) if self._waits else 0}")
        return connection

    def _rest(self) -> None:
        """Before a fork. SQLite's view of who has locked the file would be wrong in the child: its parent, the last to
        close the file as it seems, would take away what the child still writes to.
        """
        if self._connection is not None and self._closing.alive:
            self._closing()
            self._connection = None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            connection = self._own()
            if self._file_there() != self.file:
                connection = self._reopen()
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                self.generation += 1
                if connection.in_transaction:  # SQLite has rolled back by itself where the disk is full
                    connection.execute("ROLLBACK")
                raise

    def _reopen(self) -> sqlite3.Connection:
        """The file was deleted or replaced under us: what is written to the old one, nobody will ever read."""
        old = self._closing
        connection = self._begin()
        self.generation += 1
        self.reopened += 1
        old()
        return connection

    def close(self) -> None:
        with self._lock:
            self._closing()


def _keep_log(connection: sqlite3.Connection) -> None:
    """Switch to a write-ahead log. SQLite does not wait for another that does so just now, but for its transaction."""
    for _ in range(_SWITCHES):
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode = WAL")
            return
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("COMMIT")
    connection.execute("PRAGMA journal_mode = WAL")


def _close(connection: sqlite3.Connection, pid: int, leaves: Path | None) -> None:
    if os.getpid() != pid:
        return
    connection.close()
    if leaves is not None and leaves.with_name(f"{leaves.name}-wal").exists():
        _tidy(leaves)


def _tidy(path: Path) -> None:
    """Take away the log that reading the store at `path` has left, unless somebody else has it open.

    SQLite does that itself when the last connection closes that may write; one that only reads leaves it.
    """
    with (
        suppress(*DAMAGED),
        closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=0.0)) as connection,
    ):
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1")
