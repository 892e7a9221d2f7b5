"""Observing changes nothing: bytes out and bytes in are those of the bare client (issue 3, *Must show* 4)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anthropic
import pytest
from hypothesis import HealthCheck, given, settings

from agentaccel import Accel, Policy, StorePolicy
from tests.clients.wire import (
    ASK,
    MIDDLEWARE_HEADER,
    PIECES,
    Json,
    Peer,
    Reply,
    an_accel,
    marks,
    message,
    records,
    stream,
    wire_of,
    zipped,
)
from tests.driver import body, prose, user
from tests.wire.bodies import requests
from tests.wire.test_markable import BLOCKS, NESTED, SAMPLE, TOOLS

pytestmark = pytest.mark.many(6)

HEAD = {"model": "claude-sonnet-5", "max_tokens": 9}


def with_block(kind: str) -> Json:
    """A request that holds a block of this type, and is long enough to be worth markers."""
    block = {**SAMPLE, "type": kind}
    if kind in NESTED:
        block = {"type": "tool_result", "tool_use_id": "t", "content": [block]}
    return body(user([{"type": "text", "text": prose(900)}, block]), system=prose(900))


def with_tool(kind: str) -> Json:
    return body(user(prose(900)), tools=[{**SAMPLE, "type": kind}], system=prose(900))


def raw_sync(client: anthropic.Anthropic, request: Json, streamed: bool) -> list[bytes]:
    """The raw pieces of the reply, as they reach a reader of bytes."""
    with client.messages.with_streaming_response.create(**request, stream=streamed) as reply:
        return list(reply.http_response.iter_raw())


async def raw_async(client: anthropic.AsyncAnthropic, request: Json, streamed: bool) -> list[bytes]:
    async with client.messages.with_streaming_response.create(**request, stream=streamed) as reply:
        return [piece async for piece in reply.http_response.aiter_raw()]


def outcome(client: anthropic.Anthropic, request: Json, streamed: bool) -> Any:
    """Raw bytes and the parsed reply, or what was raised."""
    try:
        raw = raw_sync(client, request, streamed)
        if streamed:
            with client.messages.create(**request, stream=True) as events:
                return raw, [event.model_dump() for event in events]
        return raw, client.messages.create(**request).model_dump()
    except (anthropic.AnthropicError, TypeError, ValueError) as error:
        return type(error), str(error)


def check_same(reply: Reply, request: Json, streamed: bool, wrap: Any) -> None:
    bare, ours = Peer(reply), Peer(reply)
    assert outcome(wrap(ours.client()), request, streamed) == outcome(bare.client(), request, streamed)
    assert [wire_of(one) for one in ours.requests] == [wire_of(one) for one in bare.requests]


REPLIES = {"json": message(), "stream": stream(), "zipped json": zipped(message()), "zipped stream": zipped(stream())}


@pytest.mark.parametrize("kind", sorted({*BLOCKS, *NESTED, "holo"}))
@pytest.mark.parametrize("reply", sorted(REPLIES))
def test_observing_a_request_with_any_block_changes_no_byte(tmp_path: Path, kind: str, reply: str) -> None:
    """Chosen by us, and promised: request bytes and headers, reply bytes, their pieces and the parsed reply."""
    accel = an_accel(tmp_path, mode="observe")
    check_same(REPLIES[reply], with_block(kind), "stream" in reply, accel.wrap)
    assert {(one.mode, one.outcome, one.usage.output) for one in records(tmp_path)} == {("observe", "ok", 12)}


@pytest.mark.parametrize("kind", sorted(TOOLS))
def test_observing_a_request_with_any_tool_changes_no_byte(tmp_path: Path, kind: str) -> None:
    """Chosen by us, as above."""
    check_same(message(), with_tool(kind), False, an_accel(tmp_path, mode="observe").wrap)


@pytest.mark.parametrize("reply", sorted(REPLIES))
async def test_observing_changes_no_byte_of_an_async_client(tmp_path: Path, reply: str) -> None:
    """Chosen by us, as above."""
    bare, ours = Peer(REPLIES[reply]), Peer(REPLIES[reply])
    client = an_accel(tmp_path, mode="observe").wrap(ours.async_client())
    streamed = "stream" in reply
    assert await raw_async(client, ASK, streamed) == await raw_async(bare.async_client(), ASK, streamed)
    assert [wire_of(one) for one in ours.requests] == [wire_of(one) for one in bare.requests]


@settings(suppress_health_check=list(HealthCheck))
@given(requests())
def test_observing_any_request_of_the_sdks_types_changes_no_byte(request_: Json) -> None:
    """Chosen by us, as above; what the SDK itself refuses to send raises the same in both."""
    accel = Accel(Policy(mode="observe", strict=True, store=StorePolicy(enabled=False)))
    check_same(message(), request_, False, accel.wrap)


def test_the_identity_check_bites(tmp_path: Path) -> None:
    """The twin: with markers on, the same comparison fails."""
    with pytest.raises(AssertionError):
        check_same(message(), ASK, False, an_accel(tmp_path).wrap)


@pytest.mark.parametrize("reply", sorted(REPLIES))
def test_acting_changes_the_request_only(tmp_path: Path, reply: str) -> None:
    """Chosen by us: with markers on, the reply is still the bare client's, to the byte and the piece."""
    bare, ours = Peer(REPLIES[reply]), Peer(REPLIES[reply])
    streamed = "stream" in reply
    found = outcome(an_accel(tmp_path).wrap(ours.client()), ASK, streamed)
    assert found == outcome(bare.client(), ASK, streamed)
    assert marks(ours.sent[0]) > marks(bare.sent[0]) == 0
    for one, other in zip(ours.requests, bare.requests, strict=True):
        assert [pair for pair in wire_of(one)[2] if pair[0].lower() != b"content-length"] == [
            pair for pair in wire_of(other)[2] if pair[0].lower() != b"content-length"
        ]


def test_the_one_header_that_differs_is_the_sdks_own(tmp_path: Path) -> None:
    """Known gap, pinned on purpose: the SDK tells the server of any middleware, whoever's it is, in one header."""
    ours, theirs = Peer(message()), Peer(message())
    an_accel(tmp_path, mode="observe").wrap(ours.client()).messages.create(**ASK)
    theirs.client().with_middleware(lambda request, call_next: call_next(request)).messages.create(**ASK)
    assert ours.requests[0].headers.raw == theirs.requests[0].headers.raw
    assert ours.requests[0].headers[MIDDLEWARE_HEADER.decode()] == "raw"


@pytest.mark.parametrize("how", ["policy", "variable"])
def test_off_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """Chosen by us: the client comes back as it went in, and no store is made."""
    if how == "variable":
        monkeypatch.setenv("AGENTACCEL_DISABLE", "1")
    accel = an_accel(tmp_path, mode="off" if how == "policy" else "on")
    client = Peer(message()).client()
    assert accel.wrap(client) is client
    check_same(message(), ASK, False, accel.wrap)
    assert not (tmp_path / "trace.db").exists()


def test_the_raw_reply_is_what_the_server_sent(tmp_path: Path) -> None:
    """The identity tests compare two readers; this one says what both read."""
    client = an_accel(tmp_path).wrap(Peer(stream()).client())
    assert raw_sync(client, ASK, True) == PIECES
