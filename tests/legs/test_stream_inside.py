"""A call that is streamed inside the client gives the same reply with every supported version of the vendor SDKs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.testing import ManualClock
from agentaccel_emulator import Emulator, RunningServer, call, serve

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}
FUNCTION = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
ASKED: Any = [{"role": "user", "content": "How long does it take?"}]
CLAUDE: Any = {"model": "claude-sonnet-5", "max_tokens": 99, "tools": [TOOL], "messages": ASKED}
CHAT: Any = {"model": "gpt-6.1-sol", "tools": [FUNCTION], "messages": ASKED}
RESPONSE: Any = {"model": "gpt-6.1-sol", "tools": [{**FUNCTION["function"], "type": "function"}], "input": ASKED}


ERRORS = {"overloaded_mid_stream": "APIStatusError", "disconnect_mid_stream": "APIConnectionError"}


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with serve(Emulator(clock=ManualClock()), advance=False) as running:
        yield running


@pytest.fixture
def accel(tmp_path: Path) -> Iterator[Accel]:
    policy = Policy(strict=True, stream_inside=True, store=StorePolicy(path=tmp_path / "trace.db"))
    with Accel(policy, environ={}) as one:

        def look() -> str:
            return "Two days."

        one.tool(effect="read_local", concurrent=True)(look)
        yield one


def reset(server: RunningServer) -> None:
    server.emulator.reset()
    server.emulator.use_script([call("look", {}, text="Let me look.")])


def told(reply: Any) -> Any:
    """What a reply says, but for what caches did."""
    return reply.model_dump(exclude={"usage"}, warnings=False)


def ways(client: Any) -> list[Any]:
    """Calls that read the whole reply, plain and raw."""
    if hasattr(client, "chat"):
        chat, responses = client.chat.completions, client.responses
        return [
            lambda: chat.create(**CHAT),
            lambda: chat.with_raw_response.create(**CHAT),
            lambda: responses.create(**RESPONSE),
        ]
    return [lambda: client.messages.create(**CLAUDE), lambda: client.messages.with_raw_response.create(**CLAUDE)]


def clients(server: RunningServer, accel: Accel, *, is_async: bool) -> list[tuple[Any, Any]]:
    """Each vendor's client, bare and wrapped."""
    one = (anthropic.AsyncAnthropic if is_async else anthropic.Anthropic)(
        base_url=server.url, api_key="k", max_retries=0
    )
    two = (openai.AsyncOpenAI if is_async else openai.OpenAI)(base_url=f"{server.url}/v1", api_key="k", max_retries=0)
    return [(one, accel.wrap(one)), (two, accel.wrap(two, platform="api"))]


def test_a_reply_is_the_same(server: RunningServer, accel: Accel) -> None:
    for bare, wrapped in clients(server, accel, is_async=False):
        with bare:
            for plain, ours in zip(ways(bare), ways(wrapped), strict=True):
                seen = []
                for way in (plain, ours):
                    reset(server)
                    reply = way()
                    seen.append(told(reply.parse() if hasattr(reply, "http_response") else reply))
                assert seen[1] == seen[0]
                assert server.log[-1].request["stream"] is True


def test_an_async_one_works_alike(server: RunningServer, accel: Accel) -> None:
    async def go() -> None:
        for bare, wrapped in clients(server, accel, is_async=True):
            async with bare:
                seen = []
                for way in (ways(bare)[0], ways(wrapped)[0]):
                    reset(server)
                    seen.append(told(await way()))
                assert seen[1] == seen[0]
                assert server.log[-1].request["stream"] is True

    asyncio.run(go())


def test_an_error_is_the_sdks_own(server: RunningServer, accel: Accel) -> None:
    for kind, error in ERRORS.items():
        for vendor, (bare, wrapped) in zip((anthropic, openai), clients(server, accel, is_async=False), strict=True):
            reset(server)
            server.emulator.use_faults([{"kind": kind}])
            with bare, pytest.raises(getattr(vendor, error)):
                ways(wrapped)[0]()
