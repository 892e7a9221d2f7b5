"""Every way in which the openai SDK makes a model call: each is planned and recorded, and gives what it gives bare."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agentaccel import ConfigError
from tests.clients.dialects import CHAT, RESPONSES, plain
from tests.clients.places import PLACES, Line
from tests.clients.wire import an_accel, records

pytestmark = pytest.mark.many(3)


class Found(BaseModel):
    """What the model is asked to write."""

    title: str


def _create(client: Any) -> Any:
    return client.chat.completions.create(**CHAT)


def _raw(client: Any) -> Any:
    reply = client.chat.completions.with_raw_response.create(**CHAT)
    assert reply.http_response.elapsed.total_seconds() >= 0
    return reply.parse()


def _unread(client: Any) -> Any:
    with client.chat.completions.with_streaming_response.create(**CHAT) as reply:
        return reply.parse()


def _parsed(client: Any) -> Any:
    bare = {name: value for name, value in CHAT.items() if name != "tools"}
    return client.chat.completions.parse(**bare, response_format=Found)


def _several(client: Any) -> Any:
    return client.chat.completions.create(**CHAT, n=2)


def _post(client: Any) -> Any:
    return client.post("/chat/completions", body=CHAT, cast_to=object)


def _extra(client: Any) -> Any:
    return client.chat.completions.create(**CHAT, extra_body={"verbosity": "low"}, extra_headers={"x-own": "1"})


def _copied(client: Any) -> Any:
    return client.with_options(timeout=3).copy(max_retries=1).chat.completions.create(**CHAT)


def _events(client: Any) -> Any:
    with client.chat.completions.create(**CHAT, stream=True) as events:
        return list(events)


def _helper(client: Any) -> Any:
    with client.chat.completions.stream(**CHAT) as stream:
        kinds = [event.type for event in stream]
        return [*kinds, stream.get_final_completion()]


def _raw_stream(client: Any) -> Any:
    return list(client.chat.completions.with_raw_response.create(**CHAT, stream=True).parse())


def _lines(client: Any) -> Any:
    with client.chat.completions.with_streaming_response.create(**CHAT, stream=True) as reply:
        return [line for line in reply.iter_lines() if '"choices"' not in line]


def _read(client: Any) -> Any:
    with client.chat.completions.with_streaming_response.create(**CHAT, stream=True) as reply:
        return reply.read().count(b"data: ")


def _response(client: Any) -> Any:
    return client.responses.create(**RESPONSES)


def _response_raw(client: Any) -> Any:
    return client.responses.with_raw_response.create(**RESPONSES).parse()


def _response_parsed(client: Any) -> Any:
    return client.responses.parse(**RESPONSES, text_format=Found)


def _response_events(client: Any) -> Any:
    return list(client.responses.create(**RESPONSES, stream=True))


def _response_helper(client: Any) -> Any:
    with client.responses.stream(**RESPONSES) as stream:
        kinds = [event.type for event in stream]
        return [*kinds, stream.get_final_response()]


FORMS = [one for name, one in list(globals().items()) if name.startswith("_") and callable(one) and name[1] != "_"]
SPOKEN = ("_parsed", "_response_parsed")
"""Forms that want words, not a call."""


def outcome(form: Callable[[Any], Any], line: Line, wrap: Callable[[Any], Any]) -> Any:
    if form.__name__ in SPOKEN:
        line.emulator.use_script(['{"title": "T"}'])
    found = form(wrap(line.client()))
    return [plain(one) for one in found] if isinstance(found, list) else plain(found)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_every_form_of_a_call_is_planned_and_gives_what_it_gives_bare(
    tmp_path: Path, form: Callable[[Any], Any]
) -> None:
    """Chosen by us: whatever the form, the request is planned, the caller has its reply, and the turn is recorded."""
    place = PLACES["chat"]
    bare, ours = Line(place), Line(place)
    found = outcome(form, ours, place.wrapped(an_accel(tmp_path)))
    assert found == outcome(form, bare, lambda client: client)
    assert "prompt_cache_breakpoint" in json.dumps(json.loads(ours.requests[0].content))
    [turn] = records(tmp_path)
    assert (turn.outcome, turn.usage.input is not None) == ("ok", True)
    assert turn.calls == (() if form.__name__ in SPOKEN else ("search",) * (2 if form is _several else 1))
    assert all(body.closed for body in ours.bodies)


async def _acreate(client: Any) -> Any:
    return await client.chat.completions.create(**CHAT)


async def _araw(client: Any) -> Any:
    return (await client.chat.completions.with_raw_response.create(**CHAT)).parse()


async def _aunread(client: Any) -> Any:
    async with client.responses.with_streaming_response.create(**RESPONSES) as reply:
        return await reply.parse()


async def _aevents(client: Any) -> Any:
    return [event async for event in await client.chat.completions.create(**CHAT, stream=True)]


async def _ahelper(client: Any) -> Any:
    async with client.chat.completions.stream(**CHAT) as stream:
        return [*[event.type async for event in stream], await stream.get_final_completion()]


async def _alines(client: Any) -> Any:
    async with client.chat.completions.with_streaming_response.create(**CHAT, stream=True) as reply:
        return [line async for line in reply.iter_lines() if '"choices"' not in line]


async def _aresponse(client: Any) -> Any:
    return [event async for event in await client.responses.create(**RESPONSES, stream=True)]


async def _aresponse_helper(client: Any) -> Any:
    async with client.responses.stream(**RESPONSES) as stream:
        return [*[event.type async for event in stream], await stream.get_final_response()]


ASYNC = [_acreate, _araw, _aunread, _aevents, _ahelper, _alines, _aresponse, _aresponse_helper]


@pytest.mark.parametrize("form", ASYNC, ids=lambda form: form.__name__)
async def test_every_form_of_an_async_call_is_planned_and_gives_what_it_gives_bare(
    tmp_path: Path, form: Callable[[Any], Awaitable[Any]]
) -> None:
    """Chosen by us, as above, and nothing is left running."""
    place, found = PLACES["chat"], []
    for wrap in (lambda client: client, place.wrapped(an_accel(tmp_path))):
        line = Line(place)
        got = await form(wrap(line.async_client()))
        found.append([plain(one) for one in got] if isinstance(got, list) else plain(got))
    assert found[1] == found[0]
    [turn] = records(tmp_path)
    assert (turn.outcome, turn.usage.input is not None, turn.calls) == ("ok", True, ("search",))
    assert asyncio.all_tasks() == {asyncio.current_task()}


OTHERS: tuple[Callable[[Any], Any], ...] = (
    lambda client: client.embeddings.create(model="m", input="x"),
    lambda client: client.models.list(),
    lambda client: client.responses.retrieve("resp_1"),
    lambda client: client.moderations.create(input="x"),
    lambda client: client.chat.completions.list(),
)


def test_calls_that_are_no_model_calls_pass_untouched(tmp_path: Path) -> None:
    """Chosen by us: only chats and responses are ours; what the emulator does not have is its to refuse."""
    place = PLACES["responses"]
    sent = []
    for wrap in (lambda client: client, place.wrapped(an_accel(tmp_path, strict=True))):
        line = Line(place)
        client: Any = wrap(line.client())
        counted = client.responses.input_tokens.count(model="gpt-6-sol", input=RESPONSES["input"])
        assert counted.input_tokens > 1000
        for call in OTHERS:
            with pytest.raises(Exception, match="40"):
                call(client)
        sent.append([(one.method, str(one.url), one.content) for one in line.requests])
    assert sent[0] == sent[1]
    assert records(tmp_path) == []


@pytest.mark.parametrize("name", ["chat", "azure chat"])
def test_a_wrapped_client_keeps_its_class_its_settings_and_its_pool(tmp_path: Path, name: str) -> None:
    """Chosen by us: a new client of the same class; the one given is not changed, and lives on when ours is gone."""
    place, accel = PLACES[name], an_accel(tmp_path)
    line = Line(place)
    bare = line.client(timeout=7.0, max_retries=5, default_headers={"x-own": "1"})
    transport = bare._client._transport
    wrapped = place.wrapped(accel)(bare)
    assert type(wrapped) is type(bare)
    assert (wrapped.timeout, wrapped.max_retries, wrapped.base_url) == (7.0, 5, bare.base_url)
    assert wrapped.default_headers["x-own"] == "1"
    assert bare._client._transport is transport
    assert place.wrapped(accel)(wrapped) is wrapped
    with pytest.raises(ConfigError):
        place.wrapped(an_accel(tmp_path / "other"))(wrapped)
    del wrapped
    bare.chat.completions.create(**CHAT)
    assert records(tmp_path) == []
