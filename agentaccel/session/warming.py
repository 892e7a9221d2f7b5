"""Tier 3: what tools open before they are called (a connection, a sandbox), which gives no result.

Nothing that was opened can be wrong, so it takes no proof and no key: only that its tool is more likely called than not.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from agentaccel.background import Background
from agentaccel.clock import Clock
from agentaccel.session.tools import Tools
from agentaccel.types import Prediction

log = logging.getLogger("agentaccel")

_LIKELY = 0.5
"""Probability from which a tool is opened."""
_PAUSE = 60.0
"""Seconds for which what was opened is taken to stay open."""


@dataclass(slots=True)
class Warming:
    """Calls the `prewarm` functions of tools. Thread-safe: two threads may open one tool twice, which does no harm."""

    tools: Tools
    clock: Clock
    background: Background
    _opened: dict[str, float] = field(default_factory=dict)

    def warm(self, owner: str, expected: Iterable[Prediction]) -> None:
        """Open what the calls that are `expected` need, in tasks that the session `owner` owns."""
        likely: dict[str, float] = {}
        for one in expected:
            likely[one.call.name] = likely.get(one.call.name, 0.0) + one.probability
        now = self.clock.monotonic()
        for name, probability in likely.items():
            tool = self.tools.named(name)
            prewarm = tool.spec.prewarm if tool is not None else None
            if prewarm is None or probability < _LIKELY or now - self._opened.get(name, -_PAUSE) < _PAUSE:
                continue
            self._opened[name] = now
            self._begin(owner, name, prewarm)

    def _begin(self, owner: str, name: str, prewarm: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            try:
                await prewarm()
            except Exception:
                log.debug("agentaccel: the prewarm function of %s failed", name, exc_info=True)

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
        self.background.spawn(owner, run, contextvars.copy_context())
