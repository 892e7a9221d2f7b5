"""The store as sessions use it: it never raises and never makes the agent wait long.

Records are written in a thread of their own, in the order in which they were left. Whoever reads in a thread finds what
was left before; on an event loop nothing is read or written. In strict mode, and where time is virtual, records are
written at once.

A store that is locked keeps what was to be written and tries again with the next record, then without waiting, and in
the background; one that is full, read-only or corrupt is given up for this process; a record that cannot be written is
dropped. Each of these is one log line, and sessions go on in memory. Such lines are printed where nobody has configured
logging: else nobody would miss the records before they are wanted.

A store that is too large is made smaller in the background, too.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import logging
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

from agentaccel.cache.beliefs import Beliefs
from agentaccel.clock import SystemClock
from agentaccel.concurrency import Background, DueWork, Inline, Worker, at_end
from agentaccel.errors import TraceError
from agentaccel.locks import Lock
from agentaccel.once import Once
from agentaccel.policy import StorePolicy
from agentaccel.records import ToolRecord
from agentaccel.store.codec import LastUsed
from agentaccel.store.database import check_place, default_path
from agentaccel.store.learned import Workloads
from agentaccel.store.ownership import load_key
from agentaccel.store.store import Store, TurnWrite

# --- What it means that the trace store has failed, and what is said of it --------------------------------------------

_ODD = (sqlite3.InterfaceError, sqlite3.ProgrammingError, sqlite3.DataError, sqlite3.IntegrityError)
"""What SQLite raises for a value, whatever the state of the file."""

LAST = "finish writing to"
_STOPS = "recording to it stops, sessions go on in memory"
_AFTER = {
    LAST: "the records that waited for it are lost",
    "read": "sessions go on without what it holds",
    "change": "what was learned is left out",
}
"""How it goes on when the store was not locked and may still be used, or is not needed any more."""


def told(doing: str, error: Exception, *, ends: bool) -> tuple[str, str]:
    """A line about what could not be done with the store, and the kind of trouble, each of which is told once.

    `ends` says that the store was given up for that.
    """
    if is_lock(error) and doing != LAST:
        then, about = "recording waits in memory", "locked"
    else:
        then, about = _STOPS if ends and doing != LAST else _AFTER[doing], f"{doing}: {_kind(error)}"
    return f"cannot {doing} the trace store: {error}; {then}", about


def is_lock(error: BaseException) -> bool:
    """Whether another process is in the way."""
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)


def is_the_stores(error: Exception) -> bool:
    """Whether the store has failed, rather than what was to be written."""
    return isinstance(error, sqlite3.Error | OSError | TraceError) and not isinstance(error, _ODD)


def _kind(error: Exception) -> str:
    """What tells a full disk from a damaged file."""
    if isinstance(error, OSError) and error.errno is not None:
        return errno.errorcode.get(error.errno, str(error.errno))
    return getattr(error, "sqlite_errorname", None) or type(error).__name__


_MOST_PENDING = 1000
"""Records kept while the store is locked or does not answer; beyond them the oldest are lost."""
_MOST_BEHIND = 50_000
"""Records kept while the store is written to, and others come faster."""
_MOST_AT_ONCE = 50
"""Records that are written before others may use the store."""
_LAST_TRIES = 4
"""How often the last records are tried, a second in all (`BUSY_SECONDS` each), and how often room is made then."""
_SOONEST, _LATEST = 0.25, 5.0
"""Seconds until a locked store is tried again in the background: at first, and at most; each time twice as many."""
_STEP = 0.02
"""Seconds between two steps in the background: most of the time nobody has to wait for one."""

_ANSWERS_WITHIN = 1.0
"""Seconds that one use of the store may take before model calls go out without what it knows: a disk that is gone."""

Look = Callable[[LastUsed], None]
"""Is told what the store knows once the records before it are written."""
T = TypeVar("T")


class StoreStalls(Exception):
    """The disk of the trace store does not answer."""


class Recorder:
    """Where sessions read what was learned and leave what happened. Thread-safe.

    Raises `ConfigError` for a path that the policy names and that is a folder, or a file of another kind.
    `background` keeps the time of what is tried again. `workloads` holds what is learned where there is no store.
    """

    def __init__(
        self,
        policy: StorePolicy,
        *,
        strict: bool,
        background: Background | None = None,
        workloads: Workloads | None = None,
    ) -> None:
        self._strict = strict
        self._background = background or Background(SystemClock())
        self._due: DueWork | None = None
        """What is to be done in the background."""
        self._pause = _SOONEST
        """Seconds until a locked store is tried again."""
        self._pending: deque[TurnWrite | ToolRecord | Look] = deque()
        self._lock = Lock()
        """Held while the store is written to: never taken on an event loop, but to close."""
        self._queue = Lock()
        """Held while a record is left."""
        self._writing = False
        """True if somebody is about to write what is pending."""
        self._wrote = time.monotonic()
        """When a record was written last, monotonic."""
        self._worker: Worker | Inline = Inline() if strict or self._background.is_virtual else Worker()
        self._once = Once()
        self._pid = os.getpid()
        self._patient = True
        self._closed = False
        """Whether it was closed while it still recorded."""
        self._reopened = 0
        self._max_bytes = policy.max_bytes
        self._path: Path | None = None
        """Where the store is, or will be once it can be opened; None where nothing is recorded any more."""
        self.store: Store | None = None
        self._workloads = workloads or Workloads()
        """What is learned where there is no store."""
        self.key = os.urandom(32)
        self.shared_key = hashlib.blake2b(b"agentaccel without a store", digest_size=32).digest()
        """The key that all processes agree on; a fixed one where there is no store to hold a secret one."""
        if policy.enabled:
            self._path = Path(policy.path).expanduser() if policy.path is not None else default_path()
            if policy.path is not None:
                check_place(self._path)
            _ALIVE.add(self)
            _write_at_exit()
            self._guarded("open", self._open, None)
            self._tend_later()

    def _open(self) -> None:
        if self._path is not None and self.store is None:
            self.key = self.shared_key = load_key(self._path, self.key)
            store = Store(self._path, max_bytes=self._max_bytes, patient=self._patient)
            self.store = store
            _write_at_exit()  # what closes it when the program ends comes after us, because it was registered before

    def read(self, look: Callable[[Store], T], otherwise: T) -> T:
        """What `look` finds in the store, after what was left before; `otherwise` where there is none or it fails."""
        self.flush()
        store = self.store
        return otherwise if store is None else self._guarded("read", lambda: look(store), otherwise)

    def beliefs(self, workload: str, now: float, *, tools: bool) -> Beliefs:
        """What a session of `workload` believes that begins at `now`; its prompts have `tools`, or none."""
        if self.store is None:
            return self._workloads.believed(workload, now, tools=tools)
        return self.read(lambda store: store.beliefs(workload, now, tools=tools), Beliefs())

    async def beside(self, work: Callable[[], T], unwanted: Callable[[T], object] = lambda given: None) -> T:
        """What `work` returns, which reads the store: beside the running event loop, after what was left before.

        Where the caller's task is cancelled meanwhile, `unwanted` is told what `work` has returned all the same. Raises
        `StoreStalls` if the store does not answer in time.
        """
        if isinstance(self._worker, Inline) or self._path is None:
            return work()
        done = self._worker.submit(work)
        future = asyncio.wrap_future(done)
        try:
            while not future.done():
                if self._hangs():
                    raise StoreStalls(f"the trace store at {self._path} does not answer")
                await asyncio.wait([future], timeout=_ANSWERS_WITHIN)
            return future.result()
        except BaseException:
            future.cancel()  # what has not begun is not needed any more
            done.add_done_callback(partial(_give_back, unwanted))
            raise

    def look(self, look: Look) -> None:
        """Tell `look` what the store knows once the records before it are written; without a store, at once."""
        self._leave(look) if self._path is not None else look(self._workloads.last_used)

    def write(self, record: TurnWrite | ToolRecord) -> None:
        """Leave `record`; without a store, what it teaches alone is kept."""
        if self._path is not None:
            self._leave(record)
            return
        if isinstance(record, TurnWrite):
            self._workloads.take(record.completed(self._workloads.last_used))
        if self._closed:
            self._once.say("what was used after Accel.close() is not recorded", level=logging.INFO)

    def _leave(self, record: TurnWrite | ToolRecord | Look) -> None:
        with self._queue:
            self._own_process()
            most = _MOST_BEHIND if self._patient and not self._hangs() else _MOST_PENDING
            if len(self._pending) >= most:
                self._once.say_aloud(f"over {most:,} records wait for the trace store: the oldest are lost")
                self._pending.popleft()
            self._pending.append(record)
            if self._writing:
                return
            self._writing = True
        self._worker.submit(self._write_pending)

    def _write_pending(self) -> None:
        goes_on = False
        try:
            with self._lock:
                self._guarded("write", self._flush, None)
            goes_on = self._patient and self._path is not None
        finally:
            with self._queue:
                goes_on = self._writing = goes_on and bool(self._pending)
        if goes_on:  # after what waits for the thread by now: it may be a call that reads
            self._worker.submit(self._write_pending)
        self._tend_later()

    def _hangs(self) -> bool:
        """True if nothing of what is being done has come to an end for so long that whatever comes would wait in vain.

        A record that was written is an end, however many others are written with it."""
        within = _ANSWERS_WITHIN
        return self._worker.hangs(within) and time.monotonic() - self._wrote > within

    def flush(self) -> None:
        """Wait until everything that was left before is in the store, or cannot be written now."""
        if not (self._writing or self._pending):
            return
        with self._lock:
            self._own_process()
            if self._pending and self._path is not None:
                left = len(self._pending)  # others leave more meanwhile, and may go on to
                self._guarded("write", lambda: self._flush(left), None)

    def change(self, work: Callable[[Store], T], otherwise: T) -> T:
        """What `work` gives, which writes to the store; `otherwise` where there is none or it fails.

        What could not be written does not wait here: its owner has it still, and may come again. Records go on being
        written where it was `work` that failed, and not the store.
        """
        with self._lock:
            self._own_process()
            store = self.store
            return otherwise if store is None else self._guarded("change", lambda: work(store), otherwise)

    def close(self) -> None:
        """Write what is still waiting and close the file; what comes later is not recorded."""
        with self._lock:
            self._own_process()
            try:
                if self._pending:
                    self._guarded(LAST, self._flush_at_last, None)
                for _ in range(_LAST_TRIES):
                    self._guarded("make room in", self._make_room, None)
                if self.store is not None:
                    self._guarded("close", self.store.close, None)
            finally:
                self._closed = self._closed or self._path is not None
                self._give_up()

    def _at_exit(self) -> None:
        """The program ends without having closed us. Strict mode raises, which is printed there."""
        with self._lock:
            self._own_process()
            if self._due is not None:
                self._due.cancel()  # SQLite's connection is closed next
            if self._pending:
                self._guarded(LAST, self._flush_at_last, None)
            self._worker = Inline()  # no thread has time for what comes now

    def _own_process(self) -> None:
        """What waited when this process was forked, the parent writes."""
        if os.getpid() != self._pid:
            self._pid, self._due, self._writing = os.getpid(), None, False
            self._pending.clear()
            _write_at_exit()

    def _tend_later(self, *, locked: bool = False) -> None:
        """See to it that what waits for the store is written, and room made in it, with nobody waiting for either."""
        with self._lock:
            if self._due is not None or self._path is None:
                return
            if locked or not self._patient:
                seconds, self._pause = self._pause, min(2 * self._pause, _LATEST)
            elif self._pending or (self.store is not None and self.store.is_too_large):
                seconds = _STEP
            else:
                return
            self._due = self._background.later("", seconds, self._tend)  # no session waits for it

    def _tend(self) -> None:
        with self._lock:
            self._own_process()
            self._due, locked = None, False
            try:
                if not self._patient or self._pending:
                    self._guarded("write", self._flush, None)
                if self._patient:
                    locked = not self._guarded("make room in", self._make_room, True)
            except Exception as error:
                if not is_lock(error):
                    raise  # in strict mode, and nothing is tried again before the next record
            self._tend_later(locked=locked)

    def _give_up(self) -> None:
        self.store = self._path = None
        self._pending.clear()
        if self._due is not None:
            self._due.cancel()

    def _flush_at_last(self) -> None:
        """Write what waits, or never; so several times, each of which waits a moment for another process."""
        self._wait_for_others(True)
        for tries_left in reversed(range(_LAST_TRIES)):
            try:
                return self._flush(len(self._pending))
            except sqlite3.OperationalError as error:
                if not tries_left or not is_lock(error):
                    raise

    def _flush(self, most: int = _MOST_AT_ONCE) -> None:
        self._open()
        store = self.store
        for _ in range(min(most, len(self._pending))):
            if store is None or self.store is None:
                return
            record = self._pending.popleft()
            try:
                self._write(store, record)
            except Exception as error:
                if is_lock(error):
                    self._pending.appendleft(record)
                raise
            self._wrote = time.monotonic()
        if store is not None:
            self._wait_for_others(True)
            self._pause = _SOONEST

    def _write(self, store: Store, record: TurnWrite | ToolRecord | Look) -> None:
        try:
            if isinstance(record, ToolRecord):
                store.write_tool(record)
            elif isinstance(record, TurnWrite):
                store.write_turn(record.completed(store.beginning_last_used))
            else:
                record(store.beginning_last_used)
        except Exception as error:
            if self._strict or is_the_stores(error):
                raise
            message = f"cannot record a {type(record).__name__}: {error!r}; it is left out"
            self._once.say(message, about="record")
        if store.reopened != self._reopened and self._path is not None:
            self._reopened = store.reopened
            load_key(self._path, self.key)  # the hashes in the new file are made under ours

    def _make_room(self) -> bool:
        """Some of it, if need be; False where another process is in the way, for which nobody waits."""
        store = self.store
        if store is None or not store.is_too_large:
            return True
        store.wait_for_others(False)
        try:
            store.make_room()
        except sqlite3.OperationalError as error:
            if not is_lock(error):
                raise
            return False
        finally:
            store.wait_for_others(self._patient)
        return True

    def _wait_for_others(self, patient: bool) -> None:
        """While the store is locked, one call of the agent's waits for it, and no more."""
        self._patient = patient
        if self.store is not None:
            self.store.wait_for_others(patient)

    def _guarded(self, doing: str, work: Callable[[], T], otherwise: T) -> T:
        """The one place where failures of the store end."""
        try:
            return work()
        except Exception as error:
            if doing == "read" and self.store is None:
                return otherwise  # closed by another thread
            ends = doing not in ("read", "change") or (doing == "change" and is_the_stores(error))
            if is_lock(error):
                self._wait_for_others(False)
                if doing != LAST:
                    self._tend_later()
            elif ends and not self._strict:
                self._give_up()
            if self._strict:
                raise
            message, about = told(doing, error, ends=ends)
            say = self._once.say_aloud if ends or is_the_stores(error) else self._once.say
            say(message, about=about)
            return otherwise


def _give_back(unwanted: Callable[[T], object], done: Future[T]) -> None:
    if not done.cancelled() and done.exception() is None:
        unwanted(done.result())


_ALIVE: WeakSet[Recorder] = WeakSet()


def _write_at_exit() -> None:
    """What is pending is written when the program ends, before whatever was registered until now."""
    at_end(_write_all)


def _write_all() -> None:
    with ExitStack() as each:
        for one in tuple(_ALIVE):
            each.callback(one._at_exit)
