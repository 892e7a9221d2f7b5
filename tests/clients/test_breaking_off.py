"""A reader that breaks off, and a task that is cancelled: the turn ends with them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anthropic
import pytest

from tests.clients.wire import ASK, PIECES, Hold, Peer, an_accel, message, records, stream

pytestmark = pytest.mark.usefixtures("_little_to_collect")


def _closes(client: anthropic.Anthropic) -> None:
    events = client.messages.create(**ASK, stream=True)
    next(iter(events))
    events.close()


def _leaves(client: anthropic.Anthropic) -> None:
    with client.messages.stream(**ASK) as helper:
        for _ in helper:
            break


def _drops(client: anthropic.Anthropic) -> None:
    events = client.messages.create(**ASK, stream=True)
    next(iter(events))
    del events
    gc.collect()


def _never_reads(client: anthropic.Anthropic) -> None:
    events = client.messages.create(**ASK, stream=True)
    del events
    gc.collect()


def _raises(client: anthropic.Anthropic) -> None:
    with contextlib.suppress(KeyError), client.messages.create(**ASK, stream=True) as events:
        for _ in events:
            raise KeyError("theirs")


@pytest.mark.parametrize("breaks", [_closes, _leaves, _drops, _never_reads, _raises], ids=lambda one: one.__name__)
def test_a_reader_that_breaks_off_abandons_the_turn(tmp_path: Path, breaks: Callable[[Any], None]) -> None:
    """Chosen by us: however it breaks off, the connection is given back and the turn says so."""
    peer = Peer(stream())
    breaks(an_accel(tmp_path).wrap(peer.client()))
    [record] = records(tmp_path)
    assert (record.outcome, record.error) == ("abandoned", None)
    assert record.usage.input == (None if breaks is _never_reads else 11000)


async def _acloses(client: anthropic.AsyncAnthropic) -> None:
    events = await client.messages.create(**ASK, stream=True)
    await anext(aiter(events))
    await events.close()


async def _aleaves(client: anthropic.AsyncAnthropic) -> None:
    async with client.messages.stream(**ASK) as helper:
        async for _ in helper:
            break


async def _adrops(client: anthropic.AsyncAnthropic) -> None:
    events = await client.messages.create(**ASK, stream=True)
    await anext(aiter(events))
    del events
    gc.collect()


@pytest.mark.parametrize("breaks", [_acloses, _aleaves, _adrops], ids=lambda one: one.__name__)
async def test_an_async_reader_that_breaks_off_abandons_the_turn(
    tmp_path: Path, breaks: Callable[[Any], Awaitable[None]]
) -> None:
    """Chosen by us, as above."""
    await breaks(an_accel(tmp_path).wrap(Peer(stream()).async_client()))
    async with asyncio.timeout(5):  # the loop closes dropped generators in tasks of its own, as it does without us
        while not records(tmp_path) or len(asyncio.all_tasks()) > 1:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0)
    assert [one.outcome for one in records(tmp_path)] == ["abandoned"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_a_reader_that_stops_after_the_last_event_has_the_whole_reply(tmp_path: Path) -> None:
    """Chosen by us: the protocol's last event ends the turn, not the end of the connection."""
    client = an_accel(tmp_path).wrap(Peer(stream([*PIECES, b": more\n\n"])).client())
    with client.messages.create(**ASK, stream=True) as events:
        for event in events:
            if event.type == "message_stop":
                break
        assert [one.outcome for one in records(tmp_path)] == ["ok"]


async def test_a_body_read_in_part_is_closed_by_the_task_that_read_it(tmp_path: Path) -> None:
    """Chosen by us: closing our side closes the library's at once, not some time later in a task of the loop's."""
    peer = Peer(stream())
    client = an_accel(tmp_path).wrap(peer.async_client())
    async with client.messages.with_streaming_response.create(**ASK, stream=True) as reply:
        pieces = aiter(reply.http_response.stream)
        await anext(pieces)
        await pieces.aclose()  # type: ignore[attr-defined]
        assert peer.bodies[0].left
        assert asyncio.all_tasks() == {asyncio.current_task()}
    assert [one.outcome for one in records(tmp_path)] == ["abandoned"]


async def test_a_task_cancelled_before_the_reply_begins_ends_its_turn(tmp_path: Path) -> None:
    """Chosen by us: cancelling passes through at once, and the turn says so."""
    hold = Hold()
    client = an_accel(tmp_path).wrap(Peer(message(before=hold)).async_client())
    task = asyncio.create_task(client.messages.create(**ASK))
    await hold.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [record] = records(tmp_path)
    assert (record.outcome, record.usage.input) == ("cancelled", None)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_task_cancelled_while_it_reads_ends_its_turn(tmp_path: Path) -> None:
    """Chosen by us, as above; what had been reported is kept."""
    hold, peer = Hold(), Peer()
    peer.replies.append(stream([*PIECES[:2], hold]))
    client = an_accel(tmp_path).wrap(peer.async_client())

    async def reads() -> None:
        async for _ in await client.messages.create(**ASK, stream=True):
            pass

    task = asyncio.create_task(reads())
    await hold.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    [record] = records(tmp_path)
    assert (record.outcome, record.usage.input) == ("cancelled", 11000)
    assert peer.bodies[0].closed
    assert asyncio.all_tasks() == {asyncio.current_task()}
