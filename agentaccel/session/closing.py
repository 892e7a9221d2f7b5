"""The end of one `Accel`: what it runs early is settled, so that the ledger and the trace store add up."""

from __future__ import annotations

from agentaccel.background import Background
from agentaccel.session.foresight import Foresight


def close(foresight: Foresight, background: Background) -> None:
    """Take back everything, as leaving every session would, and write what was learned.

    What has not ended by then, as the tasks of a loop that stands still for as long as it closes this, is counted with
    the seconds that it has taken so far: nothing is recorded later.
    """
    buffer = foresight.launcher.serving.buffer
    left = buffer.leave(None)
    background.close()
    now = foresight.launcher.clock.monotonic()
    for entry in left:
        buffer.failed(entry, now)
    foresight.learning.close()
