"""Clients that are given their credentials after they were wrapped."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from tests.clients.wire import an_accel

SAID: Any = {"model": "gpt-6.1-sol", "messages": [{"role": "user", "content": "Hello"}]}


def _answer(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(200, json={"id": request.headers["authorization"], "choices": []})


@pytest.mark.parametrize("is_async", [False, True])
def test_a_client_is_wrapped_before_it_has_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    """Without a key a call raises the SDK's own error; with one that is set later, it is sent."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    kind: Any = openai.AsyncOpenAI if is_async else openai.OpenAI
    http: Any = (httpx2.AsyncClient if is_async else httpx2.Client)(transport=httpx2.MockTransport(_answer))
    bare = kind(_enforce_credentials=False, http_client=http, max_retries=0)

    def ask(client: Any) -> Any:
        asked = client.chat.completions.create(**SAID)
        return asyncio.run(asked) if is_async else asked

    wrapped, errors = an_accel(tmp_path).wrap(bare), []
    for client in (bare, wrapped):
        with pytest.raises(Exception) as refused:  # noqa: PT011 - the SDK's own, whichever it is
            ask(client)
        errors.append((refused.type, str(refused.value)))
    assert errors[0] == errors[1]
    wrapped.api_key = "later"
    assert ask(wrapped).id == "Bearer later"


def test_another_reason_not_to_be_copied_is_told(tmp_path: Path) -> None:
    """Only the look for credentials is left out: a client that has some is copied as its class wants it."""

    class Odd(openai.OpenAI):
        def copy(self, **given: Any) -> Any:
            raise ValueError("no copies")

        with_options = copy

    with pytest.raises(Exception, match="no copies"):
        an_accel(tmp_path).wrap(Odd(api_key="k"))
