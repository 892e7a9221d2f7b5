"""What holds for every supported version of the vendor SDKs, with either HTTP library: run by `make legs` for each."""

from __future__ import annotations

import asyncio
import gzip
import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.store.store import open_reader
from agentaccel_emulator import Emulator, RunningServer, serve

anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")

LONG = "You answer questions on shipping. " * 400
TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}
FUNCTION = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
MODEL = "gpt-6.1-sol"
LIBRARIES = [name for name in ("httpx", "httpx2") if importlib.util.find_spec(name) is not None]


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with serve(script=["One.", "Two.", "Three."]) as running:
        yield running


@pytest.fixture
def accel(tmp_path: Path) -> Iterator[Accel]:
    with Accel(Policy(strict=True, store=StorePolicy(path=tmp_path / "trace.db")), environ={}) as one:
        yield one


def recorded(tmp_path: Path) -> list[Any]:
    with open_reader(tmp_path / "trace.db") as store:
        return list(store.turns())


def claude(server: RunningServer, *, is_async: bool = False, **more: Any) -> Any:
    kind = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
    return kind(base_url=server.url, api_key="k", max_retries=0, **more)


def gpt(server: RunningServer, *, is_async: bool = False, **more: Any) -> Any:
    kind = openai.AsyncOpenAI if is_async else openai.OpenAI
    return kind(base_url=f"{server.url}/v1", api_key="k", max_retries=0, **more)


def ask_claude(client: Any, messages: list[Any], **more: Any) -> Any:
    return client.messages.create(
        model="claude-sonnet-5", max_tokens=99, system=LONG, tools=[TOOL], messages=messages, **more
    )


def history(turn: int, role: str = "user") -> list[Any]:
    said: list[Any] = [{"role": role, "content": "How long does it take?"}]
    for number in range(turn):
        said += [{"role": "assistant", "content": ("One.", "Two.")[number]}, {"role": "user", "content": "And then?"}]
    return said


def test_a_claude_loop_is_marked_read_and_recorded(server: RunningServer, accel: Accel, tmp_path: Path) -> None:
    """Whatever the seam: middleware, or a transport where there is none."""
    with claude(server) as bare:
        client = accel.wrap(bare)
        assert type(client) is type(bare)
        assert accel.wrap(client) is client
        for turn in range(3):
            reply = ask_claude(client, history(turn))
        assert reply.usage.cache_read_input_tokens > 1000
    accel.close()
    assert [turn.usage.read for turn in recorded(tmp_path)][-1] == reply.usage.cache_read_input_tokens
    assert server.counters.total.read > 0


def test_a_claude_stream_is_read_to_its_end(server: RunningServer, accel: Accel, tmp_path: Path) -> None:
    """Events and the final message are the SDK's own."""
    with claude(server) as bare:
        client = accel.wrap(bare)
        with client.messages.stream(model="claude-sonnet-5", max_tokens=99, system=LONG, messages=history(0)) as stream:
            text = "".join(stream.text_stream)
    accel.close()
    assert text == "One."
    assert [(turn.outcome, turn.streamed) for turn in recorded(tmp_path)] == [("ok", True)]


def test_an_async_claude_client_works_alike(server: RunningServer, accel: Accel, tmp_path: Path) -> None:
    """Two calls at once, one of them cancelled."""

    async def go() -> None:
        async with claude(server, is_async=True) as bare:
            client = accel.wrap(bare)
            other = asyncio.create_task(ask_claude(client, history(1)))
            await ask_claude(client, history(0))
            await other

    asyncio.run(go())
    accel.close()
    assert [turn.outcome for turn in recorded(tmp_path)] == ["ok", "ok"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_is_planned_and_recorded(server: RunningServer, accel: Accel, tmp_path: Path, stream: bool) -> None:
    """The developer message carries a breakpoint on the first turn, and later turns read."""
    with gpt(server) as bare:
        client = accel.wrap(bare, platform="api")
        assert type(client) is type(bare)
        assert accel.wrap(client) is client
        for turn in range(3):
            messages = [{"role": "developer", "content": LONG}, *history(turn)]
            reply = client.chat.completions.create(model=MODEL, messages=messages, tools=[FUNCTION], stream=stream)
            if stream:
                chunks = list(reply)
                assert all(chunk.choices for chunk in chunks)  # the usage chunk that we asked for is not among them
    accel.close()
    turns = recorded(tmp_path)
    assert [turn.outcome for turn in turns] == ["ok"] * 3
    assert turns[-1].usage.read is not None
    assert turns[-1].usage.read > 1000
    assert server.counters.total.read == sum(turn.usage.read or 0 for turn in turns)


def test_an_async_chat_and_a_response_work_alike(server: RunningServer, accel: Accel, tmp_path: Path) -> None:
    """Both wires of the SDK."""

    async def go() -> None:
        async with gpt(server, is_async=True) as bare:
            client = accel.wrap(bare, platform="api")
            await client.chat.completions.create(model=MODEL, messages=history(0))
            async for _ in await client.responses.create(model=MODEL, input=history(0), stream=True):
                pass
            await client.responses.create(model=MODEL, input=history(0))

    asyncio.run(go())
    accel.close()
    turns = recorded(tmp_path)
    assert [(turn.outcome, turn.provider, turn.platform) for turn in turns] == [("ok", "openai", "api")] * 3
    assert all(turn.usage.input for turn in turns)


def test_errors_are_the_sdks_own(tmp_path: Path) -> None:
    """The status reaches the caller as its exception, and the store as a number."""
    with (
        serve(faults=[{"kind": "429"}]) as server,
        Accel(Policy(strict=True, store=StorePolicy(path=tmp_path / "trace.db")), environ={}) as accel,
        claude(server) as one,
        gpt(server) as two,
    ):
        with pytest.raises(anthropic.RateLimitError):
            ask_claude(accel.wrap(one), history(0))
        with pytest.raises(openai.RateLimitError):
            accel.wrap(two, platform="api").chat.completions.create(model=MODEL, messages=history(0))
    assert [(turn.outcome, turn.status) for turn in recorded(tmp_path)] == [("failed", 429)] * 2


def test_observing_changes_nothing(server: RunningServer, tmp_path: Path) -> None:
    """The provider gets what a bare client sends it."""
    policy = Policy(mode="observe", strict=True, store=StorePolicy(path=tmp_path / "trace.db"))
    with Accel(policy, environ={}) as accel, claude(server) as one, gpt(server) as two:
        for client in (one, accel.wrap(one)):
            ask_claude(client, history(0))
        for client in (two, accel.wrap(two, platform="api")):
            list(client.chat.completions.create(model=MODEL, messages=history(0), stream=True))
    bodies = [entry.request for entry in server.log if entry.request is not None]
    assert len(bodies) == 4
    assert bodies[0] == bodies[1]
    assert bodies[2] == bodies[3]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_client_with_its_own_http_client_keeps_it(
    server: RunningServer, accel: Accel, tmp_path: Path, library: str
) -> None:
    """Hooks and headers of the user's HTTP client go on working, where the SDK takes that library at all."""
    http, seen = importlib.import_module(library), list[str]()
    own = http.Client(event_hooks={"request": [lambda request: seen.append(request.url.path)]}, trust_env=False)
    try:
        bare = gpt(server, http_client=own)
    except TypeError:
        pytest.skip(f"this version of the SDK does not take {library}")
    client = accel.wrap(bare, platform="api")
    client.chat.completions.create(model=MODEL, messages=history(0))
    assert seen == ["/v1/chat/completions"]
    own.close()
    accel.close()
    assert [turn.outcome for turn in recorded(tmp_path)] == ["ok"]


def _chunk(**more: Any) -> bytes:
    return (
        b"data: " + json.dumps({"id": "c", "object": "chat.completion.chunk", "created": 1, **more}).encode() + b"\n\n"
    )


COUNTED = b"".join(
    [
        *[_chunk(choices=[{"index": 0, "delta": {"content": "x"}, "finish_reason": None}]) for _ in range(9)],
        _chunk(choices=[], usage={"prompt_tokens": 2000, "completion_tokens": 1, "total_tokens": 2001}),
        b"data: [DONE]\n\n",
    ]
)
ENCODED = {
    "as it says": gzip.compress(COUNTED),
    "not at all": COUNTED,
    "corrupt": gzip.compress(COUNTED)[:60] + b"\xff" * 60,
}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("how", ENCODED)
def test_a_stream_encoded_in_spite_of_us_is_what_it_is_bare(tmp_path: Path, library: str, how: str) -> None:
    """Hidden behind the HTTP library's own decoder, whose failures are its own."""
    http = importlib.import_module(library)

    def answered(request: Any) -> Any:
        pieces = (ENCODED[how][at : at + 17] for at in range(0, len(ENCODED[how]), 17))
        headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
        return http.Response(200, headers=headers, content=pieces)

    def seen(wrap: Any) -> Any:
        own = http.Client(transport=http.MockTransport(answered), trust_env=False)
        try:
            client = wrap(openai.OpenAI(api_key="k", max_retries=0, http_client=own))
        except TypeError:
            pytest.skip(f"this version of the SDK does not take {library}")
        got: list[Any] = []
        try:
            got += [
                one.choices for one in client.chat.completions.create(model=MODEL, messages=history(0), stream=True)
            ]
        except Exception as error:  # noqa: BLE001 - whatever its caller sees is what is compared
            got.append((type(error), type(error.__cause__), str(error.__cause__)))
        own.close()
        return got

    with Accel(Policy(store=StorePolicy(path=tmp_path / "trace.db")), environ={}) as accel:
        ours, bare = seen(accel.wrap), seen(lambda client: client)
    assert ours == [one for one in bare if one != []]
    assert (how == "as it says") is (ours != bare)


def test_a_client_pointed_elsewhere_is_judged_by_where_it_points(accel: Accel, tmp_path: Path) -> None:
    """Wrapped for OpenAI, pointed at a server that has other rules."""
    with serve(Emulator(platform="deepseek")) as server, openai.OpenAI(api_key="k", max_retries=0) as bare:
        client = accel.wrap(bare)
        for moved in (client.with_options(base_url=f"{server.url}/v1"), client.copy(base_url=f"{server.url}/v1")):
            moved.chat.completions.create(model=MODEL, messages=[{"role": "developer", "content": LONG}, *history(0)])
    accel.close()
    assert [(turn.provider, turn.platform) for turn in recorded(tmp_path)] == [("compatible", "deepseek")] * 2
    assert "prompt_cache_breakpoint" not in str([entry.request for entry in server.log])
