"""The seam of SDKs without middleware: an HTTP transport around the client's own, for httpx and httpx2 alike.

It runs once per attempt. Where nothing is planned the request goes on untouched, the very object; otherwise one with
our body in its place.
"""

from __future__ import annotations

import copy
import functools
import logging
import sys
from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from typing import Any, NamedTuple, Protocol, TypeVar, cast

from agentaccel.clients import bodies
from agentaccel.clients.attempt import ANNOUNCED, Attempt, Outgoing, stop_announced
from agentaccel.clients.client_copy import Switch, account_in, derived, is_off, library_of, switch_of
from agentaccel.clients.looking import Look, look_at, peek, peek_async
from agentaccel.clients.pending import watch_later, watch_results
from agentaccel.concurrency import in_a_loop
from agentaccel.engine.engine import Engine
from agentaccel.engine.scope import Sender
from agentaccel.errors import ConfigError
from agentaccel.once import Once
from agentaccel.turn import Answer
from agentaccel.types import Endpoint

log = logging.getLogger("agentaccel")

C = TypeVar("C")


class Target(NamedTuple):
    """Where a model call goes."""

    endpoint: Endpoint
    model: str = ""
    """The model where the path names it, for bodies that do not."""
    unnamed: bool = False
    """True if neither the user nor a data file says who answers there."""


class Route(Protocol):
    """Where a request goes, told by its URL; None for what is no model call."""

    def __call__(self, url: Any) -> Target | None: ...


def is_response(thing: Any) -> bool:
    """True if `thing` is a response of httpx or httpx2."""
    return isinstance(thing, tuple(getattr(sys.modules.get(name), "Response", ()) for name in ("httpx2", "httpx")))


def wrapped_http(client: Any, engine: Engine, route: Route, switch: Switch | None = None) -> Any:
    """A copy of an HTTP client, sync or async, with our transport around each of its own.

    Copied and not made anew: pool, timeouts, proxies, hooks, cookies and sockets stay those of `client`, which is not
    changed, and is kept alive because the pool is its own. What `install` has put around it is left out.
    """
    client = without_switch(client)
    library = library_of(client)
    wrap = functools.partial(_transport_class(library, hasattr(client, "aclose")), engine, route, client, switch)
    derived = copy.copy(client)
    derived.__class__ = _without_finalizer(type(client))
    derived._transport = wrap(client._transport)
    derived._mounts = {pattern: None if inner is None else wrap(inner) for pattern, inner in client._mounts.items()}
    return derived


def server_of(url: Any) -> tuple[str, int] | None:
    """Host and port of an HTTP library's URL; None where it has none."""
    host = getattr(url, "host", None)
    return (str(host), url.port or (80 if url.scheme == "http" else 443)) if host else None


def is_wrapped(client: Any) -> Engine | None:
    """Whose transport an HTTP client has; None where it is not ours."""
    engine = getattr(getattr(client, "_transport", None), "agentaccel_engine", None)
    return engine if isinstance(engine, Engine) else None


def without_switch(client: Any) -> Any:
    """The HTTP client that `install` has put a transport around; `client` itself where it has not."""
    transport: Any = getattr(client, "_transport", None)
    return transport.agentaccel_owner if switch_of(transport) is not None else client


def _without_finalizer(kind: type) -> type:
    """`kind`, but without closing, when it is dropped, the pool that another client still uses.

    The SDKs' own HTTP clients have such a finalizer; a user's may have one too, and whatever else it overrides stays.
    """
    if not hasattr(kind, "__del__"):
        return kind
    return type(kind)(kind.__name__, (kind,), {"__del__": lambda self: None, "__module__": kind.__module__})


@functools.cache
def _transport_class(library: Any, is_async: bool) -> Any:
    base: Any = library.AsyncBaseTransport if is_async else library.BaseTransport
    return type("AccelTransport", (_AsyncTransport if is_async else _SyncTransport, base), {"library": library})


class _Transport:
    library: Any

    def __init__(self, engine: Engine, route: Route, owner: Any, switch: Switch | None, inner: Any) -> None:
        self.agentaccel_engine = engine
        self.agentaccel_owner = owner
        self.agentaccel_switch = switch
        self._route = route
        self._inner = inner
        self._closed = False
        self._once = Once()

    def __getattr__(self, name: str) -> Any:
        # What the SDK or the user looks up on a transport (`_pool`) is the inner one's.
        if name == "_inner" or name.startswith("agentaccel_"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    def _must_be_open(self) -> None:
        """Raises what the HTTP library's client does, where it, or the one that it was copied from, was closed."""
        if self._closed or self.agentaccel_owner.is_closed:
            raise RuntimeError("Cannot send a request, as the client has been closed.")

    def _target(self, request: Any) -> Target | None:
        """Where `request` goes, if it may be a model call; told before its body is looked at."""
        kind = request.headers.get("content-type", "")
        if is_off(self.agentaccel_switch):
            return None
        if request.method != "POST" or "json" not in kind or request.headers.get("content-encoding"):
            return None
        return self._route(request.url)

    def _outgoing(self, request: Any, target: Target, content: bytes) -> Outgoing | None:
        """What `request` is about to send; None for one whose body is no object."""
        headers = request.headers
        body = bodies.read(content, of_sdk="x-stainless-lang" in headers)
        if body is None:
            return None
        retries = str(headers.get("x-stainless-retry-count", "0"))
        return Outgoing(
            self.agentaccel_engine,
            body.request,
            target.endpoint._replace(account=account_in(headers, self.agentaccel_engine.recorder.key)),
            model="" if body.request.get("model") else target.model,
            retries=int(retries) if retries.isdigit() else 0,
            announced=ANNOUNCED in headers,
            as_written=not body.plain or self._is_signed(headers),
            sender=Sender(frozenset(name.lower() for name in headers), joinable=_reads_whole(headers)),
        )

    def _sent(self, request: Any, outgoing: Outgoing, attempt: Attempt) -> Any:
        if attempt.body is outgoing.body and not attempt.headers:
            return request
        return self._with_body(request, outgoing, attempt)

    def _is_signed(self, headers: Any) -> bool:
        """Whether the request was signed, or a digest made of its body, before it came here: another body is a forged
        one, and is refused.
        """
        signature = headers.get("authorization", "").lower().startswith(_SIGNATURES)
        reads_body = getattr(getattr(self.agentaccel_owner, "auth", None), "requires_request_body", False)
        if not (signature or reads_body or any(name in headers for name in _DIGESTS)):
            return False
        self._once.say("this client signs its requests before we see them; they go out as written")
        return True

    def _warming(self, request: Any, body: Any, more: Mapping[str, str]) -> Any:
        """`request` with the body of one of our own: it is another one, so no key says that it was sent before; and
        with `more` headers, where the sender has none of that name.

        Raises `RuntimeError` where the client is closed: its pool would open connections that nobody closes.
        """
        self._must_be_open()
        headers = [(name, value) for name, value in request.headers.raw if name.lower() not in _OF_ONE_REQUEST]
        headers = [*headers, *_new(more, request)]
        content = bodies.written(body)
        return self.library.Request(
            request.method, request.url, headers=headers, content=content, extensions=request.extensions
        )

    def _stop_announced(self, request: Any) -> None:
        """Nothing is planned for `request`; where it was only announced, it is not sent either."""
        if ANNOUNCED in request.headers:
            stop_announced()

    def _told(self, request: Any, response: Any) -> Any:
        """`response` to a request that was no model call; it may tell the end of earlier ones."""
        engine, url = self.agentaccel_engine, request.url
        if is_off(self.agentaccel_switch):
            return response
        watch_results(engine, request.method, url.path, response, lambda path: self._endpoint(url, path))
        return watch_later(engine, server_of(url), url.path, response)

    def _endpoint(self, url: Any, path: str) -> Endpoint | None:
        """Where model calls go at the same server, to `path`."""
        target = self._route(url.copy_with(path=path))
        return target.endpoint if target is not None else None

    def _with_body(self, request: Any, outgoing: Outgoing, attempt: Attempt) -> Any:
        """`request` with the attempt's body, and with its headers, where the sender has none of that name."""
        headers = [(name, value) for name, value in request.headers.raw if name.lower() not in _LENGTHS]
        if attempt.hides_usage:
            headers = [(name, value) for name, value in headers if name.lower() != b"accept-encoding"]
            headers.append((b"accept-encoding", b"identity"))
        more = _new(attempt.headers, request)
        content = request.content if attempt.body is outgoing.body else bodies.written(attempt.body)
        return self.library.Request(
            request.method, request.url, headers=[*headers, *more], content=content, extensions=request.extensions
        )

    def _look(self, request: Any, target: Target) -> Look | None:
        """Who answers is to be asked before this call; None where that is known, or not ours to ask."""
        try:
            if target.unnamed and ANNOUNCED not in request.headers:
                return look_at(self.agentaccel_engine, request, self.library)
        except Exception:
            if self.agentaccel_engine.policy.strict:
                raise
            log.exception("agentaccel: could not look at a server")
        return None


class _SyncTransport(_Transport):
    def handle_request(self, request: Any) -> Any:
        self._must_be_open()
        target = self._target(request)
        if target is not None and (look := self._look(request, target)) is not None:
            look.in_a_thread(self._inner)
            target = self._target(request)
        outgoing = self._outgoing(request, target, request.read()) if target is not None else None
        if outgoing is None:
            self._stop_announced(request)
            return self._told(request, self._inner.handle_request(request))
        while True:
            attempt = outgoing.attempt()
            sent = self._sent(request, outgoing, attempt)
            if attempt.keeps:
                attempt.can_resend(partial(self._resend, request))
            with attempt:
                attempt.wait()
                response = self._inner.handle_request(sent)
                status = response.status_code
                ours = attempt.may_be_ours(status) and attempt.refused(status, peek(response))
            if ours:
                response.close()
            elif (whole := attempt.whole(attempt.watch(response), sent)) is not None:
                return whole
            outgoing = outgoing._replace(retries=outgoing.retries + 1)

    def _resend(self, request: Any, body: Any, headers: Mapping[str, str]) -> Answer:
        response = self._inner.handle_request(self._warming(request, body, headers))
        try:
            return Answer(response.status_code, response.read())
        finally:
            response.close()

    def close(self) -> None:
        self._closed = True
        self._inner.close()


class _AsyncTransport(_Transport):
    async def handle_async_request(self, request: Any) -> Any:
        self._must_be_open()
        target = self._target(request)
        if target is not None and in_a_loop() and (look := self._look(request, target)) is not None:
            await look.on_this_loop(self._inner)
            target = self._target(request)
        outgoing = self._outgoing(request, target, await request.aread()) if target is not None else None
        if outgoing is None:
            self._stop_announced(request)
            return self._told(request, await self._inner.handle_async_request(request))
        while True:
            attempt = await outgoing.attempt_async()
            sent = self._sent(request, outgoing, attempt)
            if attempt.keeps:
                attempt.can_resend_async(partial(self._resend, request))
            with attempt:
                await attempt.wait_async()
                response = await self._inner.handle_async_request(sent)
                status = response.status_code
                ours = attempt.may_be_ours(status) and attempt.refused(status, await peek_async(response))
            if ours:
                await response.aclose()
            elif (whole := await attempt.whole_async(attempt.watch(response), sent)) is not None:
                return whole
            outgoing = outgoing._replace(retries=outgoing.retries + 1)

    async def _resend(self, request: Any, body: Any, headers: Mapping[str, str]) -> Answer:
        response = await self._inner.handle_async_request(self._warming(request, body, headers))
        try:
            return Answer(response.status_code, await response.aread())
        finally:
            await response.aclose()

    async def aclose(self) -> None:
        self._closed = True
        await self._inner.aclose()


def _new(headers: Mapping[str, str], request: Any) -> list[tuple[str, str]]:
    """Those of `headers` that `request` does not have."""
    return [(name, value) for name, value in headers.items() if name not in request.headers]


def _reads_whole(headers: Any) -> bool:
    """True if a vendor's SDK sends this, and reads the whole reply before it hands it to its caller."""
    return "x-stainless-lang" in headers and headers.get("x-stainless-raw-response", "") != "stream"


_LENGTHS = (b"content-length", b"transfer-encoding")
_OF_ONE_REQUEST = (*_LENGTHS, b"idempotency-key", ANNOUNCED.encode())

_DIGESTS = (
    "content-md5",
    "content-digest",
    "digest",
    "signature-input",
    "x-amz-content-sha256",
    "x-content-sha256",
)
"""Headers that hold a digest of the body, or say what a signature covers: RFC 1864, 9530, 3230, 9421, AWS, Oracle."""

_SIGNATURES = ("aws4-", "signature ")
"""How an `authorization` begins that is one: AWS, and what came before RFC 9421."""


def with_transport(client: C, engine: Engine, route: Route) -> C:
    """A vendor SDK's `client` derived anew with our transport; `client` itself where it has it already.

    Raises `ConfigError` for one that another `Accel` has wrapped.
    """
    sdk = cast(Any, client)
    own = is_wrapped(sdk._client)
    if own is engine:
        log.info("agentaccel: this client is wrapped already; it is used as it is")
        return client
    if own is not None and switch_of(sdk._client._transport) is None:
        raise ConfigError("another Accel has wrapped this client: wrap the bare client, or share one Accel")
    http = wrapped_http(sdk._client, engine, route)
    return derived(
        client,
        lambda: cast(C, _with_http(sdk, http)),
        is_ours=lambda made: is_wrapped(cast(Any, made)._client) is engine,
    )


def _with_http(sdk: Any, http: Any) -> Any:
    """A copy of the client `sdk` with another HTTP client, also of one that has no credentials yet."""
    try:
        return sdk.with_options(http_client=http)
    except Exception:
        if getattr(sdk, "api_key", None):
            raise
        return sdk.with_options(http_client=http, _enforce_credentials=False)


# --- Telling from a method of a wrapped client which request it would send, without sending it ------------------------

_REST: dict[str, dict[str, Any]] = {
    "Messages": {"max_tokens": 1, "messages": []},
    "Responses": {"input": []},
    "Completions": {"messages": []},
}
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
    if "messages" in (rest or {}) and "messages" not in signature(create).parameters:
        return None  # completions of a text alone
    if rest is None or client is None or getattr(create, "__name__", "") != "create":
        return None
    middleware = getattr(client, "middleware", ())
    ours = any(getattr(one, "agentaccel_engine", None) is engine for one in middleware)
    if not ours and is_wrapped(getattr(client, "_client", None)) is not engine:
        return None
    headers = {**dict(request.get("extra_headers") or {}), ANNOUNCED: "1"}
    return partial(create, **{**rest, **request, "extra_headers": headers}), kind.startswith("Async")
