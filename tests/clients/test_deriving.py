"""Wrapping derives a client from the user's: whatever class and HTTP client that has, it works or says why not."""

from __future__ import annotations

import copy
import gc
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from agentaccel import ConfigError
from tests.clients.dialects import CHAT
from tests.clients.places import PLACES, Line
from tests.clients.wire import an_accel, records

pytestmark = [pytest.mark.many(2), pytest.mark.usefixtures("_little_to_collect")]


@pytest.mark.parametrize("kind", [openai.OpenAI, anthropic.Anthropic])
def test_a_class_whose_copies_need_more_is_refused_with_what_to_do(tmp_path: Path, kind: Any) -> None:
    """Chosen by us: a mistake in the setup is named as one, and not as a TypeError from inside of the SDK."""

    class Ours(kind):  # type: ignore[misc]
        def __init__(self, tenant: str, **options: Any) -> None:
            super().__init__(**options)
            self.tenant = tenant

    with pytest.raises(ConfigError, match=r"Ours cannot be copied .*copy\(\)"):
        an_accel(tmp_path).wrap(Ours("t", api_key="k"))


def test_a_class_that_copies_itself_is_wrapped(tmp_path: Path) -> None:
    """The twin: what the message says to do, does."""

    class Ours(openai.OpenAI):
        def __init__(self, tenant: str = "none", **options: Any) -> None:
            super().__init__(**options)
            self.tenant = tenant

        def copy(self, **options: Any) -> Any:
            return super().copy(**{**options, "_extra_kwargs": {"tenant": self.tenant}})

        with_options = copy

    wrapped = an_accel(tmp_path).wrap(Ours("t", api_key="k"))
    assert (type(wrapped), wrapped.tenant) == (Ours, "t")


def test_a_class_that_drops_what_it_is_given_is_refused(tmp_path: Path) -> None:
    """Chosen by us: otherwise the client would go on without us, and nobody would know."""

    class Ours(openai.OpenAI):
        def __init__(self, **options: Any) -> None:
            super().__init__(**{**options, "http_client": None})

    with pytest.raises(ConfigError, match="does not hand on"):
        an_accel(tmp_path).wrap(Ours(api_key="k"))


@pytest.mark.parametrize("name", ["OpenAI", "AsyncAzureOpenAI", "Anthropic"])
def test_a_class_that_is_only_called_like_a_client_is_refused(tmp_path: Path, name: str) -> None:
    """Chosen by us: frameworks have models called `OpenAI`."""
    with pytest.raises(ConfigError, match="not a client that agentaccel knows"):
        an_accel(tmp_path).wrap(type(name, (), {"_client": None})())


class Mine(httpx2.Client):
    """Somebody's HTTP client: it adds a header, and closes itself when it is dropped."""

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        request.headers["x-tenant"] = "t"
        return super().send(request, **options)

    def __del__(self) -> None:
        self.close()


def test_an_http_client_with_a_finalizer_keeps_what_it_overrides(tmp_path: Path) -> None:
    """Promised: hooks of the user's go on working; and the derived one, when it is gone, closes nothing."""
    line = Line(PLACES["chat"])
    http = Mine(transport=httpx2.MockTransport(line.answer), verify=False)
    bare = openai.OpenAI(api_key="k", max_retries=0, http_client=http)
    wrapped = an_accel(tmp_path).wrap(bare)
    wrapped.chat.completions.create(**CHAT)
    assert isinstance(wrapped._client, Mine)
    del wrapped
    gc.collect()
    assert not http.is_closed
    bare.chat.completions.create(**CHAT)
    assert [one.headers["x-tenant"] for one in line.requests] == ["t", "t"]
    assert len(records(tmp_path)) == 1
    http.close()


@pytest.mark.parametrize("kind", [openai.OpenAI, anthropic.Anthropic])
def test_the_sdks_own_http_client_stays_open_when_the_wrapped_client_is_gone(tmp_path: Path, kind: Any) -> None:
    """Promised: the client that was given lives on."""
    with kind(api_key="k") as bare:
        wrapped = an_accel(tmp_path).wrap(bare)
        assert isinstance(wrapped._client, httpx2.Client)
        del wrapped
        gc.collect()
        assert not bare._client.is_closed


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.message for one in caplog.records if one.levelno >= logging.WARNING]


def test_methods_that_were_replaced_on_the_client_are_missed_aloud(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A known gap: tracers that patch one client patch that one; the new one is to be patched after wrapping."""
    line = Line(PLACES["chat"])
    client, calls = line.client(), list[str]()
    create = client.chat.completions.create

    def traced(**request: Any) -> Any:
        calls.append("traced")
        return create(**request)

    client.chat.completions.create = traced
    client.post = client.post
    wrapped = PLACES["chat"].wrapped(an_accel(tmp_path))(client)
    wrapped.chat.completions.create(**CHAT)
    assert calls == []
    [line_] = warned(caplog)
    assert "chat.completions.create, post" in line_


@pytest.mark.slow
def test_a_client_in_use_that_nobody_patched_is_wrapped_quietly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The twin: what the SDK itself keeps on a client is no patch."""
    for client in (openai.OpenAI(api_key="k"), anthropic.Anthropic(api_key="k")):
        for name in ("chat", "responses", "messages", "beta", "models", "with_raw_response"):
            resource = getattr(client, name, None)
            for inner in ("completions", "with_raw_response", "with_streaming_response", "messages", "threads"):
                getattr(resource, inner, None)
        an_accel(tmp_path).wrap(client)
        client.close()
    assert warned(caplog) == []


def test_options_that_the_sdks_own_copies_forget_are_kept(tmp_path: Path) -> None:
    """Chosen by us: strict validation of replies is the user's choice, and `with_options` loses it."""
    for strict in (True, False):
        bare = openai.OpenAI(api_key="k", _strict_response_validation=strict)
        assert an_accel(tmp_path / str(strict)).wrap(bare)._strict_response_validation is strict
        bare.close()


LOSING: list[tuple[Any, Callable[[], dict[str, Any]], str]] = [
    (openai.OpenAI, lambda: {"http_client": httpx2.Client()}, "http_client="),
    (openai.AsyncOpenAI, lambda: {"http_client": httpx2.AsyncClient()}, "http_client="),
    (anthropic.Anthropic, lambda: {"middleware": []}, "middleware="),
    (anthropic.Anthropic, lambda: {"middleware": None}, "middleware="),
    (anthropic.AsyncAnthropic, lambda: {"middleware": []}, "middleware="),
]


@pytest.mark.parametrize("copied", ["copy", "with_options"])
@pytest.mark.parametrize(("kind", "options", "named"), LOSING)
def test_a_copy_that_has_lost_us_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: Any, options: Any, named: str, copied: str
) -> None:
    """Chosen by us: whoever gives another HTTP client or list of middleware gets just that, and one line that says so,
    also where the copy is made of a copy. It can be wrapped again, and then has us."""
    accel = an_accel(tmp_path)
    wrapped = accel.wrap(kind(api_key="k", max_retries=0))
    kept = getattr(wrapped.with_options(timeout=3), copied)(max_retries=1)
    assert warned(caplog) == []
    for client in (kept, kept, wrapped):
        lost = getattr(client, copied)(**options())
        assert type(lost) is kind
    [line_] = warned(caplog)
    assert f"a copy of a wrapped client was made with {named}" in line_
    again = accel.wrap(lost)
    assert again is not lost
    assert accel.wrap(again) is again
    assert len(warned(caplog)) == 1


@pytest.mark.parametrize("kind", [anthropic.Anthropic, anthropic.AsyncAnthropic])
def test_a_copy_that_still_has_us_is_not_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: Any) -> None:
    """The twin: what stands behind middleware outlives another HTTP client, and middleware that is added."""
    accel = an_accel(tmp_path)
    wrapped = accel.wrap(kind(api_key="k"))

    class Added(anthropic.Middleware):
        def handle(self, request: Any, call_next: Any) -> Any:
            return call_next(request)

        async def handle_async(self, request: Any, call_next: Any) -> Any:
            return await call_next(request)

    http: Any = httpx2.AsyncClient() if kind is anthropic.AsyncAnthropic else httpx2.Client()
    for one in (wrapped.with_options(http_client=http), wrapped.with_middleware(Added())):
        assert accel.wrap(one) is one
    assert warned(caplog) == []


@pytest.mark.parametrize("kind", [openai.OpenAI, anthropic.Anthropic])
def test_a_plain_copy_of_a_wrapped_client_makes_copies_of_itself(tmp_path: Path, kind: Any) -> None:
    """As of a bare one: with the key and the host that it was given since, and not those of the one it is a copy of."""
    accel = an_accel(tmp_path)
    wrapped = accel.wrap(kind(api_key="a", base_url="https://a.example/v1"))
    other = copy.copy(wrapped)
    assert (type(other), accel.wrap(other) is other) == (kind, True)
    other.api_key, other.base_url = "b", "https://b.example/v1"
    made = other.with_options(timeout=3)
    assert (made.api_key, made.base_url.host) == ("b", "b.example")
    assert (wrapped.with_options(timeout=3).api_key, wrapped.base_url.host) == ("a", "a.example")


def test_a_copy_that_has_lost_us_sends_what_it_is_told_and_records_nothing(tmp_path: Path) -> None:
    """As told: a copy with another HTTP client is the SDK's own, and one that is wrapped again is ours."""
    line = Line(PLACES["chat"])
    accel = an_accel(tmp_path)
    wrapped = accel.wrap(line.client())
    lost = wrapped.with_options(http_client=httpx2.Client(transport=httpx2.MockTransport(line.answer)))
    lost.chat.completions.create(**CHAT)
    assert records(tmp_path) == []
    accel.wrap(lost).chat.completions.create(**CHAT)
    assert len(records(tmp_path)) == 1
