"""What tests of calls that are streamed inside the client share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentaccel import Accel
from tests.clients.wire import an_accel


def consenting(folder: Path, *, inside: bool = True, effect: Any = "read_local", **more: Any) -> Accel:
    """An `Accel` that may stream inside, and a tool that may begin early."""
    accel = an_accel(folder, stream_inside=inside, **more)

    def search(q: str = "") -> str:
        return q

    accel.tool(effect=effect, concurrent=True)(search)
    return accel
