"""One tool call, from before it is answered or dispatched until its end: what answers it, what it does, its record."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from agentaccel.clock import Clock
from agentaccel.effects.spec import NotProven
from agentaccel.engine.conversation import Conversation
from agentaccel.engine.lineage import Registry, identity_of
from agentaccel.engine.scope import Within, current
from agentaccel.hooks import HookList, Told
from agentaccel.locks import when_free
from agentaccel.records import Outcome, ToolRecord, outcome_of
from agentaccel.store.recorder import Recorder
from agentaccel.tools.catalog import KnownTool
from agentaccel.tools.early import EarlyRun, EarlyRunState
from agentaccel.tools.results import Read, Remembered
from agentaccel.tools.serving import MISS, OpenWrite, ServedResult, Serving
from agentaccel.tools.speculator import Speculator
from agentaccel.types import ToolCall
from agentaccel.values import kept_name

log = logging.getLogger("agentaccel")


@dataclass(frozen=True, slots=True)
class Calling:
    """What the tool calls of one `Accel` need."""

    clock: Clock
    recorder: Recorder
    registry: Registry
    listeners: HookList
    speculator: Speculator

    @property
    def serving(self) -> Serving:
        return self.speculator.launcher.serving

    def watch(self, call: ToolCall, known: KnownTool, *, looks: bool = True) -> Call:
        """Record what happens inside as one run of `call`; `looks` for what can answer it."""
        return Call(self, known, call, looks=looks)

    def conversation(self, call: ToolCall, within: Within, *, surely: bool = False) -> Conversation | None:
        """The session that `call` belongs to: the open one, else the one whose model asked for it last.

        `surely`: None where several have asked for just this and it may be any of them.
        """
        if within.session is not None:
            return within.session.conversation
        asker = self.registry.only_asker(call) if surely else self.registry.asker(call)
        return self.registry.named(asker) if asker is not None else None


class Call:
    """One call, from before it is answered or dispatched until its end."""

    __slots__ = (
        "_began",
        "_box",
        "_call",
        "_here",
        "_known",
        "_looks",
        "_mark",
        "_ran",
        "_served",
        "_started",
        "_tick",
        "_within",
        "found",
        "goes_on",
        "later",
        "read",
    )

    def __init__(self, box: Calling, known: KnownTool, call: ToolCall, *, looks: bool) -> None:
        self._box, self._known, self._call, self._looks = box, known, call, looks
        self._mark: OpenWrite | None = None
        self._here: Conversation | None = None
        self._served: ServedResult | None = None
        self._ran = False
        self.found: EarlyRun | Remembered | None = None
        """What can answer the call without a run for it."""
        self.read: Read | None = None
        """What the call depends on, where its result is to be remembered."""
        self.later = False
        """The run goes on after this block; another watch records it."""
        self.goes_on: object = None
        """The generator that the call hands out: it has ended once nobody holds that any more."""

    def __enter__(self) -> Call:
        box, clock = self._box, self._box.clock
        self._within = within = current.get().of(box.registry.owner)
        self._started, self._tick = clock.wall(), clock.monotonic()
        if self._looks:
            try:
                self._look(box, within)
            except NotProven:
                raise
            except Exception:
                if box.speculator.strict:
                    raise
                log.exception("agentaccel: could not look for an early result; the call runs")
        self._began = box.listeners.begins(self._started, kept_name(self._known.name))
        if self.found is None:
            self._runs()
        return self

    def _look(self, box: Calling, within: Within) -> None:
        """Whether the call can be answered, and what to remember of it. Calls inside early runs only run."""
        serving = box.serving
        if within.early is not None:
            if not serving.tools.at_once(self._known) and not serving.judging.reads(self._known, self._call):
                serving.buffer.drop(within.early, EarlyRunState.FAILED)
                serving.tools.wrote(within.early.call.name)
                raise NotProven(f"{self._known.name} may write, and it was called in a run that nobody asked for")
            return
        if not serving.buffer and not serving.remembers(self._known):
            return
        self._here = box.conversation(self._call, within, surely=True)
        if self._here is None or not box.speculator.acts(self._here, within):
            return
        if self._here.following.unseen or not serving.tools.stands(self._known, self._here.id):
            return
        self.found, self.read = serving.look(self._known, self._call, self._here)

    def _runs(self) -> None:
        known, self._ran = self._known, True
        known.begins()
        self._mark = self._box.serving.writes.begins(known, self._call)

    async def answer(self, execute: Callable[[], Awaitable[Any]]) -> Any:
        """The result that was found; `MISS` where the call is to be run after all."""
        found = self.found
        if isinstance(found, EarlyRun):
            result, self._served = await self._box.serving.join(found, execute)
            if result is MISS:
                self._runs()
            return result
        return self.answer_here()

    def answer_here(self) -> Any:
        """The same without waiting on an event loop."""
        found, here, serving = self.found, self._here, self._box.serving
        assert here is not None
        if isinstance(found, Remembered):
            result, self._served = serving.recall(found, here)
            return result
        assert found is not None
        result, self._served = serving.join_here(found)
        if result is MISS:
            self._runs()
        return result

    def returned(self, result: Any) -> Any:
        """The run has returned `result`, which goes on to the caller."""
        if self.read is not None:
            now = self._box.clock.monotonic()
            self._box.serving.memo.keep(self.read, result, now - self._tick, now)
        return result

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        box, seconds = self._box, self._box.clock.monotonic() - self._tick
        outcome: Outcome = "ok"
        if error is not None:
            outcome = outcome_of(error)
            box.serving.rates.failed(self._known.name, error, self._tick + seconds)
        if self._ran:
            self._ended(seconds, returned=error is None and not self.later)
        if self.later:
            if self._began is not None:
                box.listeners.ended(self._began, None)
            return
        record = self._record(self._started + seconds, outcome, type(error).__name__ if error is not None else None)
        box.recorder.write(record)
        if self._began is not None:
            box.listeners.ended(self._began, Told(record, self._call.id))

    def _ended(self, seconds: float, *, returned: bool) -> None:
        known, box = self._known, self._box
        known.running -= 1
        if self._mark is not None and self.goes_on is not None:
            weakref.finalize(
                self.goes_on, when_free, functools.partial(box.serving.writes.ends, self._mark)
            ).atexit = False
        elif self._mark is not None:
            box.serving.writes.ends(self._mark)
            self._here = self._here or box.conversation(self._call, self._within)
            box.speculator.wrote(self._call, known, self._here, self._within)
        if returned:
            box.serving.took(known, seconds)

    def _record(self, finished: float, outcome: Outcome, error: str | None) -> ToolRecord:
        here, served = self._here or self._box.conversation(self._call, self._within), self._served
        return ToolRecord(
            session=here.id if here is not None else "",
            name=kept_name(self._call.name),
            key=identity_of(self._call, self._box.recorder.key).hex(),
            started=self._started,
            finished=finished,
            outcome=outcome,
            error=error,
            agent=here.agent if here is not None else None,
            tenant=here.tenant if here is not None else None,
            speculative=self._within.early is not None,
            served_from=served.source if served is not None else None,
            hidden=served.hidden if served is not None else None,
        )
