"""Running a tool early: the very executor of the real call, in a task or a thread that a session owns.

What is begun here ends in the buffer: as a result that waits for its call, or as a failure that nobody hears of. It is
told to listeners once, flagged as speculative, and recorded once it is known what came of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import inspect
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from types import FunctionType, ModuleType
from typing import Any

from agentaccel.clock import Clock
from agentaccel.concurrency import Background
from agentaccel.effects.spec import running_early
from agentaccel.engine.conversation import Conversation
from agentaccel.engine.lineage import identity_of
from agentaccel.engine.scope import current
from agentaccel.hashing import wire_bytes
from agentaccel.hooks import Began, HookList, Told
from agentaccel.locks import forks
from agentaccel.policy import ToolPolicy
from agentaccel.predict.identity import is_plain
from agentaccel.records import Outcome, ToolRecord, outcome_of
from agentaccel.store.recorder import Recorder
from agentaccel.tools.catalog import KnownTool, Tools
from agentaccel.tools.early import EarlyRun, EarlyRuns, EarlyRunState
from agentaccel.tools.rates import Rates
from agentaccel.values import kept_name

# --- How large a result is, as far as that can be told quickly and without asking it anything -------------------------

WITHIN = 2
"""Objects within objects that are looked into: a result of MCP is a list of parts, and each part has a text. What lies
deeper may be the whole program."""
_MOST_PARTS = 10_000
"""Parts that are looked at: the event loop stands still meanwhile. What has more is as large as what was seen of it."""


def size_of(result: Any, most: int) -> int:
    """Bytes of a result: of its JSON; where it has none, of the texts and bytes in its lists and attributes, up to
    about `most`, beyond which nobody needs to know.

    >>> size_of("é", 100), size_of({"a": 1}, 100), size_of((b"abc", "d"), 100)
    (2, 7, 4)
    """
    if isinstance(result, str):
        return len(result) if result.isascii() else len(result.encode("utf-8", "replace"))
    if isinstance(result, bytes | bytearray):
        return len(result)
    return len(wire_bytes(result)) if is_plain(result) else _within(result, most)


def _within(result: Any, most: int) -> int:
    total, parts, seen = 0, 0, set[int]()
    left: list[tuple[Any, int]] = [(result, WITHIN)]
    while left and parts < _MOST_PARTS and total <= most:
        parts += 1
        one, deep = left.pop()
        if isinstance(one, str | bytes | bytearray):
            total += len(one)
        elif id(one) not in seen:  # an object that holds itself, or the same one twice over
            seen.add(id(one))
            if isinstance(one, dict):
                left += [(part, deep) for part in islice(chain(one.values(), one), _MOST_PARTS)]
            elif isinstance(one, list | tuple | set | frozenset):
                left += [(part, deep) for part in islice(one, _MOST_PARTS)]
            elif deep and not isinstance(one, type | ModuleType | FunctionType):
                left += [(part, deep - 1) for part in _attributes(one)]
    return total


def _attributes(one: object) -> Iterable[Any]:
    """What it holds by a public name; another may lead to what it merely refers to, such as the session of a database.
    Nothing of the user's is run for that, but what a class does to be asked for a name."""
    try:
        named = [value for name, value in getattr(one, "__dict__", {}).items() if not name.startswith("_")]
        slots = [kind.__dict__.get("__slots__", ()) for kind in type(one).__mro__]
        names = [name for given in slots for name in ((given,) if isinstance(given, str) else given)]
        return named + [getattr(one, name) for name in names if not name.startswith("_") and hasattr(one, name)]
    except Exception:  # noqa: BLE001 - an object of the user's that tells nothing has no size that we know
        return ()


log = logging.getLogger("agentaccel")


@dataclass(slots=True, eq=False)
class EarlyExecution:
    """An early run under way."""

    work: asyncio.Task[Any] | Future[Any] | None = None
    guard: asyncio.Timeout | None = None
    """Ends it when it takes too long; None before it has begun."""
    patient: bool = False
    """Whether a caller waits for it."""

    def waitable(self) -> asyncio.Future[Any] | None:
        """What can be awaited on the running loop; None for a task of another loop."""
        if isinstance(self.work, asyncio.Task):
            return self.work if self.work.get_loop() is asyncio.get_running_loop() else None
        return None if self.work is None else asyncio.wrap_future(self.work)

    def awaited(self) -> None:
        """A caller waits for it whatever it takes: from here on that is for the caller to end."""
        self.patient = True
        self._reschedule(None)

    def unawaited(self, seconds: float) -> None:
        """That caller has given up: after so many seconds it ends, unless another one waits for it."""
        self.patient = False
        self._reschedule(seconds)

    def _reschedule(self, seconds: float | None) -> None:
        if self.guard is None or self.guard.expired() or not self._is_here():
            return
        with contextlib.suppress(RuntimeError):  # it has just ended
            self.guard.reschedule(None if seconds is None else asyncio.get_running_loop().time() + seconds)

    def cancel(self) -> None:
        """Nobody needs it any more. Best effort, and no undo: a thread goes on to its end."""
        if isinstance(self.work, asyncio.Task) and not self._is_here():
            with contextlib.suppress(RuntimeError):  # its event loop was closed under it
                self.work.get_loop().call_soon_threadsafe(self.work.cancel)
        elif self.work is not None:
            self.work.cancel()

    def is_lost(self) -> bool:
        """Whether it never ends, because its event loop was closed under it."""
        return isinstance(self.work, asyncio.Task) and not self.work.done() and self.work.get_loop().is_closed()

    def _is_here(self) -> bool:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False
        return isinstance(self.work, asyncio.Task) and self.work.get_loop() is loop


@dataclass(slots=True, kw_only=True)
class Runner:
    """Begins early runs for one `Accel`."""

    policy: ToolPolicy
    clock: Clock
    recorder: Recorder
    listeners: HookList
    background: Background
    buffer: EarlyRuns
    tools: Tools
    rates: Rates
    _under_way: set[EarlyRun] = field(default_factory=set)
    _forks: int = field(default_factory=forks)

    @property
    def free(self) -> int:
        """How many more may be begun now."""
        if self._forks != forks():  # what the parent runs does not run here
            self._forks = forks()
            self._under_way.clear()
        if len(self._under_way) >= self.policy.concurrency:
            for entry in [one for one in tuple(self._under_way) if one.handle.is_lost()]:
                self._over(entry)
        return self.policy.concurrency - len(self._under_way)

    def under_way(self, name: str | None = None) -> int:
        """How many are: all of them, or those of one tool."""
        return sum(name is None or entry.call.name == name for entry in tuple(self._under_way))

    def start(
        self,
        tool: KnownTool,
        entry: EarlyRun,
        conversation: Conversation,
        *,
        then: Callable[[EarlyRun], None] | None = None,
        told: Callable[[EarlyRun], None],
    ) -> None:
        """Begin the run of `entry`, which is in the buffer from here on. An async tool needs a running event loop.

        `then`: told when its result is there. `told`: told when it is known what came of it.
        """
        context = contextvars.copy_context()
        context.run(current.set, replace(current.get(), early=entry))
        calls = tool.calls
        entry.repeated = lambda: tool.calls > calls
        entry.handle = run = EarlyExecution()
        made = self.buffer.put(entry)
        if made is not None and made.handle is not None:
            made.handle.cancel()
        self._under_way.add(entry)
        owner, telling = conversation.id, _RunReport(self, entry, conversation, then, told)
        if tool.is_async:
            task = self.background.spawn(owner, partial(self._run_async, tool, telling), context)
            task.add_done_callback(lambda done: self._over(entry))
            run.work = task
        else:
            run.work = self.background.submit(owner, partial(context.run, partial(self._run_sync, tool, telling)))
            run.work.add_done_callback(lambda done: self._over(entry))

    def _over(self, entry: EarlyRun) -> None:
        self._under_way.discard(entry)
        if not entry.over:  # cancelled before it had begun
            self.buffer.failed(entry, self.clock.monotonic())

    async def _run_async(self, tool: KnownTool, told: _RunReport) -> None:
        entry = told.begins()
        assert tool.function is not None
        try:
            limit = None if entry.handle.patient else self.policy.timeout  # a caller may have come before it began
            with running_early(is_over=lambda: entry.past):
                async with asyncio.timeout(limit) as entry.handle.guard:
                    result = await tool.function(**copy.deepcopy(dict(entry.call.arguments)))
        except (asyncio.CancelledError, KeyboardInterrupt) as end:
            self._failed(told, "cancelled", type(end).__name__)
            raise
        except BaseException as failure:  # noqa: BLE001 - a miss: the real call tells its caller
            self._raised(told, failure)
        else:
            task = asyncio.current_task()
            if entry.handle.guard.expired() or (task is not None and task.cancelling()):
                self._failed(told, "cancelled", "CancelledError")  # the tool gave what it had by then
            else:
                self._finished(told, tool, result)

    def _run_sync(self, tool: KnownTool, told: _RunReport) -> None:
        entry = told.begins()
        assert tool.function is not None
        try:
            with running_early(is_over=lambda: entry.past):
                result = tool.function(**copy.deepcopy(dict(entry.call.arguments)))
        except BaseException as failure:  # noqa: BLE001 - the thread is ours, and ends here
            self._raised(told, failure)
            return
        if entry.tier == "predicted" and self.clock.monotonic() - entry.born > self.policy.timeout:
            self._failed(told, "failed", "TimeoutError")
        else:
            self._finished(told, tool, result)

    def _finished(self, told: _RunReport, tool: KnownTool, result: Any) -> None:
        entry = told.entry
        if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
            self._failed(told, "failed", "NotAResult")  # it is still to run
            return
        undisturbed = not tool.spec.own and self.buffer.world.holds(entry.version, entry.scope)
        if entry.state is EarlyRunState.RUNNING and undisturbed and not entry.unchanged():
            self.tools.wrote(tool.name)  # of what is seen here, nothing that may write ran but this
        if size_of(result, self.policy.max_result_bytes) > self.policy.max_result_bytes:
            self._failed(told, "failed", "ResultTooLarge")
            return
        self.buffer.finished(entry, result, self.clock.monotonic())
        told.ended()
        self._under_way.discard(entry)
        if told.then is not None and entry.state is EarlyRunState.FINISHED:
            told.then(entry)

    def _raised(self, told: _RunReport, failure: BaseException) -> None:
        self.rates.failed(told.entry.call.name, failure, self.clock.monotonic())
        self._failed(told, outcome_of(failure), type(failure).__name__)

    def _failed(self, told: _RunReport, outcome: Outcome, error: str) -> None:
        told.outcome, told.error = outcome, error
        self.buffer.failed(told.entry, self.clock.monotonic())
        told.ended()


class _RunReport:
    """Tells listeners of an early run as it ends, and the trace store once it is known what came of it."""

    def __init__(
        self,
        runner: Runner,
        entry: EarlyRun,
        conversation: Conversation,
        then: Callable[[EarlyRun], None] | None,
        told: Callable[[EarlyRun], None],
    ) -> None:
        self._runner, self.entry, self._conversation = runner, entry, conversation
        self.then, self._told = then, told
        self.outcome: Outcome = "ok"
        self.error: str | None = None
        clock = runner.clock
        self._started = clock.wall() - (clock.monotonic() - entry.born)
        self._began: Began | None = None
        entry.on_end = self._settled

    def begins(self) -> EarlyRun:
        """The run begins here, in the context that it ends in."""
        self._began = self._runner.listeners.begins(self._started, kept_name(self.entry.call.name))
        return self.entry

    def ended(self) -> None:
        """The run has ended, in the context that it began in."""
        if self._began is not None:
            self._runner.listeners.ended(self._began, Told(self._record(), self.entry.call.id))

    def _settled(self, entry: EarlyRun) -> None:
        self._told(entry)
        record = replace(
            self._record(),
            fate=entry.state.value,
            wasted=None if entry.state is EarlyRunState.SERVED else entry.seconds,
        )
        self._runner.recorder.write(record)

    def _record(self) -> ToolRecord:
        entry, conversation = self.entry, self._conversation
        return ToolRecord(
            session=conversation.id,
            name=kept_name(entry.call.name),
            key=identity_of(entry.call, self._runner.recorder.key).hex(),
            started=self._started,
            finished=self._started + entry.seconds,
            outcome=self.outcome,
            error=self.error,
            agent=conversation.agent,
            tenant=conversation.tenant,
            speculative=True,
        )


def shown(result: Any) -> str:
    """A result as the model will most likely see it, to predict from; empty where nobody can tell."""
    if isinstance(result, str):
        return result
    try:
        return wire_bytes(result).decode()
    except Exception:  # noqa: BLE001 - it holds itself, or an object of the user's that cannot be shown
        return ""
