"""What the real calls of tools do to the world, as far as it can be told: a write closes what it touches, and ages it.

A call of which only a long look could tell whether it writes is looked at while it runs, beside the event loop; until
then its domain is closed to early results.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from agentaccel.background import in_a_loop
from agentaccel.clock import Clock
from agentaccel.locks import Lock
from agentaccel.session.judging import Judging
from agentaccel.session.tools import Tool, copied
from agentaccel.speculate.rates import Rates
from agentaccel.speculate.world import World
from agentaccel.types import ToolCall


@dataclass(slots=True, eq=False)
class Mark:
    """What a call under way does to the world, as far as it is known."""

    domain: str | None
    number: int | None = None
    """What closes the domain; None where nothing does."""
    unsettled: bool = False
    ended: bool = False


@dataclass(slots=True, kw_only=True)
class Writes:
    """The runs of one `Accel` that may write. Thread-safe."""

    clock: Clock
    judging: Judging
    world: World
    rates: Rates
    spoil: Callable[[], None]
    """Called when something has begun to write."""
    _lock: Lock = field(default_factory=Lock)
    _unsettled: list[tuple[Mark, Tool, ToolCall]] = field(default_factory=list)
    """Calls that may write and have not been looked at."""

    def begins(self, tool: Tool, call: ToolCall) -> Mark | None:
        """`call` is about to run; None where it is known to read."""
        self.rates.ran(tool.name, self.clock.monotonic())
        if reads := self.judging.tools.at_once(tool):
            return None
        mark = Mark(tool.spec.domain)
        if reads is None and (given := copied(call)) is not None:
            call = given
            mark.number, mark.unsettled = self.world.pends(mark.domain), True
            self._unsettled.append((mark, tool, call))
            if in_a_loop():  # else it is looked at once it has run
                asyncio.get_running_loop().call_soon(self.settle)
        else:
            mark.number = self.world.begins(mark.domain)
            self.spoil()
        return mark

    def ends(self, mark: Mark) -> None:
        """That call has run, failed or been cancelled."""
        with self._lock:
            mark.ended = True
            number = None if mark.unsettled else mark.number
        if number is not None:
            self.world.ends(number)
        elif mark.unsettled and not in_a_loop():
            self.settle()

    def is_looked_at(self, tool: Tool, call: ToolCall) -> bool:
        """True if this very call has begun to run, and is being looked at."""
        return any(one is tool and same.arguments == call.arguments for _, one, same in tuple(self._unsettled))

    def settle(self) -> None:
        """Look at the calls that were not looked at before they were dispatched, as far as that takes no time; of the
        others it is found out beside the event loop."""
        later = list[tuple[Mark, Tool, ToolCall]]()
        while self._unsettled:
            try:
                mark, tool, call = self._unsettled.pop()
            except IndexError:  # another thread was faster
                break
            if not self.judging.look(tool, call, self.settle):
                later.append((mark, tool, call))
                continue
            writes, number = not self.judging.reads(tool, call), mark.number
            assert number is not None
            with self._lock:
                self.world.settles(number, ended=mark.ended, writes=writes)
                mark.unsettled, mark.number = False, number if writes and not mark.ended else None
            if writes:
                self.spoil()
        self._unsettled += later
