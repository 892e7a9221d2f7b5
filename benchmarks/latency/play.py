"""One session in virtual time: the model is asked, launches are decided, its reply comes, its calls run side by side.

    asked ─▶ launches, their ends, chains ─▶ reply ─▶ calls ─▶ asked …

Decision, buffer, memo and write epochs are the product's own. Real calls come first: one that finds no free slot takes
back that of an early run where cancelling takes effect at all, and waits for a slot otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from agentaccel.tools.results import Read
from benchmarks.latency.draws import Times
from benchmarks.latency.early import ArmRuns
from benchmarks.latency.scenes import Call, Session, Turn
from benchmarks.latency.setting import Arm, Outcome, Setting, needed_after


def play(session: Session, times: Times, arm: Arm, setting: Setting, counts: Sequence[int] = ()) -> Outcome:
    """What a session comes to; `setting` goes on to where the next one begins, with what was learned.

    `counts` are the launches of each turn where the product's decision does not say it.
    """
    outcome = _Play(session, times, arm, setting, counts).run()
    setting.wall += outcome.seconds
    return outcome


def off(times: Times, scale: float) -> float:
    """The seconds of a session in which nothing is done early and slots are not limited."""
    return sum(times.replies) + scale * sum(max(calls) for calls in times.calls if calls)


def one_step(session: Session, times: Times, scale: float) -> float:
    """The same with the one-step oracle: the reads of each reply begin when the model is asked for it, without a slot
    or any CPU, except those behind a write of their own reply."""
    seconds = sum(times.replies)
    for turn, reply, calls in zip(session.turns, times.replies, times.calls, strict=True):
        early = reads_before_writes(turn.calls)
        ends = [scale * own - (reply if place in early else 0.0) for place, own in enumerate(calls)]
        seconds += max(0.0, *ends) if ends else 0.0
    return seconds


def reads_before_writes(calls: tuple[Call, ...]) -> range:
    """The places of the calls of one reply before the first that may write."""
    return range(next((place for place, call in enumerate(calls) if not call.reads), len(calls)))


class _Play:
    def __init__(self, session: Session, times: Times, arm: Arm, setting: Setting, counts: Sequence[int]) -> None:
        self._session, self._times, self._arm, self._setting = session, times, arm, setting
        self._early = ArmRuns(times, arm, setting, counts)
        self._timeline, self._slots = self._early.timeline, self._early.slots
        self._turn = 0
        self._unanswered: set[int] = set()

    def run(self) -> Outcome:
        for at, turn in enumerate(self._session.turns):
            self._turn = at
            self._think(turn)
            self._setting.needed = needed_after(self._setting.needed, len(turn.calls))
            if self._plain(turn):
                continue
            self._unanswered = set(range(len(turn.calls)))
            for place in range(len(turn.calls)):
                self._ask(place)
            while self._unanswered:
                self._timeline.step()
        self._early.leave()
        early = self._early
        deep = (early.deep[0], early.deep[1])
        return Outcome(seconds=self._timeline.now, ledger=early.ledger, launched=tuple(early.launched), deep=deep)

    def _think(self, turn: Turn) -> None:
        began, reply = self._timeline.now, self._times.replies[self._turn]
        self._early.foresee(turn.foreseen.get(self._arm.foreseen, ()))
        if self._arm.eager:
            for place in reads_before_writes(turn.calls):
                seconds = self._times.calls[self._turn][place] * self._setting.scale
                closes = began + reply * turn.calls[place].closes
                self._timeline.at(closes, self._early.ask_early, turn.calls[place], seconds)
        self._timeline.until(began + reply)
        self._early.over()
        self._timeline.until(began + reply + self._early.launched[-1] * self._setting.start)

    def _plain(self, turn: Turn) -> bool:
        """Run the calls of a turn at once where nothing that is early, remembered or short of slots touches them."""
        if not turn.calls:
            return True
        simple = self._early.idle() and self._slots.free >= len(turn.calls)
        if simple and not any(call.again for call in turn.calls):
            self._timeline.until(self._timeline.now + self._setting.scale * max(self._times.calls[self._turn]))
            return True
        return False

    def _ask(self, place: int) -> None:
        call = self._session.turns[self._turn].calls[place]
        early = self._early
        answer, again = partial(self._unanswered.discard, place), partial(self._run, place, None)
        if not call.reads:
            written = early.world.begins(None)
            early.wrote()
            self._run(place, written)
        elif (known := early.remembered(call.key)) is not None:
            early.ledger.memo.served += 1
            early.ledger.memo.hidden += known.seconds
            answer()
        elif not early.claim(call, place, answer, again):
            again()

    def _run(self, place: int, written: int | None) -> None:
        """A run of the call's own, as soon as there is a slot."""
        turn = self._turn

        def begin() -> None:
            if turn != self._turn or place not in self._unanswered:  # a hedge that came too late
                self._slots.release()
                return
            now, call = self._timeline.now, self._session.turns[turn].calls[place]
            version = self._early.world.version(None)
            read = Read(key=call.key, arguments={}, scope=None, version=version, at=now, max_age=math.inf)
            seconds = self._times.calls[turn][place] * self._setting.scale
            self._timeline.at(now + seconds, self._returned, turn, place, read, written)

        if not self._slots.take(begin):
            self._early.make_room()

    def _returned(self, turn: int, place: int, read: Read, written: int | None) -> None:
        if written is not None:
            self._early.world.ends(written)
            self._early.wrote()
        elif self._session.turns[turn].calls[place].again:
            self._early.remember(read)
        if turn == self._turn and place in self._unanswered:
            self._early.beaten(place)
            self._unanswered.discard(place)
        self._slots.release()
