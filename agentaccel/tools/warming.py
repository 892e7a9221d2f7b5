"""Tier 3: what tools open before they are called (a connection, a sandbox), which gives no result.

Nothing that was opened can be wrong, so it takes no proof and no key: only that its tool is more likely called than
not.
"""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from agentaccel.clock import Clock
from agentaccel.concurrency import Background, in_a_loop
from agentaccel.predict.resources import Resource
from agentaccel.tools.permission import Judging
from agentaccel.types import Prediction, ToolCall

log = logging.getLogger("agentaccel")

_LIKELY = 0.5
"""Probability from which a tool is opened."""
_PAUSE = 60.0
"""Seconds for which what was opened is taken to stay open."""
_MOST = 1024
"""Things that were opened and are remembered."""


@dataclass(slots=True)
class ToolPrewarmer:
    """Calls the `prewarm` functions of tools. Thread-safe: two threads may open one tool twice, which does no harm."""

    judging: Judging
    clock: Clock
    background: Background
    _opened: dict[str, float] = field(default_factory=dict)

    def warm(self, owner: str, expected: Iterable[Prediction], touched: Iterable[Resource]) -> None:
        """Open what the calls that are `expected` need, and fetch what is likely to be `touched`, in tasks that the
        session `owner` owns."""
        likely: dict[str, float] = {}
        for one in expected:
            likely[one.call.name] = likely.get(one.call.name, 0.0) + one.probability
        now = self.clock.monotonic()
        for name, probability in likely.items():
            tool = self.judging.tools.named(name, owner)
            prewarm = tool.spec.prewarm if tool is not None else None
            if prewarm is None or probability < _LIKELY or now - self._opened.get(name, -_PAUSE) < _PAUSE:
                continue
            self._opened[name] = now
            self._begin(owner, name, prewarm)
        likely_touched = [one.value for one in touched if one.probability >= _LIKELY]
        for value in likely_touched:
            self._fetch(owner, value, now)

    def _fetch(self, owner: str, value: str, now: float) -> None:
        """Fetch one resource for every tool that names it so, where a call for it might be begun early, too."""
        for tool in self.judging.tools.had_by(owner):
            spec = tool.spec
            if spec.prefetch is None or spec.prefetch_key is None:
                continue
            call = ToolCall(name=tool.name, arguments={spec.prefetch_key: value})
            place = f"{tool.name} {value}"
            recent = now - self._opened.get(place, -_PAUSE) < _PAUSE
            if recent or not self.judging.look(tool, call, _another_time):
                continue
            if self.judging.may(tool, call).launch != "predicted":
                continue
            while len(self._opened) >= _MOST:
                del self._opened[next(iter(self._opened))]
            self._opened[place] = now
            self._begin(owner, tool.name, partial(spec.prefetch, value))

    def _begin(self, owner: str, name: str, prewarm: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            try:
                await prewarm()
            except (Exception, SystemExit):  # nobody asked for it, so it ends nothing: asyncio would end the program
                log.debug("agentaccel: the prewarm function of %s failed", name, exc_info=True)

        if in_a_loop():
            self.background.spawn(owner, run, contextvars.copy_context())


def _another_time() -> None:
    """What is likely to be touched is so for a while."""
