"""State is a help, never a need: other processes, killed processes, forks and threads."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from agentaccel import Policy
from agentaccel.store.store import open_reader
from agentaccel.testing import ManualClock
from agentaccel.testing.inside import engine
from agentaccel_emulator import Emulator
from tests.children import in_a_child
from tests.driver import Driver, Json, assistant, body, prose, tool, user

SYSTEM = prose(1200)
TOOLS = [tool("search", 400), tool("book", 300)]


def conversation(turns: int) -> list[Json]:
    """The requests of one append-only conversation, with a burst of blocks in the middle."""
    messages = [user(prose(40))]
    requests = []
    for turn in range(turns):
        requests.append(body(*messages, system=SYSTEM, tools=TOOLS))
        blocks = 30 if turn == 3 else 1
        reply = [{"type": "text", "text": prose(20, turn + i)} for i in range(blocks)]
        messages = [*messages, assistant(reply), user(prose(25, turn + 50))]
    return requests


def test_two_processes_that_alternate_place_the_markers_that_one_would(tmp_path: Path) -> None:
    """Must show 7: memory only improves on what the request and the store say. Two `Accel` share nothing but a file."""
    alone_clock, both_clock = ManualClock(), ManualClock()
    (tmp_path / "alone").mkdir()
    (tmp_path / "both").mkdir()
    alone = Driver(tmp_path / "alone", clock=alone_clock)
    shared = Emulator(clock=both_clock)
    both = [Driver(tmp_path / "both", clock=both_clock, emulator=shared) for _ in range(2)]
    for turn, request in enumerate(conversation(10)):
        alone.ask(request)
        one = both[turn % 2]
        one.ask(request)
        assert one.marks == alone.marks, turn
    assert len({record.session for record in both[0].records}) == 1


def test_a_process_that_knows_nothing_still_marks_the_previous_tail(tmp_path: Path) -> None:
    """What must be right in a second process comes from the request itself."""
    clock = ManualClock()
    shared = Emulator(clock=clock)
    reads = []
    for turn, request in enumerate(conversation(6)):
        folder = tmp_path / str(turn)
        folder.mkdir()
        reads.append(Driver(folder, clock=clock, emulator=shared).ask(request))
    assert [usage.read for usage in reads[1:]] == [usage.input for usage in reads[:-1]]


WRITER = """
import sys
from pathlib import Path
from tests.driver import Driver, assistant, body, prose, user
driver = Driver(Path(sys.argv[1]))
messages = [user(prose(40))]
for turn in range(1000):
    driver.ask(body(*messages[-4:], system=prose(1200)))
    print(turn, flush=True)
    messages += [assistant(prose(3, turn)), user(prose(3, turn + 7))]
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL on Windows")
def test_a_killed_process_loses_at_most_the_row_being_written(tmp_path: Path) -> None:
    """Must show 7: kill -9 in the middle of 1,000 turns."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent.parent,
    )
    assert process.stdout is not None
    answered = -1
    for line in process.stdout:
        answered = int(line)
        if answered == 50:
            process.send_signal(signal.SIGKILL)
            break
    rest = process.stdout.read().split()
    process.stdout.close()
    process.wait()
    answered = int(rest[-1]) if rest else answered
    with open_reader(tmp_path / "trace.db") as reader:
        kept = len(list(reader.turns()))
    assert kept >= answered + 1, f"{answered + 1} turns were over, {kept} are kept"
    assert kept <= answered + 2


def each_asks(folder: Path, turns: int) -> None:
    """What one of several processes does. Not strict: a store that is locked is written a little later."""
    driver = Driver(folder, policy=Policy())
    for number in range(turns):
        driver.ask(body(user(prose(30, number))))
    driver.accel.close()


@pytest.mark.soak
def test_many_processes_write_one_store(tmp_path: Path) -> None:
    """Safe for many processes: none fails, and no row is lost."""
    script = (
        "import sys; from pathlib import Path; from tests.engine.test_processes import each_asks\n"
        "each_asks(Path(sys.argv[1]), 40)\n"
    )
    root = Path(__file__).parent.parent.parent
    running = [subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], cwd=root) for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert len(Driver(tmp_path).records) == 4 * 40


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_several_children_write_one_store(tmp_path: Path) -> None:
    """The same in small: forks have everything loaded already."""
    children = [in_a_child(lambda: each_asks(tmp_path, 15)) for _ in range(2)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    assert len(Driver(tmp_path).records) == 2 * 15


def test_threads_share_one_accel(tmp_path: Path) -> None:
    """A session and its ledger may be used from several threads."""
    driver = Driver(tmp_path)
    failures: list[BaseException] = []
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        try:
            own = Driver(tmp_path, accel=driver.accel, emulator=driver.emulator, clock=driver.clock)
            barrier.wait()
            for turn in range(10):
                history = [m for t in range(turn) for m in (assistant(f"{number} {t}"), user("more"))]
                own.ask(body(user(prose(50, number)), *history, system=SYSTEM), gap=0.0, seconds=0.0)
        except BaseException as error:  # noqa: BLE001 - a thread's failure is asserted on below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    records = driver.records
    assert len(records) == 40
    assert len({record.session for record in records}) == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_records_on_its_own_connection(tmp_path: Path) -> None:
    """A connection must not cross a fork."""
    driver = Driver(tmp_path)
    driver.ask(body(user("parent")))
    child = in_a_child(lambda: driver.ask(body(user("child"))))
    driver.ask(body(user("parent again")))
    assert os.waitpid(child, 0)[1] == 0
    assert len(driver.records) == 3


def test_a_turn_adds_only_its_new_segments_to_the_store(tmp_path: Path) -> None:
    """Segments are a parent-linked chain, never a list of hashes per turn."""
    import sqlite3

    driver = Driver(tmp_path)
    counts = []
    for request in conversation(8):
        driver.ask(request)
        with sqlite3.connect(tmp_path / "trace.db") as connection:
            counts.append(connection.execute("SELECT count(*) FROM segments").fetchone()[0])
        connection.close()
    assert [after - before for before, after in pairwise(counts)] == [2, 2, 2, 31, 2, 2, 2]


def test_a_retry_is_planned_as_the_first_attempt_was(tmp_path: Path) -> None:
    """A plan is a pure function of the request, the snapshot and what the session has seen."""
    from agentaccel.turn import Failed, Send, Started

    driver = Driver(tmp_path)
    requests = conversation(3)
    driver.ask(requests[0])
    sent = []
    for attempt in range(3):
        turn = engine(driver.accel).begin(requests[1], attempt=attempt)
        send = turn.handle(Started(driver.clock.monotonic()))[-1]
        assert isinstance(send, Send)
        sent.append(json.dumps(send.request))
        turn.handle(Failed(at=driver.clock.monotonic(), status=529, error="overloaded_error"))
    assert len(set(sent)) == 1
    failed = driver.records[1:]
    assert [(one.outcome, one.status, one.attempt) for one in failed] == [("failed", 529, n) for n in range(3)]
    assert len({one.session for one in driver.records}) == 1


def test_conversations_that_open_alike_stay_apart_behind_two_processes(tmp_path: Path) -> None:
    """The longer match in the store beats a shorter one in memory: turn by turn, whichever process takes it."""
    clock = ManualClock()
    here, there = Driver(tmp_path, clock=clock), Driver(tmp_path, clock=clock)
    opening = [user("hi"), assistant("Hello, how can I help?")]
    first, second = [*opening, user("about one")], [*opening, user("about two")]
    here.ask(body(user("hi")))
    there.ask(body(user("hi")))
    there.ask(body(*second))
    here.ask(body(*second, assistant("Two, then."), user("go on")))
    here.ask(body(*first))
    sessions = [record.session for record in here.records]
    assert sessions[1] == sessions[2] == sessions[3]
    assert sessions[0] == sessions[4] != sessions[3]
