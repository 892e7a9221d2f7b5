"""`Accel`: one policy, one trace store, and the two touch points of an agent loop."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, TypeVar, Unpack, overload

from agentaccel.beside import costly
from agentaccel.checks import check_session_name
from agentaccel.clients import anthropic, openai
from agentaccel.clients.client_copy import place_of_class
from agentaccel.clients.endpoint import endpoint_of, platform_named
from agentaccel.clients.transport import call_of
from agentaccel.clock import Clock, SystemClock
from agentaccel.concurrency import Background, in_a_loop
from agentaccel.effects.spec import ToolSpec
from agentaccel.engine.conversation import own_id
from agentaccel.engine.engine import Engine
from agentaccel.engine.lineage import Registry
from agentaccel.engine.scope import CallAnswerer, OnlyRuns, Session, bypassed, current, standing_beside, tool_call_of
from agentaccel.errors import ConfigError
from agentaccel.former import warn_former
from agentaccel.hooks import Hook, HookList, Listener, listener_of
from agentaccel.policy import ENV_PLATFORM, Policy, from_environment, log_as_asked, policy_of
from agentaccel.selfhost.asking import asker_of, checked_dialect, replicas_of
from agentaccel.selfhost.attach import Backend
from agentaccel.store.recorder import Recorder
from agentaccel.tools.declarations import Declared, declared_spec
from agentaccel.tools.speculator import speculation
from agentaccel.tools.toolbox import Toolbox
from agentaccel.turn import Turn
from agentaccel.types import CachePlan, Request
from agentaccel.wire import dialect

log = logging.getLogger("agentaccel")

C = TypeVar("C")
T = TypeVar("T")
AnyTool = Callable[..., Any]
F = TypeVar("F", bound=AnyTool)


class Accel:
    """Makes agent loops cheaper without changing their answers.

        accel = Accel()                                     # or Accel(Policy(mode="observe")), `async with Accel()`
        client = accel.wrap(AsyncAnthropic())               # touch point 1: the model call; the same class back
        tools = accel.tools({"search": search})             # touch point 2: the tool call

    Thread-safe. One per process is enough; several share nothing but the trace store. Raises `ConfigError` where a
    setting or an environment variable cannot be meant. `hooks` are called with each request and each tool run once it
    has ended (`agentaccel.hooks`). `environ` stands in for the process's environment.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        clock: Clock | None = None,
        hooks: Iterable[Hook | Listener] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        policy = policy_of(policy)
        environ = os.environ if environ is None else environ
        self.policy = from_environment(policy, environ)
        off = self.policy.mode == "off"
        log_as_asked(environ, strict=not off)
        self._elsewhere = None if off else platform_named(environ.get(ENV_PLATFORM) or None, ENV_PLATFORM)
        self._clock = clock or SystemClock()
        store = self.policy.store if not off else type(self.policy.store)(enabled=False)
        self._background = Background(self._clock)
        self._recorder = Recorder(store, strict=self.policy.strict, background=self._background)
        self._registry = Registry(self._recorder)
        self._listeners = HookList(strict=self.policy.strict)
        if not isinstance(hooks, Iterable):
            raise ConfigError(f"hooks is a list of functions; got {hooks!r}")
        for hook in hooks:
            self.add_hook(hook)
        self._speculator = speculation(self.policy, self._clock, self._recorder, self._listeners, self._background)
        self._engine = Engine(
            self.policy,
            self._clock,
            self._recorder,
            self._registry,
            self._listeners,
            speculator=self._speculator,
            runs=self._background,
            background=self._background,
        )
        self._toolbox = Toolbox(self._clock, self._recorder, self._registry, self._listeners, self._speculator)
        self._calls: CallAnswerer = OnlyRuns() if off else self._toolbox

    # --- touch point 1: the model call --------------------------------------------------------------------------------

    def wrap(self, client: C, *, platform: str | None = None) -> C:
        """`client` with agentaccel at its last hop: a new client of the same class that shares its connections.

        Takes the clients of the `anthropic` SDK (Claude API, Bedrock, Vertex, Foundry, AWS) and of the `openai` SDK
        (OpenAI, Azure, and servers and gateways that are compatible), sync and async; wrapping a wrapped client gives
        the same client back. The client given is not changed. `platform` names who answers at the client's base URL,
        where neither the host nor the client's class tells: "vllm", "openrouter"; "bedrock" for a client of Anthropic's
        API in front of a gateway to Bedrock. A copy of an `openai` client that is pointed elsewhere is judged by where
        it points. Raises `ConfigError` for a client that is not known, or that another `Accel` has wrapped, and for a
        platform that no such client speaks to.
        """
        if self.policy.mode == "off":
            return client
        found = place_of_class(type(client))
        if found is None:
            raise ConfigError(
                f"{type(client).__module__}.{type(client).__qualname__} is not a client that agentaccel knows: pass "
                "a client of the anthropic or openai SDK, or use accel.turn(request) around your own HTTP call"
            )
        if found[0] == "anthropic":
            named = platform_named(platform, wire="messages")
            return anthropic.wrap_client(client, self._engine, of_class=found[1], named=named)
        of_class = found if found[1] != "api" else self._elsewhere
        return openai.wrap_client(client, self._engine, named=platform_named(platform), of_class=of_class)

    def plan(self, request: Request, *, provider: str | None = None, platform: str | None = None) -> CachePlan:
        """What agentaccel would add to `request`, and why; nothing is sent and nothing is recorded.

        `plan.apply(request)` gives the request to send. Without a `provider` ("anthropic", "openai",
        "compatible") it is the one that `platform` or the model's name belongs to. Raises `ConfigError` for what is no
        request body, and for a provider or platform that is not known.
        """
        endpoint = endpoint_of(request, provider, platform, self.policy.aliases)
        if self.policy.mode == "off":
            return CachePlan(reasons=("agentaccel is off",), wire=endpoint.wire)
        return replace(self._engine.preview(request, endpoint), encode=dialect(endpoint.wire).encode)

    def turn(self, request: Request, *, provider: str | None = None, platform: str | None = None) -> Turn:
        """A turn for people with their own HTTP: give it events, and send the request of its `Send` command.

            turn = accel.turn(body)
            [send] = turn.handle(Started(time.monotonic()))
            reply = my_post(send.request)
            turn.handle(Reported(usage=usage_of(reply["usage"])))
            turn.handle(Finished(time.monotonic()))

        `provider` and `platform` are as in `plan`, and so is what it raises.
        """
        endpoint = endpoint_of(request, provider, platform, self.policy.aliases)
        if self.policy.mode == "off":
            return Turn(request=request, plan=CachePlan(), on_end=lambda ended: None, wire=endpoint.wire)
        return self._engine.begin(request, endpoint)

    def backend(
        self,
        url: str | Sequence[str],
        *,
        metrics: str | Sequence[str] | None = None,
        headers: Mapping[str, str] | None = None,
        verify: bool | ssl.SSLContext = True,
        dialect: str | None = None,
        timeout: float = 2.0,
        pin_slots: bool = False,
    ) -> Backend:
        """A server of a model that you run, or several replicas of it, attached by base URL: "http://127.0.0.1:8000/v1".

        It is asked in the background what it is; wrapped clients that call it know from then on. `metrics` is where its
        counters are, one URL for each server, where that is not behind its own port. `headers` go to these hosts alone,
        such as {"authorization": "Bearer …"}; `verify` is what httpx takes. `dialect` names who answers, where a router
        hides it: "vllm", "sglang", "llamacpp", "dynamo", "smg", "trtllm", "transformers". `timeout` is in seconds, for
        each answer. `pin_slots` gives each conversation a slot of its own on llama.cpp; say it only of a server that
        this process alone uses. Raises `ConfigError` for what is no http URL, and `MissingExtraError` without the extra
        `selfhost`.
        """
        replicas = replicas_of(url, metrics)
        if not isinstance(pin_slots, bool):
            raise ConfigError(f"Accel.backend: pin_slots is {pin_slots!r}; give True or False")
        for replica in replicas if pin_slots else ():
            self._engine.servers.pin(replica.address)
        return Backend(
            replicas,
            asker_of(replicas, headers, verify, timeout),
            self._background,
            self._engine.servers,
            key=self._recorder.shared_key,
            dialect=checked_dialect(dialect),
            off=self.policy.mode == "off",
        )

    # --- touch point 2: the tool call ---------------------------------------------------------------------------------

    # The third and fourth are for mypy, which joins functions of several kinds to what is no F.
    @overload
    def tools(self, tools: Mapping[str, F]) -> dict[str, F]: ...  # pyright: ignore[reportOverlappingOverload]
    @overload
    def tools(self, tools: Sequence[F]) -> list[F]: ...  # pyright: ignore[reportOverlappingOverload]
    @overload
    def tools(  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
        self, tools: Mapping[str, AnyTool]
    ) -> dict[str, AnyTool]: ...
    @overload
    def tools(  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
        self, tools: Sequence[AnyTool]
    ) -> list[AnyTool]: ...
    def tools(self, tools: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any] | list[Any]:
        """A tool table, by name or as a list of functions, with every call recorded. What a tool declares of itself, by
        `tool` or as one of our executors, goes on to hold. Raises `ConfigError` for what is no table of functions."""
        if isinstance(tools, Mapping):
            return {name: self._wrapped(tool, name, None) for name, tool in tools.items()}
        if not isinstance(tools, Iterable):
            raise ConfigError(f"tools takes a dict of functions by name, or a list of them; got {tools!r}")
        return [self._wrapped(tool, None, None) for tool in tools]

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, /, *, name: str | None = None, **declared: Unpack[Declared]) -> Callable[[F], F]: ...
    def tool(
        self, function: F | None = None, /, *, name: str | None = None, **declared: Unpack[Declared]
    ) -> F | Callable[[F], F]:
        """Decorator for one tool, bare or with what its owner declares of it, by the names of `ToolSpec`'s fields.

            @accel.tool(effect="read_remote", concurrent=True, max_age=60)
            async def search(query: str) -> str: ...

        `effect` is a member of `Effect`, its value, or a function that takes the arguments of a call by name and
        returns one of these. Raises `ConfigError` for another one.
        """
        spec = declared_spec(declared)
        if function is not None:
            return self._wrapped(function, name, spec)
        return lambda decorated: self._wrapped(decorated, name, spec)

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        execute: Callable[[], Awaitable[T]],
        *,
        id: str | None = None,  # noqa: A002 - the word of the providers
    ) -> T:
        """Answer one tool call, by an early run or by `execute`, and record the call: for frameworks and loops that run
        tools themselves. Exceptions pass untouched.

            result = await accel.call_tool("search", {"query": "lamps"}, lambda: search("lamps"), id=call.id)

        It belongs to the session that is open here, else to the conversation whose model has asked for it. A function
        that `tool` has wrapped under that `name` is what may be run early, and is taken to give what `execute` gives.
        Cancelling the caller cancels `execute`. Raises `ConfigError` if `name` is no string or `execute` no function.
        """
        result: T = await self._calls.run(tool_call_of(name, arguments, execute, id), execute)
        return result

    def call_tool_sync(
        self,
        name: str,
        arguments: Mapping[str, Any],
        execute: Callable[[], T],
        *,
        id: str | None = None,  # noqa: A002 - the word of the providers
    ) -> T:
        """`call_tool` for tools that are plain functions, where no event loop runs, or beside one in a thread."""
        result: T = self._calls.run_here(tool_call_of(name, arguments, execute, id), execute)
        return result

    def _wrapped(self, tool: F, name: str | None, spec: ToolSpec | None) -> F:
        return tool if self.policy.mode == "off" else self._toolbox.wrap(tool, name, spec)

    # --- sessions -----------------------------------------------------------------------------------------------------

    def session(
        self,
        id: str,  # noqa: A002 - the word that callers expect
        *,
        agent: str | None = None,
        tenant: str | None = None,
        parent: str | None = None,
    ) -> Session:
        """The conversation called `id`, to be entered; what is said of it here outlasts this process.

        `agent` is what statistics are learned for. `tenant` is whom the conversation belongs to: what two tenants call
        by one id are two conversations, and so are one with a tenant and one without. `parent` names the session of
        that tenant that this one works for (default: the session that is open here, whosever it is). Raises
        `ConfigError` for a name that is no text, or none.
        """
        for what, name in (("id", id), ("agent", agent), ("tenant", tenant), ("parent", parent)):
            check_session_name(what, name, required=what == "id")
        outer = current.get().of(self._registry.owner).session
        conversation = self._registry.named(own_id(id, tenant))
        if parent is not None:
            parent = own_id(parent, tenant)
        elif outer is not None and outer.id != conversation.id:
            parent = outer.id
        with conversation.lock:
            conversation.agent = agent or conversation.agent
            conversation.tenant = tenant
            conversation.parent = conversation.parent or parent
        return Session(conversation, self._calls, self._background, self._announce, owner=self._registry.owner)

    def _announce(self, session: Session, create: Callable[..., object], request: dict[str, Any]) -> None:
        """What `Session.prewarm` was given; nothing of ours is raised there."""
        own = self._engine.own_requests
        if own is None or not self.policy.cache.prewarm:
            return
        try:
            loop = asyncio.get_running_loop() if in_a_loop() else None
            own.announced(session, call_of(create, request, self._engine), loop)
        except Exception:
            if self.policy.strict:
                raise
            log.exception("agentaccel: could not take an announcement")

    @contextmanager
    def bypass(self) -> Iterator[None]:
        """Model calls made inside go out as written, and are recorded as bypassed."""
        with bypassed():
            yield

    def beside(self, parts: Iterable[object]) -> AbstractContextManager[None]:
        """Model calls made inside are recorded as made beside those of `parts`, objects or the names of their classes,
        that are known to cost something at the prompt cache, as middleware of a framework that edits the history: the
        report says what was missed beside each. For adapters."""
        return standing_beside(costly(parts))

    def add_hook(self, hook: Hook | Listener) -> None:
        """Call `hook` with each request and each tool run that begins from now on, once it has ended;
        `Accel(hooks=[…])` does so from the start. Raises `ConfigError` if `hook` is neither a plain function nor a
        `Listener`."""
        self._listeners.add(listener_of(hook))

    def listen(self, listener: Listener) -> None:
        """The former name of `add_hook`."""
        warn_former("Accel.listen", "Accel.add_hook, or Accel(hooks=[…])")
        self.add_hook(listener)

    def flush(self) -> None:
        """Wait until what has ended so far stands in the trace store, or cannot be written now: records are written
        beside the calls that they are of. On an event loop, `await asyncio.to_thread(accel.flush)`."""
        self._recorder.flush()

    def close(self) -> None:
        """Close the trace store; what was waiting is written first, with it streams and early runs that have not ended.
        Clients go on working, unrecorded."""
        self._take_back()
        self._listeners.flush()
        self._recorder.close()

    def _take_back(self) -> None:
        """End what goes on, as leaving every session would, so that the ledger and the trace store add up, and write
        what was learned.

        What has not ended by then, as the tasks of a loop that stands still for as long as it closes this, is counted
        with the seconds that it has taken so far: nothing is recorded later.
        """
        self._engine.replies.end()
        buffer = self._speculator.launcher.serving.buffer
        left = buffer.leave(None)
        self._background.close()
        now = self._clock.monotonic()
        for entry in left:
            buffer.failed(entry, now)
        self._speculator.learning.close()

    async def aclose(self) -> None:
        """`close`, in a thread: the event loop goes on, so that streams and early runs of its tasks can end."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Accel:
        return self

    async def __aenter__(self) -> Accel:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def __exit__(self, *error: object) -> None:
        self.close()


def apply(request: Request, plan: CachePlan) -> Request:
    """The former form of `CachePlan.apply`. Raises `TypeError` if `plan` is not a plan."""
    if not isinstance(plan, CachePlan):
        raise TypeError(f"apply takes a request and then its plan, as Accel.plan made it; got {type(plan).__name__}")
    return plan.apply(request)
