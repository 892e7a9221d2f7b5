"""Answering a real call by a run that was begun early, or by the result of an earlier call.

A call that finds nothing runs exactly as it would without us: before it is dispatched a few dictionaries are asked and
no analyser is.

Cancelling a caller that waits for an early run leaves that run for another caller; whatever is begun early ends with
its session.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from agentaccel.clock import Clock
from agentaccel.concurrency import Background, in_a_loop
from agentaccel.engine.conversation import Conversation
from agentaccel.locks import Lock, forks
from agentaccel.policy import ToolPolicy
from agentaccel.predict.identity import Key, Principal
from agentaccel.records import ServedFrom
from agentaccel.store.experience import TrackRecord
from agentaccel.tools.catalog import READS, KnownTool, Tools, copied
from agentaccel.tools.early import EarlyRun, EarlyRuns, EarlyRunState
from agentaccel.tools.epochs import Version, WriteEpochs
from agentaccel.tools.permission import Judging
from agentaccel.tools.rates import Rates
from agentaccel.tools.results import Read, Remembered, ResultCache
from agentaccel.tools.running import EarlyExecution
from agentaccel.types import Effect, ToolCall
from agentaccel.validators import version_of
from agentaccel.values import kept_name

# --- What real calls do to the world, as far as it can be told: a write closes what it touches, and ages it -----------
# A call of which only a long look could tell whether it writes is looked at while it runs, beside the event loop;
# until then its scope is closed to early results.


@dataclass(slots=True, eq=False)
class OpenWrite:
    """What a call under way does to the world, as far as it is known."""

    scope: str | None
    number: int | None = None
    """What closes the scope; None where nothing does."""
    unsettled: bool = False
    ended: bool = False


@dataclass(slots=True, kw_only=True)
class Writes:
    """The runs of one `Accel` that may write. Thread-safe."""

    clock: Clock
    judging: Judging
    world: WriteEpochs
    rates: Rates
    spoil: Callable[[], None]
    """Called when something has begun to write."""
    _lock: Lock = field(default_factory=Lock)
    _unsettled: list[tuple[OpenWrite, KnownTool, ToolCall]] = field(default_factory=list)
    """Calls that may write and have not been looked at."""

    def begins(self, tool: KnownTool, call: ToolCall) -> OpenWrite | None:
        """`call` is about to run; None where it is known to read."""
        self.rates.ran(tool.name, self.clock.monotonic())
        if reads := self.judging.tools.at_once(tool):
            return None
        mark = OpenWrite(tool.spec.scope)
        if reads is None and (given := copied(call)) is not None:
            call = given
            mark.number, mark.unsettled = self.world.suspect(mark.scope), True
            self._unsettled.append((mark, tool, call))
            if in_a_loop():  # else it is looked at once it has run
                asyncio.get_running_loop().call_soon(self.settle)
        else:
            mark.number = self.world.begins(mark.scope)
            self.spoil()
        return mark

    def ends(self, mark: OpenWrite) -> None:
        """That call has run, failed or been cancelled."""
        with self._lock:
            mark.ended = True
            number = None if mark.unsettled else mark.number
        if number is not None:
            self.world.ends(number)
        elif mark.unsettled and not in_a_loop():
            self.settle()

    def is_looked_at(self, tool: KnownTool, call: ToolCall) -> bool:
        """True if this very call has begun to run, and is being looked at."""
        return any(one is tool and same.arguments == call.arguments for _, one, same in tuple(self._unsettled))

    def settle(self) -> None:
        """Look at the calls that were not looked at before they were dispatched, as far as that takes no time; of the
        others it is found out beside the event loop."""
        later = list[tuple[OpenWrite, KnownTool, ToolCall]]()
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
                self.world.resolve(number, ended=mark.ended, writes=writes)
                mark.unsettled, mark.number = False, number if writes and not mark.ended else None
            if writes:
                self.spoil()
        self._unsettled += later


MISS: Final = object()
"""What `Serving.join` gives where the call has to be run."""


@dataclass(slots=True, kw_only=True, eq=False)
class ServedResult:
    """How a call was answered without being run for."""

    source: ServedFrom
    hidden: float


@dataclass(slots=True, kw_only=True)
class Serving:
    """The tool calls of one `Accel`, on their way to be answered. Thread-safe."""

    policy: ToolPolicy
    clock: Clock
    background: Background
    tools: Tools
    judging: Judging
    world: WriteEpochs
    buffer: EarlyRuns
    memo: ResultCache
    rates: Rates
    track: TrackRecord
    writes: Writes = field(init=False)
    _lock: Lock = field(default_factory=Lock)
    _joined: dict[EarlyRun, concurrent.futures.Future[None]] = field(default_factory=dict)
    """Early runs that a caller waits for, and how it is told that something wrote where they read."""
    _forks: int = field(default_factory=forks)

    def __post_init__(self) -> None:
        self.writes = Writes(
            clock=self.clock, judging=self.judging, world=self.world, rates=self.rates, spoil=self._spoil
        )

    def remembers(self, tool: KnownTool) -> bool:
        """Whether results of a tool may answer later calls: where it is known when they are not fresh any more."""
        if not self.policy.cache_results or tool.effect is None:
            return False
        if tool.effect is Effect.PURE:
            return True
        return tool.effect in READS and (tool.spec.max_age is not None or tool.spec.validator is not None)

    # --- what is there already ----------------------------------------------------------------------------------------

    def look(
        self, tool: KnownTool, call: ToolCall, conversation: Conversation
    ) -> tuple[EarlyRun | Remembered | None, Read | None]:
        """What can answer `call`, or else what its result depends on, where that may answer a later one.

        Takes no lock where nothing waits.
        """
        if self._forks != forks():  # what the parent runs does not run here
            self._forks = forks()
            self.buffer.leave(None)
        remembers = self.remembers(tool)
        if not self.buffer and not remembers:
            return None, None
        key = self.tools.key(tool, call.arguments, Principal(conversation.tenant, conversation.id))
        if key is None:
            return None, None
        now = self.clock.monotonic()
        if self.buffer and (entry := self.buffer.claim(key, now)) is not None:
            return entry, None
        if not remembers:
            return None, None
        if self.memo and (known := self.recalled(tool, key)) is not None:
            return known, None
        spec = tool.spec
        if self.world.closed(spec.scope):
            return None, None
        seen = version_of(spec.validator, call.arguments)
        return None, self._read(tool, key, call, version=self.world.version(spec.scope), at=now, seen=seen)

    def recalled(self, tool: KnownTool, key: Key) -> Remembered | None:
        """The earlier result that answers the call of `tool` under `key`."""
        return self.memo.find(key, self.clock.monotonic(), everybodys=self.tools.is_everybodys(tool))

    def recall(self, found: Remembered, conversation: Conversation) -> tuple[Any, ServedResult]:
        """A result of an earlier call, counted."""
        tally = conversation.ledger.memo
        with self._lock:
            tally.served += 1
            tally.hidden += found.seconds
        return found.result, ServedResult(source="memo", hidden=found.seconds)

    # --- waiting for what was begun -----------------------------------------------------------------------------------

    async def join(self, entry: EarlyRun, execute: Callable[[], Awaitable[Any]]) -> tuple[Any, ServedResult | None]:
        """The result of `entry`, waited for if need be; `MISS` where the call has to be run.

        A run that was begun on a prediction is waited for as long as a fresh run is expected to take. Then a fresh one
        is begun beside it, and whichever ends first answers the call. One that the model had asked for already is the
        call's own run, so it is waited for to its end. Neither is waited for any longer once something writes where it
        reads: it will not be served.
        """
        run: EarlyExecution = entry.handle
        began, joined = self.clock.monotonic(), not entry.over
        if joined:
            waiting = run.waitable()
            if waiting is None:
                self.buffer.hand_back(entry)
                return MISS, None
            try:
                if entry.tier == "asked":
                    run.awaited()
                limit = None if entry.tier == "asked" else self._expected(entry)
                if await self._is_spoiled(entry, waiting, limit):
                    self.buffer.drop(entry, EarlyRunState.STALE)
                    run.cancel()
                    return MISS, None
                if not waiting.done():
                    return await self._hedge(entry, waiting, execute, began)
            except BaseException:  # cancelled, interrupted or closed; a failure of the fresh run gives nothing back
                self._given_up(entry, began)
                raise
        return self._served(entry, began, joined=joined)

    def _given_up(self, entry: EarlyRun, began: float) -> None:
        """The caller that waited for `entry` does not any more."""
        if self.buffer.hand_back(entry, waited=self.clock.monotonic() - began):
            entry.handle.unawaited(self.policy.timeout)

    async def _is_spoiled(self, entry: EarlyRun, waiting: asyncio.Future[Any], limit: float | None) -> bool:
        """Wait for the end of its run, `limit` seconds or until something writes where it reads; whether that came
        first."""
        with self._joining(entry) as told:
            spoiled = asyncio.wrap_future(told)
            await asyncio.wait([waiting, spoiled], timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            return spoiled.done() and not waiting.done()

    @contextmanager
    def _joining(self, entry: EarlyRun) -> Iterator[concurrent.futures.Future[None]]:
        """A caller waits for `entry` inside; what is handed out is done once something writes where that reads."""
        spoiled = self._joined[entry] = concurrent.futures.Future[None]()
        try:
            self._spoil()
            yield spoiled
        finally:
            del self._joined[entry]

    def _spoil(self) -> None:
        """Tell callers that wait for what will not be served."""
        for entry, spoiled in tuple(self._joined.items()):
            if entry.version != self.world.version(entry.scope):
                with suppress(concurrent.futures.InvalidStateError):  # it was told already, or nobody waits any more
                    spoiled.set_result(None)

    async def _hedge(
        self,
        entry: EarlyRun,
        waiting: asyncio.Future[Any],
        execute: Callable[[], Awaitable[Any]],
        began: float,
    ) -> tuple[Any, ServedResult | None]:
        async def run() -> tuple[Any, BaseException | None]:
            self.rates.ran(entry.call.name, self.clock.monotonic())
            try:
                return await execute(), None
            except (SystemExit, KeyboardInterrupt) as end:  # out of a task they would end the event loop
                return None, end

        # It is the caller's own run, so it belongs to nobody else, and outlives the session if the caller does.
        fresh = self.background.spawn(None, run, contextvars.copy_context())
        try:
            await asyncio.wait([waiting, fresh], return_when=asyncio.FIRST_COMPLETED)
            if not fresh.done():
                result, served = self._served(entry, began, joined=True)
                if served is not None:
                    fresh.cancel()
                    return result, served
                await asyncio.wait([fresh])
        except BaseException as end:
            fresh.cancel()
            if isinstance(end, asyncio.CancelledError):
                await asyncio.wait([fresh])
            raise
        self.buffer.drop(entry)
        entry.handle.cancel()
        result, ended = fresh.result()
        if ended is not None:
            raise ended
        return result, None

    def join_here(self, entry: EarlyRun) -> tuple[Any, ServedResult | None]:
        """The same in a thread, where no second run can be begun beside the first."""
        work = entry.handle.work
        began, joined = self.clock.monotonic(), not entry.over
        if joined:
            if not isinstance(work, concurrent.futures.Future):
                self.buffer.hand_back(entry)
                return MISS, None
            limit = None if entry.tier == "asked" else self._expected(entry)
            try:
                with self._joining(entry) as spoiled:
                    concurrent.futures.wait([work, spoiled], limit, concurrent.futures.FIRST_COMPLETED)
            except BaseException:
                self._given_up(entry, began)
                raise
            if not work.done():
                self.buffer.drop(entry, EarlyRunState.STALE if spoiled.done() else EarlyRunState.UNUSED)
                entry.handle.cancel()
                return MISS, None
        return self._served(entry, began, joined=joined)

    def _served(self, entry: EarlyRun, began: float, *, joined: bool) -> tuple[Any, ServedResult | None]:
        now = self.clock.monotonic()
        if not self.buffer.serve(entry, now, waited=now - began, joined=joined):
            return MISS, None
        self._keep(entry, now)
        return entry.result, ServedResult(source=entry.tier, hidden=entry.hidden)

    def _keep(self, entry: EarlyRun, now: float) -> None:
        """What the model had asked for is the call's own run: its result may answer later calls, too."""
        tool = self.tools.named(entry.call.name, entry.key.principal.session)
        if entry.tier == "asked" and tool is not None and self.remembers(tool):
            read = self._read(tool, entry.key, entry.call, version=entry.version, at=entry.born, seen=entry.seen)
            self.memo.keep(read, entry.result, entry.seconds, now)

    def _expected(self, entry: EarlyRun) -> float:
        """Seconds that a fresh run is expected to take."""
        with self.track.lock:
            return self.track.experience.latencies.quantile(kept_name(entry.call.name), 0.5)

    def took(self, tool: KnownTool, seconds: float) -> None:
        """A real call ran so long."""
        self.track.learn(lambda experience: experience.ran(kept_name(tool.name), seconds))

    def _read(self, tool: KnownTool, key: Key, call: ToolCall, *, version: Version, at: float, seen: object) -> Read:
        spec = tool.spec
        return Read(
            key=key, arguments=call.arguments, scope=spec.scope, version=version, at=at, validator=spec.validator,
            seen=seen, max_age=float("inf") if spec.max_age is None else spec.max_age,
            everybodys=self.tools.is_everybodys(tool),
        )  # fmt: skip
