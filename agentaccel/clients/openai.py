"""The seam of the `openai` SDK: a client derived from the user's, whose HTTP transport is ours.

Chat Completions and Responses, sync and async, for OpenAI, Azure and every server that is compatible with them; where
a request goes is told by the host of its own URL.
"""

from __future__ import annotations

import functools
import logging
import re
from typing import Any, TypeVar, cast

from agentaccel.clients.deriving import derived
from agentaccel.clients.transport import is_wrapped, server_of, wrapped_http
from agentaccel.errors import ConfigError
from agentaccel.facts import Wire, host_platform
from agentaccel.session import Composer
from agentaccel.types import Endpoint

log = logging.getLogger("agentaccel")

C = TypeVar("C")

_WIRES: tuple[tuple[str, Wire], ...] = (("/chat/completions", "chat"), ("/responses", "responses"))
_DEPLOYMENT = re.compile(r"/deployments/([^/]+)/")


def wrap_client(
    client: C, composer: Composer, *, named: tuple[str, str] | None = None, of_class: tuple[str, str] | None = None
) -> C:
    """A copy of `client` whose transport is ours; `client` itself where it has it already.

    Who answers is asked anew for each URL, because a client can be pointed elsewhere at any time. `named` is the
    provider and platform that answer at the base URL of now; `of_class` those that the class of the client speaks of,
    which hold wherever the host does not tell.
    """
    sdk = cast(Any, client)
    own = is_wrapped(sdk._client)
    if own is composer:
        log.info("agentaccel: this client is wrapped already; it is used as it is")
        return client
    if own is not None:
        raise ConfigError("another Accel has wrapped this client: wrap the bare client, or share one Accel")
    home = server_of(sdk.base_url)

    def route(url: Any) -> tuple[Endpoint, str] | None:
        path = url.path.rstrip("/")
        wire: Wire | None = next((wire for end, wire in _WIRES if path.endswith(end)), None)
        if wire is None:
            return None
        server, deployment = server_of(url), _DEPLOYMENT.search(path)
        place = named if named is not None and server == home else _place_at(url.host, of_class)
        return Endpoint(*place, wire, server), deployment.group(1) if deployment is not None else ""

    http = wrapped_http(sdk._client, composer, route)
    return derived(
        client,
        lambda: cast(C, sdk.with_options(http_client=http)),
        is_ours=lambda made: is_wrapped(cast(Any, made)._client) is composer,
    )


@functools.lru_cache(maxsize=256)
def _place_at(host: str, of_class: tuple[str, str] | None) -> tuple[str, str]:
    """The provider and platform at `host`; at one that nobody lists, what the class says."""
    found = host_platform(host)
    return of_class if of_class is not None and found == host_platform("") else found
