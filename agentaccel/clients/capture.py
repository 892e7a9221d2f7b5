"""Telling from a method of a wrapped client which request it would send, without sending it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from agentaccel.clients.attempt import ANNOUNCED
from agentaccel.clients.transport import is_wrapped
from agentaccel.engine.engine import Engine

_REST: dict[str, dict[str, Any]] = {"Messages": {"max_tokens": 1, "messages": []}, "Responses": {"input": []}}
"""The resources whose requests can be announced, and what their methods insist on."""


def call_of(
    create: Callable[..., object], request: dict[str, Any], engine: Engine
) -> tuple[Callable[[], Any], bool] | None:
    """`create` with its arguments, and whether it has to be awaited; None where it is not that of a wrapped client.

    Any other one would send the request.
    """
    resource = getattr(create, "__self__", None)
    kind = type(resource).__name__
    rest = _REST.get(kind.removeprefix("Async"))
    client = getattr(resource, "_client", None)
    if rest is None or client is None or getattr(create, "__name__", "") != "create":
        return None
    middleware = getattr(client, "middleware", ())
    ours = any(getattr(one, "agentaccel_engine", None) is engine for one in middleware)
    if not ours and is_wrapped(getattr(client, "_client", None)) is not engine:
        return None
    headers = {**dict(request.get("extra_headers") or {}), ANNOUNCED: "1"}
    return partial(create, **{**rest, **request, "extra_headers": headers}), kind.startswith("Async")
