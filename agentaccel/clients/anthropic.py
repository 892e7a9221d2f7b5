"""The seam of the `anthropic` SDK: its client middleware, which runs once per attempt, inside the retry loop.

Verified with anthropic 2.11 and 2.12. Replies are watched where the HTTP library hands out their bytes, so that
`create`, `stream`, raw and streaming responses all behave as they do without us.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import copy
import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from agentaccel.clients.watch import ReplyWatch, watched
from agentaccel.errors import ConfigError, MissingExtra
from agentaccel.session import Composer
from agentaccel.turn import Command, Failed, Finished, Send, Started, Turn, Wait

log = logging.getLogger("agentaccel")

C = TypeVar("C")

SUPPORTED_PLATFORMS = frozenset({"api", "aws", "foundry"})
"""Platforms whose requests have the form of the Claude API."""


def wrap_client(client: C, composer: Composer, *, platform: str) -> C:
    """A copy of `client` whose innermost middleware is ours; `client` itself where it has it already."""
    try:
        import anthropic
    except ImportError:
        raise MissingExtra("anthropic", "anthropic") from None
    if not hasattr(anthropic, "Middleware") or not hasattr(client, "with_middleware"):
        raise ConfigError(f"anthropic {anthropic.__version__} has no client middleware: pip install 'anthropic>=2'")
    if platform not in SUPPORTED_PLATFORMS:
        raise ConfigError(
            f"{type(client).__name__} is not supported yet: wrap an Anthropic or AsyncAnthropic client, "
            "or use accel.turn(request) around your own HTTP call"
        )
    others = [one for one in cast(Any, client).middleware if getattr(one, "agentaccel_composer", None) is not None]
    if any(one.agentaccel_composer is composer for one in others):
        log.info("agentaccel: this client is wrapped already; it is used as it is")
        return client
    if others:
        raise ConfigError("another Accel has wrapped this client: wrap the bare client, or share one Accel")
    return cast(C, cast(Any, client).with_middleware(_middleware(anthropic.Middleware, composer, platform)))


def _middleware(base: Any, composer: Composer, platform: str) -> Any:
    """Our middleware; its class is made here because the SDK is imported only where it is used."""

    class AccelMiddleware(base):  # type: ignore[misc]  # the base is known at run time only
        agentaccel_composer = composer

        def handle(self, request: Any, call_next: Callable[[Any], Any]) -> Any:
            attempt = _Attempt.of(composer, platform, request)
            if attempt is None:
                return call_next(request)
            with attempt:
                for command in attempt.commands:
                    if isinstance(command, Wait):
                        wait(command)
                response = call_next(attempt.request)
            attempt.watch(response)
            return response

        async def handle_async(self, request: Any, call_next: Callable[[Any], Any]) -> Any:
            attempt = _Attempt.of(composer, platform, request)
            if attempt is None:
                return await call_next(request)
            with attempt:
                for command in attempt.commands:
                    if isinstance(command, Wait):
                        await wait_async(command)
                response = await call_next(attempt.request)
            attempt.watch(response)
            return response

    return AccelMiddleware()


def wait(command: Wait) -> None:
    """Perform a `Wait` in a thread: until the gate is set or the time is up, whatever came of it."""
    with contextlib.suppress(concurrent.futures.CancelledError, TimeoutError):
        command.gate.exception(timeout=command.at_most)


async def wait_async(command: Wait) -> None:
    """Perform a `Wait` on an event loop: other tasks go on, and a cancelled waiter leaves the gate to the others."""
    loop, passed = asyncio.get_running_loop(), asyncio.Event()

    def wake(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(passed.set)

    command.gate.add_done_callback(wake)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(command.at_most):
            await passed.wait()


class _Attempt:
    """One HTTP attempt: its turn, and what is to be sent for it."""

    def __init__(self, composer: Composer, turn: Turn, request: Any) -> None:
        self._composer = composer
        self._turn = turn
        self.commands: list[Command] = turn.handle(Started(composer.clock.monotonic()))
        body = next(command.request for command in self.commands if isinstance(command, Send))
        self.request = request if body is request.json else _with_body(request, body)

    @classmethod
    def of(cls, composer: Composer, platform: str, request: Any) -> _Attempt | None:
        """The attempt that `request` makes; None for one that is no model call, or that we failed to understand."""
        path = str(request.url).split("?")[0].rstrip("/")
        if request.method.lower() != "post" or not path.endswith("/messages") or not isinstance(request.json, Mapping):
            return None
        try:
            turn = composer.begin(request.json, platform=platform, attempt=request.retries_taken)
            return cls(composer, turn, request)
        except Exception:
            if composer.policy.strict:
                raise
            log.exception("agentaccel: could not plan a request; it goes out as written, unrecorded")
            return None

    def __enter__(self) -> _Attempt:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """No response came: the network's error, or a cancelled task, ends the turn and goes on to the caller."""
        if error is not None:
            cancelled = isinstance(error, asyncio.CancelledError | GeneratorExit | KeyboardInterrupt)
            self._end(lambda now: Failed(at=now, error=type(error).__name__, cancelled=cancelled))

    def watch(self, response: Any) -> None:
        """A response came, whatever its status; its body may be read already, or may still be to come."""
        try:
            self._watch(response)
        except Exception:
            if self._composer.policy.strict:
                raise
            log.exception("agentaccel: could not watch a reply; it goes on, and its usage is not known")
            self._end(Finished)

    def _watch(self, response: Any) -> None:
        http = getattr(response, "http_response", None)
        if http is None:  # a middleware further in answered by itself
            self._end(lambda now: Failed(at=now, error="answered without a response"))
        elif not http.is_success:
            self._end(lambda now: Failed(at=now, status=http.status_code, error=_error_type(http)))
        else:
            self._watch_body(http)

    def _watch_body(self, http: Any) -> None:
        read = http.is_stream_consumed or http.is_closed
        headers = _Plain(http.headers) if read else http.headers
        watch = ReplyWatch(self._turn, self._composer.clock, headers, strict=self._composer.policy.strict)
        if read:
            watch.chunk(http.content)
            watch.end("read")
        else:
            http.stream = watched(http.stream, watch)

    def _end(self, event: Callable[[float], Failed | Finished]) -> None:
        try:
            self._turn.handle(event(self._composer.clock.monotonic()))
        except Exception:
            if self._composer.policy.strict:
                raise
            log.exception("agentaccel: could not record a request")


def _with_body(request: Any, body: Any) -> Any:
    """The SDK's request with another body.

    Its own `copy` makes a deep copy of the body that is about to be replaced, a third of what a long request costs; so
    the copy is made of a request whose body is small.
    """
    bare = copy.copy(request)
    bare.options = request.options.model_copy(update={"json_data": None})
    return bare.copy(body=body)


class _Plain:
    """Headers of a body that the HTTP library has decoded already."""

    def __init__(self, headers: Any) -> None:
        self._headers = headers

    def get(self, key: str, default: str) -> str:
        return default if key == "content-encoding" else str(self._headers.get(key, default))


def _error_type(http: Any) -> str | None:
    """The provider's name for the error, where its body is at hand; never its text."""
    if not (http.is_stream_consumed or http.is_closed):
        return None
    try:
        error = json.loads(http.content).get("error")
    except (ValueError, AttributeError, RuntimeError):  # not JSON, not an object, or closed before it was read
        return None
    return str(error.get("type")) if isinstance(error, dict) else None
