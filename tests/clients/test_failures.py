"""Our own failures: the caller never meets them, and there is one log line (or, under `strict`, an exception)."""

from __future__ import annotations

import ast
import gc
import logging
import sqlite3
import zlib
from pathlib import Path
from typing import Any

import pytest

import agentaccel
from agentaccel import Accel, Policy, StorePolicy
from agentaccel.clients.tap import decoder
from agentaccel.locks import Lock
from agentaccel.testing import ManualClock
from tests.clients.test_endings import ENDINGS, plain, seen
from tests.clients.wire import ASK, PIECES, Peer, Reply, an_accel, marks, message, records, stream

pytestmark = pytest.mark.usefixtures("_little_to_collect")

WHOLE = b"".join(PIECES)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What we logged as a warning or worse."""
    return [one.message for one in caplog.records if one.name == "agentaccel" and one.levelno >= logging.WARNING]


class Down(Exception):
    """What fails in these tests."""


class NoWall(ManualClock):
    """A clock of the user's that does not know the time of day, which a plan needs."""

    def wall(self) -> float:
        raise Down("no wall clock")


WORKING = 10**9


class Stops(ManualClock):
    """A clock of the user's that works `left` times."""

    left = WORKING

    def monotonic(self) -> float:
        self.left -= 1
        if self.left < 0:
            raise Down("no clock")
        return self.now


# --- the store -------------------------------------------------------------------------------------------------------


def test_a_store_that_breaks_is_given_up_with_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Chosen by us: the agent goes on, marked as before; only the recording ends."""
    peer = Peer(message())
    client = an_accel(tmp_path, strict=False).wrap(peer.client())
    client.messages.create(**ASK)
    with sqlite3.connect(tmp_path / "trace.db") as connection:
        connection.execute("DROP TABLE segments")
    connection.close()
    for _ in range(3):
        assert client.messages.create(**ASK).usage.output_tokens == 12
    assert len(lines(caplog)) == 1
    assert all(marks(sent) >= 2 for sent in peer.sent)


def test_a_store_that_breaks_is_raised_under_strict(tmp_path: Path) -> None:
    """The twin: the same store does fail."""
    client = an_accel(tmp_path).wrap(Peer(message()).client())
    client.messages.create(**ASK)
    with sqlite3.connect(tmp_path / "trace.db") as connection:
        connection.execute("DROP TABLE segments")
    connection.close()
    with pytest.raises(sqlite3.Error):
        client.messages.create(**ASK)


@pytest.mark.parametrize("how", ["under a file", "garbage", "a bad key"])
def test_a_store_that_cannot_be_opened_is_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str) -> None:
    """Chosen by us, as above, from the start."""
    store = tmp_path / "trace.db"
    if how == "under a file":
        tmp_path = tmp_path / "file"
        tmp_path.write_text("")
    elif how == "garbage":
        store.write_bytes(b"SQLite format 3\0" + b"no database" * 1000)
    else:
        store.with_name("trace.db.key").write_bytes(b"short")
    peer = Peer(stream())
    client = an_accel(tmp_path, strict=False).wrap(peer.client())
    for _ in range(2):
        assert seen(client, True) == seen(Peer(stream()).client(), True)
    assert len(lines(caplog)) == 1
    assert marks(peer.sent[0]) >= 2


# --- the planner -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("why", ["json", "read to its end", "400", "connection refused"])
def test_a_request_that_cannot_be_planned_goes_out_as_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, why: str
) -> None:
    """Chosen by us: unplanned, unrecorded, one line; the caller sees what it would see without us."""
    reply, streamed, _ = ENDINGS[why]
    ours, bare = Peer(reply), Peer(reply)
    accel = Accel(Policy(store=StorePolicy(path=tmp_path / "trace.db")), clock=NoWall())
    client = accel.wrap(ours.client())
    assert seen(client, streamed) == seen(bare.client(), streamed)
    assert ours.sent == bare.sent
    assert len(lines(caplog)) == 1
    assert records(tmp_path) == []


def test_a_request_that_cannot_be_planned_raises_under_strict() -> None:
    """The twin: the planning does fail."""
    accel = Accel(Policy(strict=True, store=StorePolicy(enabled=False)), clock=NoWall())
    client = accel.wrap(Peer(message()).client())
    with pytest.raises(Down):
        client.messages.create(**ASK)


# --- watching the reply ----------------------------------------------------------------------------------------------


@pytest.mark.many(3)
@pytest.mark.parametrize("calls", range(12))
@pytest.mark.parametrize("why", ["json", "read to its end", "error inside", "400", "timeout"])
def test_a_failure_at_any_moment_of_a_turn_stays_ours(calls: int, why: str) -> None:
    """Chosen by us: a clock that stops working after any number of readings disturbs no caller."""
    clock = Stops()
    accel = Accel(Policy(store=StorePolicy(enabled=False)), clock=clock)
    reply, streamed, _ = ENDINGS[why]
    client = accel.wrap(Peer(reply).client())
    clock.left = calls
    assert seen(client, streamed) == seen(Peer(reply).client(), streamed)
    clock.left = WORKING  # for what is collected during the tests after this one


def test_the_clock_that_stops_does_bite() -> None:
    """The twin: under strict the same clock is seen by the caller."""
    clock = Stops()
    accel = Accel(Policy(strict=True, store=StorePolicy(enabled=False)), clock=clock)
    client = accel.wrap(Peer(message()).client())
    clock.left = 1
    with pytest.raises(Down):
        client.messages.create(**ASK)


def _raw(client: Any) -> bytes:
    with client.messages.with_streaming_response.create(**ASK, stream=True) as reply:
        return b"".join(reply.http_response.iter_raw())


def _packed(data: bytes, bits: int) -> bytes:
    packer = zlib.compressobj(wbits=bits)
    return packer.compress(data) + packer.flush()


ENCODED: dict[str, tuple[str, bytes, int | None]] = {
    "plain": ("", WHOLE, 11000),
    "identity": ("Identity", WHOLE, 11000),
    "gzip": ("GZIP", _packed(WHOLE, zlib.MAX_WBITS | 16), 11000),
    "deflate": ("deflate", _packed(WHOLE, zlib.MAX_WBITS), 11000),
    "deflate without its header": ("deflate", _packed(WHOLE, -zlib.MAX_WBITS), 11000),
    "two at once": ("gzip, deflate", _packed(WHOLE, zlib.MAX_WBITS), None),
    "unknown": ("x-own", WHOLE, None),
}


@pytest.mark.many(3)
@pytest.mark.parametrize("how", sorted(ENCODED))
@pytest.mark.parametrize("size", [1, 7, 10**6])
def test_a_compressed_reply_is_read_on_a_copy(tmp_path: Path, how: str, size: int) -> None:
    """Chosen by us: raw bytes pass as they came; where they cannot be read here, usage is not known."""
    encoding, data, tokens = ENCODED[how]
    pieces = [data[i : i + size] for i in range(0, len(data), size)]
    peer = Peer(stream(pieces, headers={"content-encoding": encoding}))
    assert _raw(an_accel(tmp_path).wrap(peer.client())) == data
    assert [(one.outcome, one.usage.input) for one in records(tmp_path)] == [("ok", tokens)]


def test_a_reply_that_lies_about_its_encoding_is_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Chosen by us: what cannot be read is passed on; one line, whatever the number of pieces; usage not known."""
    peer = Peer(stream(headers={"content-encoding": "gzip"}))
    assert _raw(an_accel(tmp_path, strict=False).wrap(peer.client())) == WHOLE
    assert len(lines(caplog)) == 1
    assert [(one.outcome, one.usage.input) for one in records(tmp_path)] == [("ok", None)]


def test_a_reply_that_lies_about_its_encoding_raises_under_strict(tmp_path: Path) -> None:
    """The twin: reading it does fail."""
    peer = Peer(stream(headers={"content-encoding": "gzip"}))
    with pytest.raises(zlib.error):
        _raw(an_accel(tmp_path).wrap(peer.client()))


@pytest.mark.parametrize("encoding", ["br", "zstd"])
def test_an_encoding_is_known_only_where_its_library_is_loaded(encoding: str) -> None:
    """Chosen by us: the HTTP library offers these to servers only where it has loaded them itself."""
    import sys

    libraries = {"br": ("brotli", "brotlicffi"), "zstd": ("compression.zstd", "backports.zstd", "zstandard")}
    assert (decoder(encoding) is not None) is any(name in sys.modules for name in libraries[encoding])


# --- the garbage collector -------------------------------------------------------------------------------------------


def test_a_stream_dropped_inside_our_own_code_ends_after_it(tmp_path: Path) -> None:
    """Chosen by us: the collector may run while we hold a lock, and ending a turn takes locks."""
    client = an_accel(tmp_path).wrap(Peer(stream()).client())
    events: Any = client.messages.create(**ASK, stream=True)
    next(iter(events))
    cycle: list[Any] = [events]
    cycle.append(cycle)
    with Lock():
        del events, cycle
        gc.collect()
        assert records(tmp_path) == []
    assert [one.outcome for one in records(tmp_path)] == ["abandoned"]


def test_every_lock_of_ours_knows_that_it_is_held() -> None:
    """The twin: one plain lock among them, and the test before says nothing of it."""
    root = Path(agentaccel.__file__).parent
    names = {"Lock", "RLock", "Condition", "Semaphore"}
    plain_locks = [
        f"{path.relative_to(root)}:{node.lineno}"
        for path in root.rglob("*.py")
        if "emulator" not in path.parts and path.name != "locks.py"
        for text in [path.read_text(encoding="utf-8")]
        if any(f".{name}" in text for name in names)  # parsing them all takes a second
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr in names
    ]
    assert plain_locks == []


def test_what_a_reader_gets_is_what_the_sdk_made() -> None:
    """What `seen` compares is not empty: it holds the values themselves."""
    assert seen(Peer(message()).client(), False)[0][0]["usage"]["output_tokens"] == 12
    assert plain([1]) == [1]
    assert Reply([]).status == 200
