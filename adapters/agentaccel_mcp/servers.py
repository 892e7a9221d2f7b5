"""What a server lists, and what runs its tools early."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mcp import ClientSession

from agentaccel import Accel


class Answer(NamedTuple):
    """What a call of a tool has come to."""

    result: Any
    line: int
    """Over which line it came: to another one, the server may say something else."""


@dataclass(eq=False)
class Line:
    """One session with a server, as it was before anything was put around it."""

    session: ClientSession
    call_tool: Callable[..., Awaitable[Any]]
    number: int = field(default_factory=itertools.count().__next__)

    @property
    def is_open(self) -> bool:
        """False once it is known that the session was left."""
        tasks: Any = getattr(self.session, "_task_group", None)  # private, and the only sign of it
        return tasks is None or not tasks.cancel_scope.cancel_called


_LINES: ContextVar[tuple[tuple[Server, Line], ...]] = ContextVar("agentaccel.mcp", default=())
"""Those that were wrapped in this context: agents that go on side by side have sessions of their own."""


@dataclass(eq=False)
class Server:
    """One server, whichever sessions lead to it: what it has said of its tools outlasts each of them."""

    first: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """How it has listed each tool at first."""
    listed: frozenset[str] = frozenset()
    """The tools whose listing stands."""
    lines: list[Line] = field(default_factory=list)
    _functions: dict[str, Callable[..., Awaitable[Answer]]] = field(default_factory=dict)

    def hears(self, tools: Iterable[Any], *, whole: bool) -> dict[str, Mapping[str, Any]]:
        """Take a list of tools, the `whole` or a page of it; gives each by its name, as it is listed."""
        found = {one["name"]: one for one in map(_as_json, tools)}
        self.listed = frozenset(found) | (frozenset() if whole else self.listed)
        for name, listing in found.items():
            self.first.setdefault(name, listing)
        return found

    def joins(self, line: Line) -> None:
        """Another session leads to it, and belongs to what goes on in this context."""
        self.lines = [one for one in self.lines if one.is_open] + [line]
        _LINES.set((*[one for one in _LINES.get() if one[1].is_open], (self, line)))

    def leaves(self, line: Line) -> None:
        self.lines = [one for one in self.lines if one is not line]

    def function(self, tool: str) -> Callable[..., Awaitable[Answer]]:
        """What runs a tool early: the same function, whichever session leads to it."""

        async def run(**arguments: Any) -> Answer:
            line = self._line()
            if line is None or tool not in self.listed:
                raise LookupError("it is not known which session this is for, or whether the tool is what it was")
            result = await line.call_tool(tool, arguments)
            if getattr(result, "isError", None) or getattr(result, "is_error", None):
                raise LookupError("the tool has failed")
            return Answer(result, line.number)

        return self._functions.setdefault(tool, run)

    def _line(self) -> Line | None:
        """The session that is meant here: the only one of this context; where that had none, the only one."""
        here = [line for server, line in _LINES.get() if server is self] or self.lines
        meant = [line for line in here if line in self.lines and line.is_open]
        return meant[0] if len(meant) == 1 else None


def _as_json(tool: Any) -> Mapping[str, Any]:
    """A tool as it is on the wire, by whichever version of the SDK it was read."""
    if isinstance(tool, Mapping):
        return dict(tool)
    listing: Mapping[str, Any] = tool.model_dump(mode="json", by_alias=True, exclude_none=True)
    return listing


_SERVERS: weakref.WeakKeyDictionary[Accel, dict[tuple[str, str], Server]] = weakref.WeakKeyDictionary()


def server_of(accel: Accel, name: str, prefix: str) -> Server:
    """The server of this name."""
    return _SERVERS.setdefault(accel, {}).setdefault((name, prefix), Server())
