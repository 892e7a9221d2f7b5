"""`install`: the clients that are made from then on are wrapped, whoever makes them, and nothing else is.

The real SDKs in front of the emulator, in process and over the loopback.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import anthropic
import httpx2
import openai
import pytest
from anthropic import _base_client as anthropic_base
from openai import _base_client as openai_base

import agentaccel
from agentaccel import Accel, ConfigError, Policy, StorePolicy
from agentaccel.clients import constructors
from agentaccel_emulator import RunningServer, serve
from tests.clients.wire import records
from tests.driver import prose, tool
from tests.legs.loopback import Far, far_side

ASK: dict[str, Any] = {
    "model": "claude-sonnet-5",
    "max_tokens": 9,
    "system": prose(1200),
    "tools": [tool("search", 600)],
    "messages": [{"role": "user", "content": "Hello"}],
}
CHAT: dict[str, Any] = {"model": "gpt-6.1-sol", "messages": [{"role": "user", "content": prose(3000)}]}
BASES = [getattr(base, name) for base in (anthropic_base, openai_base) for name in ("SyncAPIClient", "AsyncAPIClient")]
BEFORE = [kind.__init__ for kind in BASES]
KINDS = pytest.mark.parametrize(
    "kind", [anthropic.Anthropic, anthropic.AsyncAnthropic, openai.OpenAI, openai.AsyncOpenAI]
)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    agentaccel.uninstall()
    assert [kind.__init__ for kind in BASES] == BEFORE


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with serve(script=["One."] * 200) as running:
        yield running


@pytest.fixture
def installed(tmp_path: Path) -> agentaccel.Installation:
    return agentaccel.install(policy(tmp_path))


def policy(folder: Path, **more: Any) -> Policy:
    return Policy(strict=True, store=StorePolicy(path=folder / "trace.db"), **more)


def made(kind: Any, url: str, **more: Any) -> Any:
    """A client as a user makes it."""
    base = url if issubclass(kind, anthropic.Anthropic | anthropic.AsyncAnthropic) else f"{url}/v1"
    return kind(base_url=base, api_key="k", max_retries=0, **more)


def ask(client: Any, **more: Any) -> Any:
    """One call, to its end."""
    is_claude = isinstance(client, anthropic.Anthropic | anthropic.AsyncAnthropic)
    create = client.messages.create if is_claude else client.chat.completions.create
    asked = {**(ASK if is_claude else CHAT), **more}
    if not isinstance(client, anthropic.AsyncAnthropic | openai.AsyncOpenAI):
        return create(**asked)

    async def once() -> Any:
        reply = await create(**asked)
        await client.close()
        return reply

    return asyncio.run(once())


def is_ours(client: Any) -> bool:
    """True if something of ours is in the client."""
    seams = (*getattr(client, "middleware", ()), client._client._transport)
    return any(getattr(one, "agentaccel_engine", None) is not None for one in seams)


# --- what is wrapped --------------------------------------------------------------------------------------------------


@KINDS
def test_a_client_that_is_made_from_then_on_is_recorded_and_one_from_before_is_not(
    tmp_path: Path, server: RunningServer, kind: Any
) -> None:
    """It is of its own class; Claude's prompt, which is long enough, gets markers."""
    before = made(kind, server.url)
    with agentaccel.install(policy(tmp_path)):
        client = made(kind, server.url)
        assert type(client) is kind
        reply, _ = ask(client), ask(before)
    [record] = records(tmp_path)
    if hasattr(reply.usage, "cache_creation_input_tokens"):
        told = reply.usage.cache_creation_input_tokens, reply.usage.cache_read_input_tokens
        assert (record.usage.written, record.usage.read) == told
        assert sum(told) > 0


@pytest.mark.parametrize("module", ["anthropic", "openai"])
@pytest.mark.slow
def test_an_sdk_that_is_imported_later_is_wrapped_too(tmp_path: Path, module: str) -> None:
    """Nothing of it is imported before, nor a trace store opened."""
    from subprocess import run
    from sys import executable

    code = f"""
import sys, agentaccel
installed = agentaccel.install()
assert "{module}" not in sys.modules and "sqlite3" not in sys.modules
import {module} as sdk
client = (sdk.Anthropic if "{module}" == "anthropic" else sdk.OpenAI)(api_key="k")
seams = (*getattr(client, "middleware", ()), client._client._transport)
print(any(getattr(one, "agentaccel_engine", None) is installed.accel._engine for one in seams))
print(sdk.__spec__.loader.exec_module.__qualname__)
"""
    environ = {"AGENTACCEL_STORE": str(tmp_path / "t.db"), "PATH": ""}
    done = run([executable, "-c", code], capture_output=True, text=True, env=environ, check=True)
    assert done.stdout.split() == ["True", "_LoaderBasics.exec_module"]


@KINDS
def test_copies_are_wrapped_once(installed: agentaccel.Installation, server: RunningServer, kind: Any) -> None:
    client = made(kind, server.url)
    library = httpx2.AsyncClient if kind in (anthropic.AsyncAnthropic, openai.AsyncOpenAI) else httpx2.Client
    copies = [client.copy(), client.with_options(timeout=3), client.with_options(http_client=library())]
    if kind in (anthropic.Anthropic, anthropic.AsyncAnthropic):
        copies += [client.with_middleware(Other()), client.with_options(middleware=[])]
    for copy in copies:
        assert is_ours(copy)
        transport = copy._client._transport
        seams = [*getattr(copy, "middleware", ()), transport, getattr(transport, "_inner", None)]
        assert sum(getattr(one, "agentaccel_engine", None) is installed.accel._engine for one in seams) == 1


@pytest.mark.parametrize("kind", [anthropic.Anthropic, anthropic.AsyncAnthropic])
def test_the_middleware_of_a_copy_is_equal_to_that_of_the_client(tmp_path: Path, kind: Any) -> None:
    """As it is without us, for a program that looks whether a copy goes by the same; that of another Accel differs."""
    copied, of_each = [], []
    for accel in (1, 2):
        with agentaccel.install(policy(tmp_path / str(accel))):
            client = kind(api_key="k", middleware=[Other()])
            copied.append((client.middleware, client.copy().middleware))
            of_each.append(client.middleware[-1])
    for own, of_copy in copied:
        assert own == of_copy
        assert hash(own) == hash(of_copy)
    assert of_each[0] != of_each[1]


class Other(anthropic.Middleware):
    """Somebody else's."""

    def handle(self, request: Any, call_next: Any) -> Any:
        return call_next(request)

    async def handle_async(self, request: Any, call_next: Any) -> Any:
        return await call_next(request)


def test_ours_stays_innermost_when_middleware_is_added(installed: agentaccel.Installation) -> None:
    """It acts on what will be sent."""
    client = anthropic.Anthropic(api_key="k")
    more = client.with_options(middleware=[*client.middleware, Other()])
    assert [type(one).__name__ for one in more.middleware] == ["Other", "AccelMiddleware"]


def test_classes_of_ones_own_and_of_platforms_are_wrapped(installed: agentaccel.Installation) -> None:
    class Mine(openai.OpenAI):
        def __init__(self, team: str) -> None:
            super().__init__(api_key="k")
            self.team = team

    azure = openai.AzureOpenAI(api_key="k", azure_endpoint="https://x.openai.azure.com", api_version="1")
    bedrock = anthropic.AnthropicBedrock(aws_region="eu-west-1", aws_access_key="a", aws_secret_key="b")
    assert all(is_ours(one) for one in (Mine("blue"), azure, bedrock))


def test_doubles_and_classes_that_no_constructor_of_the_sdk_makes_are_left_alone(
    installed: agentaccel.Installation,
) -> None:
    class Fake(openai.OpenAI):
        def __init__(self) -> None:
            pass

    assert MagicMock(spec=anthropic.Anthropic).messages is not None
    assert vars(Fake()) == {}


def test_one_line_says_of_each_class_that_it_is_wrapped(
    installed: agentaccel.Installation, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "agentaccel"):
        for _ in range(2):
            anthropic.Anthropic(api_key="k")
            openai.AsyncOpenAI(api_key="k")
    said = [one.getMessage().removeprefix("agentaccel: ") for one in caplog.records if one.name == "agentaccel"]
    assert said == ["takes part in what anthropic.Anthropic sends", "takes part in what openai.AsyncOpenAI sends"]


# --- what a user has wrapped ------------------------------------------------------------------------------------------


@KINDS
def test_a_client_that_is_wrapped_by_hand_is_its_accels_alone(
    tmp_path: Path, installed: agentaccel.Installation, server: RunningServer, kind: Any
) -> None:
    """Also its copies; and the client that it was wrapped from stays the installation's."""
    with Accel(policy(tmp_path / "mine"), environ={}) as accel:
        client, other = made(kind, server.url), made(kind, server.url)
        ask(accel.wrap(client).with_options(timeout=30.0))
        assert is_ours(client)
    ask(other)
    installed.accel.flush()
    assert len(records(tmp_path / "mine")) == len(records(tmp_path)) == 1


def test_the_accel_of_the_installation_finds_its_clients_wrapped(installed: agentaccel.Installation) -> None:
    client = anthropic.Anthropic(api_key="k")
    assert installed.accel.wrap(client) is client


# --- the end ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def far() -> Iterator[Far]:
    with far_side() as one:
        yield one


REPLIES = {
    True: b'{"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], '
    b'"stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}}',
    False: b'{"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": []}',
}


@KINDS
def test_after_the_end_clients_send_what_they_would_have_sent(tmp_path: Path, far: Far, kind: Any) -> None:
    """To the byte and the header, as a client that was never wrapped; the twin is the call before the end."""
    is_claude = kind in (anthropic.Anthropic, anthropic.AsyncAnthropic)
    far.begin("application/json", [REPLIES[is_claude]])
    bare = made(kind, far.url)
    ask(bare)
    with agentaccel.install(policy(tmp_path)):
        during, client = made(kind, far.url), made(kind, far.url)
        ask(during)
    ask(client)
    first, changed, last = [one for one in far.sent if one.body]
    assert last == first
    assert (changed.body != first.body) is is_claude
    assert len(records(tmp_path)) == 1


def test_constructors_that_somebody_has_put_around_ours_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Theirs goes on calling ours, which does nothing any more."""
    monkeypatch.setattr(openai_base.SyncAPIClient, "__init__", BEFORE[2])  # as it is to be in the end
    with agentaccel.install(policy(tmp_path)):
        ours = openai_base.SyncAPIClient.__init__

        def theirs(client: Any, **more: Any) -> None:
            ours(client, **more)

        openai_base.SyncAPIClient.__init__ = theirs  # type: ignore[method-assign]
    assert openai_base.SyncAPIClient.__init__ is theirs
    assert not is_ours(openai.OpenAI(api_key="k"))
    monkeypatch.undo()


# --- asked for twice, and what cannot be meant -----------------------------------------------------------------------


def test_asked_for_again_it_is_the_same(tmp_path: Path, installed: agentaccel.Installation) -> None:
    assert agentaccel.install() is installed is agentaccel.install(policy(tmp_path))
    with pytest.raises(ConfigError, match="another policy"):
        agentaccel.install(Policy(mode="observe"))
    with pytest.raises(ConfigError, match="wrap it in Policy"):
        agentaccel.install(StorePolicy())  # type: ignore[arg-type]


def test_two_threads_that_install_get_the_same(tmp_path: Path) -> None:
    got, wanted = list[agentaccel.Installation](), policy(tmp_path)
    threads = [threading.Thread(target=lambda: got.append(agentaccel.install(wanted))) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len({id(one) for one in got}) == 1
    assert len(made(anthropic.Anthropic, "http://127.0.0.1:1").middleware) == 1


def test_where_agentaccel_is_off_nothing_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTACCEL_DISABLE", "1")
    with agentaccel.install(policy(tmp_path)):
        assert [kind.__init__ for kind in BASES] == BEFORE
        assert not is_ours(openai.OpenAI(api_key="k"))


@KINDS
def test_our_failure_leaves_the_client_as_its_maker_wanted_it(
    tmp_path: Path, server: RunningServer, kind: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*given: Any, **more: Any) -> Any:
        raise ValueError("ours")

    monkeypatch.setattr(constructors, "wrapped_http", fails)
    monkeypatch.setattr(constructors.anthropic, "middleware_for", fails)
    with agentaccel.install(Policy(store=StorePolicy(path=tmp_path / "trace.db"))):
        client = made(kind, server.url)
        assert not is_ours(client)
        assert ask(client)
    [line] = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert "go out as written" in line.getMessage()


def test_the_makers_own_error_is_the_makers(installed: agentaccel.Installation) -> None:
    with pytest.raises(AttributeError, match="timeout"):
        openai.OpenAI(api_key="k", http_client=object())  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        anthropic.Anthropic(api_key="k", middleware=5)  # type: ignore[arg-type]
