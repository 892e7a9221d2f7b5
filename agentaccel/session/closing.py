"""The end of one `Accel`: what it runs early is settled, so that the ledger and the trace store add up."""

from __future__ import annotations

from typing import Literal, Protocol
from weakref import WeakSet

from agentaccel.background import Background
from agentaccel.locks import Lock, forks
from agentaccel.session.foresight import Foresight
from agentaccel.session.later import Later


class Reply(Protocol):
    """A reply on its way to whoever reads it."""

    def end(self, how: Literal["closed"]) -> None: ...


class Replies:
    """Those of this process that are being read, or that nobody reads any more and somebody holds. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._held = WeakSet[Reply]()
        self._forks = forks()
        self.later = Later()
        """Those that are still being made, whose end a later exchange tells."""

    def add(self, reply: Reply) -> None:
        """One has begun."""
        with self._lock:
            self._here().add(reply)

    def end(self) -> None:
        """All of them are over."""
        with self._lock:
            held = tuple(self._here())
        for reply in held:
            reply.end("closed")
        self.later.end()

    def _here(self) -> WeakSet[Reply]:
        if self._forks != forks():  # what its parent reads, the parent tells
            self._held, self._forks = WeakSet(), forks()
        return self._held


def close(replies: Replies, foresight: Foresight, background: Background) -> None:
    """Take back everything, as leaving every session would, and write what was learned; `replies` that somebody holds
    and has not read to their end are over.

    What has not ended by then, as the tasks of a loop that stands still for as long as it closes this, is counted with
    the seconds that it has taken so far: nothing is recorded later.
    """
    replies.end()
    buffer = foresight.launcher.serving.buffer
    left = buffer.leave(None)
    background.close()
    now = foresight.launcher.clock.monotonic()
    for entry in left:
        buffer.failed(entry, now)
    foresight.learning.close()
