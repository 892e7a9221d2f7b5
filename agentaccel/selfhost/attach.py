"""Attaching to engines that somebody runs: what they are, what they count, and what they are sent.

    backend = accel.backend("http://127.0.0.1:8000/v1")
    await backend.ready()                               # or backend.wait_ready(), where no event loop runs
    async with backend.observe() as seen:               # or `with`
        ...
    print(backend.server, seen, sep="\\n")

Everything is asked in threads of `concurrency.Background`, so nothing here blocks an event loop. What goes wrong is a
word in `Server.evidence`, or a figure that is not known, never an exception.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TypeVar

from agentaccel.concurrency import Background, in_a_loop
from agentaccel.engine.conversation import own_id
from agentaccel.engine.servers import Servers
from agentaccel.errors import ConfigError
from agentaccel.facts import Wire
from agentaccel.once import Once
from agentaccel.selfhost.asking import OWNER, Asker, Replica, answered, checked_seconds, installed
from agentaccel.selfhost.hints import Hints, Rendered, rendered
from agentaccel.selfhost.kv_feed import KvFeed
from agentaccel.selfhost.kv_sources import KvSource, sources, the_one
from agentaccel.selfhost.metrics import Scrape, ServerFigures, observed, read
from agentaccel.selfhost.output import Constraint, constrained
from agentaccel.selfhost.probe import Page, Server, paths, probe
from agentaccel.selfhost.slots import Action, KeptSlot, kept, path_of
from agentaccel.selfhost.tables import UNKNOWN, row

log = logging.getLogger("agentaccel")

T = TypeVar("T")


class Backend:
    """Servers of one model that the user runs: `Accel.backend` makes it. Thread-safe.

    They are asked what they are in the background, as soon as it is made; until they have answered, `server` is
    unknown. Clients that `Accel.wrap` wraps know from then on who answers at their addresses.
    """

    def __init__(
        self,
        replicas: Sequence[Replica],
        asker: Asker,
        background: Background,
        known: Servers,
        *,
        key: bytes,
        dialect: str | None,
        off: bool = False,
    ) -> None:
        self._replicas, self._asker, self._background, self._known = tuple(replicas), asker, background, known
        self._key, self._dialect, self._off = key, dialect, off
        named = f"the user names {dialect}" if dialect else "it has not answered yet"
        self._servers = {one: Server(dialect=dialect or UNKNOWN, evidence=(named,)) for one in replicas}
        self._first: Future[bool] | None = None
        self._once = Once()
        if not off:
            for replica in replicas if dialect else ():
                known.know(replica.address, self._servers[replica])
            self._first = self._beside(partial(self._ask_all, 3, 0.0))

    @property
    def servers(self) -> tuple[Server, ...]:
        """What is known of each server, in the order of the URLs."""
        return tuple(self._servers[replica] for replica in self._replicas)

    @property
    def server(self) -> Server:
        """What is known of the first server."""
        return self._servers[self._replicas[0]]

    def __repr__(self) -> str:
        return "".join(
            ["<Backend", *(f" {replica.name}: {self._servers[replica]}." for replica in self._replicas), ">"]
        )

    def hints(self, hints: Hints, *, wire: Wire = "chat") -> Rendered:
        """What the first server is sent for `hints`, for a call of your own: `extra_body=sent.fields,
        extra_headers=sent.headers`. `wire` is the form of the call: "chat", "responses" or Anthropic's "messages".
        What `Accel.session` says of a conversation is sent without that."""
        if hints.session is not None:
            hints = replace(hints, session=own_id(hints.session, hints.tenant))
        if hints.parent is not None:
            hints = replace(hints, parent=own_id(hints.parent, hints.tenant))
        return rendered(hints, self.server, self._key, wire)

    def constrained(self, constraint: Constraint) -> Rendered:
        """What the first server is sent to hold a reply to `constraint`: `extra_body=sent.fields`."""
        return constrained(constraint, self.server)

    def slot_of(self, session: str, tenant: str | None = None) -> int | None:
        """The slot of the first server that the session's next request goes to; None where the server chooses: without
        `pin_slots`, on other engines, and while more conversations take turns than there are slots."""
        return self._known.slot(self._replicas[0].address, own_id(session, tenant))

    async def save_slot(self, name: str, *, slot: int, within: float = 60.0) -> KeptSlot | None:
        """Have the first server write a slot into the file `name`, to restore it later: llama.cpp, started with
        --slot-save-path. None where agentaccel is off.

        It waits for the slot's request to end, and at most `within` so many seconds. Raises `EngineError` where the
        server does not do it, with the reason; `ConfigError` for what cannot be meant.
        """
        return await self._keep("save", name, slot, within)

    async def restore_slot(self, name: str, *, slot: int, within: float = 60.0) -> KeptSlot | None:
        """As `save_slot`, the other way round: what the slot held is gone, and a prompt that begins like the file's is
        read and not computed."""
        return await self._keep("restore", name, slot, within)

    async def _keep(self, action: Action, name: str, slot: int, within: float) -> KeptSlot | None:
        if self._off:
            return None
        replica = self._replicas[0]
        server = self._servers[replica]
        asker = replace(self._asker, timeout=checked_seconds(f"Backend.{action}_slot: within", within))
        url = replica.root + path_of(server, action, name, slot)
        work: Callable[[], Page | str] = partial(asker.post, url, {"filename": name})
        said = await self._awaited(self._beside(work), default="agentaccel was closed meanwhile")
        return kept(server, action, name, slot, said)

    def wait_ready(self, within: float = 30.0) -> bool:
        """True once every server has answered; False if one has not `within` so many seconds, which is one log line.
        Raises `ConfigError` on an event loop, which it would block: `await ready()` there."""
        if in_a_loop():
            raise ConfigError("Backend.wait_ready would block this event loop: use `await backend.ready()`")
        return self._ended(self._beside(partial(self._wait, within)), default=False)

    async def ready(self, within: float = 30.0) -> bool:
        """As `wait_ready`, on an event loop."""
        return await self._awaited(self._beside(partial(self._wait, within)), default=False)

    def observe(self, since: Window | None = None) -> Window:
        """What the servers do while the block lasts: `with backend.observe() as seen: …`, or `async with`.

        With `since`, a window that was left, it is what they have done since they were last seen all together: nothing
        is lost in between, and a server that was started anew meanwhile, however long that took, is told.

        Raises `MissingExtraError` without the extra `selfhost`.
        """
        installed("prometheus_client", "prometheus-client")
        return Window(self, since)

    def kv_events(self, endpoint: str | None = None, *, replay: str | None = None, topic: str | None = None) -> KvFeed:
        """What one server says of its KV cache: `async with backend.kv_events() as events:` and in it `async for batch
        in events:`; `events.cache` keeps account of the blocks that it holds.

        `endpoint` is where it publishes, `replay` where it sends again what was missed, `topic` how the topics begin
        that are listened to: what vLLM and SGLang are told by `--kv-events-config`. Without an endpoint the servers are
        asked for all three, once the feed is entered: vLLM lists them. What is given goes before what is listed.

        Raises `ConfigError` for what is no address, and `MissingExtraError` without the extra `selfhost`. To enter the
        feed raises `ConfigError` where the servers list no endpoint, or several, and `EngineError` where one does not
        answer.
        """
        return KvFeed(endpoint, replay, topic, self._kv_source, off=self._off)

    async def _kv_source(self) -> KvSource:
        """Where the one engine publishes that the servers list."""
        listed = await self._awaited(self._beside(self._kv_sources), default={})
        return the_one(listed, {replica.name: self._servers[replica] for replica in self._replicas})

    def _kv_sources(self) -> dict[str, list[KvSource] | str]:
        if self._first is not None:
            self._ended(self._first, default=False)
        listed: dict[str, list[KvSource] | str] = {}
        for replica in self._replicas:
            server = self._servers[replica]
            path = row(server.dialect).get("kv_sources", {}).get("path")
            if path is not None:
                url = replica.root + path
                said = self._asker.all(self._background, {url: url})[url]
                listed[replica.name] = sources(server, replica.address[0], said)
        return listed

    # --- asking: in threads of our own ------------------------------------------------------------------------------

    def _beside(self, work: Callable[[], T]) -> Future[T]:
        return self._background.submit(OWNER, work)

    def _ended(self, future: Future[T], *, default: T) -> T:
        """Its result; `default` where nothing is begun any more, or we failed."""
        try:
            return future.result()
        except CancelledError:
            return default
        except Exception:
            log.exception("agentaccel: could not ask a server")
            return default

    async def _awaited(self, future: Future[T], *, default: T) -> T:
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        future.add_done_callback(lambda _: _call_soon(loop, over.set))
        await over.wait()
        return self._ended(future, default=default)

    def _wait(self, within: float) -> bool:
        until = time.monotonic() + within
        if self._first is None:
            return False
        with suppress(TimeoutError):
            if self._first.result(within):
                return True
        return self._ask_all(None, max(until - time.monotonic(), 0.0))

    def _ask_all(self, times: int | None, seconds: float) -> bool:
        """Ask every server that has not answered, so many times or for so long; True if all have."""
        futures = {replica: self._beside(partial(self._ask, replica, times, seconds)) for replica in self._replicas}
        answered = {replica: self._ended(future, default=False) for replica, future in futures.items()}
        for replica, did in answered.items():
            if not did and not self._background.closed:
                self._once.say(f"no answer from {replica.name}: what runs there is not known")
        return all(answered.values())

    def _ask(self, replica: Replica, times: int | None, seconds: float) -> bool:
        """Ask one server what it is, again where it does not answer. True if it has."""
        import tenacity

        stop = tenacity.stop_after_delay(seconds) if times is None else tenacity.stop_after_attempt(times)
        retrying = tenacity.Retrying(
            stop=lambda state: self._background.closed or stop(state),
            wait=tenacity.wait_exponential(multiplier=0.1, max=1.0),
            retry=tenacity.retry_if_result(lambda asked: not answered(asked)),
            retry_error_callback=lambda state: state.outcome.result() if state.outcome is not None else None,
        )
        urls = {path: replica.url(path) for path in paths(self._dialect)}
        asked = retrying(self._asker.all, self._background, urls)
        self._servers[replica] = probe(asked, named=self._dialect)
        if answered(asked):
            self._known.know(replica.address, self._servers[replica])
            log.info("agentaccel: %s is %s", replica.name, self._servers[replica])
        return answered(asked)

    def _scrapes(self) -> dict[str, Scrape | None]:
        """What each server counts now, by its name."""
        if self._off:
            return {replica.name: None for replica in self._replicas}
        if self._first is not None:
            self._ended(self._first, default=False)
        futures = {replica.name: self._beside(partial(self._scrape, replica)) for replica in self._replicas}
        return {name: self._ended(future, default=None) for name, future in futures.items()}

    def _scrape(self, replica: Replica) -> Scrape | None:
        dialect = self._servers[replica].dialect
        path = row(dialect).get("metrics")
        url = replica.metrics or (None if path is None else replica.root + path)
        if url is None:
            return None
        page = self._asker.all(self._background, {url: url})[url]
        if isinstance(page, str) or page.status != 200:
            return None
        try:
            return read(page.body.decode("utf-8", "replace"), dialect)
        except Exception:  # what the parser raises for another product's page is not told
            log.debug("agentaccel: could not read the counters of a server", exc_info=True)
            return None


class Window:
    """What servers did from when it was entered, or they were last seen before, until it was left."""

    def __init__(self, backend: Backend, since: Window | None = None) -> None:
        self._backend = backend
        self._before: dict[str, Scrape | None] = {}
        self._last: Mapping[str, Scrape] = {} if since is None else since._last
        self.figures = ServerFigures()
        """The figures, once it was left; nothing is known before that."""

    def __enter__(self) -> Window:
        if in_a_loop():
            raise ConfigError("a look at the counters would block this event loop: use `async with backend.observe()`")
        self._enter(self._backend._ended(self._backend._beside(self._backend._scrapes), default={}))
        return self

    def __exit__(self, *error: object) -> None:
        self._close(self._backend._ended(self._backend._beside(self._backend._scrapes), default={}))

    async def __aenter__(self) -> Window:
        self._enter(await self._backend._awaited(self._backend._beside(self._backend._scrapes), default={}))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(await self._backend._awaited(self._backend._beside(self._backend._scrapes), default={}))

    def _enter(self, looks: Mapping[str, Scrape | None]) -> None:
        self._before = {**looks, **self._last}

    def _close(self, after: Mapping[str, Scrape | None]) -> None:
        names = dict.fromkeys((*self._before, *after))
        self.figures = observed({name: (self._before.get(name), after.get(name)) for name in names})
        first, then = (after, self._before) if self.figures.missing else (self._before, after)
        self._last = {name: look for name, look in (*first.items(), *then.items()) if look is not None}

    def __str__(self) -> str:
        return str(self.figures)


def _call_soon(loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody waits any more
        loop.call_soon_threadsafe(work)
