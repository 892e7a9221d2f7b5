"""Every place that a client can be wrapped for, and a line to an emulated one without sockets that notes all bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anthropic
import httpx2
import openai

from agentaccel.testing import ManualClock
from agentaccel_emulator import Emulator, HttpRequest, call
from tests.clients.dialects import AWS, CHAT, DIALECTS, RESPONSES, Dialect, at_once, of_anthropic, of_openai
from tests.clients.wire import Body

_AZURE = (at_once(openai.AzureOpenAI), at_once(openai.AsyncAzureOpenAI))
_VERSION = {"api_key": "k", "api_version": "2026-10-01-preview"}


def _elsewhere(platform: str, model: str, path: str = "/v1") -> Dialect:
    return replace(of_openai(platform, "chat", {**CHAT, "model": model}, platform), path=path)


PLACES: dict[str, Dialect] = {
    one.name: one
    for one in (
        *DIALECTS.values(),
        of_anthropic(
            "mantle",
            (anthropic.AnthropicBedrockMantle, anthropic.AsyncAnthropicBedrockMantle),
            "/anthropic",
            AWS,
            "anthropic.claude-opus-5",
        ),
        of_anthropic(
            "foundry",
            (anthropic.AnthropicFoundry, anthropic.AsyncAnthropicFoundry),
            "/anthropic",
            {"api_key": "k"},
            "claude-sonnet-5",
        ),
        Dialect("azure chat", *_AZURE, "/openai", _VERSION, CHAT, "chat"),
        Dialect("azure responses", *_AZURE, "/openai/v1", _VERSION, RESPONSES, "responses"),
        replace(of_openai("old responses", "responses", {**RESPONSES, "model": "gpt-4o"}), platform="api"),
        _elsewhere("openrouter", "anthropic/claude-sonnet-5", "/api/v1"),
        _elsewhere("vllm", "meta-llama/Llama-3.1-8B"),
        _elsewhere("mistral", "mistral-large"),
        _elsewhere("server", "anything"),
    )
}

HOST = "http://provider.example"


class Line:
    """A transport to an emulator, a minute from one request to the next; what passes in both directions is noted."""

    def __init__(self, place: Dialect) -> None:
        platform = place.platform or ("foundry" if place.name == "foundry" else "api")
        self.place = place
        self.emulator = Emulator(
            clock=ManualClock(), platform=platform, script=[call("search", {"q": "ü"}, text="Let me look.")] * 9
        )
        self.requests = list[httpx2.Request]()
        self.bodies = list[Body]()

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        reply = self.emulator.handle(
            HttpRequest(
                method=request.method,
                path=request.url.raw_path.decode(),
                headers=dict(request.headers),
                body=request.content,
            ),
            60.0 * len(self.requests),
        )
        cut = [httpx2.RemoteProtocolError("cut")] if reply.ending == "disconnect" else []
        self.bodies.append(Body([*(chunk.data for chunk in reply.chunks), *cut]))
        return httpx2.Response(reply.status, headers=dict(reply.headers), stream=self.bodies[-1])

    async def answer_async(self, request: httpx2.Request) -> httpx2.Response:
        return self.answer(request)

    def client(self, **options: Any) -> Any:
        http = httpx2.Client(transport=httpx2.MockTransport(self.answer), verify=False)
        return self.place.sync_over(http, HOST, **options)

    def async_client(self, **options: Any) -> Any:
        http = httpx2.AsyncClient(transport=httpx2.MockTransport(self.answer_async), verify=False)
        return self.place.async_over(http, HOST, **options)
