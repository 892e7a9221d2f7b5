"""What was learned of tool calls, as sessions use it: read from the store once, and added to it now and then.

Every process writes what it has learned since it wrote last, into whatever is there by then, and takes in what others
have written meanwhile. A store that is locked is tried again with the next turn's; one that fails, or that holds
patterns of a newer version, costs one log line: learning goes on in memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import NamedTuple

import orjson

from agentaccel.clock import Clock
from agentaccel.locks import Lock, forks
from agentaccel.once import Once
from agentaccel.predict.knowledge import MOST_WORKLOADS, Knowledge
from agentaccel.predict.merge import MOST_BYTES, loaded, readable, shelved
from agentaccel.predict.offers import Sensitive
from agentaccel.predict.patterns import VERSION, added
from agentaccel.predict.redaction import News, Part, Parts, news_of, since
from agentaccel.store.codec import text
from agentaccel.store.recorder import Recorder
from agentaccel.store.store import Store

# --- The learned patterns in the trace store: one part a workload, each added to in a transaction ---------------------
# A part of a newer version, or one that cannot be read, stays as it is. Functions raise what SQLite raises.

_SHARE_OF_ROW = 4
"""All parts together take at most this part of what the store may take: records are removed to make room, they not."""
_MOST_PARTS = MOST_WORKLOADS + 1
"""One for each workload, and one for all of them."""
MOST_LESSONS = 100_000
"""Recorded runs that are remembered to have been learned from."""


class Shelf(NamedTuple):
    """What the store holds."""

    parts: Parts
    """By workload; `FLEET` for all of them."""
    barred: Mapping[str, str]
    """Parts that are left alone, and why."""


def read_shelf(store: Store) -> Shelf:
    """All parts; none in a store from before there were any, which a reader leaves as it is."""
    with store.database.using() as connection:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'patterns'").fetchone() is None:
            return Shelf({}, {})
        return _read(connection)


def add_to_shelf(
    store: Store, news: News, *, now: float, sensitive: Sensitive | None = None, lessons: Iterable[bytes] = ()
) -> tuple[Shelf, Parts]:
    """Add `news` to what there is; what there was, and what is there now.

    `now` is the wall time, `lessons` are hashes of the recorded runs that this was learned from.
    """
    with store.database.transaction() as connection:
        before = _read(connection)
        most = min(MOST_BYTES, store.max_bytes // _SHARE_OF_ROW // _MOST_PARTS)
        parts = shelved(before.parts, news, sensitive, most)
        for workload in before.barred:
            parts.pop(workload, None)
        connection.executemany(
            "INSERT OR REPLACE INTO patterns (workload, version, at, known) VALUES (?, ?, ?, ?)",
            [(text(workload), int(VERSION), now, orjson.dumps(part).decode()) for workload, part in parts.items()],
        )
        connection.execute(
            "DELETE FROM patterns WHERE workload NOT IN"
            " (SELECT workload FROM patterns ORDER BY workload = '' DESC, at DESC LIMIT ?)",
            (_MOST_PARTS,),
        )
        connection.executemany(
            "INSERT OR REPLACE INTO lessons (run, at) VALUES (?, ?)", [(one, now) for one in lessons]
        )
        connection.execute(
            "DELETE FROM lessons WHERE run IN (SELECT run FROM lessons ORDER BY at DESC LIMIT -1 OFFSET ?)",
            (MOST_LESSONS,),
        )
        return before, {**before.parts, **parts}


def clear_shelf(store: Store, workload: str | None = None) -> int:
    """Remove the part of `workload`, of None everything that was learned; how many parts there were."""
    with store.database.transaction() as connection:
        if workload is not None:
            return connection.execute("DELETE FROM patterns WHERE workload = ?", (text(workload),)).rowcount
        connection.execute("DELETE FROM lessons")
        connection.execute("DELETE FROM experience")
        return connection.execute("DELETE FROM patterns").rowcount


def known_lessons(store: Store) -> set[bytes]:
    """The runs that were learned from."""
    with store.database.using() as connection:
        return {run for (run,) in connection.execute("SELECT run FROM lessons")}


def _read(connection: sqlite3.Connection) -> Shelf:
    parts: Parts = {}
    barred: dict[str, str] = {}
    for workload, version, known in connection.execute("SELECT workload, version, CAST(known AS BLOB) FROM patterns"):
        try:
            parts[workload] = part_of(version, known)
        except ValueError as error:
            barred[workload] = str(error)
    return Shelf(parts, barred)


def part_of(version: object, known: bytes) -> Part:
    """One part as it was written. Raises `ValueError`, which says why it is left alone."""
    if version != int(VERSION):
        raise ValueError(f"they have format {version}, and this agentaccel knows {VERSION}")
    part = orjson.loads(known)
    if not isinstance(part, dict):
        raise ValueError("they cannot be read")
    return part


TURNS = 32
"""Turns between two writes: a killed process loses what so many have taught."""
_SHARE = 50
"""Where writing takes long, because very much is known, it is done no more than this part of the time."""


class Library:
    """The patterns of one `Accel`. Thread-safe, and never raises into an agent unless `strict`.

    `values`: the user wants values of arguments kept, such as calls have in common; `sensitive` says which never.

    Call `learned` after each turn, and `save` off its path where that says so: it takes some milliseconds, and up to a
    second where very much is known. Save before its recorder is closed.
    """

    def __init__(
        self,
        recorder: Recorder,
        clock: Clock,
        *,
        sensitive: Sensitive | None = None,
        values: bool = False,
        strict: bool = False,
    ) -> None:
        self._recorder, self._clock = recorder, clock
        self._sensitive, self._values, self._strict = sensitive, values, strict
        self._lock = Lock()
        self._knowledge: Knowledge | None = None
        self._mine: Parts = {}
        """What was known here when it was last in step with the store."""
        self._theirs: Parts = {}
        """What the store held then."""
        self._forks = forks()
        self._turns = 0
        self._rests_until = 0.0
        """Monotonic time before which nothing is written without being asked for."""
        self._once = Once()

    @property
    def knowledge(self) -> Knowledge:
        """What is known; read from the store when it is first asked for."""
        with self._lock:
            if self._knowledge is None:
                found = Knowledge(sensitive=self._sensitive, key=self._recorder.key)
                self._guarded(partial(self._open, found))
                self._knowledge, self._forks = found, forks()  # only now: a child forked meanwhile reads it itself
            elif self._forks != forks():
                self._begin_in_child()
            return self._knowledge

    def learned(self) -> bool:
        """A turn has taught something; whether it is time to `save`. Never waits."""
        self._turns += 1
        if self._turns < TURNS or self._clock.monotonic() < self._rests_until:
            return False
        self._turns = 0
        return True

    def save(self) -> None:
        """Write what was learned since the last time, and take in what others have written."""
        with self._lock:
            if self._knowledge is not None and self._forks == forks():
                began = self._clock.monotonic()
                self._guarded(self._save)
                now = self._clock.monotonic()
                self._rests_until = now + _SHARE * (now - began)

    def _open(self, found: Knowledge) -> None:
        shelf = self._recorder.read(read_shelf, Shelf({}, {}))
        self._left_alone(shelf)
        for part in shelf.parts.values():
            found.merge(part)
        self._mine, self._theirs = self._news(found).parts, shelf.parts

    def _save(self) -> None:
        mine = self._news(self._known())
        news = since(mine, self._mine)
        if not news.parts:
            return
        done = self._recorder.change(
            lambda store: add_to_shelf(store, news, now=self._clock.wall(), sensitive=self._sensitive), None
        )
        if done is None:
            return  # what is new stays new
        before, after = done
        self._left_alone(before)
        expected = news.parts.keys() - before.barred.keys()
        if any(after.get(name) is before.parts.get(name) for name in expected):
            self._once.say("learned patterns in the trace store are left alone: they have an odd form")
        others = {name: part for name, part in before.parts.items() if part != self._theirs.get(name)}
        others = readable({name: added({}, part, self._theirs.get(name)) for name, part in others.items()})
        self._mine, self._theirs = mine.parts, after
        if others:
            self._mine = added(self._mine, self._taken_in(others))

    def _taken_in(self, others: Parts) -> Parts:
        """Learn what others have; the same under our hashes, as it is counted here from now on."""
        for part in others.values():
            self._known().merge(part)
        return news_of(loaded(others), self._recorder.key).parts

    def _news(self, known: Knowledge) -> News:
        return news_of(known, self._recorder.key, values=self._values)

    def _begin_in_child(self) -> None:
        """What the parent had not written when this process was forked off, the parent writes."""
        self._forks = forks()
        self._guarded(self._count_anew)

    def _known(self) -> Knowledge:
        assert self._knowledge is not None
        return self._knowledge

    def _count_anew(self) -> None:
        self._mine = self._news(self._known()).parts

    def _left_alone(self, shelf: Shelf) -> None:
        for why in shelf.barred.values():
            self._once.say(f"learned patterns in the trace store are left alone: {why}")

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            if self._strict:
                raise
            self._once.say(f"cannot read or write learned patterns: {error!r}; learning goes on in memory")
