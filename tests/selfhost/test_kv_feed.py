"""Listening to an engine's KV events over real sockets: a publisher with the buffer that vLLM's has, and no engine."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agentaccel import Accel, Policy
from agentaccel.errors import ConfigError, EngineError
from agentaccel.selfhost import kv_feed
from agentaccel.selfhost.kv_events import KvBatch
from agentaccel.selfhost.kv_feed import KvFeed
from agentaccel.selfhost.kv_sources import KvSource, sources
from agentaccel.selfhost.probe import Page, Server
from tests.clients.wire import an_accel
from tests.selfhost.serving import Answer, Loopback, engine, serving
from tests.selfhost.test_kv_events import frames

zmq = pytest.importorskip("zmq")
pytest.importorskip("msgspec")


class Publisher:
    """Publishes batches, one block of 16 tokens each, and replays what is in its buffer."""

    def __init__(self) -> None:
        import zmq.asyncio

        self._context = zmq.asyncio.Context()
        self._live, self._old = self._context.socket(zmq.XPUB), self._context.socket(zmq.ROUTER)
        self.endpoint, self.replay = (
            f"tcp://127.0.0.1:{one.bind_to_random_port('tcp://127.0.0.1')}" for one in (self._live, self._old)
        )
        self.buffer: list[list[bytes]] = []
        self.asked: list[int] = []

    def did(self, sequence: int) -> list[bytes]:
        """The next batch, which nobody hears of."""
        stored = {"type": "BlockStored", "block_hashes": [sequence], "token_ids": [0] * 16, "block_size": 16}
        self.buffer.append(frames(sequence, [stored], 100.0 + sequence))
        return self.buffer[-1]

    async def open_anew(self) -> None:
        """Close what batches are published by, and open it at the same address once that is free."""
        self._live.close(linger=0)
        self._live = self._context.socket(zmq.XPUB)
        while True:
            try:
                self._live.bind(self.endpoint)
                return
            except zmq.ZMQError as error:
                if error.errno != zmq.EADDRINUSE:
                    raise
                await asyncio.sleep(0)

    async def publish(self, sequence: int) -> None:
        await self._live.send_multipart(self.did(sequence))

    async def send(self, *parts: bytes) -> None:
        await self._live.send_multipart(parts)

    async def heard(self) -> bytes:
        """Wait until somebody listens, or listens no more: a 1 or a 0, and the topic."""
        return bytes(await self._live.recv())

    async def asked_again(self) -> None:
        """Wait until a replay is asked for, and do not answer."""
        await self._old.recv_multipart()

    async def answer(self, *, ends: bool = True) -> None:
        """Replay once."""
        who, _, first = await self._old.recv_multipart()
        self.asked.append(int.from_bytes(first, "big"))
        for topic, sequence, payload in self.buffer:
            if int.from_bytes(sequence, "big") >= self.asked[-1]:
                await self._old.send_multipart([who, b"", topic, sequence, payload])
        if ends:
            await self._old.send_multipart([who, b"", b"", (-1).to_bytes(8, "big", signed=True), b""])

    def close(self) -> None:
        self._live.close(linger=0)
        self._old.close(linger=0)
        self._context.term()


@asynccontextmanager
async def publishing() -> AsyncIterator[Publisher]:
    publisher = Publisher()
    try:
        yield publisher
    finally:
        publisher.close()


@pytest.fixture
def accel(tmp_path: Path) -> Any:
    with an_accel(tmp_path) as made:
        yield made


def listening(accel: Accel, publisher: Publisher, **more: Any) -> KvFeed:
    return accel.backend("http://127.0.0.1:9/v1", dialect="vllm").kv_events(publisher.endpoint, **more)


async def test_batches_come_in_order_and_the_cache_has_taken_them_in(accel: Accel) -> None:
    async with publishing() as engine, listening(accel, engine) as events:
        await engine.heard()
        for number in range(3):
            await engine.publish(number)
        assert [(await anext(events)).sequence for _ in range(3)] == [0, 1, 2]
        assert (events.cache.whole, events.cache.tokens_held()) == (True, 48)


async def test_whoever_comes_later_is_told_what_was_before(accel: Accel) -> None:
    """From the engine's buffer, which is asked from number 0 on."""
    async with publishing() as engine:
        engine.did(0), engine.did(1)
        entered, _ = await asyncio.gather(entering(listening(accel, engine, replay=engine.replay)), engine.answer())
        async with entered as events:
            assert (engine.asked, events.cache.whole, events.cache.tokens_held()) == ([0], True, 32)
            assert [(await anext(events)).sequence for _ in range(2)] == [0, 1]


async def test_what_was_missed_is_replayed_from_the_last_that_was_seen(accel: Accel) -> None:
    async with publishing() as engine:
        engine.did(0)
        entered, _ = await asyncio.gather(entering(listening(accel, engine, replay=engine.replay)), engine.answer())
        async with entered as events:
            await engine.heard()
            await anext(events)
            engine.did(1), engine.did(2)
            await engine.publish(3)
            come, _ = await asyncio.gather(several(events, 3), engine.answer())
            assert [one.sequence for one in come] == [1, 2, 3]
            assert (engine.asked, events.cache.whole, events.cache.tokens_held()) == ([0, 0], True, 64)


async def test_without_a_replay_the_rest_is_forgotten(accel: Accel) -> None:
    async with publishing() as engine, listening(accel, engine) as events:
        await engine.heard()
        await engine.publish(0)
        await engine.publish(7)
        assert [one.sequence for one in await several(events, 2)] == [0, 7]
        assert (events.cache.whole, events.cache.holds(0), events.cache.holds(7)) == (False, False, True)


async def test_what_cannot_be_read_is_one_log_line_and_nothing_is_believed_after_it(
    accel: Accel, caplog: pytest.LogCaptureFixture
) -> None:
    async with publishing() as engine, listening(accel, engine) as events:
        await engine.heard()
        await engine.publish(0)
        for _ in range(2):
            await engine.send(b"kv", b"\0" * 8, b"secret words")
        await engine.publish(1)
        with caplog.at_level(logging.WARNING, "agentaccel"):
            assert [one.sequence for one in await several(events, 2)] == [0, 1]
        assert (events.cache.whole, events.cache.holds(0), events.cache.holds(1)) == (False, False, True)
    (line,) = caplog.messages
    assert "could not be read" in line
    assert "secret" not in line


@pytest.mark.parametrize(
    "wrong",
    [
        [b"kv", b"\0" * 8, b"\x91" * 5_000 + b"\x90"],
        frames(0, [{"type": "BlockStored", "block_hashes": [[1]], "block_size": 16}]),
        frames(0, [{"type": "BlockStored", "block_hashes": [1], "block_size": float("inf")}]),
        [b"kv", b"\1" + b"\0" * 8, frames(0, [])[2]],
    ],
    ids=["nested too deep", "a list for a hash", "blocks without end", "a number of 9 bytes"],
)
async def test_what_is_malformed_never_reaches_whoever_listens(
    accel: Accel, caplog: pytest.LogCaptureFixture, wrong: list[bytes]
) -> None:
    async with publishing() as engine, listening(accel, engine) as events:
        await engine.heard()
        await engine.publish(0)
        await engine.send(*wrong)
        await engine.publish(1)
        assert [one.sequence for one in await several(events, 2)] == [0, 1]
        assert (events.cache.holds(0), events.cache.holds(1)) == (False, True)
    assert sum("could not be read" in one for one in caplog.messages) == 1


async def test_whoever_waits_for_a_batch_in_another_task_comes_to_the_end(accel: Accel) -> None:
    async with publishing() as engine:
        async with listening(accel, engine) as events:
            await engine.heard()
            waiting = asyncio.create_task(all_of(events))
            await asyncio.sleep(0)
        assert await waiting == []


async def test_whoever_is_cancelled_while_the_feed_is_left_is_cancelled(accel: Accel) -> None:
    """The twin: it did not come to the end, somebody asked for it to go."""
    async with publishing() as engine:
        async with listening(accel, engine) as events:
            waiting = asyncio.create_task(all_of(events))
            await asyncio.sleep(0)
            waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_a_feed_is_left_at_once_while_a_replay_is_waited_for(
    accel: Accel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was asked for and is never answered. To end ZeroMQ with its socket open would block the event loop."""
    async with publishing() as engine:
        entered, _ = await asyncio.gather(entering(listening(accel, engine, replay=engine.replay)), engine.answer())
        monkeypatch.setattr(kv_feed, "_REPLAY_WITHIN", 3600.0)
        async with entered as events:
            await engine.heard()
            waiting = asyncio.create_task(all_of(events))
            await engine.publish(7)
            await engine.asked_again()
        assert await waiting == []


async def test_a_replay_without_end_is_read_for_so_long_and_no_longer(
    accel: Accel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No end of it comes. What did come is believed: numbers 0 and 1."""
    monkeypatch.setattr(kv_feed, "_REPLAY_WITHIN", 3600.0)
    monkeypatch.setattr(kv_feed, "_WHOLE_REPLAY_WITHIN", 0.05)
    async with publishing() as engine:
        engine.did(0), engine.did(1)
        entered, _ = await asyncio.gather(
            entering(listening(accel, engine, replay=engine.replay)), engine.answer(ends=False)
        )
        async with entered as events:
            assert [one.sequence for one in await several(events, 2)] == [0, 1]
    assert sum("still replaying" in one for one in caplog.messages) == 1


async def test_who_sends_a_frame_that_is_too_large_is_hung_up_on(
    accel: Accel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One of 1,000 bytes, where 999 are taken. ZeroMQ tells a publisher of it by a 0 in front of the topic. The loop
    ends with one log line, and what was held before is not believed any more."""
    monkeypatch.setattr(kv_feed, "_LARGEST", 999)
    monkeypatch.setattr(kv_feed, "_AGAIN_WITHIN", 0.05)
    async with publishing() as engine, listening(accel, engine) as events:
        assert await engine.heard() == b"\1"
        await engine.publish(0)
        assert (await anext(events)).sequence == 0
        assert events.cache.holds(0)
        await engine.send(b"kv", b"\0" * 8, b"\0" * 1_000)
        assert await engine.heard() == b"\0"
        assert await all_of(events) == []
        assert (events.cache.whole, events.cache.tokens_held()) == (False, 0)
        assert await all_of(events) == []
    (line,) = caplog.messages
    assert "more than 999 bytes" in line


async def test_a_connection_that_ends_and_is_made_again_is_no_end(
    accel: Accel, caplog: pytest.LogCaptureFixture
) -> None:
    """The twin: the engine's socket is closed and opened anew, nothing was missed meanwhile, and all is believed."""
    async with publishing() as engine, listening(accel, engine) as events:
        await engine.heard()
        await engine.publish(0)
        assert (await anext(events)).sequence == 0
        waiting = asyncio.create_task(anext(events))
        await engine.open_anew()
        await engine.heard()
        await engine.publish(1)
        assert (await waiting).sequence == 1
        assert (events.cache.whole, events.cache.holds(0)) == (True, True)
    assert not caplog.messages


async def test_one_that_is_not_is_read(accel: Accel, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: where 1,000 are taken, it is one that cannot be read, and the next one can."""
    monkeypatch.setattr(kv_feed, "_LARGEST", 1_000)
    async with publishing() as engine, listening(accel, engine) as events:
        await engine.heard()
        await engine.send(b"kv", b"\0" * 8, b"\0" * 1_000)
        await engine.publish(5)
        assert (await anext(events)).sequence == 5


@pytest.mark.parametrize("wrong", ["127.0.0.1:5557", "http://127.0.0.1:5557", 5557, ""])
def test_what_is_no_address_is_a_config_error(accel: Accel, wrong: Any) -> None:
    backend = accel.backend("http://127.0.0.1:9/v1", dialect="vllm")
    with pytest.raises(ConfigError, match="tcp://"):
        backend.kv_events(wrong)
    with pytest.raises(ConfigError, match="replay"):
        backend.kv_events("tcp://127.0.0.1:5557", replay=wrong)


async def test_an_address_that_cannot_be_connected_to_is_a_config_error(accel: Accel) -> None:
    events = accel.backend("http://127.0.0.1:9/v1", dialect="vllm").kv_events("tcp://nowhere")
    with pytest.raises(ConfigError, match="no address"):
        await events.__aenter__()


def vllm_with(*engines: dict[str, Any], status: int = 200, body: Any = None) -> Loopback:
    """A vLLM server that lists what these engines are told of KV events, by their ranks."""
    listed = body if body is not None else {str(rank): one for rank, one in enumerate(engines)}
    server = engine("vllm-0.32.0-cpu")
    server.says["/kv_event_sources"] = Answer(listed, status)
    return server


def anywhere(url: str) -> str:
    """As an engine lists it that listens at all addresses of its machine."""
    return url.replace("127.0.0.1", "*")


@pytest.mark.parametrize("by_rank", [True, False], ids=["by rank", "a list"])
async def test_without_an_endpoint_the_server_says_where_it_publishes(accel: Accel, by_rank: bool) -> None:
    """An object by ranks, as vLLM 0.32 was seen to do, or a list. All addresses of its machine are those of its host;
    other topics are not listened to, and what was before is replayed."""
    async with publishing() as publisher:
        publisher.did(0)
        listed = {
            "endpoint": anywhere(publisher.endpoint),
            "replay_endpoint": anywhere(publisher.replay),
            "topic": "kv",
        }
        server = vllm_with(listed, body=None if by_rank else [{"data_parallel_rank": 0, **listed}])
        with serving(server):
            feed = accel.backend(f"{server.url}/v1").kv_events()
            entered, _ = await asyncio.gather(entering(feed), publisher.answer())
            async with entered as events:
                assert await publisher.heard() == b"\1kv"
                assert (await anext(events)).sequence == 0


async def test_what_is_given_goes_before_what_is_listed(accel: Accel) -> None:
    """A topic, and where it replays; an endpoint that is given is not asked for."""
    async with publishing() as publisher:
        server = vllm_with({"endpoint": publisher.endpoint, "replay_endpoint": "tcp://127.0.0.1:9", "topic": "kv"})
        with serving(server):
            backend = accel.backend(f"{server.url}/v1")
            given = backend.kv_events(replay=publisher.replay, topic="")
            entered, _ = await asyncio.gather(entering(given), publisher.answer())
            async with entered:
                assert await publisher.heard() == b"\1"
            asked = [one.path for one in server.asked].count("/kv_event_sources")
            async with backend.kv_events(publisher.endpoint):
                assert [one.path for one in server.asked].count("/kv_event_sources") == asked == 1


PUBLISHES = {"endpoint": "tcp://*:5557", "replay_endpoint": None, "topic": ""}


@pytest.mark.parametrize(
    ("server", "error", "says"),
    [
        (vllm_with(), ConfigError, "lists no endpoint"),
        (vllm_with(status=404, body={"detail": "Not Found"}), ConfigError, "lists no endpoint"),
        (engine("sglang-0.5.23"), ConfigError, "SGLang.*lists no endpoint"),
        (vllm_with(PUBLISHES, {**PUBLISHES, "endpoint": "tcp://*:5558"}), ConfigError, "several.*5557'.*5558'"),
        (vllm_with({**PUBLISHES, "endpoint": "inproc://kv"}), ConfigError, "inproc://kv"),
        (vllm_with(status=500, body={}), EngineError, "status 500"),
        (vllm_with(body=b"no JSON"), EngineError, "no list"),
    ],
)
async def test_where_no_one_endpoint_is_listed_the_error_says_what_to_do(
    accel: Accel, server: Loopback, error: type[Exception], says: str
) -> None:
    with serving(server), pytest.raises(error, match=says):
        await accel.backend(f"{server.url}/v1").kv_events().__aenter__()


async def test_the_engines_of_several_servers_are_listed_together(accel: Accel) -> None:
    """The twin of one: nothing says which is meant. Each is named by its own host."""
    several = [vllm_with(PUBLISHES), vllm_with({**PUBLISHES, "endpoint": "tcp://10.0.0.2:5557"})]
    with serving(*several), pytest.raises(ConfigError, match=r"127\.0\.0\.1:5557', 'tcp://10\.0\.0\.2:5557"):
        await accel.backend([f"{one.url}/v1" for one in several]).kv_events().__aenter__()


@pytest.mark.parametrize(
    ("listed", "host", "reached"),
    [
        ("tcp://*:5557", "gpu.local", "tcp://gpu.local:5557"),
        ("tcp://0.0.0.0:5557", "10.0.0.7", "tcp://10.0.0.7:5557"),
        ("tcp://[::]:5557", "::1", "tcp://[::1]:5557"),
        ("tcp://10.0.0.2:41234", "gpu.local", "tcp://10.0.0.2:41234"),
        ("ipc:///run/kv", "gpu.local", "ipc:///run/kv"),
    ],
)
def test_an_address_that_stands_for_all_is_that_of_the_servers_host(listed: str, host: str, reached: str) -> None:
    said = Page(200, {}, json.dumps({"0": {"endpoint": listed, "replay_endpoint": listed}}).encode())
    assert sources(Server(dialect="vllm"), host, said) == [KvSource(reached, reached, "")]


async def test_off_is_off(tmp_path: Path) -> None:
    with Accel(Policy(mode="off")) as accel:
        async with accel.backend("http://127.0.0.1:9/v1").kv_events("tcp://127.0.0.1:9") as events:
            assert [one async for one in events] == []
        async with accel.backend("http://127.0.0.1:9/v1").kv_events() as events:
            assert [one async for one in events] == []


async def entering(events: KvFeed) -> Any:
    """What was entered already, to be left once."""
    await events.__aenter__()

    @asynccontextmanager
    async def left() -> AsyncIterator[KvFeed]:
        try:
            yield events
        finally:
            await events.__aexit__(None, None, None)

    return left()


async def all_of(events: KvFeed) -> list[KvBatch]:
    return [one async for one in events]


async def several(events: KvFeed, count: int) -> list[KvBatch]:
    return [await anext(events) for _ in range(count)]
