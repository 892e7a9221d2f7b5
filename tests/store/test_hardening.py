"""What the trace store keeps through forks, kills, locks, full files and records that are odd."""

from __future__ import annotations

import logging
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from agentaccel import Policy, StorePolicy
from agentaccel.cache.beliefs import Beliefs
from agentaccel.concurrency import Background
from agentaccel.locks import Lock, when_free
from agentaccel.records import ToolRecord, TurnRecord
from agentaccel.report import report
from agentaccel.store.ownership import KEY_BYTES, load_key
from agentaccel.store.recorder import Recorder
from agentaccel.store.retention import used_bytes
from agentaccel.store.store import SessionRow, Store, TurnWrite, open_reader
from agentaccel.testing import ManualClock
from agentaccel.testing.inside import engine, speculator
from agentaccel.turn import Finished, Started
from agentaccel.types import Segment
from tests.driver import Driver, assistant, body, loop, prose, tool, user
from tests.predict.scripted import Agent, call

LENIENT = Policy(strict=False)
MIB = 1024 * 1024
TOOL = ToolRecord(session="s", name="t", key="k", started=1.0, finished=2.0, outcome="ok")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another process that writes, and does not come to an end."""
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


def recorder_of(path: Path, *, strict: bool = True, clock: ManualClock | None = None, **policy: Any) -> Recorder:
    background = Background(clock or ManualClock())  # in which nothing happens before the clock is moved
    return Recorder(StorePolicy(path=path, **policy), strict=strict, background=background)


def tools_in(path: Path) -> list[str]:
    with open_reader(path) as reader:
        return [record.name for record in reader.tools()]


def one(path: Path, query: str) -> Any:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchone()[0]
    finally:
        connection.close()


FORKS = """
import os, sys, threading, traceback
from agentaccel import Accel, Policy, StorePolicy

accel = Accel(Policy(strict=True, store=StorePolicy(path=sys.argv[1])))
run = accel.tools({"t": lambda x: x})["t"]
stop = threading.Event()

def busy():
    x = 0
    while not stop.is_set():
        run(x=x)
        x += 1

threads = [threading.Thread(target=busy) for _ in range(2)]
for thread in threads:
    thread.start()
run(x=-1)
children = []
for number in range(12):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            run(x=f"child {number}")
            accel.close()
            status = 0
        except BaseException as error:
            # A machine that is slow enough keeps the file locked for longer than a write waits, which `strict` tells.
            status = 0 if "locked" in str(error) else 1
            traceback.print_exc()
        finally:
            os._exit(status)
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
stop.set()
for thread in threads:
    thread.join()
accel.close()
assert codes == [0] * 12, codes
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_child_forked_while_another_thread_writes_goes_on(tmp_path: Path) -> None:
    """Its locks are its own, and SQLite was at rest."""
    bound = 60  # of a hang, which is what failing looks like
    done = subprocess.run(
        [sys.executable, "-c", FORKS, str(tmp_path / "trace.db")], timeout=bound, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


FORK_WHILE_WAITING = """
import os, sys
from pathlib import Path
from agentaccel import StorePolicy
from agentaccel.records import ToolRecord
from agentaccel.store.recorder import Recorder

def write(name):
    recorder.write(ToolRecord(session="s", name=name, key="k", started=1.0, finished=2.0, outcome="ok"))

recorder = Recorder(StorePolicy(path=Path(sys.argv[1])), strict=False)
write("waits")
print("waiting", flush=True)
sys.stdin.readline()
read, written = os.pipe()
back, answered = os.pipe()
child = os.fork()
if child == 0:
    write("child")
    os.write(answered, b"!")
    os.read(read, 1)
    write("child of a parent that has closed")
    recorder.close()
    os._exit(0)
os.read(back, 1)
recorder.close()
os.write(written, b"!")
os.waitpid(child, 0)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_what_waits_when_a_process_is_forked_is_written_once(tmp_path: Path) -> None:
    """By the parent; and the parent's end takes nothing away from the child."""
    path = tmp_path / "trace.db"
    recorder_of(path).close()
    with locked(path):
        script = subprocess.Popen(
            [sys.executable, "-c", FORK_WHILE_WAITING, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert script.stdout is not None
        assert script.stdout.readline() == "waiting\n"
    script.communicate("go\n", timeout=60)
    assert script.returncode == 0
    assert sorted(tools_in(path)) == ["child", "child of a parent that has closed", "waits"]


# --- size -------------------------------------------------------------------------------------------------------------


def turn(session: str, started: float, blocks: int, content: int = 0) -> TurnWrite:
    """A turn of a conversation with so many blocks, which its record tells."""
    return TurnWrite(
        record=TurnRecord(session=session, provider="p", model="m", started=started, attempt=blocks),
        session=SessionRow(
            id=session, agent=None, tenant=None, parent=None, workload="w",
            created=0.0, turns=1, snapshot=Beliefs(), state="{}", head=None,
        ),
        segments=tuple(
            Segment(
                level="messages", path=(), kind="text", role="user", name="",
                digest=f"{session}{i}".encode(), size=1, markable=False,
            )
            for i in range(blocks)
        ),
        content=(lambda _: bytes(content)) if content else None,
        lineage=(f"{session}{blocks}".encode(),),
        messages=blocks,
        learned=(),
        beginnings=(f"static{started}".encode(),),
        ends=lambda ends: str(ends[2]),
    )  # fmt: skip


@pytest.mark.slow
def test_room_is_made_without_taking_what_others_need(tmp_path: Path) -> None:
    """Two processes write by turns; whoever removes, every turn and head that stays has its whole chain."""
    path = tmp_path / "trace.db"
    stores = [Store(path, max_bytes=MIB // 8), Store(path, max_bytes=MIB // 8)]
    for number in range(200):
        store = stores[number // 2 % 2]
        session = f"s{number % 3}-{number // 45}"
        store.write_turn(turn(session, float(number), 5 + number % 45, content=400))
        if number % 45 == 44:  # a repeated request: two turns end at one block
            store.write_turn(turn(session, number + 0.5, 5 + number % 45, content=400))
        store.make_room()
        with stores[0].database.using() as connection:
            ends = connection.execute("SELECT messages, json_extract(record, '$.attempt') FROM turns").fetchall()
            heads = connection.execute("SELECT head FROM sessions").fetchall()
        assert all(len(store.chain_to(end)) == blocks for end, blocks in ends[:3] + ends[-3:])
        assert all(store.chain_to(int(head)) for (head,) in heads)
    assert 0 < len(ends) < 200
    orphans = (
        "SELECT count(*) FROM segments s WHERE NOT EXISTS (SELECT 1 FROM segments WHERE parent = s.id)"
        " AND s.id NOT IN (SELECT messages FROM turns)"
    )
    assert one(path, orphans) == 0
    assert one(path, "SELECT count(*) FROM places WHERE session NOT IN (SELECT id FROM sessions)") == 0
    assert one(path, "SELECT count(*) FROM statics") <= len(ends) + 1


@pytest.mark.slow
def test_making_room_is_a_bounded_step_and_never_a_vacuum(tmp_path: Path) -> None:
    """Whoever writes meanwhile waits for it."""
    store = Store(tmp_path / "trace.db")
    for number in range(1000):
        store.write_tool(replace(TOOL, name="x" * 2000, started=float(number)))
    store.max_bytes = MIB // 8
    statements: list[str] = []
    with store.database.using() as connection:
        connection.set_trace_callback(statements.append)
    store.make_room()
    assert len(list(store.tools())) == 950
    assert not [one for one in statements if "VACUUM" in one.upper()]
    for _ in range(19):
        store.make_room()
    with store.database.using() as connection:
        assert used_bytes(connection) <= MIB // 8


@pytest.mark.soak
def test_many_short_processes_keep_the_size(tmp_path: Path) -> None:
    """Runs of tools count as requests do, and no process lives long."""
    path = tmp_path / "trace.db"
    for number in range(150):
        recorder = recorder_of(path, max_bytes=MIB)
        for _ in range(2):
            recorder.write(replace(TOOL, name=f"{number} " + "x" * 10_000, started=float(number)))
        recorder.close()
    with open_reader(path) as reader, reader.database.using() as connection:
        assert used_bytes(connection) <= MIB + 20_000
    assert path.stat().st_size <= MIB + 100_000
    kept = [int(name.split()[0]) for name in tools_in(path)]
    assert kept[-1] == 149
    assert len(kept) > 60


@pytest.mark.slow
def test_a_record_is_written_once_also_where_no_room_can_be_made(tmp_path: Path) -> None:
    """Another process takes the lock just after the write, for which nobody waits: room is made when it is gone."""
    path, clock = tmp_path / "trace.db", ManualClock()
    recorder = recorder_of(path, clock=clock)
    store = recorder.store
    assert store is not None
    store.max_bytes = 1
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    begun: list[str] = []

    def interfere(statement: str) -> None:
        if statement == "BEGIN IMMEDIATE":
            begun.append(statement)
            if len(begun) == 17:  # each of those before has written a record, of which the last looked at the size
                other.execute("BEGIN IMMEDIATE")

    with store.database.using() as connection:
        connection.set_trace_callback(interfere)
    for _ in range(16):
        recorder.write(TOOL)
    clock.advance(1.0)
    assert other.in_transaction
    assert not recorder._pending
    assert tools_in(path) == ["t"] * 16
    other.close()
    clock.advance(5.0)
    assert tools_in(path) == []


# --- locks ------------------------------------------------------------------------------------------------------------


def waits(recorder: Recorder) -> int:
    """Milliseconds that the next statement would wait for another process."""
    store = recorder.store
    assert store is not None
    with store.database.using() as connection:
        return int(connection.execute("PRAGMA busy_timeout").fetchone()[0])


@pytest.mark.slow
def test_only_the_first_call_waits_for_a_locked_store(tmp_path: Path) -> None:
    """And once the lock is gone, calls may wait again; what waited is there, in order."""
    recorder = recorder_of(tmp_path / "trace.db", strict=False)
    assert waits(recorder) > 0
    with locked(tmp_path / "trace.db"):
        for name in "abc":
            recorder.write(replace(TOOL, name=name))
            assert waits(recorder) == 0
    recorder.write(replace(TOOL, name="d"))
    assert waits(recorder) > 0
    assert tools_in(tmp_path / "trace.db") == list("abcd")


@pytest.mark.slow
def test_what_waits_is_written_at_the_end(tmp_path: Path) -> None:
    """However much it is."""
    recorder = recorder_of(tmp_path / "trace.db", strict=False)
    with locked(tmp_path / "trace.db"):
        for number in range(200):
            recorder.write(replace(TOOL, name=str(number)))
    recorder.close()
    assert tools_in(tmp_path / "trace.db") == [str(number) for number in range(200)]


@pytest.mark.slow
def test_what_is_lost_at_the_end_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Where another process has the store to the very end, closing does not wait for it for ever."""
    recorder = recorder_of(tmp_path / "trace.db", strict=False)
    with locked(tmp_path / "trace.db"):
        recorder.write(TOOL)
        recorder.close()
    assert [line.rpartition("; ")[2] for line in caplog.messages] == [
        "recording waits in memory",
        "the records that waited for it are lost",
    ]
    assert tools_in(tmp_path / "trace.db") == []


@pytest.mark.slow
def test_the_last_records_are_tried_more_than_once(tmp_path: Path) -> None:
    """The other process is done when the second try begins."""
    recorder, tries = recorder_of(tmp_path / "trace.db", strict=False), list[str]()
    other = sqlite3.connect(tmp_path / "trace.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    recorder.write(TOOL)

    def traced(statement: str) -> None:
        tries.extend([statement] * statement.startswith("BEGIN"))
        if len(tries) == 2:
            other.rollback()

    assert recorder.store is not None
    with recorder.store.database.using() as connection:
        connection.set_trace_callback(traced)
    recorder.close()
    assert tools_in(tmp_path / "trace.db") == ["t"]


LOCKED_TO_THE_LAST = """
import sqlite3, sys
from agentaccel.policy import StorePolicy
from agentaccel.records import ToolRecord
from agentaccel.store.recorder import Recorder

recorder = Recorder(StorePolicy(path=sys.argv[1]), strict=False)
other = sqlite3.connect(sys.argv[1], isolation_level=None)
other.execute("BEGIN IMMEDIATE")
recorder.write(ToolRecord(session="s", name="t", key="", started=1.0, finished=2.0, outcome="ok"))
other.rollback()
"""
"""A program that ends without closing anything, when another one has just let go of the store."""


@pytest.mark.slow
def test_what_waits_when_a_program_just_ends_is_written(tmp_path: Path) -> None:
    """As in a script that does not close its Accel."""
    path = tmp_path / "trace.db"
    subprocess.run([sys.executable, "-c", LOCKED_TO_THE_LAST, str(path)], check=True, timeout=60)
    assert tools_in(path) == ["t"]


@pytest.mark.slow
def test_an_older_row_never_takes_the_place_of_what_is_known(tmp_path: Path) -> None:
    """While the store is locked, it is behind; planning goes on from memory."""
    driver = Driver(tmp_path, policy=LENIENT)
    messages = [user(prose(1500))]
    with driver.accel.session("s") as session:
        for number in range(3):
            driver.ask(body(*messages))
            messages += [assistant(f"{number}"), user(prose(900, number))]
        with locked(tmp_path / "trace.db"):
            for number in range(3, 6):
                driver.ask(body(*messages))
                messages += [assistant(f"{number}"), user(prose(900, number))]
                assert session.conversation.state.turns == number + 1
    assert len(driver.records) == 3
    driver.accel.close()
    assert len(driver.records) == 6
    assert [record.drift for record in driver.records] == [None] * 6


def test_a_store_that_is_removed_from_is_no_reason_to_forget(tmp_path: Path) -> None:
    """A purge, or room that was made, takes rows; the process that saw the turns still knows."""
    driver = Driver(tmp_path)
    with driver.accel.session("s") as session:
        loop(driver, 3, system=prose(1500))
        Store(tmp_path / "trace.db").purge(driver.clock.now + 1)
        other = Driver(tmp_path, clock=driver.clock)
        with other.accel.session("s"):
            other.ask(body(user("what another process knows of the session")))
        driver.ask(body(user(prose(40)), assistant("x"), user("y"), system=prose(1500)))
        assert session.conversation.state.turns == 4


@pytest.mark.slow
def test_a_lock_when_the_store_is_opened_loses_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is opened later, and what was to be written waits."""
    path = tmp_path / "trace.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with caplog.at_level(logging.WARNING, "agentaccel"):
        driver = Driver(tmp_path, policy=LENIENT)
        driver.ask(body(user("a")))
        driver.ask(body(user("b")))
    other.close()
    assert [record.message.count("waits in memory") for record in caplog.records] == [1]
    key = engine(driver.accel).recorder.key
    driver.ask(body(user("c")))
    assert len(driver.records) == 3
    assert engine(driver.accel).recorder.key == key == load_key(path)


@pytest.mark.slow
def test_all_who_create_a_store_together_have_it(tmp_path: Path) -> None:
    """One of them makes it, and none fails because another was about to."""
    for number in range(10):
        together = threading.Barrier(4)

        def create(_: int, path: Path = tmp_path / f"{number}.db", together: threading.Barrier = together) -> None:
            together.wait()
            Store(path).close()

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(create, range(4)))
        assert tools_in(tmp_path / f"{number}.db") == []


# --- odd records ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("started", [2**80, object(), None], ids=["too large", "of no type", "missing"])
def test_a_record_that_cannot_be_written_is_left_out_alone(
    started: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One log line, and the next one is written."""
    recorder = recorder_of(tmp_path / "trace.db", strict=False)
    with caplog.at_level(logging.WARNING, "agentaccel"):
        recorder.write(replace(TOOL, name="first"))
        recorder.write(replace(TOOL, name="odd", started=started))
        recorder.write(replace(TOOL, name="odd", started=started))
        recorder.write(replace(TOOL, name="last"))
    assert tools_in(tmp_path / "trace.db") == ["first", "last"]
    assert ["left out" in record.message for record in caplog.records] == [True]


def test_strict_mode_raises_an_odd_record_once(tmp_path: Path) -> None:
    """It does not stand in the way of those that follow."""
    recorder = recorder_of(tmp_path / "trace.db")
    with pytest.raises(OverflowError):
        recorder.write(replace(TOOL, started=2**80))
    recorder.write(TOOL)
    assert tools_in(tmp_path / "trace.db") == ["t"]


BAD = "\ud800"


@pytest.mark.parametrize(
    "request_",
    [
        body({"role": f"user{BAD}", "content": "a"}),
        body(user([{"type": f"text{BAD}", "text": "a"}])),
        body(user("a"), **{f"name{BAD}": 1}),
        {**body(user("a")), "model": f"claude-sonnet-5{BAD}"},
        body(user("a"), tools=[{**tool("x"), "name": BAD}]),
    ],
    ids=["role", "kind", "parameter", "model", "tool"],
)
def test_what_cannot_be_utf8_is_recorded_and_read_back(request_: dict[str, Any], tmp_path: Path) -> None:
    """Wherever it stands in a request; another process can go on from it."""
    driver = Driver(tmp_path)
    for accel in (driver.accel, driver.accel, Driver(tmp_path).accel):
        with accel.session("s"):
            asked = accel.turn(request_)
            asked.handle(Started(0.0))
            asked.handle(Finished(1.0))
    assert len(driver.records) == 3
    for record in driver.records:
        record.model.encode()


def test_a_tool_whose_name_cannot_be_utf8_takes_no_record_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What was learned of it can be written, too."""
    agent = Agent(strict=False, store=StorePolicy(path=tmp_path / "trace.db"))
    odd, good = agent.reads(BAD), agent.reads("good")

    async def main() -> None:
        for name, tool_ in ((BAD, odd), ("good", good), ("good", good)):
            await agent.model(call(name, key="a"))
            agent.answers(await tool_(key="a"))
            speculator(agent.accel).learning.track.save()

    agent.run(main)
    with caplog.at_level(logging.WARNING, "agentaccel"):
        speculator(agent.accel).learning.track.save()
    assert not caplog.records
    agent.accel.close()
    with open_reader(tmp_path / "trace.db") as reader:
        assert [one.name for one in reader.tools() if not one.speculative][1:] == ["good", "good"]
        assert len(list(reader.turns())) == 3
    assert "good" in one(tmp_path / "trace.db", "SELECT known FROM experience")


def test_a_change_that_fails_by_itself_does_not_end_recording(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorder = recorder_of(tmp_path / "trace.db", strict=False)

    def work(store: Store) -> str:
        raise TypeError("not writable")

    with caplog.at_level(logging.WARNING, "agentaccel"):
        assert recorder.change(work, "otherwise") == "otherwise"
        assert recorder.change(work, "otherwise") == "otherwise"
    recorder.write(TOOL)
    assert tools_in(tmp_path / "trace.db") == ["t"]
    assert ["left out" in record.message for record in caplog.records] == [True]


def test_rows_that_are_not_ours_are_left_out_and_counted(tmp_path: Path) -> None:
    """The report is of the others."""
    driver = Driver(tmp_path)
    for number in range(8):
        driver.ask(body(user(f"{number}")))
    recorder_of(tmp_path / "trace.db").write(TOOL)
    connection = sqlite3.connect(tmp_path / "trace.db")
    odd: list[Any] = [
        "{",
        "[]",
        '{"session": 1}',
        b"\xff\xfe",
        '{"session": "s", "provider": "", "model": "", "started": null}',
    ]
    for number, record in enumerate(odd):
        connection.execute("UPDATE turns SET record = ? WHERE id = ?", (record, number + 1))
    connection.execute("UPDATE tools SET record = CAST(x'ff' AS TEXT)")
    connection.commit()
    connection.close()
    with open_reader(tmp_path / "trace.db") as reader:
        assert len(list(reader.turns())) == 3
        assert reader.skipped == 5
        assert list(reader.tools()) == []
        assert reader.skipped == 6


# --- interruptions, and files that go away ----------------------------------------------------------------------------


def interrupting(name: str, at: int) -> Any:
    """A trace function that interrupts the `at`-th line run in functions called `name`."""
    lines = count()

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and next(lines) == at:
            raise KeyboardInterrupt
        return local

    return lambda frame, event, argument: local if frame.f_code.co_name == name else None


def test_an_interruption_anywhere_leaves_no_transaction_open(tmp_path: Path) -> None:
    """Line by line through it; in a thread, because one of the places leaves it in possession of a lock of ours."""
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(interrupted_anywhere, Store(tmp_path / "trace.db")).result() > 5


def interrupted_anywhere(store: Store) -> int:
    """Interrupt a transaction at each of its lines; how many there are."""
    before = sys.gettrace()
    for at in count():
        try:
            sys.settrace(interrupting("transaction", at))
            store.write_tool(TOOL)
        except KeyboardInterrupt:
            sys.settrace(before)
            with store.database.using() as connection:
                assert not connection.in_transaction, f"interrupted at line {at}"
        else:
            break
        finally:
            sys.settrace(before)
    return at


KILLED = """
import os, sys
from itertools import count
from pathlib import Path
from agentaccel.store import files
from agentaccel.store import ownership as keys

path = Path(sys.argv[1])
key = path.with_name(path.name + ".key")
ours = (files.__file__, keys.__file__)
for at in count():
    child = os.fork()
    if child == 0:
        lines = count()
        def local(frame, event, argument):
            if event == "line" and next(lines) == at:
                os._exit(9)
            return local
        sys.settrace(lambda frame, *_: local if frame.f_code.co_filename in ours else None)
        keys.load_key(path)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert not key.exists() or len(key.read_bytes()) == 32, f"killed at line {at}"
    assert len(keys.load_key(path)) == 32
    key.unlink()
    if code == 0:
        break
assert at > 5
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_process_killed_anywhere_leaves_a_whole_key_or_none(tmp_path: Path) -> None:
    """Line by line through its making."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "trace.db")], timeout=60, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_all_who_begin_together_have_one_key(links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And leave nothing beside it. Without links there is a key, and later ones read it."""
    if not links:

        def refuse(*_: Any) -> None:
            raise OSError("no links here")

        monkeypatch.setattr(os, "link", refuse)
        assert load_key(tmp_path / "trace.db") == load_key(tmp_path / "trace.db")
    else:
        together = threading.Barrier(8)

        def begin(_: int) -> bytes:
            together.wait()
            return load_key(tmp_path / "trace.db")

        with ThreadPoolExecutor(8) as pool:
            assert len(set(pool.map(begin, range(8)))) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["trace.db.key"]
    assert len((tmp_path / "trace.db.key").read_bytes()) == KEY_BYTES


def test_an_empty_key_is_made_anew(tmp_path: Path) -> None:
    """It was lost with the power supply, and says nothing."""
    (tmp_path / "trace.db.key").touch()
    assert load_key(tmp_path / "trace.db") == (tmp_path / "trace.db.key").read_bytes()


@pytest.mark.parametrize("strict", [True, False])
def test_after_close_calls_go_on_unrecorded(strict: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without an error, and with one line for whoever wants to know."""
    driver = Driver(tmp_path, policy=Policy(strict=strict))
    run = driver.accel.tools({"t": lambda: 1})["t"]
    driver.ask(body(user("a")))
    driver.accel.close()
    with caplog.at_level(logging.INFO, "agentaccel"):
        driver.ask(body(user("b")))
        assert run() == 1
        driver.accel.close()
    assert len(driver.records) == 1
    assert [(one.levelname, one.message) for one in caplog.records] == [
        ("INFO", "agentaccel: what was used after Accel.close() is not recorded")
    ]


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be deleted there")
def test_a_store_deleted_under_a_running_process_is_begun_again(tmp_path: Path) -> None:
    """With the key that the process makes its hashes under."""
    driver = Driver(tmp_path)
    driver.ask(body(user("a"), system="s"))
    key = load_key(tmp_path / "trace.db")
    for path in list(tmp_path.iterdir()):
        path.unlink()
    driver.ask(body(user("b"), system="s"))
    assert len(driver.records) == 1
    assert load_key(tmp_path / "trace.db") == key
    assert one(tmp_path / "trace.db", "SELECT count(*) FROM segments") == 2


def test_an_interruption_in_a_lock_does_not_put_off_the_ends_of_later_turns() -> None:
    """Chosen by us: what waits for locks of this thread waits for real ones, not for what an interruption left."""
    before, done = sys.gettrace(), list[int]()
    for at in range(6):
        lock = Lock()
        sys.settrace(interrupting("__enter__", at))
        try:
            with lock:
                pass
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        if not lock._lock._is_owned():  # type: ignore[attr-defined]  # what is acquired is its holder's to let go
            when_free(lambda at=at: done.append(at))  # type: ignore[misc]
            assert done[-1] == at
    assert len(done) >= 4


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("$.usage", '{"input":"x","read":1}'),
        ("$.misses", '[{"cause":"first request","tokens":"x"}]'),
        ("$.terms", '{"speed":["fast"]}'),
        ("$.terms", '"fast"'),
        ("$.reusable", '"many"'),
        ("$.finished", '"late"'),
    ],
)
def test_a_row_whose_counts_are_none_is_left_out_and_counted(field: str, value: str, tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    for _ in range(2):
        driver.ask(body(user(prose(1500))))
    driver.accel.close()
    with closing(sqlite3.connect(tmp_path / "trace.db")) as connection, connection:
        connection.execute("UPDATE turns SET record = json_set(record, ?, json(?)) WHERE id = 2", (field, value))
    with open_reader(tmp_path / "trace.db") as store:
        assert report(store.turns()).total.requests == 1
        assert store.skipped == 1
