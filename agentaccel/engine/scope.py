"""What the user opens and leaves: `Session`, and the one context variable that says which one is open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, NamedTuple, Protocol, TypeVar, overload

from agentaccel.concurrency import Background
from agentaccel.engine.conversation import Conversation
from agentaccel.errors import ConfigError, SessionClosedError
from agentaccel.former import warn_former
from agentaccel.predict.stats import SpeculationStats
from agentaccel.tools.early import EarlyRun
from agentaccel.turn import Resend
from agentaccel.types import Endpoint, Request, ToolCall
from agentaccel.values import maker

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Stay:
    """Being inside of a session, or of code whose calls go out as written."""

    session: Session | None = None
    """None where calls go out as written, and beside others."""
    beside: tuple[str, ...] = ()
    """As in `TurnRecord`, of the calls made inside."""
    over: bool = False
    """Whether it ended in another context than it began in, as where the reader of an async generator breaks off: there
    it would else go on for ever."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What the surrounding code has said about the calls made in it."""

    stays: tuple[Stay, ...] = ()
    """In sessions of all `Accel`s, and in code whose calls go out as written; the innermost last."""
    announces: bool = False
    """Whether what is called in it is not to be sent, but only announced."""
    early: EarlyRun | None = None
    """The early run that it is part of; None in the agent's own code."""

    @property
    def bypass(self) -> bool:
        """Whether calls go out as written."""
        return any([one.session is None and not one.beside and not one.over for one in self.stays])

    def entering(self, stay: Stay) -> Scope:
        """The same inside of `stay`."""
        return replace(self, stays=(*[one for one in self.stays if not one.over], stay))

    def of(self, owner: int) -> Within:
        """The same as one `Accel` sees it: without sessions of another's; and without an early run that is past, of
        which this is what it has left behind."""
        session, bypass, early, beside = None, False, self.early, tuple[str, ...]()
        for one in self.stays:
            if one.over:
                continue
            if one.beside:
                beside = one.beside
            elif one.session is None:
                bypass = True
            elif one.session.owner == owner:
                session = one.session
        return _within(session, bypass, None if early is not None and early.past else early, beside)


class Within(NamedTuple):
    """Where a call is made, as one `Accel` sees it."""

    session: Session | None
    """The innermost that is open. A task that goes on after it was left stays in it, and is told so."""
    bypass: bool = False
    """Whether calls go out as written."""
    early: EarlyRun | None = None
    """As in `Scope`."""
    beside: tuple[str, ...] = ()
    """As in `Stay`."""


_within = maker(Within)


class Sender(NamedTuple):
    """What is known of whoever sends a request."""

    headers: frozenset[str] = frozenset()
    """Names of the headers that it sends, in lower case, where they matter."""
    joinable: bool = False
    """True if it can put a streamed reply together for a caller that asks for a whole one."""


NO_SENDER = Sender()


class Announced(BaseException):
    """Stops a request that is only announced, in the place of sending it; it says how it would have been sent.

    It is no error, and nothing that catches errors on the way is to see it.
    """

    def __init__(
        self,
        request: Request,
        endpoint: Endpoint,
        model: str = "",
        resend: Resend | None = None,
        sender: Sender = NO_SENDER,
    ) -> None:
        super().__init__("announced")
        self.request, self.endpoint, self.model, self.sender = request, endpoint, model, sender
        self.resend = resend
        """None where nothing is to be written ahead, as of one that was signed."""


current: ContextVar[Scope] = ContextVar("agentaccel.scope", default=Scope())  # noqa: B039 - Scope is immutable
"""The one context variable: it crosses code that is not ours."""


class Entered(NamedTuple):
    """A stay that has begun."""

    stay: Stay
    inside: Scope
    token: Token[Scope]

    def leave(self) -> None:
        """End it, wherever this is."""
        self.stay.over = not self.left_here()

    def left_here(self) -> bool:
        """End it where it began in this context, and say so. What was entered after it, and is not left, goes on."""
        now = current.get()
        try:
            current.reset(self.token)
        except ValueError:
            return False
        if now is not self.inside:
            current.set(replace(now, stays=tuple([one for one in now.stays if one is not self.stay])))
        return True


def enter(stay: Stay) -> Entered:
    """Begin `stay` in this context."""
    inside = current.get().entering(stay)
    return Entered(stay, inside, current.set(inside))


@contextmanager
def announcing(session: Session) -> Iterator[list[Announced]]:
    """What is called inside is announced in place of sent; the list then says how it would have been sent."""
    stopped: list[Announced] = []
    current.set(Scope(stays=(Stay(session),), announces=True))
    try:
        yield stopped
    except Announced as announced:
        stopped.append(announced)


class Announce(Protocol):
    """Takes the announcement of a session's next request."""

    def __call__(self, session: Session, create: Callable[..., object], request: dict[str, Any]) -> None: ...


class CallAnswerer(Protocol):
    """Answers tool calls."""

    async def run(self, call: ToolCall, execute: Callable[[], Awaitable[Any]]) -> Any: ...
    def run_here(self, call: ToolCall, execute: Callable[[], Any]) -> Any: ...
    async def run_unrecorded(self, call: ToolCall, execute: Callable[[], Awaitable[Any]]) -> Any: ...
    def left(self, conversation: Conversation) -> None: ...


class OnlyRuns:
    """Runs tool calls and does nothing else: agentaccel is off."""

    async def run(self, call: ToolCall, execute: Callable[[], Awaitable[Any]]) -> Any:
        return await execute()

    run_unrecorded = run

    def run_here(self, call: ToolCall, execute: Callable[[], Any]) -> Any:
        return execute()

    def left(self, conversation: Conversation) -> None:
        pass


def tool_call_of(name: object, arguments: Any, execute: object, provider_id: str | None) -> ToolCall:
    """What somebody who runs a tool says of the call. Raises `ConfigError` where that cannot be meant."""
    if not isinstance(name, str) or not callable(execute):
        raise ConfigError("tool takes a name, arguments and a function: tool('search', {'query': 'lamps'}, run)")
    return ToolCall(name=name, arguments=arguments, id=provider_id)


class Session:
    """A conversation with a name. Use it as a context manager, synchronous or not:

        async with accel.session("ticket-4711", agent="support"):
            ...                       # every model and tool call in here belongs to it

    Calls made while it is open, also in tasks started in it, belong to it. A closed session cannot be entered again;
    open a new one with the same id to go on.
    """

    def __init__(
        self,
        conversation: Conversation,
        calls: CallAnswerer,
        background: Background | None = None,
        announce: Announce | None = None,
        *,
        owner: int,
    ) -> None:
        self.owner = owner
        """Whose it is: what differs between two `Accel`s of a process."""
        self.conversation = conversation
        """What has been seen of it; for the parts of agentaccel, not part of the public API."""
        self._calls = calls
        self._background = background
        self._announce = announce
        self._entered: list[Entered] = []
        self.closed = False

    @property
    def id(self) -> str:
        """As records and reports have it: the id that it was opened by, with a tenant `@tenant/id`."""
        return self.conversation.id

    @property
    def agent(self) -> str | None:
        return self.conversation.agent

    @property
    def tenant(self) -> str | None:
        return self.conversation.tenant

    @property
    def parent(self) -> str | None:
        return self.conversation.parent

    @property
    def speculation(self) -> SpeculationStats:
        """What running its tools early has come to: launched, served, stale, …; seconds hidden and wasted."""
        return self.conversation.ledger

    @overload
    async def tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        execute: Callable[[], Awaitable[T]],
        *,
        id: str | None = None,
    ) -> T: ...
    @overload
    async def tool(self, name: ToolCall, arguments: Callable[[], Awaitable[T]]) -> T: ...
    async def tool(
        self,
        name: Any = None,
        arguments: Any = None,
        execute: Any = None,
        *,
        id: str | None = None,  # noqa: A002 - the word of the providers
        call: ToolCall | None = None,
    ) -> Any:
        """Answer one tool call, by an early run or by `execute`, and record the call; exceptions pass untouched.

            result = await session.tool("search", {"query": "lamps"}, lambda: search("lamps"))

        `id` is the provider's id of the call. Where this `Accel` has wrapped a tool called `name`, the function that
        was wrapped is taken to be what `execute` runs. Cancelling the caller cancels `execute`. In a closed session the
        call runs and is not recorded. `tool(call, execute)` is the former form. Raises `ConfigError` if `name` is no
        string or `execute` no function.
        """
        former = call or name
        if isinstance(former, ToolCall):
            warn_former("Session.tool(call, execute)", "Session.tool(name, arguments, execute)")
            call, execute = former, execute or arguments
        else:
            call = tool_call_of(name, arguments, execute, id)
        if self.closed:
            return await self._calls.run_unrecorded(call, execute)
        entered = enter(Stay(self))  # another one may be open in here
        try:
            return await self._calls.run(call, execute)
        finally:
            entered.leave()

    def prewarm(self, create: Callable[..., object], /, **request: Any) -> None:
        """Announce that the next request of this session begins so: the method of a wrapped client that will send it,
        and all that is known of it already.

            session.prewarm(client.messages.create, model=MODEL, system=RULES, tools=TOOLS)

        Returns at once and raises nothing. With consent (`CachePolicy.prewarm`), and where the seconds won are worth
        what it costs, a request of our own writes that in the background, until the session is left.
        """
        if self._announce is not None and self._entered and not current.get().bypass:
            self._announce(self, create, request)

    def __enter__(self) -> Session:
        if self.closed:
            raise SessionClosedError(f"session {self.id!r} was left; to go on, open it again with accel.session")
        with self.conversation.lock:
            self.conversation.open += 1
            self.conversation.left = False
        self._entered.append(enter(Stay(self)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._exit() and self._background is not None:
            self._calls.left(self.conversation)
            self._background.leave(self.id)

    def _exit(self) -> bool:
        """Leave what was entered last here; whether nobody is in the conversation any more. Closed once nobody is in
        this handle."""
        if not self._entered:
            self.closed = True
            return False
        here = next((i for i in reversed(range(len(self._entered))) if self._entered[i].left_here()), None)
        ended = self._entered.pop(-1 if here is None else here)
        ended.stay.over = here is None
        self.closed = not self._entered
        with self.conversation.lock:
            self.conversation.open -= 1
            self.conversation.left = self.conversation.open == 0
            if self.conversation.left:
                self.conversation.latest = None  # it holds a whole prompt
            return self.conversation.left

    async def __aenter__(self) -> Session:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._exit() and self._background is not None:
            self._calls.left(self.conversation)
            await self._background.leave_async(self.id)


@contextmanager
def bypassed() -> Iterator[None]:
    """Model and tool calls made inside go out as written, and are recorded as bypassed."""
    entered = enter(Stay())
    try:
        yield
    finally:
        entered.leave()


@contextmanager
def standing_beside(names: tuple[str, ...]) -> Iterator[None]:
    """Model calls made inside are recorded as made beside these."""
    if not names:
        yield
        return
    entered = enter(Stay(beside=names))
    try:
        yield
    finally:
        entered.leave()
