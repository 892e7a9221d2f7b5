"""The file behind the trace store: where it lies, who may read it, and how several processes share it."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from agentaccel.environment import ENV_STORE
from agentaccel.errors import ConfigError, TraceError
from agentaccel.locks import Lock
from agentaccel.trace.files import open_file
from agentaccel.trace.schema import format_of, migrate

KEY_BYTES = 32
BUSY_SECONDS = 0.25
"""How long a write waits for another process before it counts as failed; a turn's write takes well under 1 ms."""
_SWITCHES = 5
"""How often switching to the write-ahead log is tried, while other processes create the store, too."""
_MAGIC = b"SQLite format 3\0"
"""The first bytes of every SQLite file that is not empty."""
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
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            head = file.read(len(_MAGIC))
    except OSError:
        return  # whoever opens it is told
    if not _MAGIC.startswith(head):
        raise ConfigError(f"the trace store cannot be at {path}, which is no SQLite database: give another path")


def is_sqlite(path: Path) -> bool:
    """Whether an SQLite database stands at `path`; not where that cannot be told."""
    try:
        with open_file(path) as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except (OSError, ValueError):
        return False


def load_key(path: Path, wanted: bytes | None = None) -> bytes:
    """The key under which hashes of this store are made: random, in a file beside it that only its owner may read.

    Made where there is none yet, from `wanted` if that is given. It appears whole or not at all, and once: a process
    that comes second, or that is killed in between, leaves what the first one wrote. Raises `TraceError` where none is
    to be made, because what stands at `path` is no trace store.
    """
    key_path = path.with_name(path.name + ".key")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        key = key_path.read_bytes()
    except FileNotFoundError:
        key = b""
    if not key:
        _refuse_others(path)
        _place(key_path, wanted or os.urandom(KEY_BYTES))
        key = key_path.read_bytes()
    if len(key) != KEY_BYTES:
        raise TraceError(f"{key_path} is not a key of agentaccel: move it and the store away")
    return key


def _refuse_others(path: Path) -> None:
    """Nothing is written beside what is no trace store. What cannot be opened now, whoever opens it is told."""
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0.0)) as connection:
            format_of(connection, path)
    except sqlite3.OperationalError:
        return
    except sqlite3.DatabaseError as error:
        raise TraceError(f"{path} cannot be opened as a trace store: {error}") from error


def _place(path: Path, content: bytes) -> None:
    """Write a file that nobody else may read, unless there is one that holds something."""
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
            if not path.exists() or not path.stat().st_size:
                os.replace(temporary, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


class Database:
    """One SQLite file, opened. Thread-safe: one connection behind a lock; parent and child of a fork open their own.

    Raises what SQLite and the file system raise, and `TraceError` for a store of a newer version and for a database of
    another program.
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
        self._file = self._file_there()
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
            there = f"{self.path.as_uri()}?mode=ro"
            self._leaves = None if self.path.with_name(f"{self.path.name}-wal").exists() else self.path
            connection = sqlite3.connect(there, uri=True, timeout=wait, check_same_thread=False)
            connection.isolation_level = None
            try:
                self.empty = not format_of(connection, self.path)
            except BaseException:
                _close(connection, os.getpid(), self._leaves)
                raise
            return connection
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(self.path, timeout=wait, check_same_thread=False)
        connection.isolation_level = None  # transactions are written out below
        try:
            format_of(connection, self.path)  # before anything is set: a database of another program stays as it is
            connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
            _keep_log(connection)
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
            if self._file_there() != self._file:
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
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=0.0)) as connection,
    ):
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1")
