"""Where early results wait for the call that asks for them: a state machine without I/O.

    RUNNING ─▶ FINISHED ─▶ SERVED     a claim takes an entry out, so it is served once; it may still be running then
         ╲         ╲─────▶ STALE      something wrote, what it read has changed, or it waited too long
          ╲──────────────▶ FAILED     an error, a timeout, too much output
           ╲─────────────▶ UNUSED     nobody asked for it

Several entries may wait under one key, because a model may ask for one call twice; the oldest goes first. An entry
whose caller gave up is handed back, so cancelling one caller takes nothing from another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Literal

from agentaccel.locks import Lock, forks, when_free
from agentaccel.predict.identity import Key
from agentaccel.predict.stats import SpeculationStats, Tally
from agentaccel.tools.epochs import Version, WriteEpochs
from agentaccel.types import ToolCall
from agentaccel.validators import Validator, is_unchanged

Tier = Literal["predicted", "asked"]
"""Why a run was begun early: on a prediction, or because the model had asked and its message had not ended."""


class EarlyRunState(StrEnum):
    """What has become of an early run."""

    RUNNING = "running"
    FINISHED = "finished"
    SERVED = "served"
    STALE = "stale"
    FAILED = "failed"
    UNUSED = "unused"


WAITING = (EarlyRunState.RUNNING, EarlyRunState.FINISHED)


def _never() -> bool:
    return False


@dataclass(slots=True, kw_only=True, eq=False)
class EarlyRun:
    """One early run. Mutable; the buffer's lock guards its state."""

    key: Key
    call: ToolCall
    tier: Tier
    scope: str | None
    """As in `ToolSpec`."""
    version: Version
    """Of the scope, when it was started."""
    born: float
    """Monotonic time at which it was started."""
    max_age: float
    """Seconds after that for which its result may be served."""
    ledger: SpeculationStats
    validator: Validator | None = None
    seen: object = None
    """The validator's version before it ran."""
    probability: float = 1.0
    """That the call is made, as it was predicted."""
    rule: str = ""
    """As in `Prediction`."""
    depth: int = 1
    """Steps ahead of what was known; more than 1 for one that was predicted from another early result."""
    state: EarlyRunState = EarlyRunState.RUNNING
    over: bool = False
    """Whether the run has ended, whatever came of the entry."""
    seconds: float = 0.0
    """For which it ran; 0 while it does."""
    waited: float = 0.0
    """For which callers waited for it."""
    result: Any = None
    handle: Any = None
    """Whatever runs it, for those who do I/O."""
    repeated: Callable[[], bool] = _never
    """Whether its tool was really run since."""
    on_end: Callable[[EarlyRun], None] | None = None
    """Told once, when the run is over and it is known what came of it."""
    process: int = field(default_factory=forks)
    """Of the forks on the way here, the one that began it."""

    @property
    def tally(self) -> Tally:
        return self.ledger.predicted if self.tier == "predicted" else self.ledger.asked

    @property
    def hidden(self) -> float:
        """Seconds of its run for which no caller waited."""
        return max(self.seconds - self.waited, 0.0)

    @property
    def past(self) -> bool:
        """Whether what goes on from it is a call's that was really made: it has ended as the run of one, or its tool
        was called since and went on from what it had left behind, such as a pool or a task that waits for work."""
        return self.over and (self.state is EarlyRunState.SERVED or self.repeated())

    def unchanged(self) -> bool:
        """Whether what it reads is as it was before it ran, by its validator."""
        return is_unchanged(self.validator, self.call.arguments, self.seen)


@dataclass(slots=True)
class EarlyRuns:
    """The entries of one `Accel`. Thread-safe; looking in vain takes no lock."""

    world: WriteEpochs
    most: int = 256
    """Entries that wait; the oldest makes room."""
    _waiting: dict[Key, deque[EarlyRun]] = field(default_factory=dict)
    _count: int = 0
    _lock: Lock = field(default_factory=Lock)

    def __len__(self) -> int:
        return self._count

    def waits(self, key: Key) -> int:
        """So many entries wait under `key`."""
        return len(self._waiting.get(key, ()))

    def of(self, session: str) -> int:
        """So many entries wait for `session`."""
        with self._lock:
            return sum(len(one) for key, one in self._waiting.items() if key.principal.session == session)

    def put(self, entry: EarlyRun) -> EarlyRun | None:
        """`entry` is started; returns the one that had to make room for it, which is of no use any more."""
        with self._lock:
            self._waiting.setdefault(entry.key, deque()).append(entry)
            self._count += 1
            entry.tally.launched += 1
            oldest = next(iter(self._waiting.values()))[0] if self._count > self.most else None
            if oldest is not None:
                self._end(oldest, EarlyRunState.UNUSED)
        return oldest

    def claim(self, key: Key, now: float) -> EarlyRun | None:
        """Take out an entry that could be served now, finished or still running; `serve` says whether it may be.

        Nothing is taken while something that writes in its scope, or may, is under way.
        """
        while key in self._waiting:
            with self._lock:
                entry = next(iter(self._waiting.get(key, ())), None)
                if entry is None or self.world.closed(entry.scope):
                    break
                self._take(entry)
            if self._fresh(entry, now) and entry.unchanged():
                return entry
            self.drop(entry, EarlyRunState.STALE)
        return None

    def finished(self, entry: EarlyRun, result: Any, now: float) -> bool:
        """Its run has returned; whether its result may still be served."""
        unchanged = entry.unchanged()
        with self._lock:
            if entry.over:
                return False
            entry.over, entry.seconds = True, now - entry.born
            if entry.state is not EarlyRunState.RUNNING:
                self._settle(entry)
            elif unchanged and self._fresh(entry, now):
                entry.state, entry.result = EarlyRunState.FINISHED, result
                return True
            else:
                self._end(entry, EarlyRunState.STALE)
        return False

    def failed(self, entry: EarlyRun, now: float) -> None:
        """Its run raised, took too long, gave too much, or was cancelled; what has ended already stays as it is."""
        with self._lock:
            if entry.over:
                return
            entry.over, entry.seconds = True, now - entry.born
            if entry.state in WAITING:
                self._end(entry, EarlyRunState.FAILED)
            else:
                self._settle(entry)

    def serve(self, entry: EarlyRun, now: float, *, waited: float, joined: bool) -> bool:
        """The result of a claimed entry is about to be handed out; False where it must not be, after all.

        `waited`: seconds for which its caller did; `joined`: it was running when it was claimed.
        """
        unchanged = entry.unchanged()
        with self._lock:
            if entry.state is not EarlyRunState.FINISHED:
                return False
            if not (unchanged and self._fresh(entry, now)) or self.world.closed(entry.scope):
                self._end(entry, EarlyRunState.STALE)
                return False
            entry.state = EarlyRunState.SERVED
            entry.waited += waited
            entry.tally.served += 1
            entry.tally.joined += joined
            entry.tally.hidden += entry.hidden
            self._settle(entry)
        return True

    def hand_back(self, entry: EarlyRun, *, waited: float = 0.0) -> bool:
        """The caller that had claimed it gave up after so many seconds; whether it waits for another one."""
        with self._lock:
            entry.waited += waited
            if entry.state not in WAITING:
                return False
            self._waiting.setdefault(entry.key, deque()).appendleft(entry)
            self._count += 1
        return True

    def drop(self, entry: EarlyRun, state: EarlyRunState = EarlyRunState.UNUSED) -> None:
        """It is of no use any more."""
        with self._lock:
            if entry.state in WAITING:
                self._end(entry, state)

    def sweep(self, now: float) -> list[EarlyRun]:
        """Take out what cannot be served any more; returns it, for what still runs to be cancelled."""
        with self._lock:
            gone = [one for waiting in self._waiting.values() for one in waiting if not self._fresh(one, now)]
            for entry in gone:
                self._end(entry, EarlyRunState.STALE)
        return gone

    def leave(self, session: str | None, tier: Tier | None = None) -> list[EarlyRun]:
        """Take out what waits for `session`, None for all, or only what was begun for one reason; returns it."""
        with self._lock:
            mine = [one for key, one in self._waiting.items() if session in (None, key.principal.session)]
            gone = [one for waiting in mine for one in waiting if tier in (None, one.tier)]
            for entry in gone:
                self._end(entry, EarlyRunState.UNUSED)
        return gone

    def _fresh(self, entry: EarlyRun, now: float) -> bool:
        return entry.version == self.world.version(entry.scope) and now - entry.born <= entry.max_age

    def _take(self, entry: EarlyRun) -> None:
        waiting = self._waiting.get(entry.key)
        if waiting is None or entry not in waiting:
            return
        waiting.remove(entry)
        self._count -= 1
        if not waiting:
            del self._waiting[entry.key]

    def _end(self, entry: EarlyRun, state: EarlyRunState) -> None:
        self._take(entry)
        entry.state, entry.result = state, None
        tally = entry.tally
        setattr(tally, state.value, getattr(tally, state.value) + 1)
        self._settle(entry)

    def _settle(self, entry: EarlyRun) -> None:
        """What it came to, once its run is over and it is known whether it was served."""
        if not entry.over or entry.state in WAITING:
            return
        if entry.state is not EarlyRunState.SERVED:
            entry.tally.wasted += entry.seconds
        is_here = entry.process == forks()  # what its parent had begun, the parent counts
        if entry.on_end is not None and (is_here or entry.state is EarlyRunState.SERVED):
            when_free(partial(entry.on_end, entry))
            entry.on_end = None
