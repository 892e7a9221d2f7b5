"""What one `Accel` learns for running tools early: it outlasts the process, and several processes learn together.

Nothing is read before there is a tool, and nothing is written on the path of a call: a turn that makes it time to write
has that done in a thread, and what is left over is written when the `Accel` is closed or the process ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any
from weakref import WeakSet

from agentaccel.clock import Clock
from agentaccel.concurrency import WORKER, Background, at_end, beside, in_a_loop
from agentaccel.locks import forks
from agentaccel.policy import Policy
from agentaccel.predict.events import SessionPredictor
from agentaccel.predict.predictor import Predictor
from agentaccel.store.experience import TrackRecord
from agentaccel.store.patterns import Library
from agentaccel.store.recorder import Recorder
from agentaccel.types import ToolCall

_NO_SESSION = ""
"""Writing is of the `Accel`: no session that is left waits for it."""


class Learning:
    """The patterns of tool calls, which it predicts by, and what came of predictions. Thread-safe."""

    def __init__(self, policy: Policy, clock: Clock, recorder: Recorder, background: Background) -> None:
        kept = policy.store
        self.library = Library(recorder, clock, sensitive=kept.is_sensitive, values=kept.content, strict=policy.strict)
        self.track = TrackRecord(recorder, clock)
        self._background = background
        self._prepared = False
        self.begun = False
        """Whether the track record was read."""

    def session(
        self,
        workload: str = "",
        tools: Mapping[str, Mapping[str, Any]] | None = None,
        reads: Callable[[ToolCall], bool] | None = None,
    ) -> SessionPredictor:
        """A session that begins, as `Predictor.session`."""
        return Predictor(self.library.knowledge).session(workload, tools, reads)

    def prepare(self) -> None:
        """There are tools: patterns will be needed soon, and reading many takes longer than a loop may stand still."""
        if not self._prepared:
            self._prepared = True
            self._background.submit(_NO_SESSION, lambda: self.library.knowledge)

    def begin(self) -> None:
        """A request is on its way: what is known is needed now."""
        self.track.open()
        self.begun = True
        _ALIVE.add(self)
        _save_at_exit(forks())

    def turned(self) -> None:
        """A turn has ended."""
        if self.library.learned():
            begins = partial(self._background.submit, _NO_SESSION, self.save)
            beside(begins) if in_a_loop() else begins()  # a loop that starts a thread waits for it to run

    def save(self) -> None:
        """Write what is new."""
        self.library.save()
        self.track.save()

    def close(self) -> None:
        """Write what is still to be written."""
        _ALIVE.discard(self)
        _come_to_rest()
        self.save()


_ALIVE: WeakSet[Learning] = WeakSet()


@lru_cache(maxsize=1)
def _save_at_exit(process: int) -> None:
    at_end(_save_all)


def _come_to_rest() -> None:
    """Wait until what sessions have shown so far is learned, which is done beside event loops. On one, do not."""
    if in_a_loop():
        return
    with suppress(TimeoutError):
        WORKER.submit(lambda: None).result(_MOST_SECONDS)


_MOST_SECONDS = 2.0
"""For which a program that ends waits for that."""


def _save_all() -> None:
    _come_to_rest()
    for one in tuple(_ALIVE):
        with suppress(Exception):  # nobody is left to be told
            one.save()
