"""Every dialect that a vendor's SDK speaks: its clients, one request worth planning, and how a caller sees a reply.

The clients talk to the emulator over the loopback. They retry at once, so that no test waits.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import anthropic
import httpx2
import openai
from pydantic import BaseModel

from agentaccel import Accel
from agentaccel.testing import ManualClock
from agentaccel_emulator import Emulator, RunningServer, serve
from tests.clients.wire import ASK
from tests.driver import Json, prose, user

AWS: Json = {"aws_access_key": "AKID", "aws_secret_key": "secret", "aws_region": "us-east-1"}
GOOGLE: Json = {"region": "us-east5", "project_id": "p", "access_token": "token"}
_SCHEMA: Json = {"type": "object", "properties": {"q": {"type": "string"}}}
_FUNCTION: Json = {"name": "search", "description": prose(600), "parameters": _SCHEMA}
_OPENAI = "gpt-6-sol"

CHAT: Json = {
    "model": _OPENAI,
    "messages": [{"role": "developer", "content": prose(1200)}, user(prose(60))],
    "tools": [{"type": "function", "function": _FUNCTION}],
}
RESPONSES: Json = {
    "model": _OPENAI,
    "input": [{"role": "developer", "content": prose(1200)}, user(prose(60))],
    "tools": [{"type": "function", "strict": False, **_FUNCTION}],
}


class _AtOnce:
    """Retries without waiting: how long to wait is the SDK's own affair."""

    def _calculate_retry_timeout(self, *given: Any, **named: Any) -> float:
        return 0.0


def at_once(kind: Any) -> Any:
    """A client class that retries without waiting."""
    return type(kind.__name__, (_AtOnce, kind), {})


@dataclass(frozen=True, slots=True)
class Dialect:
    """One form of requests and replies, at one vendor's or platform's."""

    name: str
    sync: Any
    """The SDK's client class, and that of its async client."""
    async_: Any
    path: str
    """What its base URL adds to a server's."""
    keys: Mapping[str, Any]
    ask: Json
    """A request that is worth a plan."""
    wire: str = "messages"
    """Which of the SDK's resources is called."""
    platform: str | None = None
    """Who answers, where a client of the openai SDK has to be told."""

    def client(self, server: RunningServer, **options: Any) -> Any:
        """A sync client; loading certificates, which takes longer than a test, is left out."""
        return self.sync_over(self._library.DefaultHttpxClient(verify=False), server.url, **options)

    def async_client(self, server: RunningServer, **options: Any) -> Any:
        return self.async_over(self._library.DefaultAsyncHttpxClient(verify=False), server.url, **options)

    def sync_over(self, http: Any, url: str, **options: Any) -> Any:
        """A sync client that talks through `http` to a server at `url`."""
        given = {**self.keys, "max_retries": 0, **options}
        return self.sync(base_url=url + self.path, http_client=http, **given)

    def async_over(self, http: Any, url: str, **options: Any) -> Any:
        given = {**self.keys, "max_retries": 0, **options}
        return self.async_(base_url=url + self.path, http_client=http, **given)

    def wrapped(self, accel: Accel) -> Callable[[Any], Any]:
        """Wraps a bare client; where the loopback hides who answers, it is said."""
        return lambda bare: accel.wrap(bare, platform=self.platform)

    @property
    def _library(self) -> Any:
        return anthropic if self.wire == "messages" else openai

    def calls(self, client: Any) -> Any:
        """Where the model is called: the resource that has `create`."""
        match self.wire:
            case "chat":
                return client.chat.completions
            case "responses":
                return client.responses
        return client.messages


def of_openai(name: str, wire: str, ask: Json, platform: str | None = "api") -> Dialect:
    """OpenAI's SDK at OpenAI, or at a platform that has to be named."""
    kinds = at_once(openai.OpenAI), at_once(openai.AsyncOpenAI)
    return Dialect(name, *kinds, "/v1", {"api_key": "k"}, ask, wire, platform)


def of_anthropic(name: str, kinds: tuple[Any, Any], path: str, keys: Json, model: str) -> Dialect:
    """One of the clients of Anthropic's SDK."""
    return Dialect(name, at_once(kinds[0]), at_once(kinds[1]), path, keys, {**ASK, "model": model})


DIALECTS: dict[str, Dialect] = {
    one.name: one
    for one in (
        of_anthropic(
            "messages", (anthropic.Anthropic, anthropic.AsyncAnthropic), "", {"api_key": "k"}, "claude-sonnet-5"
        ),
        of_openai("chat", "chat", CHAT),
        of_openai("responses", "responses", RESPONSES),
        of_anthropic(
            "bedrock",
            (anthropic.AnthropicBedrock, anthropic.AsyncAnthropicBedrock),
            "",
            AWS,
            "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        ),
        of_anthropic(
            "vertex",
            (anthropic.AnthropicVertex, anthropic.AsyncAnthropicVertex),
            "/v1",
            GOOGLE,
            "claude-sonnet-4-5@20250929",
        ),
    )
}

QUICK = httpx2.Timeout(5.0, read=0.02)
"""For a server that never answers: how long it is waited for does not matter."""


def still_server() -> Any:
    """A server whose clock stands still, so that the same calls after a reset get the same replies to the byte."""
    return serve(Emulator(clock=ManualClock()), advance=False)


# --- what a caller sees ----------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """What the SDK handed out, comparable: counts of tokens stand for one another, for a plan is to change them."""
    if isinstance(value, BaseModel):
        value = value.model_dump(warnings=False)  # of what the SDK itself parsed further
    return uncounted(value)


def uncounted(value: Any, within: bool = False) -> Any:
    """`value` with every count inside of a usage or metrics object replaced."""
    if isinstance(value, Mapping):
        return {
            name: uncounted(item, within or name in ("usage", "amazon-bedrock-invocationMetrics"))
            for name, item in value.items()
            if name != "cache_write_tokens_details"  # there where something was written, else null
        }
    if isinstance(value, list | tuple):
        return [uncounted(item, within) for item in value]
    return "tokens" if within and isinstance(value, int) else value


def raised(error: BaseException) -> Any:
    """Everything that an exception tells its catcher, its cause included; but for the sizes of replies cut short."""
    cause = error.__cause__
    told = type(error), repr(error.args), str(error), getattr(error, "body", None), getattr(error, "status_code", None)
    return *told[:1], *(_SIZES.sub("N bytes", one) for one in told[1:3]), *told[3:], type(cause), _unsized(cause)


_SIZES = re.compile(r"\(received \d+ bytes, expected \d+\)")


def _unsized(error: BaseException | None) -> str:
    return _SIZES.sub("N bytes", repr(getattr(error, "args", None)))


def seen(dialect: Dialect, client: Any, *, streamed: bool, events: int | None = None) -> Any:
    """What a caller of `client` sees: values, or an exception and all that it carries. It breaks off after `events`."""
    got: list[Any] = []
    try:
        if not streamed:
            return [plain(dialect.calls(client).create(**dialect.ask))], None
        with dialect.calls(client).create(**dialect.ask, stream=True) as stream:
            for event in stream:
                got.append(plain(event))
                if len(got) == events:
                    break
    except Exception as error:  # noqa: BLE001 - whatever its caller sees is what is compared
        return got, raised(error)
    return got, None


async def seen_async(dialect: Dialect, client: Any, *, streamed: bool, events: int | None = None) -> Any:
    """The same of an async client."""
    got: list[Any] = []
    try:
        if not streamed:
            return [plain(await dialect.calls(client).create(**dialect.ask))], None
        async with await dialect.calls(client).create(**dialect.ask, stream=True) as stream:
            async for event in stream:
                got.append(plain(event))
                if len(got) == events:
                    break
    except Exception as error:  # noqa: BLE001 - whatever its caller sees is what is compared
        return got, raised(error)
    return got, None


class Look(NamedTuple):
    """One call, as its caller saw it."""

    seen: Any
    """Values or events, and what was raised."""
    idle: bool
    """Whether no connection was busy afterwards: every reply was read to its end, or closed."""
    tasks: int
    """How many tasks were left, of those in which an event loop closes dropped generators."""


def look(
    dialect: Dialect,
    server: RunningServer,
    *,
    wrap: Callable[[Any], Any],
    streamed: bool,
    asynchronous: bool,
    events: int | None = None,
    **options: Any,
) -> Look:
    """What the caller of a fresh client sees, and what is left behind. `wrap` makes its client of the bare one."""
    if not asynchronous:
        with dialect.client(server, **options) as bare:
            found = seen(dialect, wrap(bare), streamed=streamed, events=events)
            return Look(found, idle(bare), 0)

    async def looking() -> Look:
        async with dialect.async_client(server, **options) as bare:
            found = await seen_async(dialect, wrap(bare), streamed=streamed, events=events)
            quiet, left = idle(bare), await closed()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return Look(found, quiet, left)

    return asyncio.run(looking())


def idle(client: Any) -> bool:
    """Whether no connection of a client is busy."""
    return all(one.is_idle() or one.isclosed() for one in client._client._transport._pool.connections)


async def closed() -> int:
    """How many tasks it took to close dropped generators, the inner ones after the outer ones; all have ended."""
    tasks = quiet = 0
    while quiet < 3:
        await asyncio.sleep(0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*left)
        tasks, quiet = tasks + len(left), 0 if left else quiet + 1
    return tasks
