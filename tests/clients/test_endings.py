"""How a turn ends: the caller sees what it would see without us, there is one record, and nothing is left running."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
from pydantic import BaseModel

from agentaccel_emulator import Fault, serve
from tests.clients.wire import ASK, PIECES, Peer, Reply, an_accel, marks, message, records, stream, zipped
from tests.wire.replies import end, sse, start, text

BROKEN = httpx2.ReadError("cut")
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
ERROR_BODY = b'{"type": "error", "error": {"type": "invalid_request_error", "message": "no"}, "request_id": "r"}'


def plain(value: Any) -> Any:
    """What the SDK handed out, comparable; it hands out what it cannot read as it is."""
    return value.model_dump() if isinstance(value, BaseModel) else value


def seen(client: anthropic.Anthropic, streamed: bool) -> Any:
    """Everything that a caller sees of a call: its values, or its exception and what that carries."""
    got: list[Any] = []
    try:
        if streamed:
            for event in client.messages.create(**ASK, stream=True):
                got += [plain(event)]
        else:
            got += [plain(client.messages.create(**ASK))]
    except (anthropic.AnthropicError, httpx2.HTTPError, ValueError) as error:
        body = getattr(error, "body", None)
        cause = error.__cause__
        return got, type(error), error.args, str(error), body, type(cause), getattr(cause, "args", None)
    return got, None


async def seen_async(client: anthropic.AsyncAnthropic, streamed: bool) -> Any:
    got: list[Any] = []
    try:
        if streamed:
            async for event in await client.messages.create(**ASK, stream=True):
                got += [plain(event)]
        else:
            got += [plain(await client.messages.create(**ASK))]
    except (anthropic.AnthropicError, httpx2.HTTPError, ValueError) as error:
        body = getattr(error, "body", None)
        cause = error.__cause__
        return got, type(error), error.args, str(error), body, type(cause), getattr(cause, "args", None)
    return got, None


async def settled() -> int:
    """How many tasks were left, of those that close dropped generators; none is left afterwards."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*left)
    return len(left)


NO_USAGE = [start({}), *text("x"), *end()]
NO_USAGE[-2] = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}
ENDINGS: dict[str, tuple[Reply, bool, tuple[str, int | None, str | None, int | None]]] = {
    # The reply, whether it is streamed, and the record's outcome, status, error and input tokens. Where the SDK cannot
    # read an event it stops, so the reader broke off.
    "read to its end": (stream(), True, ("ok", None, None, 11000)),
    "zipped": (zipped(stream()), True, ("ok", None, None, 11000)),
    "cut after the first event": (stream([*PIECES[:2], BROKEN]), True, ("failed", None, "ReadError", 11000)),
    "cut before the first event": (stream([BROKEN]), True, ("failed", None, "ReadError", None)),
    "ends early": (stream(PIECES[:3]), True, ("failed", None, "reply ended early", 11000)),
    "empty": (stream([]), True, ("failed", None, "reply ended early", None)),
    "error inside": (stream([*PIECES[:3], sse([OVERLOADED])]), True, ("failed", None, "overloaded_error", 11000)),
    "malformed event": (
        stream([*PIECES[:2], b"event: content_block_delta\ndata: {nonsense\n\n", *PIECES[2:]]),
        True,
        ("abandoned", None, None, 11000),
    ),
    "not utf-8": (
        stream([*PIECES[:2], b"event: x\ndata: \xff\xfe\n\n", *PIECES[2:]]),
        True,
        ("abandoned", None, None, 11000),
    ),
    "missing usage": (stream([sse(NO_USAGE)]), True, ("ok", None, None, None)),
    "json": (message(), False, ("ok", None, None, 11000)),
    "json without usage": (message({"id": "m", "type": "message", "content": []}), False, ("ok", None, None, None)),
    "json cut": (Reply([b'{"id": "m", "ty', BROKEN]), False, ("failed", None, "APIConnectionError", None)),
    "json that is none": (Reply([b"<html>"]), False, ("failed", None, "reply ended early", None)),
    "json of another kind": (Reply([b"[1, 2]"]), False, ("failed", None, "reply ended early", None)),
    "400": (Reply([ERROR_BODY], status=400), False, ("failed", 400, "invalid_request_error", None)),
    "400 of a stream": (Reply([ERROR_BODY], status=400), True, ("failed", 400, "invalid_request_error", None)),
    "413 that is no json": (Reply([b"<html>"], status=413), False, ("failed", 413, None, None)),
    "connection refused": (
        Reply([], before=httpx2.ConnectError("refused")),
        True,
        ("failed", None, "APIConnectionError", None),
    ),
    "timeout": (Reply([], before=httpx2.ReadTimeout("slow")), False, ("failed", None, "APITimeoutError", None)),
    "timeout inside": (
        stream([*PIECES[:2], httpx2.ReadTimeout("slow")]),
        True,
        ("failed", None, "ReadTimeout", 11000),
    ),
}


def check_record(folder: Path, wanted: tuple[str, int | None, str | None, int | None]) -> None:
    [record] = records(folder)
    outcome, status, error, tokens = wanted
    assert (record.outcome, record.status, record.error) == (outcome, status, error)
    assert record.usage.input == tokens
    assert record.finished is not None


@pytest.mark.many(2)
@pytest.mark.parametrize("why", sorted(ENDINGS))
def test_a_sync_caller_sees_what_it_would_see_without_us(tmp_path: Path, why: str) -> None:
    """Chosen by us: same values, same exception, same cause; one record with the outcome; usage n/a if not told."""
    reply, streamed, wanted = ENDINGS[why]
    assert seen(an_accel(tmp_path).wrap(Peer(reply).client()), streamed) == seen(Peer(reply).client(), streamed)
    check_record(tmp_path, wanted)


@pytest.mark.many(2)
@pytest.mark.parametrize("why", sorted(ENDINGS))
async def test_an_async_caller_sees_what_it_would_see_without_us(tmp_path: Path, why: str) -> None:
    """Chosen by us, as above; and no more tasks are left than the bare client leaves."""
    reply, streamed, wanted = ENDINGS[why]
    ours = await seen_async(an_accel(tmp_path).wrap(Peer(reply).async_client()), streamed)
    left_by_us = await settled()
    assert ours == await seen_async(Peer(reply).async_client(), streamed)
    assert left_by_us <= await settled()
    check_record(tmp_path, wanted)


def test_the_comparison_bites(tmp_path: Path) -> None:
    """The twin: a middleware that swallows one event, or wraps an error, is not the same to the caller."""

    def swallows(request: Any, call_next: Any) -> Any:
        reply = call_next(request)
        reply.http_response.stream = httpx2.ByteStream(b"".join(PIECES[1:]))
        return reply

    assert seen(Peer(stream()).client(middleware=[swallows]), True) != seen(Peer(stream()).client(), True)
    seen(an_accel(tmp_path).wrap(Peer(stream()).client()), True)
    with pytest.raises(AssertionError):
        check_record(tmp_path, ("ok", None, None, 1))


# --- retries, against the emulator -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["429", "500", "529"])
@pytest.mark.parametrize("streamed", [False, True])
def test_every_attempt_is_a_turn_of_one_session_with_one_plan(tmp_path: Path, kind: str, streamed: bool) -> None:
    """Chosen by us: a retry plans the same, so that what the first attempt wrote is read by the next."""
    faults = [Fault(kind=kind, times=2, headers={"retry-after-ms": "1"})]  # type: ignore[arg-type]
    with serve(faults=faults, script=["Done."]) as server:
        client = an_accel(tmp_path).wrap(anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=2))
        if streamed:
            with client.messages.stream(**ASK) as helper:
                assert helper.get_final_text() == "Done."
        else:
            assert client.messages.create(**ASK).content[0].text == "Done."  # type: ignore[union-attr]
        client.close()
    found = records(tmp_path)
    assert [(one.attempt, one.outcome, one.status) for one in found] == [
        (0, "failed", int(kind)),
        (1, "failed", int(kind)),
        (2, "ok", None),
    ]
    assert len({one.session for one in found}) == 1
    assert found[0].markers == found[1].markers == found[2].markers != ()
    assert [one.usage.input is None for one in found] == [True, True, False]


def test_of_five_markers_of_the_users_the_last_four_reach_the_provider(tmp_path: Path) -> None:
    """Mandated by the provider: five are refused, as the twin sees; chosen by us: such a request goes out
    without the first of them. In observe mode it goes out as written, and the 400 is the provider's own."""
    mark = {"cache_control": {"type": "ephemeral"}}
    blocks = [{"type": "text", "text": "word " * 500, **mark} for _ in range(5)]
    asked: Any = {**ASK, "messages": [{"role": "user", "content": blocks}]}
    errors = []
    with serve() as server:
        bare = anthropic.Anthropic(base_url=server.url, api_key="k", max_retries=0)
        for client in (bare, an_accel(tmp_path / "observed", mode="observe").wrap(bare)):
            with pytest.raises(anthropic.BadRequestError) as caught:
                client.messages.create(**asked)
            errors.append((caught.value.body["error"], caught.value.status_code))  # type: ignore[index]
        an_accel(tmp_path).wrap(bare).messages.create(**asked)
        assert [marks(entry.request) for entry in server.log if entry.request is not None] == [5, 5, 4]
        bare.close()
    assert errors[0] == errors[1]
    [observed] = records(tmp_path / "observed")
    assert (observed.outcome, observed.status, observed.error) == ("failed", 400, "invalid_request_error")
    assert len(observed.markers) == 5 == marks(asked)
    [record] = records(tmp_path)
    assert (record.outcome, len(record.markers)) == ("ok", 4)
