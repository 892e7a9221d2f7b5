"""The tool calls of a session of MCP, answered by what ran early or sent as before."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from mcp import ClientSession
from mcp.types import PaginatedRequestParams

from agentaccel import Accel, ConfigError, DeclaredTools, ToolSpec
from agentaccel_mcp.servers import Answer, Line, server_of

log = logging.getLogger("agentaccel")

S = TypeVar("S")
Reads = Iterable[str] | Mapping[str, Mapping[str, Any]]


async def wrap(
    session: S,
    accel: Accel,
    *,
    server: str,
    trusted: bool = False,
    reads: Reads = (),
    needs_approval: Iterable[str] = (),
    prefix: str = "",
) -> S:
    """Let tool calls of `session`, a `ClientSession` or a `Client` that is connected, be answered by `accel`, and give
    the same session back. Its tools are listed once.

    `server` names the server. `trusted` takes its word for which tools only read, and that these may run beside
    anything. `reads` names tools that change nothing, whatever the server says; a mapping declares more of each, by the
    fields of `ToolSpec`. `needs_approval` names those that a person, a rule or a limit may stop. `prefix` is what
    stands before the names of its tools where the model is offered them.

    The session itself is changed, because a connection cannot be copied, and a call that another holder of it makes may
    write: `call_tool` and `list_tools` are replaced until `unwrap`. A session that is wrapped is left as it is. Raises
    `ConfigError` for one that another `Accel` has wrapped, and for settings that cannot be meant.
    """
    if not isinstance(server, str) or not server.strip() or not isinstance(trusted, bool):
        raise ConfigError(f"wrap takes the name of a server, and whether it is trusted; got {server!r}, {trusted!r}")
    declared = DeclaredTools(reads, needs_approval)
    inner = _session(session)
    if accel.policy.mode == "off" or inner is None:
        return session
    known = _around(inner)
    if known is not None and known.accel is not accel:
        raise ConfigError("another Accel has wrapped this session: unwrap it first")
    if known is None:
        around = _Around(inner, accel, server, declared, trusted=trusted, prefix=prefix)
        await around.begin()
    return session


def unwrap(session: S) -> S:
    """Give a session its own methods back; one that is not wrapped is left as it is."""
    inner = _session(session)
    if inner is not None and (around := _around(inner)) is not None:
        around.end()
    return session


def _session(holder: object) -> ClientSession | None:
    """The session itself, or that of what holds one, such as the `Client` of mcp 2."""
    inner = holder if isinstance(holder, ClientSession) else getattr(holder, "session", None)
    if isinstance(inner, ClientSession):
        return inner
    log.warning("agentaccel: %s goes on as it did: wrap each session that it has", type(holder).__name__)
    return None


def _around(session: ClientSession) -> _Around | None:
    owner = getattr(session.call_tool, "__self__", None)
    return owner if isinstance(owner, _Around) else None


class _Around:
    """What stands around one session."""

    def __init__(
        self,
        session: ClientSession,
        accel: Accel,
        name: str,
        by_user: DeclaredTools,
        *,
        trusted: bool,
        prefix: str,
    ) -> None:
        self.accel, self._prefix, self._by_user = accel, prefix, by_user
        self._server = server_of(accel, name, prefix)
        self._session = session
        self._before = {name: value for name, value in vars(session).items() if name in _REPLACED}
        self._list, self._handler = session.list_tools, getattr(session, "_message_handler", None)
        self._line = Line(session, session.call_tool)
        if trusted and self._handler is None:
            log.warning("agentaccel: it cannot be heard here when %r changes its tools, so it is not trusted", name)
        self._said: dict[str, Any] = {"name": name, "trusted": trusted and self._handler is not None}
        self._declared = dict[str, dict[str, Any]]()

    @property
    def specs(self) -> Mapping[str, ToolSpec]:
        """What agentaccel asks of a tool: whatever calls this one need not be wrapped itself."""
        return {"call_tool": ToolSpec(kind="mcp", server=self._said)}

    async def begin(self) -> None:
        vars(self._session).update({one: getattr(self, one) for one in _REPLACED if hasattr(self._session, one)})
        self._server.joins(self._line)
        with self._safely("the tools of a server could not be listed: none is run early"):
            page, tools = await self._list(), list[Any]()
            while cursor := _next(page):
                tools += page.tools
                page = await self._list(params=PaginatedRequestParams(cursor=cursor))
            self._declare([*tools, *page.tools], whole=True)

    def end(self) -> None:
        self._server.leaves(self._line)
        own = vars(self._session)
        for name in _REPLACED:
            if own.get(name) == getattr(self, name):  # else another one has put something around it, and calls it
                del own[name]
                own.update({name: self._before[name]} if name in self._before else {})

    async def call_tool(self, name: str, arguments: Any = None, *rest: Any, **options: Any) -> Any:
        execute = functools.partial(self._line.call_tool, name, arguments, *rest, **options)
        if self._line not in self._server.lines or not isinstance(arguments, Mapping | None):
            return await execute()
        more = any(one is not None for one in (*rest, *[options[key] for key in options if key not in _ALLOWED]))
        with self._safely("a tool could not be declared"):
            self._see(name, more=more)

        async def answered() -> Answer:
            return Answer(await execute(), self._line.number)

        answer = await self.accel.call_tool(f"{self._prefix}{name}", dict(arguments or {}), answered)
        return answer.result if answer.line == self._line.number else await execute()

    async def list_tools(self, *args: Any, **options: Any) -> Any:
        page = await self._list(*args, **options)
        with self._safely("a list of tools could not be read"):
            asked = any(getattr(one, "cursor", one) is not None for one in (*args, *options.values()))
            self._declare(page.tools, whole=not asked and not _next(page))
        return page

    async def _message_handler(self, message: Any) -> Any:
        if type(getattr(message, "root", message)).__name__ == "ToolListChangedNotification":
            self._server.listed = frozenset()
            log.info(
                "agentaccel: %r has changed its tools: none begins early until they are listed", self._said["name"]
            )
        if self._handler is not None:
            return await self._handler(message)

    def _declare(self, tools: Iterable[Any], *, whole: bool) -> None:
        for name, listing in self._server.hears(tools, whole=whole).items():
            first = self._server.first[name]
            said = {"listing": listing} if listing == first else {"listing": listing, "earlier_listing": first}
            if listing != first and self._declared.get(name) != said:
                log.warning("agentaccel: %r says something else of %r than before", self._said["name"], name)
            self._tell(name, said)

    def _see(self, name: str, *, more: bool) -> None:
        """A tool is called: one that nobody has listed, so that none is taken for another of its name; or one that is
        given `more` than its arguments, which is then not run early again."""
        known = self._declared.get(name, {})
        if more or name not in self._declared:
            self._tell(name, {**known, "injected": more or known.get("injected", False)})

    def _tell(self, name: str, said: dict[str, Any]) -> None:
        """Tell agentaccel of a tool, unless it knows that. Of two that differ, it runs neither early."""
        if self._declared.get(name) == said:
            return
        self._declared[name] = said
        known: Any = self._by_user.of(name, concurrent=self._said["trusted"])
        if name not in self._by_user.reads:  # else it need not be judged
            known["kind"] = "mcp"
        declared = {**known, "server": self._said, **said}
        self.accel.tool(name=f"{self._prefix}{name}", **declared)(self._server.function(name))

    @contextmanager
    def _safely(self, what: str) -> Iterator[None]:
        """Our own failure is a line of the log, and the call goes on as it was."""
        try:
            yield
        except Exception:
            if self.accel.policy.strict:
                raise
            log.exception("agentaccel: %s", what)


def _next(page: Any) -> Any:
    return getattr(page, "nextCursor", None) or getattr(page, "next_cursor", None)


_REPLACED = ("call_tool", "list_tools", "_message_handler")
_ALLOWED = ("allow_input_required", "allow_claimed")
"""Options of a call that say what may be returned, and tell the server nothing."""
