"""What calls do whose arguments take a look: worked out beside the event loop, and once for a call.

To read a statement of 5,000 characters takes a thirtieth of a second, and to look at the files that a shell line names
as long as the disk takes. So nobody waits for it on an event loop: what is not known yet is not begun early, and goes
on once it is. A verdict about what lies on the disk is kept while nothing that may write has run here, and for a few
seconds: others write, too. Our executors look again right before they start anything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from agentaccel.clock import Clock
from agentaccel.concurrency import beside, in_a_loop, in_time
from agentaccel.effects.launch import Permission, judge_call, permission
from agentaccel.effects.verdict import Verdict, analysed
from agentaccel.locks import Lock
from agentaccel.predict.identity import arguments_key
from agentaccel.tools.catalog import READS, KnownTool, Tools, copied
from agentaccel.tools.epochs import Version, WriteEpochs
from agentaccel.types import Effect, ToolCall

log = logging.getLogger("agentaccel")

KEPT = 256
"""Calls whose verdicts are kept."""
KEPT_FOR = 5.0
"""Seconds for which one is."""
IN_TIME = 0.25
"""Seconds for which a call waits for its verdict."""

_NOT_YET = analysed(Effect.UNKNOWN, "nobody has looked at what it does since something may have written")

Asked = tuple[KnownTool, bytes]
"""A tool, and the arguments of one call of it."""
Then = Callable[[], None]


class _Judged(NamedTuple):
    verdict: Verdict
    epoch: int
    """Of what the tools may do."""
    version: Version
    """Of the world."""
    at: float


@dataclass(slots=True, eq=False, kw_only=True)
class Judging:
    """The verdicts of one `Accel`. Thread-safe."""

    tools: Tools
    world: WriteEpochs
    clock: Clock
    _kept: dict[Asked, _Judged] = field(default_factory=dict)
    _waiting: dict[tuple[asyncio.AbstractEventLoop, Asked], list[Then]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def look(self, tool: KnownTool, call: ToolCall, then: Then) -> bool:
        """True if what `call` does can be told without making the event loop wait; else that is worked out beside it,
        and `then` is called on it once it is known."""
        asked = _asked(tool, call)
        if asked is None or not in_a_loop() or self._known(asked) is not None:
            return True
        own = copied(call)  # as it is now: the loop may go on to change what it was given
        if own is not None:
            self._work_out(asked, partial(judge_call, own, tool.spec, self.tools.allowance()), then)
        return own is None

    def reads(self, tool: KnownTool, call: ToolCall) -> bool:
        """Whether a call is proven to change nothing. On an event loop one that nobody has had a `look` at is not;
        elsewhere that may take long."""
        at_once = self.tools.at_once(tool)
        return self._verdict(tool, call).effect in READS if at_once is None else at_once

    def did_read(self, tool: KnownTool, call: ToolCall) -> bool:
        """The same of a call of the past, told at once: one that nobody has looked at counts as one that may write."""
        asked = _asked(tool, call)
        if asked is None or not in_a_loop():
            return self.reads(tool, call)
        kept = self._kept.get(asked)
        return self.tools.at_once(tool) is not False and kept is not None and kept.verdict.effect in READS

    def may(self, tool: KnownTool, call: ToolCall, familiar: Callable[[ToolCall], bool] | None = None) -> Permission:
        """When a call may be launched; as in `reads` where nobody has had a `look` at it."""
        allowance = self.tools.allowance(familiar)
        return permission(call, tool.spec, allowance, sync=not tool.is_async, verdict=self._verdict(tool, call))

    def _verdict(self, tool: KnownTool, call: ToolCall) -> Verdict:
        asked = _asked(tool, call)
        known = None if asked is None else self._known(asked)
        if known is not None:
            return known
        if asked is not None and in_a_loop():
            return _NOT_YET
        verdict = judge_call(call, tool.spec, self.tools.allowance())
        if asked is not None:
            self._keep(asked, verdict)
        return verdict

    def _known(self, asked: Asked) -> Verdict | None:
        kept = self._kept.get(asked)
        if kept is None or (kept.epoch, kept.version) != (self.tools.epoch, self.world.version(None)):
            return None
        return kept.verdict if self.clock.monotonic() - kept.at < KEPT_FOR else None

    def _keep(self, asked: Asked, verdict: Verdict) -> None:
        with self._lock:
            self._kept.pop(asked, None)
            while len(self._kept) >= KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[asked] = _Judged(verdict, self.tools.epoch, self.world.version(None), self.clock.monotonic())

    def _work_out(self, asked: Asked, work: Callable[[], Verdict], then: Then) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            for gone in [one for one in self._waiting if one[0].is_closed()]:
                del self._waiting[gone]
            waiting = self._waiting.get((loop, asked))
            if waiting is not None:
                if then not in waiting:
                    waiting.append(then)
                return
            self._waiting[loop, asked] = [then]
        beside(work).add_done_callback(partial(self._told, asked))

    def _told(self, asked: Asked, done: asyncio.Future[Verdict]) -> None:
        with self._lock:
            waiting = self._waiting.pop((done.get_loop(), asked), [])
        if done.cancelled():
            return
        self._keep(asked, done.result())
        for then in waiting:
            try:
                then()
            except Exception:
                log.exception("agentaccel: could not go on with a call of which it is known now what it does")


async def is_proven(judge: Callable[[], Verdict]) -> bool:
    """True if `judge`, asked beside the running event loop, tells in time of a call that it reads: the look of an
    executor at what it is about to run. A call whose verdict takes longer runs as one that may write."""
    verdict = await in_time(judge, IN_TIME)
    return verdict is not None and verdict.launchable != "never"


def _asked(tool: KnownTool, call: ToolCall) -> Asked | None:
    """None where what a call does is told without a long look at it."""
    if tool.effect is not None or (tool.spec.judge is None and tool.spec.kind is None):
        return None
    key = arguments_key(call.arguments, {}, ordered=True)
    return None if key is None else (tool, key)
