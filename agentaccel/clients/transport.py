"""The seam of SDKs without middleware: an HTTP transport around the client's own, for httpx and httpx2 alike.

Verified with openai 2.54 to 3.54 and anthropic 0.79, over both libraries. It runs once per attempt. Where nothing is
planned the request goes on untouched, the very object; otherwise one with our body in its place.
"""

from __future__ import annotations

import copy
import functools
import json
import logging
import sys
from collections.abc import Mapping
from typing import Any, Protocol

import orjson

from agentaccel.clients.attempt import Attempt
from agentaccel.session import Composer
from agentaccel.types import Endpoint, Request

log = logging.getLogger("agentaccel")


class Route(Protocol):
    """Where a request goes: its endpoint, and the model where the path names it; None for what is no model call."""

    def __call__(self, path: str, body: Request) -> tuple[Endpoint, str] | None: ...


def library_of(client: Any) -> Any:
    """The HTTP library, httpx or httpx2, that `client` belongs to."""
    roots = {base.__module__.partition(".")[0] for base in type(client).__mro__}
    return sys.modules["httpx2" if "httpx2" in roots else "httpx"]


def wrapped_http(client: Any, composer: Composer, route: Route) -> Any:
    """A copy of an HTTP client, sync or async, with our transport around each of its own.

    Copied and not made anew: pool, timeouts, proxies, hooks, cookies and sockets stay those of `client`, which is not
    changed, and is kept alive because the pool is its own.
    """
    library = library_of(client)
    wrap = functools.partial(_transport_class(library, hasattr(client, "aclose")), composer, route, client)
    derived = copy.copy(client)
    derived.__class__ = _without_finalizer(type(client))
    derived._transport = wrap(client._transport)
    derived._mounts = {pattern: None if inner is None else wrap(inner) for pattern, inner in client._mounts.items()}
    return derived


def server_of(url: Any) -> tuple[str, int] | None:
    """Host and port of an HTTP library's URL; None where it has none."""
    host = getattr(url, "host", None)
    return (str(host), url.port or (80 if url.scheme == "http" else 443)) if host else None


def is_wrapped(client: Any) -> Composer | None:
    """Whose transport an HTTP client has; None where it is not ours."""
    composer = getattr(getattr(client, "_transport", None), "agentaccel_composer", None)
    return composer if isinstance(composer, Composer) else None


def _without_finalizer(kind: type) -> type:
    """The class of `kind` without the SDKs' own finalizer, which closes the pool that another client still uses."""
    return next(base for base in kind.__mro__ if not hasattr(base, "__del__"))


@functools.cache
def _transport_class(library: Any, is_async: bool) -> Any:
    base: Any = library.AsyncBaseTransport if is_async else library.BaseTransport
    return type("AccelTransport", (_AsyncTransport if is_async else _SyncTransport, base), {"library": library})


class _Transport:
    library: Any

    def __init__(self, composer: Composer, route: Route, owner: Any, inner: Any) -> None:
        self.agentaccel_composer = composer
        self._route = route
        self._owner = owner
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        # What the SDK or the user looks up on a transport (`_pool`) is the inner one's.
        if name in ("_inner", "agentaccel_composer"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    def _attempt(self, request: Any, content: bytes) -> tuple[Attempt, Any] | None:
        """The attempt that `request` makes and what to send for it; None for one that is no model call."""
        body = _loaded(content)
        found = self._route(request.url.path, body) if body is not None else None
        if body is None or found is None:
            return None
        endpoint, model = found
        retries = str(request.headers.get("x-stainless-retry-count", "0"))
        attempt = Attempt.of(
            self.agentaccel_composer, body, endpoint, model=model, retries=int(retries) if retries.isdigit() else 0
        )
        if attempt is None:
            return None
        return attempt, request if attempt.body is body else self._with_body(request, attempt, content)

    def _with_body(self, request: Any, attempt: Attempt, content: bytes) -> Any:
        headers = [(name, value) for name, value in request.headers.raw if name.lower() not in _LENGTHS]
        if attempt.hides_usage:
            headers = [(name, value) for name, value in headers if name.lower() != b"accept-encoding"]
            headers.append((b"accept-encoding", b"identity"))
        return self.library.Request(
            request.method,
            request.url,
            headers=headers,
            content=_dumped(attempt.body, content),
            extensions=request.extensions,
        )


class _SyncTransport(_Transport):
    def handle_request(self, request: Any) -> Any:
        if not _may_be_model_call(request):
            return self._inner.handle_request(request)
        made = self._attempt(request, request.read())
        if made is None:
            return self._inner.handle_request(request)
        attempt, sent = made
        with attempt:
            attempt.wait()
            response = self._inner.handle_request(sent)
        return attempt.watch(response)

    def close(self) -> None:
        self._inner.close()


class _AsyncTransport(_Transport):
    async def handle_async_request(self, request: Any) -> Any:
        if not _may_be_model_call(request):
            return await self._inner.handle_async_request(request)
        made = self._attempt(request, await request.aread())
        if made is None:
            return await self._inner.handle_async_request(request)
        attempt, sent = made
        with attempt:
            await attempt.wait_async()
            response = await self._inner.handle_async_request(sent)
        return attempt.watch(response)

    async def aclose(self) -> None:
        await self._inner.aclose()


_LENGTHS = (b"content-length", b"transfer-encoding")


def _may_be_model_call(request: Any) -> bool:
    kind = request.headers.get("content-type", "")
    return request.method == "POST" and "json" in kind and not request.headers.get("content-encoding")


def _loaded(content: bytes) -> Request | None:
    """The body as an object. By the standard library: it keeps integers of any length."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):  # no JSON, or nested deeper than can be read here
        return None
    return body if isinstance(body, Mapping) else None


def _dumped(body: Request, content: bytes) -> bytes:
    """`body` as compact JSON; `content` is what the sender had made of most of it."""
    if b"NaN" not in content and b"Infinity" not in content:
        try:
            return orjson.dumps(body)
        except TypeError:  # an integer beyond 64 bits, or a lone surrogate
            pass
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
