"""The seam of the `openai` SDK: a client derived from the user's, whose HTTP transport is ours.

Chat Completions and Responses, sync and async, for OpenAI, Azure and every server that is compatible with them; where
a request goes is told by the host of the client's base URL.
"""

from __future__ import annotations

import logging
import re
from typing import Any, TypeVar, cast

from agentaccel.clients.transport import is_wrapped, server_of, wrapped_http
from agentaccel.errors import ConfigError
from agentaccel.facts import Wire, host_platform
from agentaccel.session import Composer
from agentaccel.types import Endpoint, Request

log = logging.getLogger("agentaccel")

C = TypeVar("C")

_WIRES: tuple[tuple[str, Wire], ...] = (("/chat/completions", "chat"), ("/responses", "responses"))
_DEPLOYMENT = re.compile(r"/deployments/([^/]+)/")


def wrap_client(client: C, composer: Composer, *, place: tuple[str, str] | None = None) -> C:
    """A copy of `client` whose transport is ours; `client` itself where it has it already.

    `place` is the provider and platform that answer there, by default what its base URL says.
    """
    sdk = cast(Any, client)
    own = is_wrapped(sdk._client)
    if own is composer:
        log.info("agentaccel: this client is wrapped already; it is used as it is")
        return client
    if own is not None:
        raise ConfigError("another Accel has wrapped this client: wrap the bare client, or share one Accel")
    provider, platform = place or host_platform(sdk.base_url.host)
    server = server_of(sdk.base_url)

    def route(path: str, body: Request) -> tuple[Endpoint, str] | None:
        path = path.rstrip("/")
        wire: Wire | None = next((wire for end, wire in _WIRES if path.endswith(end)), None)
        if wire is None:
            return None
        deployment = _DEPLOYMENT.search(path)
        model = "" if deployment is None or body.get("model") else deployment.group(1)
        return Endpoint(provider, platform, wire, server), model

    return cast(C, sdk.with_options(http_client=wrapped_http(sdk._client, composer, route)))
