"""The store as sessions use it: it never raises and never makes the agent wait long.

A store that is locked keeps what was to be written and tries again with the next turn; one that is full, read-only or
corrupt is given up for this process. Either way there is one log line, and sessions go on in memory.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from agentaccel.errors import AgentAccelError
from agentaccel.locks import Lock
from agentaccel.policy import StorePolicy
from agentaccel.records import ToolRecord
from agentaccel.trace.database import default_path, load_key
from agentaccel.trace.store import Store, TurnWrite

log = logging.getLogger("agentaccel")

_MOST_PENDING = 1000
"""Records kept while the store is locked; beyond them the oldest are lost."""

_FAILURES = (sqlite3.Error, OSError, AgentAccelError, ValueError, TypeError, KeyError)
"""What a store can do wrong: SQLite and file errors, a newer format, rows that do not parse."""

T = TypeVar("T")


class Recorder:
    """Where sessions read what was learned and leave what happened. Thread-safe."""

    def __init__(self, policy: StorePolicy, *, strict: bool) -> None:
        self._strict = strict
        self._pending: deque[TurnWrite | ToolRecord] = deque(maxlen=_MOST_PENDING)
        self._lock = Lock()
        self._said: set[str] = set()
        self.store: Store | None = None
        self.key = os.urandom(32)
        self.shared_key = hashlib.blake2b(b"agentaccel without a store", digest_size=32).digest()
        """The key that all processes agree on; a fixed one where there is no store to hold a secret one."""
        if policy.enabled:
            path = Path(policy.path).expanduser() if policy.path is not None else None
            self.store = self._guarded("open", lambda: self._open(path, policy.max_bytes), None)

    def _open(self, path: Path | None, max_bytes: int) -> Store:
        path = path or default_path()
        store = Store(path, max_bytes=max_bytes)
        self.key = self.shared_key = load_key(path)
        return store

    def read(self, look: Callable[[Store], T], otherwise: T) -> T:
        """What `look` finds in the store; `otherwise` where there is none or it fails."""
        store = self.store
        return otherwise if store is None else self._guarded("read", lambda: look(store), otherwise)

    def write(self, record: TurnWrite | ToolRecord) -> None:
        """Leave `record`, after whatever had to wait."""
        if self.store is None:
            return
        with self._lock:
            self._pending.append(record)
            self._guarded("write", self._flush, None)

    def close(self) -> None:
        """Write what is still waiting and close the file."""
        with self._lock:
            if self.store is not None:
                self._guarded("write", self._flush, None)
            if self.store is not None:
                self._guarded("close", self.store.close, None)

    def _flush(self) -> None:
        while self._pending and self.store is not None:
            record = self._pending[0]
            if isinstance(record, ToolRecord):
                self.store.write_tool(record)
            else:
                self.store.write_turn(record)
            self._pending.popleft()

    def _guarded(self, doing: str, work: Callable[[], T], otherwise: T) -> T:
        """The one place where failures of the store end."""
        try:
            return work()
        except _FAILURES as error:
            if self._strict:
                raise
            locked = isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
            if not locked and doing != "read":
                self.store = None
                self._pending.clear()
            kind = "locked" if locked else doing
            if kind not in self._said:
                self._said.add(kind)
                then = "recording waits in memory" if locked else "recording to it stops, sessions go on in memory"
                log.warning("agentaccel: cannot %s the trace store: %s; %s", doing, error, then)
            return otherwise
