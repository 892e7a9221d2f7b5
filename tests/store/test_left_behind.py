"""Records that are left faster than they can be written, or that nobody waits for: each is written all the same."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentaccel import Accel, Policy, StorePolicy
from agentaccel.concurrency import Inline
from agentaccel.engine.settlement import Recording
from agentaccel.records import TurnRecord
from agentaccel.store import recorder as recorders
from agentaccel.store.recorder import Recorder
from agentaccel.store.store import open_reader
from agentaccel.testing.inside import engine
from agentaccel.turn import Finished, Reported, Started, Turn
from agentaccel.types import Usage, value_at
from tests.store.test_in_the_background import TOOL, locked, names

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def any_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, the thread that writes is not taken for one that hangs."""
    monkeypatch.setattr(recorders, "_ANSWERS_WITHIN", 3600.0)


@contextmanager
def busy(recorder: Recorder) -> Iterator[None]:
    """The thread that writes is at something else."""
    go = threading.Event()
    recorder._worker.submit(go.wait)
    try:
        yield
    finally:
        go.set()


def begun(recorder: Recorder) -> None:
    """Wait until its thread is at something."""
    while recorder._worker._begun is None:  # type: ignore[union-attr]
        threading.Event().wait(0.001)


# --- more than can be written -----------------------------------------------------------------------------------------


def left(path: Path, count: int) -> list[str]:
    """What there is of so many records that were left at once."""
    recorder = Recorder(StorePolicy(path=path), strict=False)
    with busy(recorder):
        for number in range(count):
            recorder.write(replace(TOOL, name=str(number)))
    recorder.close()
    return names(path)


def test_a_burst_of_records_is_written_whole(tmp_path: Path) -> None:
    """Nothing is in the way of the store, so 1,500 that come at once are 1,500."""
    assert left(tmp_path / "trace.db", 1500) == [str(number) for number in range(1500)]


def test_twin_with_the_bound_of_a_locked_store_the_first_of_a_burst_are_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorders, "_MOST_BEHIND", 1000)
    assert left(tmp_path / "trace.db", 1500) == [str(number) for number in range(500, 1500)]


def test_what_waits_for_a_store_that_does_not_answer_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As for one that is locked: 1,000, and a line that says so."""
    monkeypatch.setattr(recorders, "_ANSWERS_WITHIN", -1.0)
    with caplog.at_level(logging.WARNING, "agentaccel"):
        recorder = Recorder(StorePolicy(path=tmp_path / "trace.db"), strict=False)
        with busy(recorder):
            begun(recorder)
            for number in range(1003):
                recorder.write(replace(TOOL, name=str(number)))
        recorder.close()
    assert names(tmp_path / "trace.db") == [str(number) for number in range(3, 1003)]
    assert [line.partition(": ")[2] for line in caplog.messages] == [
        "over 1,000 records wait for the trace store: the oldest are lost"
    ]


def found_after(path: Path) -> int:
    """Of 120 records, how many are written before what was asked of the thread right after they had been left."""
    recorder = Recorder(StorePolicy(path=path), strict=False)
    with busy(recorder):
        for number in range(120):
            recorder.write(replace(TOOL, name=str(number)))
        asked = recorder._worker.submit(lambda: len(names(path)))
    found = asked.result()
    recorder.close()
    assert len(names(path)) == 120
    return found


def test_a_call_does_not_wait_for_all_that_others_leave(tmp_path: Path) -> None:
    """50 are written at once, and then it is its turn: where others leave records as fast as they are written, that
    would else never be."""
    assert found_after(tmp_path / "trace.db") == 50


def test_twin_where_all_is_written_at_once_it_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recorder._flush, "__defaults__", (1000,))
    assert found_after(tmp_path / "trace.db") == 120


@pytest.mark.parametrize(("wrote", "hangs"), [(0.0, False), (100.0, True)])
def test_a_thread_that_has_much_to_write_does_not_hang(
    wrote: float, hangs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has been at it for 100 seconds, of which 50 are too many; the last record was written so many seconds ago.
    (The second is the twin.)"""
    monkeypatch.setattr(recorders, "_ANSWERS_WITHIN", 50.0)
    recorder = Recorder(StorePolicy(path=tmp_path / "trace.db"), strict=False)
    recorder._worker._begun = time.monotonic() - 100.0  # type: ignore[union-attr]
    recorder._wrote = time.monotonic() - wrote
    assert recorder._hangs() == hangs
    recorder.close()


# --- processes that end -----------------------------------------------------------------------------------------------

CHILD = """
import multiprocessing, multiprocessing.util, sys, threading
from pathlib import Path
from agentaccel import StorePolicy
from agentaccel.records import ToolRecord
from agentaccel.store.recorder import Recorder

made = []

def work(path, loses):
    if loses:
        multiprocessing.util.Finalize = lambda *given, **named: None
    recorder = made[0] if made else Recorder(StorePolicy(path=path), strict=False)
    made.append(recorder)
    recorder._worker.submit(threading.Event().wait)  # it does not get to what is left
    for number in range(3):
        recorder.write(ToolRecord(session="s", name=str(number), key="k", started=1.0, finished=2.0, outcome="ok"))

if __name__ == "__main__":
    path, how, loses = Path(sys.argv[1]), *sys.argv[2:]
    if how == "inherited":
        made.append(Recorder(StorePolicy(path=path), strict=False))
    child = multiprocessing.get_context("fork" if how == "inherited" else how).Process(target=work, args=(path, loses))
    child.start()
    child.join()
"""


def from_a_child(path: Path, how: str, *, loses: bool = False) -> list[str]:
    Recorder(StorePolicy(path=path), strict=False).close()
    script = path.with_name("child.py")
    script.write_text(CHILD, encoding="utf-8")
    given = [sys.executable, str(script), str(path), how, "loses" if loses else ""]
    subprocess.run(given, check=True, timeout=60)
    return names(path)


HOWS = ["fork", "inherited", "forkserver", "spawn"] if sys.platform.startswith("linux") else ["spawn"]


@pytest.mark.parametrize("how", HOWS)
def test_a_child_of_multiprocessing_has_written_everything_when_it_ends(how: str, tmp_path: Path) -> None:
    """Such a child ends without what `atexit` knows: three records are left, and three are there."""
    assert from_a_child(tmp_path / "trace.db", how) == ["0", "1", "2"]


@pytest.mark.skipif("fork" not in HOWS, reason="children end by themselves here")
@pytest.mark.parametrize("how", ["fork", "inherited"])
def test_twin_a_child_that_does_not_tell_multiprocessing_loses_them(how: str, tmp_path: Path) -> None:
    assert from_a_child(tmp_path / "trace.db", how, loses=True) == []


# --- what the caller does meanwhile -----------------------------------------------------------------------------------

SECRET, LATER = "what it said then", "what it says now"


def request(text: str) -> dict[str, Any]:
    return {"model": "claude-sonnet-5", "max_tokens": 9, "messages": [{"role": "user", "content": text}]}


def answered(turn: Turn) -> None:
    turn.handle(Started(1.0))
    turn.handle(Reported(usage=Usage(input=7, output=5)))
    turn.handle(Finished(2.0))


def kept(path: Path, change: Callable[[list[Any]], object]) -> tuple[int, bytes]:
    """How many calls are recorded, and all content, where the caller changes its own messages after the reply."""
    accel, body = Accel(Policy(store=StorePolicy(path=path, content=True))), request(SECRET)
    with busy(engine(accel).recorder):
        answered(accel.turn(body))
        change(body["messages"])
    accel.close()
    with open_reader(path) as reader, reader.database.using() as connection:
        rows = connection.execute("SELECT content FROM segments").fetchall()
        return len(list(reader.turns())), b"".join(bytes(row[0]) for row in rows if row[0] is not None)


CHANGES = [list.clear, lambda messages: messages[0].update(content=LATER)]


@pytest.mark.parametrize("change", CHANGES)
def test_content_is_kept_as_it_was_sent(change: Callable[[list[Any]], object], tmp_path: Path) -> None:
    """A caller may do what it likes with its own lists once the reply is here."""
    turns, content = kept(tmp_path / "trace.db", change)
    assert turns == 1
    assert SECRET.encode() in content
    assert LATER.encode() not in content


def test_twin_content_that_is_looked_up_as_it_is_written_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Recording, "_content", lambda self, planned: lambda one: str(value_at(planned.request, one.path)).encode()
    )
    turns, content = kept(tmp_path / "a.db", CHANGES[1])
    assert turns == 1
    assert LATER.encode() in content
    assert kept(tmp_path / "b.db", CHANGES[0]) == (0, b"")


async def cancelled_then_another(accel: Accel) -> None:
    """The first request of a session is taken back while the store is read for it; the second is answered."""
    at = engine(accel)
    assert at.recorder.store is not None
    async with accel.session("s"):
        with at.recorder.store.database.using():
            first = asyncio.create_task(at.begin_async(request("one " * 100)))
            await asyncio.to_thread(begun, at.recorder)
            first.cancel()
            await asyncio.wait([first])
            assert first.cancelled()
        answered(await at.begin_async(request("two " * 100)))


def recorded_after_a_cancelled_one(path: Path) -> TurnRecord:
    accel = Accel(Policy(store=StorePolicy(path=path)))
    asyncio.run(cancelled_then_another(accel))
    accel.close()
    with open_reader(path) as reader:
        (record,) = reader.turns()
    return record


def test_a_request_that_is_taken_back_begins_nothing(tmp_path: Path) -> None:
    """It was not sent: the next one is the first of the session, and not of another conversation beside it."""
    record = recorded_after_a_cancelled_one(tmp_path / "trace.db")
    assert (record.session, record.thread, record.outcome) == ("s", "", "ok")


def test_twin_where_nobody_hears_of_it_the_next_one_stands_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentaccel.engine.engine._unsent", lambda found: None)
    assert recorded_after_a_cancelled_one(tmp_path / "trace.db").thread


@pytest.mark.parametrize("inline", [False, True])
def test_a_store_that_was_locked_as_it_was_opened_is_opened_beside_the_loop(inline: bool, tmp_path: Path) -> None:
    """By the thread that writes, whoever asks first. (Where it is done at once, the loop does it: the twin.)"""
    path = tmp_path / "trace.db"
    Recorder(StorePolicy(path=path), strict=False).close()
    with closing(recorders.sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
    with locked(path, "EXCLUSIVE"):
        recorder = Recorder(StorePolicy(path=path), strict=False)
        assert recorder.store is None
        recorder._worker = Inline() if inline else recorder._worker

        async def where() -> int:
            return await recorder.beside(threading.get_ident)

        assert (asyncio.run(where()) == threading.get_ident()) == inline
    recorder.close()


# --- a disk that does not answer --------------------------------------------------------------------------------------


def test_requests_go_out_as_written_while_the_store_does_not_answer_and_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Three requests during the stall have no record; the one after it has."""
    monkeypatch.setattr(recorders, "_ANSWERS_WITHIN", 0.01)
    request = {"model": "claude-sonnet-5", "max_tokens": 1, "messages": [{"role": "user", "content": "Go."}]}

    async def ask(accel: Accel) -> None:
        turn = await engine(accel).begin_async(request)
        turn.handle(Started(time.monotonic()))
        turn.handle(Reported(usage=Usage(input=7, read=0, write={})))
        turn.handle(Finished(time.monotonic()))

    async def stalls(accel: Accel) -> None:
        recorder = engine(accel).recorder
        with busy(recorder):
            begun(recorder)
            for _ in range(3):
                await ask(accel)
        await asyncio.to_thread(recorder._worker.submit(lambda: None).result)
        monkeypatch.setattr(recorders, "_ANSWERS_WITHIN", 3600.0)
        await ask(accel)

    with Accel(Policy(store=StorePolicy(path=tmp_path / "trace.db"))) as accel, caplog.at_level(logging.WARNING):
        asyncio.run(stalls(accel))
    assert [line.partition("trace.db ")[2] for line in caplog.messages] == [
        "does not answer; requests go out as written, unrecorded"
    ]
    with open_reader(tmp_path / "trace.db") as reader:
        assert len(list(reader.turns())) == 1
