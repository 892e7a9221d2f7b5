"""What came of running tools early, as sessions use it: read from the store once, and added to it now and then.

What a process has learned since it wrote last is kept as lessons in their order. Writing applies them to whatever the
store holds by then, so the processes that share it learn as one that saw everything would have, breakers included. A
store that is locked is tried again with the next write; one that holds a newer version is left alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import orjson

from agentaccel.clock import Clock
from agentaccel.hashing import digest
from agentaccel.locks import Lock, forks
from agentaccel.once import Once
from agentaccel.predict.experience import Experience
from agentaccel.store.codec import dump_json
from agentaccel.store.recorder import Recorder
from agentaccel.store.store import Store

VERSION = 1
"""Of the form that is written."""
MOST_LESSONS = 2048
"""Kept until they can be written; beyond them the oldest are lost."""
_SHARE = 64
"""It takes at most this part of what the store may take; what was met least recently goes first."""

Lesson = Callable[[Experience], None]


class TrackRecord:
    """The experience of one `Accel`. Thread-safe.

    Patterns stand in it under keyed hashes, tools by name; everything else is numbers.

    `open` and `save` do I/O, so call them off the path of a call; before `open` nothing is read.
    """

    def __init__(self, recorder: Recorder, clock: Clock) -> None:
        self._recorder, self._clock = recorder, clock
        self.lock = Lock()
        """Held by whoever looks at `experience`."""
        self.experience = Experience()
        self._saving = Lock()
        self._news: deque[Lesson] = deque(maxlen=MOST_LESSONS)
        self._opened = False
        self._forks = forks()
        self._once = Once()

    def learn(self, lesson: Lesson) -> None:
        """Do to the experience what `lesson` does, here and in the store."""
        with self.lock:
            self._after_fork()
            lesson(self.experience)
            self._news.append(lesson)

    def named(self, rule: str) -> str:
        """The name that a pattern has here: nothing of what it says can be read from it."""
        return digest(rule.encode("utf-8", "surrogatepass"), self._recorder.key).hex()

    def open(self) -> None:
        """Go on from what the store holds, the first time that it is called."""
        if self._opened:
            return
        with self._saving:
            if not self._opened:
                there = self._recorder.read(_read, None)
                with self.lock:
                    self._opened = True
                    self._go_on_from(there)

    def save(self) -> None:
        """Write what was learned since the last time, and take in what others have written."""
        with self._saving:
            with self.lock:
                self._after_fork()
                news = list(self._news)
                self._news.clear()
            if news:
                done = self._recorder.change(lambda store: _add(store, news, self._clock.wall()), None)
                with self.lock:
                    if not isinstance(done, Experience):
                        self._news = deque((*news, *self._news), maxlen=MOST_LESSONS)
                    self._go_on_from(done)

    def _go_on_from(self, there: Experience | str | None) -> None:
        """Go on from what the store holds, with what it does not hold yet."""
        if isinstance(there, str):
            self._once.say(f"what came of early runs is left alone in the trace store: {there}")
        elif there is not None:
            for lesson in self._news:
                lesson(there)
            self.experience = there

    def _after_fork(self) -> None:
        """What the parent had not written, the parent writes."""
        if self._forks != forks():
            self._forks = forks()
            self._news.clear()


def _read(store: Store) -> Experience | str | None:
    """What the store holds; or why it is not used."""
    with store.database.using() as connection:
        return _of(connection.execute(_SELECT).fetchone())


def _add(store: Store, news: Iterable[Lesson], now: float) -> Experience | str:
    """Learn `news` in the store; what it holds then, or why nothing was written."""
    with store.database.transaction() as connection:
        there = _of(connection.execute(_SELECT).fetchone()) or Experience()
        if isinstance(there, str):
            return there
        for lesson in news:
            lesson(there)
        connection.execute(
            "INSERT OR REPLACE INTO experience (one, version, at, known) VALUES (1, ?, ?, ?)",
            (VERSION, now, _within(there.dump(), store.max_bytes // _SHARE).decode()),
        )
        return there


_SELECT = "SELECT version, CAST(known AS BLOB) FROM experience"


def _of(row: tuple[object, bytes] | None) -> Experience | str | None:
    if row is None:
        return None
    if row[0] != VERSION:
        return f"it has format {row[0]}, and this agentaccel knows {VERSION}"
    try:
        known = orjson.loads(row[1])
    except ValueError:
        known = None
    return Experience.load(known) if isinstance(known, dict) else "it cannot be read"


def _within(known: dict[str, Any], most: int) -> bytes:
    while len(data := dump_json(known).encode()) > most and (known["tools"] or known["rules"]):
        for name in ("tools", "rules"):
            rows = list(known[name].items())
            known[name] = dict(rows[(len(rows) + 1) // 2 :])
    return data
