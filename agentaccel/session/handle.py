"""What the user opens and leaves: `Session`, and the one context variable that says which one is open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Protocol, TypeVar, cast

from agentaccel.background import Background
from agentaccel.errors import SessionClosed
from agentaccel.session.conversation import Conversation
from agentaccel.speculate.buffer import Entry
from agentaccel.speculate.ledger import Ledger
from agentaccel.turn import Resend
from agentaccel.types import Endpoint, Request, ToolCall

T = TypeVar("T")


@dataclass(slots=True)
class Bypassing:
    """One stretch of code whose calls go out as written."""

    around: Bypassing | None
    over: bool = False
    """Whether it was left in another context than it was entered in, where it would else go on for ever."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What the surrounding code has said about the calls made in it.

    What was entered may be left in another context, as an async generator is whose reader breaks off: then it is still
    there, and says itself that it is over.
    """

    sessions: tuple[Session, ...] = ()
    """Those that were entered, of all `Accel`s, the innermost last."""
    bypassing: Bypassing | None = None
    announces: bool = False
    """Whether what is called in it is not to be sent, but only announced."""
    early: Entry | None = None
    """The early run that it is part of; None in the agent's own code."""

    @property
    def session(self) -> Session | None:
        """The innermost that is open; where none is, the innermost."""
        for one in reversed(self.sessions):
            if not one.closed:
                return one
        return self.sessions[-1] if self.sessions else None

    @property
    def bypass(self) -> bool:
        """Whether calls go out as written."""
        one = self.bypassing
        while one is not None and one.over:
            one = one.around
        return one is not None

    def entering(self, session: Session) -> Scope:
        """The same inside of `session`."""
        return replace(self, sessions=(*[one for one in self.sessions if not one.closed], session))

    def of(self, owner: int) -> Scope:
        """The same as one `Accel` sees it: with the sessions that were entered there, and none of another's; and
        without an early run that was served, of which this is what it has left behind."""
        if self.early is not None and self.early.served:
            return replace(self, early=None).of(owner)
        for one in self.sessions:
            if one.owner != owner:
                return replace(self, sessions=tuple([one for one in self.sessions if one.owner == owner]))
        return self


class Announced(BaseException):
    """Stops a request that is only announced, in the place of sending it; it says how it would have been sent.

    It is no error, and nothing that catches errors on the way is to see it.
    """

    def __init__(self, request: Request, endpoint: Endpoint, model: str, resend: Resend | None) -> None:
        super().__init__("announced")
        self.request, self.endpoint, self.model = request, endpoint, model
        self.resend = resend
        """None where it cannot be changed, as one that was signed."""


current: ContextVar[Scope] = ContextVar("agentaccel.scope", default=Scope())  # noqa: B039 - Scope is immutable
"""The one context variable: it crosses code that is not ours."""


class Announce(Protocol):
    """Takes the announcement of a session's next request."""

    def __call__(self, session: Session, create: Callable[..., object], request: dict[str, Any]) -> None: ...


class Calls(Protocol):
    """Answers the tool calls of sessions."""

    async def run(self, call: ToolCall, execute: Callable[[], Awaitable[Any]]) -> Any: ...
    async def run_unrecorded(self, call: ToolCall, execute: Callable[[], Awaitable[Any]]) -> Any: ...
    def left(self, conversation: Conversation) -> None: ...


class OnlyRuns:
    """Runs the tool calls of sessions and does nothing else: agentaccel is off."""

    async def run(self, call: ToolCall, execute: Callable[[], Awaitable[Any]]) -> Any:
        return await execute()

    run_unrecorded = run

    def left(self, conversation: Conversation) -> None:
        pass


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
        calls: Calls,
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
        self._tokens: list[Token[Scope]] = []
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
    def speculation(self) -> Ledger:
        """What running its tools early has come to: launched, served, stale, …; seconds hidden and wasted."""
        return self.conversation.ledger

    async def tool(self, call: ToolCall, execute: Callable[[], Awaitable[T]]) -> T:
        """Answer one tool call, by what was begun early or by `execute`, and record it; exceptions pass untouched.

        Where this `Accel` has wrapped a tool of that name, the function that was given to it is taken to be what
        `execute` runs. Cancelling the caller cancels `execute`. In a closed session the call runs and is not recorded.
        """
        if self.closed:
            return cast(T, await self._calls.run_unrecorded(call, execute))
        token = current.set(current.get().entering(self))  # another one may be open in here
        try:
            return cast(T, await self._calls.run(call, execute))
        finally:
            _reset(token)

    def prewarm(self, create: Callable[..., object], /, **request: Any) -> None:
        """Announce that the next request of this session begins so: the method of a wrapped client that will send it,
        and all that is known of it already.

            session.prewarm(client.messages.create, model=MODEL, system=RULES, tools=TOOLS)

        Returns at once and raises nothing. With consent (`CachePolicy.prewarm`), and where the seconds won are worth
        what it costs, a request of our own writes that in the background, until the session is left.
        """
        if self._announce is not None and self._tokens and not current.get().bypass:
            self._announce(self, create, request)

    def __enter__(self) -> Session:
        if self.closed:
            raise SessionClosed(f"session {self.id!r} was left; to go on, open it again with accel.session")
        with self.conversation.lock:
            self.conversation.open += 1
            self.conversation.left = False
        self._tokens.append(current.set(current.get().entering(self)))
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
        if not self._tokens:
            self.closed = True
            return False
        entered = next((token for token in reversed(self._tokens) if _reset(token)), self._tokens[-1])
        self._tokens.remove(entered)
        self.closed = not self._tokens
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


def _reset(token: Token[Scope]) -> bool:
    """Undo what was set; False where that was in another context (an async generator's finaliser): it is gone there."""
    try:
        current.reset(token)
    except ValueError:
        return False
    return True


@contextmanager
def bypassed() -> Iterator[None]:
    """Model and tool calls made inside go out as written, and are recorded as bypassed."""
    scope = current.get()
    bypassing = Bypassing(scope.bypassing)
    token = current.set(replace(scope, bypassing=bypassing))
    try:
        yield
    finally:
        if not _reset(token):
            bypassing.over = True
