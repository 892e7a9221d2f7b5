"""What the user opens and leaves: `Session`, and the one context variable that says which one is open."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import TracebackType
from typing import TypeVar

from agentaccel.background import Background
from agentaccel.errors import SessionClosed
from agentaccel.session.conversation import Conversation
from agentaccel.types import ToolCall

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Scope:
    """What the surrounding code has said about the calls made in it."""

    session: Session | None = None
    bypass: bool = False


current: ContextVar[Scope] = ContextVar("agentaccel.scope", default=Scope())  # noqa: B039 - Scope is immutable
"""The one context variable: it crosses code that is not ours."""


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
        watch: Callable[[ToolCall], AbstractContextManager[object]],
        background: Background | None = None,
    ) -> None:
        self._conversation = conversation
        self._watch = watch
        self._background = background
        self._tokens: list[Token[Scope]] = []
        self.closed = False

    @property
    def id(self) -> str:
        return self._conversation.id

    @property
    def agent(self) -> str | None:
        return self._conversation.agent

    @property
    def tenant(self) -> str | None:
        return self._conversation.tenant

    @property
    def parent(self) -> str | None:
        return self._conversation.parent

    @property
    def conversation(self) -> Conversation:
        """What has been seen of it; for the parts of agentaccel, not part of the public API."""
        return self._conversation

    async def tool(self, call: ToolCall, execute: Callable[[], Awaitable[T]]) -> T:
        """Run one tool call through `execute` and record it; its exceptions pass untouched.

        Cancelling the caller cancels `execute`. In a closed session the call runs and is not recorded.
        """
        if self.closed:
            return await execute()
        with self._watch(call):
            return await execute()

    def __enter__(self) -> Session:
        if self.closed:
            raise SessionClosed(f"session {self.id!r} was left; open it again with accel.session({self.id!r})")
        with self._conversation.lock:
            self._conversation.open += 1
        self._tokens.append(current.set(Scope(session=self)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._exit() and self._background is not None:
            self._background.leave(self.id)

    def _exit(self) -> bool:
        """Close this handle; whether it was the last one open."""
        self.closed = True
        last = False
        for token in self._tokens:
            _reset(token)
            with self._conversation.lock:
                self._conversation.open -= 1
                last = self._conversation.open == 0
        self._tokens.clear()
        return last

    async def __aenter__(self) -> Session:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._exit() and self._background is not None:
            await self._background.leave_async(self.id)


def _reset(token: Token[Scope]) -> None:
    try:
        current.reset(token)
    except ValueError:
        # Left in another context than it was entered in (an async generator's finaliser): nothing of ours to undo.
        return


@contextmanager
def bypassed() -> Iterator[None]:
    """Model and tool calls made inside go out as written, and are recorded as bypassed."""
    token = current.set(Scope(session=current.get().session, bypass=True))
    try:
        yield
    finally:
        _reset(token)
