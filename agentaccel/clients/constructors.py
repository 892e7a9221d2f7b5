"""Clients that other code makes: the constructors of the vendor SDKs' clients put ours at the last hop of each.

One class of each kind makes all clients of an SDK, also those of subclasses and the copies that `with_options` makes,
so that one constructor is enough.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable
from typing import Any

from agentaccel.clients import anthropic, openai
from agentaccel.clients.client_copy import Switch, place_of_class
from agentaccel.clients.transport import is_wrapped, server_of, wrapped_http
from agentaccel.engine.engine import Engine
from agentaccel.once import Once

log = logging.getLogger("agentaccel")

_BASES = ("SyncAPIClient", "AsyncAPIClient")
"""The classes in each SDK's `_base_client` whose constructors make all of its clients."""


class Constructors:
    """What `install` does to the constructors of an SDK, and how that is undone."""

    def __init__(self, engine: Engine, elsewhere: tuple[str, str] | None) -> None:
        self._engine, self._switch = engine, Switch()
        self._elsewhere = elsewhere
        """Who answers `openai` clients at hosts that no data file lists, where the user has said so."""
        self._once = Once()
        self._undo: list[Callable[[], None]] = []

    def take(self, sdk: str) -> None:
        """Clients of this SDK, which has been imported, are ours from now on. Raises `ImportError` or `AttributeError`
        for a version whose clients are made otherwise."""
        module = importlib.import_module(f"{sdk}._base_client")
        for kind in [getattr(module, name) for name in _BASES]:
            own = kind.__init__
            kind.__init__ = self._constructor(own, sdk)
            self._undo.append(functools.partial(_restore, kind, kind.__init__, own))

    def give_back(self) -> None:
        """The constructors are as they were, and what they have put into clients does nothing any more."""
        self._switch.on = False
        while self._undo:
            self._undo.pop()()

    def _constructor(self, own: Callable[..., None], sdk: str) -> Callable[..., None]:
        before = self._with_middleware if sdk == "anthropic" and anthropic.has_middleware() else None
        after = None if before is not None else functools.partial(self._with_transport, sdk)

        @functools.wraps(own)
        def made(client: Any, *given: Any, **options: Any) -> None:
            if before is not None:
                options = self._guarded(before, client, options) or options
            own(client, *given, **options)
            if after is not None:
                self._guarded(after, client)

        return made

    def _guarded(self, work: Callable[..., Any], client: Any, *given: Any) -> Any:
        """Our failure leaves the client as its maker wanted it, and is one log line."""
        kind = type(client)
        name = f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"
        if not self._switch.on:
            return None
        try:
            place = place_of_class(kind)
            if place is None:
                self._once.say(f"{name} is not a client that agentaccel knows: its calls go out as written, unrecorded")
                return None
            made = work(client, place, *given)
        except Exception:
            if self._engine.policy.strict:
                raise
            log.exception("agentaccel: could not take part in a client of %s; its calls go out as written", name)
            return None
        self._once.say(f"takes part in what {name} sends", about=name, level=logging.INFO)
        return made

    def _with_middleware(self, client: Any, place: tuple[str, str], options: dict[str, Any]) -> dict[str, Any]:
        middleware = anthropic.middleware_for(
            client,
            self._engine,
            self._switch,
            of_class=place[1],
            headers=options.get("custom_headers") or (),
            given=options.get("middleware") or (),
        )
        return {**options, "middleware": middleware}

    def _with_transport(self, sdk: str, client: Any, place: tuple[str, str]) -> None:
        if is_wrapped(client._client) is not None:
            return
        if sdk == "anthropic":
            if place[1] not in anthropic.UNSIGNED:
                self._once.say(
                    f"the clients of {place[1]} sign or rewrite requests before they can be planned, in this version "
                    "of anthropic: their calls go out as written; pip install -U 'anthropic>=0.115'"
                )
                return
            route = anthropic.route_of(self._engine, place[1])
        else:
            of_class = place if place[1] != "api" else self._elsewhere
            route = openai.route_from(server_of(client.base_url), self._engine, of_class=of_class)
        client._client = wrapped_http(client._client, self._engine, route, self._switch)


def _restore(kind: Any, ours: Callable[..., None], own: Callable[..., None]) -> None:
    """Put a constructor back, unless somebody has put another one around ours since: theirs then goes on calling ours,
    which does nothing any more."""
    if kind.__init__ is ours:
        kind.__init__ = own
