"""Every way in which the vendor SDK makes a model call, and everything of a client that must stay as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import pytest

from agentaccel import Accel
from tests.clients.wire import ASK, MESSAGE, PIECES, Json, Peer, an_accel, marks, message, records, stream

RAW = b"".join(PIECES)
LINES = [line for line in RAW.decode().splitlines()]
WORDS = "Grüße 🚚"


def _create(client: anthropic.Anthropic) -> Any:
    return client.messages.create(**ASK).usage.output_tokens


def _beta(client: anthropic.Anthropic) -> Any:
    return client.beta.messages.create(**ASK, betas=["x-2026"]).usage.output_tokens


def _raw(client: anthropic.Anthropic) -> Any:
    reply = client.messages.with_raw_response.create(**ASK)
    assert reply.http_response.elapsed.total_seconds() >= 0
    return reply.parse().usage.output_tokens


def _unread(client: anthropic.Anthropic) -> Any:
    with client.messages.with_streaming_response.create(**ASK) as reply:
        return reply.parse().usage.output_tokens


def _post(client: anthropic.Anthropic) -> Any:
    return client.post("/v1/messages", body=ASK, cast_to=object)["usage"]["output_tokens"]  # type: ignore[index]


def _events(client: anthropic.Anthropic) -> Any:
    with client.messages.create(**ASK, stream=True) as events:
        return [event for event in events][-2].usage.output_tokens


def _iterated(client: anthropic.Anthropic) -> Any:
    return [event for event in client.messages.create(**ASK, stream=True)][-2].usage.output_tokens


def _helper(client: anthropic.Anthropic) -> Any:
    with client.messages.stream(**ASK) as stream:
        assert "".join(stream.text_stream) == WORDS
        final = stream.get_final_message()
        assert final.content[1].input == {"a": 1}
        return final.usage.output_tokens


def _beta_helper(client: anthropic.Anthropic) -> Any:
    with client.beta.messages.stream(**ASK) as stream:
        return stream.get_final_message().usage.output_tokens


def _raw_stream(client: anthropic.Anthropic) -> Any:
    reply = client.messages.with_raw_response.create(**ASK, stream=True)
    return [event for event in reply.parse()][-2].usage.output_tokens


def _bytes(client: anthropic.Anthropic) -> Any:
    with client.messages.with_streaming_response.create(**ASK, stream=True) as reply:
        assert b"".join(reply.iter_bytes()) == RAW
    assert reply.http_response.elapsed.total_seconds() >= 0
    return 12


def _lines(client: anthropic.Anthropic) -> Any:
    with client.messages.with_streaming_response.create(**ASK, stream=True) as reply:
        assert list(reply.iter_lines()) == LINES
    return 12


def _read(client: anthropic.Anthropic) -> Any:
    with client.messages.with_streaming_response.create(**ASK, stream=True) as reply:
        assert reply.read() == RAW
    return 12


JSON_FORMS = [_create, _beta, _raw, _unread, _post]
STREAM_FORMS = [_events, _iterated, _helper, _beta_helper, _raw_stream, _bytes, _lines, _read]


@pytest.mark.parametrize("form", [*JSON_FORMS, *STREAM_FORMS], ids=lambda form: form.__name__)
def test_every_form_of_a_call_is_marked_and_recorded(
    tmp_path: Path, form: Callable[[anthropic.Anthropic], Any]
) -> None:
    """Chosen by us: whatever the form, the request has markers, the reply is the server's, and the turn is ok."""
    peer = Peer(message() if form in JSON_FORMS else stream())
    assert form(an_accel(tmp_path).wrap(peer.client())) == 12
    assert marks(peer.sent[0]) >= 2
    [record] = records(tmp_path)
    assert (record.outcome, record.usage.input, record.usage.read, record.usage.output) == ("ok", 11000, 9000, 12)
    assert (record.calls, record.stop, record.streamed) == (("f",), "tool_use", form in STREAM_FORMS)
    assert len(record.markers) == marks(peer.sent[0])
    assert peer.bodies[0].closed


async def test_every_form_of_an_async_call_is_marked_and_recorded(tmp_path: Path) -> None:
    """Chosen by us, as above, and nothing is left running."""
    peer = Peer(message(), message(), message(), stream())
    client = an_accel(tmp_path).wrap(peer.async_client())
    assert (await client.messages.create(**ASK)).usage.output_tokens == 12
    assert (await (await client.messages.with_raw_response.create(**ASK)).parse()).usage.output_tokens == 12
    async with client.messages.with_streaming_response.create(**ASK) as reply:
        assert (await reply.parse()).usage.output_tokens == 12
    events = [event async for event in await client.messages.create(**ASK, stream=True)]
    assert events[-2].usage.output_tokens == 12
    async with client.messages.stream(**ASK) as helper:
        assert "".join([words async for words in helper.text_stream]) == WORDS
    async with client.beta.messages.stream(**ASK) as helper_:
        assert (await helper_.get_final_message()).usage.output_tokens == 12
    async with client.messages.with_streaming_response.create(**ASK, stream=True) as reply:
        assert b"".join([piece async for piece in reply.iter_bytes()]) == RAW
    async with client.messages.with_streaming_response.create(**ASK, stream=True) as reply:
        assert [line async for line in reply.iter_lines()] == LINES
    async with client.messages.with_streaming_response.create(**ASK, stream=True) as reply:
        assert await reply.read() == RAW
    assert reply.http_response.elapsed.total_seconds() >= 0
    assert all(marks(sent) >= 2 for sent in peer.sent)
    assert [(one.outcome, one.usage.output) for one in records(tmp_path)] == [("ok", 12)] * 9
    assert all(body.closed for body in peer.bodies)
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_counting_and_batches_pass_untouched(tmp_path: Path) -> None:
    """Chosen by us: only model calls are ours."""
    plain = {name: value for name, value in ASK.items() if name != "max_tokens"}
    batch: Json = {"id": "b", "type": "message_batch", "processing_status": "ended"}
    peer = Peer(message({"input_tokens": 7}), message(batch), message(batch))
    client = an_accel(tmp_path).wrap(peer.client())
    assert client.messages.count_tokens(**plain).input_tokens == 7
    client.messages.batches.create(requests=[{"custom_id": "a", "params": ASK}])  # type: ignore[typeddict-item]
    client.messages.batches.retrieve("b")
    assert peer.sent[0] == plain
    assert peer.sent[1]["requests"] == [{"custom_id": "a", "params": ASK}]
    assert not marks({"all": peer.sent[:2]})
    assert records(tmp_path) == []


def test_extra_body_counts_as_the_request(tmp_path: Path) -> None:
    """Mandated by the provider: what a caller adds by `extra_body` is in the request, its markers too."""
    mark = {"type": "ephemeral"}
    peer = Peer(message())
    blocks = [{"type": "text", "text": "word " * 900, "cache_control": mark} for _ in range(3)]
    asked: Json = {**ASK, "messages": [{"role": "user", "content": blocks}]}
    an_accel(tmp_path).wrap(peer.client()).messages.create(**asked, extra_body={"cache_control": mark})
    assert marks(peer.sent[0]) == 4


def test_a_users_middleware_sees_what_the_user_wrote(tmp_path: Path) -> None:
    """Chosen by us: ours is the innermost, so what a user's own sees and changes comes before the plan."""
    seen: list[Any] = []

    def theirs(request: Any, call_next: Any) -> Any:
        seen.append(request.json)
        return call_next(request.copy(body={**request.json, "temperature": 0.5}))

    peer = Peer(message())
    client = an_accel(tmp_path).wrap(peer.client(middleware=[theirs]))
    client.messages.create(**ASK)
    assert not marks(seen[0])
    assert marks(peer.sent[0]) >= 2
    assert peer.sent[0]["temperature"] == 0.5
    assert client.middleware[0] is theirs


def test_a_middleware_further_in_may_answer_by_itself(tmp_path: Path) -> None:
    """Known gap, pinned on purpose: what answered was no provider, so nothing is known of the turn."""
    client = an_accel(tmp_path).wrap(Peer(message()).client())
    cached = object()
    assert client.with_middleware(lambda request, call_next: cached).messages.create(**ASK) is cached
    assert [one.outcome for one in records(tmp_path)] == ["failed"]


def test_a_middleware_further_in_may_read_the_reply(tmp_path: Path) -> None:
    """Chosen by us: a body that was read away before us leaves the turn without usage, and the caller undisturbed."""
    pieces: list[bytes] = []

    def theirs(request: Any, call_next: Any) -> Any:
        reply = call_next(request)
        pieces.extend(reply.http_response.iter_raw())
        return reply

    client = an_accel(tmp_path, strict=False).wrap(Peer(stream()).client())
    reply = client.with_middleware(theirs).messages.with_raw_response.create(**ASK, stream=True)
    assert (reply.status_code, b"".join(pieces)) == (200, RAW)
    assert [(one.outcome, one.usage.input) for one in records(tmp_path)] == [("ok", None)]


async def test_a_sync_client_works_inside_a_running_loop(tmp_path: Path) -> None:
    """Chosen by us: nothing of ours needs a loop of its own."""
    peer = Peer(message())
    assert _create(an_accel(tmp_path).wrap(peer.client())) == 12
    assert [one.outcome for one in records(tmp_path)] == ["ok"]


def test_a_bypassed_call_goes_out_as_written(tmp_path: Path) -> None:
    """Chosen by us: one call can be left alone, and is recorded as such."""
    accel, peer = an_accel(tmp_path), Peer(message())
    client = accel.wrap(peer.client())
    with accel.bypass():
        _create(client)
    _create(client)
    assert [marks(sent) > 0 for sent in peer.sent] == [False, True]
    assert [one.mode for one in records(tmp_path)] == ["bypass", "on"]


def test_a_session_that_is_opened_in_a_bypass_does_not_end_it(tmp_path: Path) -> None:
    """Promised: calls made inside a bypass go out as written, whatever else is opened there."""
    accel, peer = an_accel(tmp_path), Peer(message())
    client = accel.wrap(peer.client())
    with accel.bypass(), accel.session("left alone"):
        _create(client)
    with accel.session("as usual"):
        _create(client)
    assert [marks(sent) > 0 for sent in peer.sent] == [False, True]
    assert [(one.session, one.mode) for one in records(tmp_path)] == [("left alone", "bypass"), ("as usual", "on")]


async def test_concurrent_sessions_do_not_mix(tmp_path: Path) -> None:
    """Chosen by us: calls in flight at once belong to the sessions they were made in."""
    peer = Peer(message())
    accel = an_accel(tmp_path)
    client = accel.wrap(peer.async_client())
    both_in = asyncio.Barrier(2)

    async def agent(name: str) -> None:
        async with accel.session(name, agent=name):
            await both_in.wait()
            await client.messages.create(**ASK)
            await both_in.wait()
            await client.messages.create(**{**ASK, "messages": [{"role": "user", "content": name * 900}]})

    async with asyncio.TaskGroup() as group:
        group.create_task(agent("left"))
        group.create_task(agent("right"))
    found = sorted((one.session, one.agent, one.outcome) for one in records(tmp_path))
    assert found == [("left", "left", "ok")] * 2 + [("right", "right", "ok")] * 2
    assert MESSAGE["id"] == "msg_1"


def test_a_client_works_on_when_its_accel_is_closed(tmp_path: Path) -> None:
    """Chosen by us: closing the store ends the recording, not the agent."""
    accel: Accel = an_accel(tmp_path, strict=False)
    client = accel.wrap(Peer(message()).client())
    accel.close()
    assert _create(client) == 12
