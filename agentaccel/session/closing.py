"""The end of one `Accel`: what it runs early is settled, so that the ledger and the trace store add up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

from agentaccel.background import Background
from agentaccel.session.foresight import Foresight


class Reply(Protocol):
    """A reply on its way to whoever reads it."""

    def end(self, how: Literal["closed"]) -> None: ...


def close(replies: Iterable[Reply], foresight: Foresight, background: Background) -> None:
    """Take back everything, as leaving every session would, and write what was learned; `replies` that somebody holds
    and has not read to their end are over.

    What has not ended by then, as the tasks of a loop that stands still for as long as it closes this, is counted with
    the seconds that it has taken so far: nothing is recorded later.
    """
    for reply in tuple(replies):
        reply.end("closed")
    buffer = foresight.launcher.serving.buffer
    left = buffer.leave(None)
    background.close()
    now = foresight.launcher.clock.monotonic()
    for entry in left:
        buffer.failed(entry, now)
    foresight.learning.close()
