"""Who answers is judged by each request's own URL: a client can be pointed elsewhere after it was wrapped."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from agentaccel.errors import ConfigError
from agentaccel.facts import local_platform, served_at
from agentaccel_emulator import Behaviour, Emulator, RunningServer, serve
from tests.clients.dialects import CHAT
from tests.clients.wire import an_accel, records

GATEWAY = "http://gateway.internal/v1"


class Far:
    """Answers everything, wherever it is, and remembers what it was sent."""

    def __init__(self) -> None:
        self.requests = list[httpx2.Request]()

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        return httpx2.Response(400, json={"error": {"type": "invalid_request_error", "message": "No."}})

    def http(self) -> httpx2.Client:
        return httpx2.Client(transport=httpx2.MockTransport(self), verify=False)

    @property
    def sent(self) -> Any:
        return json.loads(self.requests[-1].content)


def ask(client: Any) -> None:
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(**CHAT, stream=True)


def by_setter(client: Any, url: str) -> Any:
    client.base_url = url
    return client


WAYS: dict[str, Callable[[Any, str], Any]] = {
    "with_options": lambda client, url: client.with_options(base_url=url),
    "copy": lambda client, url: client.copy(base_url=url),
    "the setter": by_setter,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_client_pointed_elsewhere_sends_what_its_new_host_is_known_to_take(tmp_path: Path, way: str) -> None:
    """Promised: no field that only the old host knows; and it is planned for again once it is back."""
    far = Far()
    client = an_accel(tmp_path).wrap(openai.OpenAI(api_key="k", max_retries=0, http_client=far.http()))
    home = str(client.base_url)
    ask(client)
    assert "prompt_cache_breakpoint" in json.dumps(far.sent)
    moved = WAYS[way](client, GATEWAY)
    ask(moved)
    assert far.sent == {**CHAT, "stream": True}
    ask(WAYS[way](moved, home))
    assert "prompt_cache_breakpoint" in json.dumps(far.sent)
    places = [(one.provider, one.platform) for one in records(tmp_path)]
    assert places == [("openai", "api"), ("compatible", "server"), ("openai", "api")]


@pytest.mark.parametrize("mode", ["bare", "on"])
def test_a_strict_gateway_does_not_refuse_a_client_that_was_pointed_to_it(tmp_path: Path, mode: str) -> None:
    """Promised: never a 400 of our making."""
    behaviour = Behaviour(refused_fields=frozenset({"stream_options", "prompt_cache_options"}))
    emulator = Emulator(script=lambda _: "ok", platform="server", behaviour=behaviour)
    with serve(emulator) as server, openai.OpenAI(api_key="k", max_retries=0) as bare:
        client = bare if mode == "bare" else an_accel(tmp_path).wrap(bare)
        moved = client.with_options(base_url=f"{server.url}/v1")
        chunks = list(moved.chat.completions.create(model="my-model", messages=CHAT["messages"], stream=True))
    assert all(chunk.choices for chunk in chunks)


def test_a_platform_that_was_named_holds_for_the_server_it_was_named_for(tmp_path: Path) -> None:
    """Chosen by us: another path there is the same server; another host or port is another, and judged by its name."""
    far = Far()
    bare = openai.OpenAI(api_key="k", max_retries=0, base_url="http://localhost:8000/v1", http_client=far.http())
    client = an_accel(tmp_path).wrap(bare, platform="api")
    for url in ("http://localhost:8000/other/v1", "http://localhost:9000/v1", "https://openrouter.ai/api/v1"):
        ask(client.with_options(base_url=url))
    places = [(one.provider, one.platform) for one in records(tmp_path)]
    assert places == [("openai", "api"), ("compatible", "server"), ("compatible", "openrouter")]


def test_the_class_of_a_client_holds_where_the_host_does_not_tell(tmp_path: Path) -> None:
    """Chosen by us: somebody's own domain in front of Azure is Azure, and OpenAI's own host is not."""
    far = Far()
    bare = openai.AzureOpenAI(
        api_key="k", api_version="1", max_retries=0, base_url="http://mine.example/openai", http_client=far.http()
    )
    client = an_accel(tmp_path).wrap(bare)
    for url in ("http://mine.example/openai", "http://other.example/openai", "https://api.openai.com/v1"):
        ask(client.with_options(base_url=url))
    assert [one.platform for one in records(tmp_path)] == ["azure", "azure", "api"]


def test_the_class_of_an_anthropic_client_holds_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chosen by us, over a transport, as for SDKs without middleware: which platform it is, is in the class."""
    monkeypatch.delattr(anthropic, "Middleware")
    far = Far()
    bare = anthropic.Anthropic(api_key="k", max_retries=0, http_client=far.http())
    client = an_accel(tmp_path).wrap(bare)
    for moved in (client, client.with_options(base_url="http://gateway.internal")):
        with pytest.raises(anthropic.BadRequestError):
            moved.messages.create(model="claude-sonnet-5", max_tokens=9, messages=CHAT["messages"][1:])
    assert [one.platform for one in records(tmp_path)] == ["api", "api"]
    assert far.requests[1].url.host == "gateway.internal"


@pytest.mark.parametrize(
    ("url", "says"),
    [(GATEWAY, "wrap(client, platform=…)"), ("https://api.cerebras.ai/v1", "requests go out as written")],
)
def test_where_the_server_is_not_known_the_log_does_not_blame_the_model(
    tmp_path: Path, url: str, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    """To map the name of a model would change nothing; it is said once."""
    client = an_accel(tmp_path).wrap(openai.OpenAI(api_key="k", max_retries=0, base_url=url, http_client=Far().http()))
    with caplog.at_level(logging.WARNING, "agentaccel"):
        ask(client)
        ask(client)
    [line] = [record.getMessage() for record in caplog.records]
    assert says in line
    assert "aliases" not in line
    assert all("nothing is known of the cache" in one.reasons[0] for one in records(tmp_path))


def chat(base_url: str, tmp_path: Path, environ: dict[str, str], **named: Any) -> tuple[str, str]:
    """The provider and platform that a request to `base_url` is recorded under."""
    with an_accel(tmp_path, environ=environ) as accel, openai.OpenAI(base_url=base_url, api_key="k") as bare:
        accel.wrap(bare, **named).chat.completions.create(**CHAT)
    record = records(tmp_path)[-1]
    return record.provider, record.platform


@pytest.mark.parametrize(
    ("emulated", "path", "place"),
    [
        ("api", "/v1", ("openai", "api")),
        ("vllm", "/v1", ("compatible", "vllm")),
        ("api", "/api/v1", ("compatible", "openrouter")),
        ("server", "/v1", ("compatible", "server")),
    ],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_an_emulator_of_this_process_is_known_by_its_address(
    tmp_path: Path, emulated: str, path: str, place: tuple[str, str], host: str
) -> None:
    """Our choice: no data file can list its port."""
    with serve(Emulator(platform=emulated)) as server:
        url = server.url.replace("127.0.0.1", host)
        assert chat(url + path, tmp_path, {}) == place


def test_an_emulator_that_has_ended_is_forgotten() -> None:
    """Another server may get its port."""
    with serve() as server:
        port = int(server.url.rpartition(":")[2])
        assert local_platform(("127.0.0.1", port), "/v1/responses") == ("openai", "api")
    assert local_platform(("127.0.0.1", port), "/v1/responses") is None


def test_the_environment_names_who_answers_where_nobody_else_does(tmp_path: Path) -> None:
    """Our choice: `wrap(client, platform=…)` goes before it, and so does a host that the facts list."""
    with serve(Emulator(platform="server")) as server:
        url = f"{server.url}/v1"
        with forgotten(server):
            assert chat(url, tmp_path, {"AGENTACCEL_PLATFORM": "sglang"}) == ("compatible", "sglang")
            assert chat(url, tmp_path, {"AGENTACCEL_PLATFORM": "sglang"}, platform="vllm") == ("compatible", "vllm")
            assert chat(url, tmp_path, {"AGENTACCEL_PLATFORM": ""}) == ("compatible", "server")
    with pytest.raises(ConfigError, match=r"AGENTACCEL_PLATFORM is 'vlm'; known are .*'vllm'"):
        an_accel(tmp_path, environ={"AGENTACCEL_PLATFORM": "vlm"})


@contextmanager
def forgotten(server: RunningServer) -> Iterator[None]:
    """As another process sees the server: `served_at` ends with the inner block, and the server goes on."""
    with served_at(("127.0.0.1", int(server.url.rpartition(":")[2])), ()):
        yield


def test_who_answers_a_client_of_anthropic_can_be_named_too(tmp_path: Path) -> None:
    """One meaning for every client: one of Anthropic's API in front of a gateway to Bedrock keeps Bedrock's rules."""
    with serve() as server, an_accel(tmp_path) as accel:
        bare = anthropic.Anthropic(base_url=server.url, api_key="none")
        with accel.wrap(bare, platform="bedrock") as client:
            client.messages.create(model="claude-sonnet-5", max_tokens=9, messages=[{"role": "user", "content": "hi"}])
        with pytest.raises(ConfigError, match=r"platform is 'groq'; known are 'vllm', 'sglang', 'llamacpp', 'api'"):
            accel.wrap(bare, platform="groq")
    assert [one.platform for one in records(tmp_path)] == ["bedrock"]
