"""What a user's functions make of a history while nobody waits: shorter results, and summaries.

Each is asked for once and used when it is there, in a request in which an edit pays. One that fails is a miss and one
log line.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from agentaccel.rewrite.edits import Summary

log = logging.getLogger("agentaccel")

T = TypeVar("T")


class Runs(Protocol):
    """Runs work in the background, for as long as the session `owner` is open."""

    def submit(self, owner: str, work: Callable[[], T]) -> Future[T]: ...


class Want(NamedTuple):
    """Something that a user's function is to make."""

    name: bytes
    """What it is known by."""
    what: str
    """The function's name, for the log."""
    function: Callable[[Any], str | Awaitable[str]]
    given: Any
    summary: Summary | None = None
    """Where it is to be one: what for."""


@dataclass(slots=True)
class Asides:
    """What was asked for in one session. Mutable; its conversation's lock guards it."""

    _asked: dict[bytes, Future[str | None]] = field(default_factory=dict)
    pending: Summary | None = None
    """The summary that was asked for last."""
    _seen: tuple[object, Mapping[bytes, str | None]] = (None, {})
    """What was there when the last request was first planned: planned again, it is planned alike."""

    def ask(self, owner: str, wants: Sequence[Want], runs: Runs) -> None:
        """Have them done for the session `owner`, each once. Results that are too many at a time are left for a later
        request, which wants them still; a summary is one, and waits for none of them."""
        wanted = {want.name for want in wants}
        room = _AT_ONCE - sum([not one.done() for one in self._asked.values()])
        for want in wants:
            if want.name in self._asked or (want.summary is None and room <= 0) or not self._forgets_for(wanted):
                continue
            if want.summary is not None:
                self.pending = want.summary
            self._asked[want.name] = runs.submit(owner, partial(_called, want))
            room -= want.summary is None

    def _forgets_for(self, wanted: Set[bytes]) -> bool:
        """Whether there is room for one more, once the oldest that nobody wants any more is forgotten."""
        if len(self._asked) < _MOST:
            return True
        oldest = next((name for name in self._asked if name not in wanted), None)
        if oldest is not None:
            self._asked.pop(oldest).cancel()
        return oldest is not None

    def ready(self, request: object) -> Mapping[bytes, str | None]:
        """What is there by now: a text, or None where there will be none. The same for the same `request`."""
        if self._seen[0] != request:
            self._seen = request, {name: _text(one) for name, one in self._asked.items() if one.done()}
        return self._seen[1]


_MOST = 512
"""Texts of one session that are kept or waited for."""
_AT_ONCE = 8
"""Results of one session that are made shorter at a time, each in a thread."""


def _text(done: Future[str | None]) -> str | None:
    return None if done.cancelled() or done.exception() is not None else done.result()


def _called(want: Want) -> str | None:
    """What the function makes; None and a log line where that is no text. An asynchronous one has a loop of its own."""
    try:
        made: object = want.function(want.given)
        if inspect.isawaitable(made):
            made = asyncio.run(_awaited(made))
    except BaseException:  # a cancellation or an exit, too, is that of our thread, which ends here
        log.warning("agentaccel: %s failed; %s", want.what, _GOES_ON, exc_info=True)
        return None
    if isinstance(made, str) and made.strip() and _encodes(made):
        return made
    log.warning("agentaccel: %s gave no text that can be sent; %s", want.what, _GOES_ON)
    return None


def _encodes(text: str) -> bool:
    """Whether it is UTF-8 once it is sent; half a surrogate pair is not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


_GOES_ON = "the history is sent without what it would have given"


async def _awaited(made: Awaitable[object]) -> object:
    return await made
