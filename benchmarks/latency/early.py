"""The early runs of one session in virtual time, by the product's own decision, buffer and breakers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from agentaccel.predict.identity import Key
from agentaccel.predict.launch import Host, LaunchCandidate, Load, decide
from agentaccel.predict.stats import SpeculationStats
from agentaccel.tools.early import EarlyRun, EarlyRuns, EarlyRunState, Tier
from agentaccel.tools.epochs import WriteEpochs
from agentaccel.tools.results import Read, Remembered, ResultCache
from agentaccel.types import ToolCall
from benchmarks.latency.draws import Times
from benchmarks.latency.scenes import Call, Guess
from benchmarks.latency.setting import Arm, Setting
from benchmarks.latency.timeline import Slots, Timeline

PATIENCE = 5
"""Replies after which an early result that nobody asked for counts as wasted; it may be served all the same."""
_HOST = "host"


class ArmRuns:
    """What runs early, and what waits to be asked for."""

    def __init__(self, times: Times, arm: Arm, setting: Setting, counts: Sequence[int]) -> None:
        self.timeline, self.slots = Timeline(), Slots(setting.slots)
        self.world, self.ledger = WriteEpochs(), SpeculationStats()
        self.buffer, self.memo = EarlyRuns(self.world), ResultCache(self.world)
        self.times, self.arm, self.setting, self._counts = times, arm, setting, counts
        self._joined: dict[EarlyRun, _Joined] = {}
        """Claimed before they had ended."""
        self.launched: list[int] = []
        """By turn."""
        self.deep = [0, 0]
        """Early runs two or more steps ahead, and those of them that were served."""
        self._remembered: set[Key] = set()
        self._pool: list[Guess] = []
        """What was foreseen for this reply and is not launched."""
        self._running: dict[EarlyRun, Guess | None] = {}
        self._open: dict[EarlyRun, tuple[Guess, int]] = {}
        """Of which it is not known yet whether they are used, and the turn of their launch."""
        self._began, self._thinking = 0.0, False
        self._leaving = 0
        """Cancelled runs that have not given their slots back."""

    # --- launching ----------------------------------------------------------------------------------------------

    def foresee(self, guesses: tuple[Guess, ...]) -> None:
        """The model is asked; this is expected of its reply."""
        turn = len(self.launched)
        self.launched.append(0)
        self._began, self._thinking = self.timeline.now, True
        for entry, (_, born) in list(self._open.items()):
            if turn - born >= PATIENCE:
                self._settle(entry, used=False)
        self._pool = [guess for guess in guesses if guess.reads]
        self._launch()

    def over(self) -> None:
        """The reply is here: what it foretold is not launched any more."""
        self._pool, self._thinking = [], False

    def _launch(self) -> None:
        if self.slots.free <= 0:
            return
        new = [guess for guess in self._pool if not self.buffer.waits(guess.key) and not self.remembered(guess.key)]
        if not new:
            return
        if self.arm.decided:
            setting = self.setting
            named = {id(guess.prediction): guess for guess in new}
            decision = decide(
                [_candidate(guess, setting.gives_back) for guess in new],
                experience=setting.experience,
                runway=setting.runway(self.timeline.now - self._began),
                load=self._load(),
                now=setting.wall + self.timeline.now,
            )
            new = [named[id(prediction)] for prediction in decision.launch]
        else:
            new = new[: self._counts[len(self.launched) - 1]]
        for guess in new:
            self._begin(guess)

    def remember(self, read: Read) -> None:
        """A real run of a call that reads has returned."""
        if self.arm.memo:
            self.memo.keep(read, True, self.timeline.now - read.at, self.timeline.now)
            self._remembered.add(read.key)

    def idle(self) -> bool:
        """Whether nothing is under way or waits, and nothing is remembered."""
        return not (len(self.buffer) or self._running or self._leaving or self._remembered)

    def remembered(self, key: Key) -> Remembered | None:
        """The result of such a run, where it would be the same again."""
        return self.memo.find(key, self.timeline.now) if key in self._remembered else None

    def _load(self) -> Load:
        slots = self.slots
        free = None if slots.total is None else int(slots.free)
        host = Host(free=free, slots=slots.total, needed=math.ceil(self.setting.needed))
        kept, running = len(self.buffer), len(self._running)
        return Load(hosts={_HOST: host}, kept=kept, running=running, start=self.setting.start)

    def _begin(self, guess: Guess) -> None:
        setting, now = self.setting, self.timeline.now
        self._pool.remove(guess)
        self.launched[-1] += 1
        entry = self._put(guess.key, guess.prediction.call, "predicted", guess)
        entry.probability = guess.prediction.soon
        entry.depth = guess.depth
        self.deep[0] += guess.depth > 1
        if self.arm.decided:
            setting.experience.launched(guess.prediction, setting.wall + now)
            self._open[entry] = guess, len(self.launched) - 1
        seconds = setting.draw.early(guess, self.times, own=setting.own) * setting.scale
        self.timeline.at(now + seconds, self._ended, entry)

    def ask_early(self, call: Call, seconds: float) -> None:
        """The arguments of a call have closed before its message has ended: it runs now, if a slot is free."""
        now = self.timeline.now
        if self.remembered(call.key) is None and not self.buffer.waits(call.key) and self.slots.free > 0:
            entry = self._put(call.key, ToolCall(name=call.tool, arguments={}), "asked", None)
            self.timeline.at(now + seconds, self._ended, entry)

    def _put(self, key: Key, call: ToolCall, tier: Tier, guess: Guess | None) -> EarlyRun:
        entry = EarlyRun(
            key=key,
            call=call,
            tier=tier,
            scope=None,
            version=self.world.version(None),
            born=self.timeline.now,
            max_age=math.inf,
            ledger=self.ledger,
        )
        self.slots.free -= 1
        self._running[entry] = guess
        self.buffer.put(entry)
        return entry

    # --- being asked for ----------------------------------------------------------------------------------------

    def claim(self, call: Call, place: int, answer: Callable[[], None], again: Callable[[], None]) -> bool:
        """Whether an early run will `answer` a call; it runs `again` for itself where that turns out not to be so, or
        where it has waited as long as a run is expected to take."""
        now = self.timeline.now
        entry = self.buffer.claim(call.key, now)
        if entry is None:
            return False
        if entry.state is EarlyRunState.FINISHED:
            self._serve(entry, waited=0.0, joined=False)
            answer()
            return True
        self._joined[entry] = _Joined(place, now, answer, again)
        if self.arm.hedged and entry.tier == "predicted":
            self.timeline.at(now + self.setting.experience.latencies.quantile(call.tool, 0.5), self._hedge, entry)
        return True

    def _hedge(self, entry: EarlyRun) -> None:
        joined = self._joined.get(entry)
        if joined is not None:
            self._joined[entry] = joined._replace(hedged=True)
            joined.again()

    def beaten(self, place: int) -> None:
        """The call at this place was answered by a run of its own."""
        for entry, joined in list(self._joined.items()):
            if joined.place == place:
                del self._joined[entry]
                self._drop(entry, EarlyRunState.UNUSED)

    def wrote(self) -> None:
        """Something may have been written: early results that nobody waits for are stale; of the others that is seen
        when they are about to be served."""
        for entry in self.buffer.sweep(self.timeline.now):
            self._gone(entry)

    def make_room(self) -> None:
        """A real call waits for a slot: it gets that of the least likely early run, where that can be taken back."""
        if self.setting.gives_back is None or self._leaving >= self.slots.waiting:
            return
        idle = [entry for entry in self._running if entry not in self._joined and entry.tier == "predicted"]
        if idle:
            self._drop(min(idle, key=lambda entry: entry.probability), EarlyRunState.UNUSED)

    def leave(self) -> None:
        """The session is over."""
        for entry in list(self._open):
            self._settle(entry, used=False)
        for entry in list(self._running):
            self.buffer.drop(entry)
            self.buffer.failed(entry, self.timeline.now)
        self.buffer.leave("")

    # --- what becomes of them -----------------------------------------------------------------------------------

    def _ended(self, entry: EarlyRun) -> None:
        if entry.over:  # cancelled meanwhile
            return
        guess = self._running.pop(entry)
        good = self.buffer.finished(entry, True, self.timeline.now)
        joined = self._joined.pop(entry, None)
        if joined is not None and good:
            self._serve(entry, waited=self.timeline.now - joined.since, joined=True)
            joined.answer()
        elif joined is not None:
            self._settle(entry, used=False)
            if not joined.hedged:
                joined.again()
        self.slots.release()  # only now: a hedge of the same call may be waiting for one
        if joined is None and good and guess is not None:
            self._go_on(entry, guess)

    def _go_on(self, entry: EarlyRun, guess: Guess) -> None:
        """A slot is free again, and the result may foretell further calls."""
        thinking = self._thinking
        if thinking and guess.depth < self.arm.depth and guess.then:
            known = {one.key for one in self._pool}
            new = [one for one in guess.then if one.reads and one.key not in known]
            self._pool = new if self.slots.total is None else self._pool + new  # what was not worth it is not now
            self._launch()
        elif thinking and self.slots.total is not None and self._pool:
            self._launch()

    def _serve(self, entry: EarlyRun, *, waited: float, joined: bool) -> None:
        served = self.buffer.serve(entry, self.timeline.now, waited=waited, joined=joined)
        assert served, "a result was claimed that is stale"
        self.deep[1] += entry.depth > 1
        self._settle(entry, used=True)

    def _drop(self, entry: EarlyRun, state: EarlyRunState) -> None:
        self.buffer.drop(entry, state)
        self._gone(entry)

    def _gone(self, entry: EarlyRun) -> None:
        """It will not be served: a run under way is cancelled."""
        self._settle(entry, used=False)
        if entry.over or self.setting.gives_back is None:
            return
        self.buffer.failed(entry, self.timeline.now)
        del self._running[entry]
        self._leaving += 1
        self.timeline.at(self.timeline.now + self.setting.gives_back, self._given_back)

    def _given_back(self) -> None:
        self._leaving -= 1
        self.slots.release()

    def _settle(self, entry: EarlyRun, *, used: bool) -> None:
        guess = self._open.pop(entry, None)
        if guess is not None:
            self.setting.experience.settled(guess[0].prediction, used=used, now=self.setting.wall + self.timeline.now)


def _candidate(guess: Guess, gives_back: float | None) -> LaunchCandidate:
    return LaunchCandidate(prediction=guess.prediction, launchable="predicted", host=_HOST, gives_back=gives_back)


class _Joined(NamedTuple):
    place: int
    since: float
    answer: Callable[[], None]
    again: Callable[[], None]
    hedged: bool = False
    """A run of the call's own is under way beside it."""
