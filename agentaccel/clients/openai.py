"""The seam of the `openai` SDK: a client derived from the user's, whose HTTP transport is ours.

Chat Completions and Responses, sync and async, for OpenAI, Azure and every server that is compatible with them; where
a request goes is told by the host of its own URL.
"""

from __future__ import annotations

import functools
import re
from typing import Any, TypeVar, cast

from agentaccel.clients.transport import Route, Target, server_of, with_transport
from agentaccel.engine.engine import Engine
from agentaccel.engine.pending import Server
from agentaccel.facts import Wire, host_platform, local_platform, priced_region
from agentaccel.types import Endpoint

C = TypeVar("C")

_WIRES: tuple[tuple[str, Wire], ...] = (("/chat/completions", "chat"), ("/responses", "responses"))
_DEPLOYMENT = re.compile(r"/deployments/([^/]+)/")


def wrap_client(
    client: C, engine: Engine, *, named: tuple[str, str] | None = None, of_class: tuple[str, str] | None = None
) -> C:
    """A copy of `client` whose transport is ours; `client` itself where it has it already.

    Who answers is asked anew for each URL, because a client can be pointed elsewhere at any time. `named` is the
    provider and platform that answer at the base URL of now; `of_class` those that the class of the client speaks of,
    which hold wherever the host does not tell.
    """
    home = server_of(cast(Any, client).base_url)
    return with_transport(client, engine, route_from(home, engine, named=named, of_class=of_class))


def route_from(
    home: Server, engine: Engine, *, named: tuple[str, str] | None = None, of_class: tuple[str, str] | None = None
) -> Route:
    """Where the requests of a client go that points to `home`; the rest is as in `wrap_client`."""

    def route(url: Any) -> Target | None:
        path = url.path.rstrip("/")
        wire: Wire | None = next((wire for end, wire in _WIRES if path.endswith(end)), None)
        if wire is None:
            return None
        server, deployment = server_of(url), _DEPLOYMENT.search(path)
        said = named if server == home else None
        said = said or local_platform(server, path) or engine.servers.place(server)
        place = said or _place_at(url.host, of_class)
        region = priced_region(*place, url.host or "")
        return Target(
            Endpoint(*place, wire, server, region),
            deployment.group(1) if deployment is not None else "",
            unnamed=said is None and of_class is None and place == host_platform(""),
        )

    return route


@functools.lru_cache(maxsize=256)
def _place_at(host: str, of_class: tuple[str, str] | None) -> tuple[str, str]:
    """The provider and platform at `host`; at one that nobody lists, what the class says."""
    found = host_platform(host)
    return of_class if of_class is not None and found == host_platform("") else found
