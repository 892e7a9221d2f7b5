"""The seam of the `anthropic` SDK: its client middleware, which runs once per attempt, inside the retry loop.

Replies are watched where the HTTP library hands out their bytes, so that `create`, `stream`, raw and streaming
responses all behave as they do without us.
"""

from __future__ import annotations

import copy
import logging
import weakref
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeVar, cast

from agentaccel.clients import bodies
from agentaccel.clients.anthropic_inside import reads_whole, response_of, streamed, whole, whole_async
from agentaccel.clients.attempt import ANNOUNCED, Attempt, Outgoing, stop_announced
from agentaccel.clients.client_copy import EqualInCopies, Switch, account_behind, derived, is_off, library_of, switch_of
from agentaccel.clients.looking import Look, look_at, peek, peek_async
from agentaccel.clients.pending import watch_results
from agentaccel.clients.transport import Route, Target, is_response, server_of, with_transport
from agentaccel.concurrency import in_a_loop
from agentaccel.engine.engine import Engine
from agentaccel.engine.pending import Server
from agentaccel.engine.scope import Sender
from agentaccel.errors import ConfigError, MissingExtraError
from agentaccel.facts import cache_facts, local_platform, priced_region, speaks
from agentaccel.selfhost.probe import is_private
from agentaccel.turn import Answer
from agentaccel.types import Endpoint
from agentaccel.wire.json import name_of

log = logging.getLogger("agentaccel")
_sdk_log = logging.getLogger("anthropic._base_client")

C = TypeVar("C")

_BASE = "anthropic._base_client"
"""Where the SDK's chain of middleware, and its last hop, come from."""
UNSIGNED = ("api", "foundry")
"""Platforms whose clients send a request as it was written: the others sign it, or write it anew."""
_MOST_HOPS = 32
"""Middleware behind ours that is looked through."""


class _Whose(NamedTuple):
    """Who answers the calls of a client and of its copies, as far as it is known when the client is wrapped."""

    engine: Engine
    of_class: str
    """The platform that the client's class speaks of."""
    named: tuple[str, str] | None
    """The provider and platform that the user has named."""
    home: Server
    """Where the client points."""

    def at(self, server: Server, path: str, model: str | None) -> Target:
        """Who answers at a server: one of the user's own is known by what it has said, and any other one is taken for
        a gateway to what the class speaks of. `model` is None where it is not known which one is asked."""
        named = self.named
        if named is not None and (named[0] == "anthropic" or server == self.home):
            return Target(Endpoint(*named, "messages", server))
        if self.of_class != "api":
            return Target(Endpoint("anthropic", self.of_class, server=server))
        served = local_platform(server, path)
        place = served or (None if self._is_behind(server, model) else self.engine.servers.place(server))
        if place is not None and speaks(*place, "messages"):
            return Target(Endpoint(*place, "messages", server))
        return Target(Endpoint("anthropic", self.of_class, server=server), unnamed=served is None)

    def _is_behind(self, server: Server, model: str | None) -> bool:
        """True if a model of the provider's stands behind a server that does not list it: there are gateways whose
        other paths, or whose lists, are those of servers of the user's own."""
        told, aliases = self.engine.servers.of(server), self.engine.policy.aliases
        if told is None or model in told.models:
            return False
        return model is None or cache_facts(model, provider="anthropic", aliases=aliases) is not None


def wrap_client(client: C, engine: Engine, *, of_class: str, named: tuple[str, str] | None) -> C:
    """A copy of `client` whose innermost middleware is ours; `client` itself if it has ours already. The platform is
    the one that the user `named`, or that a server of the user's own has told, or else the one that the client's class
    speaks of."""
    try:
        import anthropic
    except ImportError:
        raise MissingExtraError("anthropic", "anthropic") from None
    whose = _Whose(engine, of_class, named, server_of(cast(Any, client).base_url))
    if not has_middleware() or not hasattr(client, "with_middleware"):
        if of_class not in UNSIGNED:
            raise ConfigError(
                f"anthropic {anthropic.__version__} signs or rewrites requests of {type(client).__name__} before they "
                "can be planned: pip install -U 'anthropic>=0.115', or use accel.turn(request) around your own HTTP"
            )
        return _wrap_transport(client, whose)
    others = [one for one in cast(Any, client).middleware if getattr(one, "agentaccel_engine", None) is not None]
    if any(one.agentaccel_engine is engine for one in others):
        log.info("agentaccel: this client is wrapped already; it is used as it is")
        return client
    if any(switch_of(one) is None for one in others):
        raise ConfigError("another Accel has wrapped this client: wrap the bare client, or share one Accel")
    plain = _is_plain(type(client), getattr(client, "_custom_headers", ()))
    middleware = _middleware(whose, client, plain=plain)
    return derived(
        client,
        lambda: cast(C, cast(Any, client).with_middleware(middleware)),
        is_ours=lambda made: middleware in cast(Any, made).middleware,
    )


def middleware_for(
    client: Any, engine: Engine, switch: Switch, *, of_class: str, headers: Iterable[str], given: Iterable[Any]
) -> list[Any]:
    """The middleware of a client that is about to be made with `given` and these custom `headers`: ours comes last, as
    long as nobody has wrapped the client that it is a copy of."""
    others = [one for one in given if switch_of(one) is None]
    if any(getattr(one, "agentaccel_engine", None) is not None for one in others):
        return others
    whose = _Whose(engine, of_class, None, None)
    plain = _is_plain(type(client), headers)
    return [*others, _middleware(whose, weakref.proxy(client), plain=plain, switch=switch)]


def has_middleware() -> bool:
    """True if the SDK that is installed has client middleware."""
    import anthropic

    return hasattr(anthropic, "Middleware")


def _is_plain(kind: type, headers: Iterable[str]) -> bool:
    """True if clients of this class send the body of a call as it is, as JSON."""
    import anthropic

    formed = any(name.lower() == "content-type" for name in headers)
    return kind in (anthropic.Anthropic, anthropic.AsyncAnthropic) and not formed


def _middleware(whose: _Whose, client: Any, *, plain: bool, switch: Switch | None = None) -> Any:
    """Our middleware; its class is made here because the SDK is imported only where it is used."""
    import anthropic

    base: Any = anthropic.Middleware
    in_threads, on_loops = anthropic.APIResponse, anthropic.AsyncAPIResponse
    writer, told = bodies.Writer(), partial(_told, whose, client)

    def about(request: Any, call_next: Any) -> Outgoing | None:
        return None if is_off(switch) else _outgoing(whose, client, request, call_next)

    def sent(request: Any, attempt: Attempt, call_next: Any) -> Any:
        body = attempt.body
        if attempt.joins:
            request = streamed(request)
        if attempt.headers:
            request = _with_headers(request, attempt.headers)
        if body is request.json:
            return request
        # Clients of platforms take fields out of the body, and so may those of a user's own class.
        return _with_bytes(writer, request, body) if plain and _only_encodes(call_next) else _with_body(request, body)

    class AccelMiddleware(EqualInCopies, base):  # type: ignore[misc]  # the base is known at run time only
        agentaccel_engine = whose.engine
        agentaccel_switch = switch

        def handle(self, request: Any, call_next: Callable[[Any], Any]) -> Any:
            _looked(whose, client, switch, request, call_next)
            outgoing = about(request, call_next)
            if outgoing is None:
                return _retried(told(request, call_next(request), call_next), in_threads, request, call_next)
            return _retried(_exchanged(outgoing, request, call_next, sent, in_threads), in_threads, request, call_next)

        async def handle_async(self, request: Any, call_next: Callable[[Any], Any]) -> Any:
            await _looked_async(whose, client, switch, request, call_next)
            outgoing = about(request, call_next)
            if outgoing is None:
                return _retried(told(request, await call_next(request), call_next), on_loops, request, call_next)
            response = await _exchanged_async(outgoing, request, call_next, sent, on_loops)
            return _retried(response, on_loops, request, call_next)

    return AccelMiddleware()


def _exchanged(outgoing: Outgoing, request: Any, call_next: Any, sent: Any, kind: Any) -> Any:
    """The response to `request`, which goes out as `sent` says of each attempt; `kind` is the SDK's class of it."""
    while True:
        attempt = outgoing.attempt()
        if attempt.keeps:
            attempt.can_resend(lambda body, more: _answer(call_next(_warming(request, body, more))))
        with attempt:
            attempt.wait()
            response = call_next(sent(request, attempt, call_next))
            http = _http(response, call_next)
            ours = _may_be_ours(outgoing, attempt, http) and attempt.refused(http.status_code, peek(http))
        if ours:
            http.close()
        else:
            attempt.watch(http)
            if not attempt.joins or http is None:
                return response
            if (joined := whole(attempt, http, kind, request, _sender(call_next))) is not None:
                return joined
        outgoing = outgoing._replace(retries=outgoing.retries + 1)


async def _exchanged_async(outgoing: Outgoing, request: Any, call_next: Any, sent: Any, kind: Any) -> Any:
    """The same on an event loop."""

    async def resend(body: Any, more: Mapping[str, str]) -> Answer:
        return _answer(await call_next(_warming(request, body, more)))

    while True:
        attempt = await outgoing.attempt_async()
        if attempt.keeps:
            attempt.can_resend_async(resend)
        with attempt:
            await attempt.wait_async()
            response = await call_next(sent(request, attempt, call_next))
            http = _http(response, call_next)
            ours = _may_be_ours(outgoing, attempt, http) and attempt.refused(http.status_code, await peek_async(http))
        if ours:
            await http.aclose()
        else:
            attempt.watch(http)
            if not attempt.joins or http is None:
                return response
            if (joined := await whole_async(attempt, http, kind, request, _sender(call_next))) is not None:
                return joined
        outgoing = outgoing._replace(retries=outgoing.retries + 1)


def _may_be_ours(outgoing: Outgoing, attempt: Attempt, http: Any) -> bool:
    """True if a reply may refuse a field of ours: a server of the user's own that names one may be asked again."""
    return http is not None and outgoing.endpoint.provider == "compatible" and attempt.may_be_ours(http.status_code)


def _with_headers(request: Any, headers: Mapping[str, str]) -> Any:
    """The SDK's request with further headers, behind those of the call."""
    made = copy.copy(request)
    made.options = request.options.model_copy(update={"headers": {**headers, **request.headers}})
    return made


def _with_body(request: Any, body: Any) -> Any:
    """The SDK's request with another body.

    Its own `copy` makes a deep copy of the body that is about to be replaced, a third of what a long request costs.
    """
    made = copy.copy(request)
    made.options = request.options.model_copy(update={"json_data": body})
    return made


def _with_bytes(writer: bodies.Writer, request: Any, body: Any) -> Any:
    """The same, with the body written already: the SDK's encoder takes longer than all of our own work.

    All but plain JSON is left to the SDK, to write or to refuse; and so is a body that is no more than a part of what
    is sent, or that the SDK's log is to show.
    """
    options = request.options
    alone = hasattr(options, "content") and options.extra_json is None and options.files is None
    content = (
        writer.compact(body) if alone and not _is_formed(options) and not _sdk_log.isEnabledFor(logging.DEBUG) else None
    )
    if content is None:
        return _with_body(request, body)
    made = copy.copy(request)
    made.options = options.model_copy(update={"json_data": None, "content": content})
    return made


def _is_formed(options: Any) -> bool:
    """Whether the call asks for a form of its own, such as multipart."""
    return isinstance(options.headers, Mapping) and any(name.lower() == "content-type" for name in options.headers)


def _only_encodes(call_next: Any) -> bool:
    """Whether the SDK itself comes next, and no middleware that was added later and may look at the body."""
    return bool(getattr(call_next, "__module__", "") == _BASE and call_next.__name__ == "base_handler")


def _sender(call_next: Any) -> Any:
    """The client that sends, which is a copy of the one that was wrapped where the user has made one: what the SDK's
    last hop holds, behind those of middleware that was added later. None where that is not to be seen."""
    for _ in range(_MOST_HOPS):
        code = getattr(call_next, "__code__", None)
        if code is None or getattr(call_next, "__module__", "") != _BASE:
            return None
        cells = dict(zip(code.co_freevars, call_next.__closure__ or (), strict=True))
        held = {name: cell.cell_contents for name, cell in cells.items()}
        if _only_encodes(call_next):
            return held.get("self")
        call_next = next((value for value in held.values() if getattr(value, "__module__", "") == _BASE), None)
    return None


def _warming(request: Any, body: Any, more: Mapping[str, str]) -> Any:
    """The same for a request of our own, which is another one, and read whole whatever the caller does with his; with
    `more` headers behind those of the call."""
    made, own = copy.copy(request), {"json_data": body, "idempotency_key": None}
    headers = request.options.headers if isinstance(request.options.headers, Mapping) else {}
    own["headers"] = {
        **more,
        **{name: value for name, value in headers.items() if name.lower() not in _OF_ONE_REQUEST},
    }
    made.options = request.options.model_copy(update=own)
    made.stream, made.stream_cls, made.cast_to = False, None, object
    return made


_OF_ONE_REQUEST = ("idempotency-key", "x-stainless-raw-response", ANNOUNCED)
"""Headers that are about a request as it was sent once, or about how its reply is read."""


def _answer(response: Any) -> Answer:
    http = response.http_response
    return Answer(http.status_code, http.content)


def _is_bare(response: Any, call_next: Any) -> bool:
    """True if `response` is the HTTP library's own, which the SDK gives where that is what the caller wants to have.

    The SDK's classes that a caller can ask for in the same way, such as that of a download, hold such a response.
    """
    return _only_encodes(call_next) and is_response(response)


def _http(response: Any, call_next: Any) -> Any:
    """The HTTP library's response in what the SDK gives; None for an answer that somebody else made up."""
    return response if _is_bare(response, call_next) else getattr(response, "http_response", None)


def _retried(response: Any, kind: Any, request: Any, call_next: Any) -> Any:
    """A bare response that says that something went wrong, as the SDK's own retries know it.

    Behind any middleware they take one for an answer that the middleware has made up, and neither retry nor raise;
    without, they do, so where ours is the only one they are to.
    """
    if not _is_bare(response, call_next) or response.is_success:
        return response
    sender = _sender(call_next)
    if sender is None or len(sender.middleware) > 1:
        return response
    return response_of(response, kind, request, sender)


def _outgoing(whose: _Whose, client: Any, request: Any, call_next: Any) -> Outgoing | None:
    """What `request` is about to send; None if it is no model call."""
    headers, engine = request.headers, whose.engine
    announced = _is_announced(request)
    if not _is_call(request):
        if announced:
            stop_announced()
        return None
    sender = _sender(call_next) or client
    endpoint, account = _target(whose, sender, request).endpoint, account_behind(sender, headers, engine.recorder.key)
    named = getattr(sender, "region", None)
    region = priced_region(*endpoint[:2], "", named if isinstance(named, str) else "")
    own = endpoint.provider == "compatible"
    return Outgoing(
        engine,
        request.json,
        endpoint._replace(account=account, region=region),
        retries=request.retries_taken,
        announced=announced,
        sender=Sender(
            frozenset(name.lower() for name in sender._build_headers(request.options)) if own else frozenset(),
            joinable=_only_encodes(call_next) and reads_whole(request),
        ),
    )


def _is_call(request: Any) -> bool:
    """True if `request` is a model call."""
    return request.method.lower() == "post" and _is_messages(str(request.url)) and isinstance(request.json, Mapping)


def _is_announced(request: Any) -> bool:
    return any(name.lower() == ANNOUNCED for name in request.headers)


def _target(whose: _Whose, sender: Any, request: Any) -> Target:
    """Who answers a model call."""
    path, model = f"{sender.base_url.path.rstrip('/')}{request.url}", name_of(request.json.get("model") or "")
    return whose.at(server_of(sender.base_url), path, model)


def _looked(whose: _Whose, client: Any, switch: Switch | None, request: Any, call_next: Any) -> None:
    """Ask who answers, where nobody has said it."""
    if not is_off(switch) and (look := _look(whose, client, request, call_next)) is not None:
        look[0].in_a_thread(look[1])


async def _looked_async(whose: _Whose, client: Any, switch: Switch | None, request: Any, call_next: Any) -> None:
    """The same on an event loop."""
    if not is_off(switch) and in_a_loop() and (look := _look(whose, client, request, call_next)) is not None:
        await look[0].on_this_loop(look[1])


def _look(whose: _Whose, client: Any, request: Any, call_next: Any) -> tuple[Look, Any] | None:
    """The question who answers, which is asked before this call, and the transport of the client that sends it; None
    where that is known, or not ours to ask."""
    sender = _sender(call_next) or client
    if not is_private(sender.base_url.host) or not _is_call(request) or _is_announced(request):
        return None
    try:
        if not _target(whose, sender, request).unnamed:
            return None
        http = sender._client
        library = library_of(http)
        url, headers = sender._prepare_url(str(request.url)), sender._build_headers(request.options)
        look = look_at(whose.engine, library.Request("POST", url, headers=headers), library)
        return None if look is None else (look, http._transport_for_url(look.request.url))
    except Exception:
        if whose.engine.policy.strict:
            raise
        log.exception("agentaccel: could not look at a server")
        return None


def _told(whose: _Whose, client: Any, request: Any, response: Any, call_next: Any) -> Any:
    """`response` to a request that was no model call; it may hold the results of a batch."""
    path = str(request.url).split("?")[0]
    http, home = _http(response, call_next), server_of((_sender(call_next) or client).base_url)
    watch_results(whose.engine, request.method, path, http, lambda calls: whose.at(home, path, None).endpoint)
    return response


def _is_messages(url: str) -> bool:
    return url.split("?")[0].rstrip("/").endswith("/messages")


def _wrap_transport(client: C, whose: _Whose) -> C:
    """For an SDK that has no middleware yet: a derived client whose HTTP transport is ours."""

    return with_transport(client, whose.engine, _route(whose))


def route_of(engine: Engine, of_class: str) -> Route:
    """Where the requests of a client of this class go, for an SDK that has no middleware yet."""
    return _route(_Whose(engine, of_class, None, None))


def _route(whose: _Whose) -> Route:
    def route(url: Any) -> Target | None:
        return whose.at(server_of(url), url.path, None) if _is_messages(url.path) else None

    return route
